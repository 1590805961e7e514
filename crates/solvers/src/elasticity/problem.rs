//! Problems of linear elasticity, and the assembly of matrix rows.

use super::element::{self, Block3x3, CORNERS, DegenerateElement, Material, Stiffness};
use super::kinds::PointKinds;
use super::mesh::{NEIGHBOURS, SELF_INDEX, Subdomain};
use std::ops::Range;

/// Problem of linear elasticity on a box.
pub trait Problem: Sync {
    /// Returns the material of the box.
    fn material(&self) -> Material;
    /// Returns the prescribed components of the displacement at a point; `far` is the corner of the box opposite the
    /// origin.
    fn fixed(&self, at: [f64; 3], far: [f64; 3]) -> [Option<f64>; 3];
    /// Returns the force per volume at a point; `None` if there is no force in the whole box.
    fn force(&self, at: [f64; 3]) -> Option<[f64; 3]>;
    /// Returns the exact displacement at a point.
    fn exact(&self, at: [f64; 3], far: [f64; 3]) -> [f64; 3];
}

/// Box with frictionless walls at x = 0, y = 0 and z = 0, and unit traction on the face with the largest z. The strain
/// is constant, so the exact displacements are linear and the elements represent them exactly.
#[derive(Debug, Clone, Copy)]
pub struct StretchedBox;

impl Problem for StretchedBox {
    fn material(&self) -> Material {
        Material { young: 1.0, poisson: 0.3 }
    }

    fn fixed(&self, at: [f64; 3], far: [f64; 3]) -> [Option<f64>; 3] {
        let wall = |axis: usize| (at[axis] == 0.0).then_some(0.0);
        let pulled = (at[2] == far[2]).then_some(1.0);
        [wall(0), wall(1), wall(2).or(pulled)]
    }

    fn force(&self, _: [f64; 3]) -> Option<[f64; 3]> {
        None
    }

    fn exact(&self, at: [f64; 3], far: [f64; 3]) -> [f64; 3] {
        let across = -self.material().poisson / far[2];
        [across * at[0], across * at[1], at[2] / far[2]]
    }
}

/// The three matrix rows of a mesh point.
#[derive(Debug, Clone, PartialEq)]
pub struct PointRows {
    /// Blocks that couple the mesh point with its neighbours, by position; zero for neighbours that do not exist.
    pub blocks: [Block3x3; NEIGHBOURS],
    /// Right-hand side of the three rows.
    pub rhs: [f64; 3],
}

/// Assembler of the matrix rows of a rank.
pub struct Assembler<'a> {
    pub(super) subdomain: &'a Subdomain,
    problem: &'a dyn Problem,
    stiffness: Stiffness,
}

impl<'a> Assembler<'a> {
    /// Creates the assembler for the rows of a subdomain.
    ///
    /// # Errors
    /// Fails if the elements are degenerate.
    pub fn new(
        subdomain: &'a Subdomain,
        problem: &'a dyn Problem,
    ) -> Result<Self, DegenerateElement> {
        let stiffness = subdomain.mesh.stiffness(problem.material())?;
        Ok(Self { subdomain, problem, stiffness })
    }

    /// Determines the kinds of the mesh points with these local numbers, by their prescribed displacements.
    pub fn classify(&self, all: &PointKinds, nodes: Range<usize>, kinds: &mut [u8]) {
        let mesh = &self.subdomain.mesh;
        let far = mesh.far_corner();
        let mut finder = all.finder();
        for (local, kind) in nodes.zip(kinds) {
            let fixed = self.problem.fixed(mesh.point(self.subdomain.node(local)), far);
            *kind = finder.find(fixed);
        }
    }

    /// True if a force acts on the mesh point.
    #[inline]
    pub(super) fn is_loaded(&self, node: [usize; 3]) -> bool {
        self.problem.force(self.subdomain.mesh.point(node)).is_some()
    }

    /// Returns the rows of a mesh point that the rank owns. In the row and the column of a prescribed component,
    /// only the diagonal element is kept; the matrix thus stays symmetric and uniformly scaled.
    pub fn row(&self, node: [usize; 3]) -> PointRows {
        let Self { subdomain, problem, .. } = *self;
        let mesh = &subdomain.mesh;
        let loaded = self.is_loaded(node);
        let mut row = PointRows { blocks: [[[0.0; 3]; 3]; NEIGHBOURS], rhs: [0.0; 3] };
        // The loop runs over the elements around the mesh point; `corner` is the corner of an element at which the mesh
        // point is.
        for corner in 0..CORNERS {
            let is_in_mesh = (0..3).all(|axis| {
                let first = node[axis].checked_sub(corner >> axis & 1);
                first.is_some_and(|at| at < mesh.elements[axis])
            });
            if !is_in_mesh {
                continue;
            }
            add_element(&mut row.blocks, &self.stiffness, corner);
            if loaded {
                let element = std::array::from_fn(|axis| node[axis] - (corner >> axis & 1));
                load(&mut row.rhs, problem, &mesh.corners(element), corner);
            }
        }
        self.prescribe(node, &mut row);
        row
    }

    /// Applies the prescribed displacements of a mesh point and its neighbours to the rows of the mesh point.
    fn prescribe(&self, node: [usize; 3], row: &mut PointRows) {
        let mesh = &self.subdomain.mesh;
        let far = mesh.far_corner();
        let own = self.problem.fixed(mesh.point(node), far);
        for (place, other) in self.subdomain.neighbours(node) {
            let fixed = match place {
                SELF_INDEX => own,
                _ => self.problem.fixed(mesh.point(other), far),
            };
            if own.iter().chain(&fixed).all(Option::is_none) {
                continue;
            }
            for i in 0..3 {
                for j in 0..3 {
                    let entry = &mut row.blocks[place][i][j];
                    let is_diagonal = place == SELF_INDEX && i == j;
                    if let (Some(value), false) = (fixed[j], is_diagonal) {
                        row.rhs[i] -= *entry * value;
                    }
                    if (own[i].is_some() || fixed[j].is_some()) && !is_diagonal {
                        *entry = 0.0;
                    }
                }
            }
        }
        for i in 0..3 {
            if let Some(value) = own[i] {
                row.rhs[i] = row.blocks[SELF_INDEX][i][i] * value;
            }
        }
    }
}

/// Returns the elements of a block, column by column.
pub fn column_major(block: &Block3x3) -> [f64; 9] {
    std::array::from_fn(|at| block[at % 3][at / 3])
}

/// Adds the contribution of an element to the blocks of the mesh point at corner `a` of the element.
fn add_element(blocks: &mut [Block3x3; NEIGHBOURS], stiffness: &Stiffness, a: usize) {
    for (b, block) in stiffness[a].iter().enumerate() {
        let [x, y, z] = [0, 1, 2].map(|axis| 1 + (b >> axis & 1) - (a >> axis & 1));
        let place = x + 3 * y + 9 * z;
        for (sum, part) in blocks[place].iter_mut().flatten().zip(block.iter().flatten()) {
            *sum += part;
        }
    }
}

/// Adds the force that acts on corner `a` of an element.
fn load(rhs: &mut [f64; 3], problem: &dyn Problem, corners: &[[f64; 3]; CORNERS], a: usize) {
    // Meshes with degenerate elements have been refused when the assembler was created.
    let Ok(points) = element::gauss_points(corners) else { return };
    for point in points {
        let at = std::array::from_fn(|axis| {
            corners.iter().zip(point.shapes).map(|(corner, shape)| corner[axis] * shape).sum()
        });
        let force = problem.force(at).unwrap_or_default();
        for (sum, component) in rhs.iter_mut().zip(force) {
            *sum += point.weight * point.shapes[a] * component;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elasticity::Mesh;

    #[test]
    fn exact_displacement_solves_assembled_rows() {
        let whole = Subdomain::whole_mesh(Mesh { elements: [4, 3, 5] });
        let assembler = Assembler::new(&whole, &StretchedBox).unwrap();
        let row = |node| assembler.row(node);
        let exact = |node| StretchedBox.exact(whole.mesh.point(node), whole.mesh.far_corner());
        for node in whole.owned_points().map(|local| whole.node(local)) {
            let mine = row(node);
            let mut residual = mine.rhs;
            for (place, other) in whole.neighbours(node) {
                let theirs = row(other).blocks[NEIGHBOURS - 1 - place];
                for i in 0..3 {
                    for j in 0..3 {
                        assert!((mine.blocks[place][i][j] - theirs[j][i]).abs() < 1e-14);
                        residual[i] -= mine.blocks[place][i][j] * exact(other)[j];
                    }
                }
            }
            assert!(residual.iter().all(|r| r.abs() < 1e-13), "{node:?}: {residual:?}");
        }
    }
}
