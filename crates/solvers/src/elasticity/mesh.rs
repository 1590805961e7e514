//! Mesh of equal hexahedra in a box, and the part of the mesh points that a rank owns.

use super::element::{self, CORNERS, DegenerateElement, Material, Stiffness};
use crate::array::share_range;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Maximum number of mesh points that share an element with a mesh point, including the mesh point itself.
pub const NEIGHBOURS: usize = 27;
/// Index of a mesh point in the list of its neighbours.
pub const SELF_INDEX: usize = 13;

/// Mesh of cubes in a box; the longest edge of the box is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mesh {
    /// Number of elements along x, y and z; none of them is 0.
    pub elements: [usize; 3],
}

impl Mesh {
    /// Returns the edge length of an element; the longest edge of the box is 1.
    pub fn edge_length(&self) -> f64 {
        1.0 / self.elements.into_iter().max().unwrap_or(1) as f64
    }

    /// Returns the number of mesh points along x, y and z.
    pub fn points_per_axis(&self) -> [usize; 3] {
        self.elements.map(|n| n + 1)
    }

    /// Returns the number of mesh points.
    pub fn point_count(&self) -> usize {
        self.points_per_axis().into_iter().product()
    }

    /// Returns the number of blocks of the matrix: pairs of mesh points that share an element.
    pub fn block_count(&self) -> usize {
        self.elements.iter().map(|n| 3 * (n + 1) - 2).product()
    }

    /// Returns the coordinates of a mesh point.
    pub fn point(&self, node: [usize; 3]) -> [f64; 3] {
        node.map(|i| i as f64 * self.edge_length())
    }

    /// Returns the coordinates of the corner of the box that is opposite the origin.
    pub fn far_corner(&self) -> [f64; 3] {
        self.point(self.elements)
    }

    /// True if the mesh point is a corner of eight elements.
    #[inline]
    pub fn is_inner(&self, node: [usize; 3]) -> bool {
        (0..3).all(|axis| (1..self.elements[axis]).contains(&node[axis]))
    }

    /// Returns the corners of an element; `node` is the corner nearest to the origin.
    pub fn corners(&self, node: [usize; 3]) -> [[f64; 3]; CORNERS] {
        std::array::from_fn(|corner| {
            self.point(std::array::from_fn(|axis| node[axis] + (corner >> axis & 1)))
        })
    }

    /// Returns the stiffness of the elements, which are all equal.
    ///
    /// # Errors
    /// Fails if the elements are so small that they are degenerate.
    pub fn stiffness(&self, material: Material) -> Result<Stiffness, DegenerateElement> {
        element::stiffness(&self.corners([0; 3]), material)
    }
}

/// Mesh points that a rank owns (they form a box), and the adjacent mesh points of other ranks.
///
/// All of these mesh points have local numbers; x varies fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subdomain {
    /// Mesh of all ranks.
    pub mesh: Mesh,
    /// Ranges of the mesh points that the rank owns, along x, y and z.
    pub owned: [Range<usize>; 3],
    /// Ranges of the mesh points that have local numbers, i.e. owned and adjacent ones, along x, y and z.
    pub known: [Range<usize>; 3],
}

impl Subdomain {
    /// Returns the whole mesh as one subdomain.
    pub fn whole_mesh(mesh: Mesh) -> Self {
        let all = mesh.points_per_axis().map(|n| 0..n);
        Self { mesh, owned: all.clone(), known: all }
    }

    /// Returns the subdomain of rank `rank` in a grid of ranks, in which x varies fastest; `None` if the rank has
    /// no mesh points.
    pub fn for_rank(mesh: Mesh, rank: usize, grid: [usize; 3]) -> Option<Self> {
        let place = [rank % grid[0], rank / grid[0] % grid[1], rank / grid[0] / grid[1]];
        let nodes = mesh.points_per_axis();
        let owned: [Range<usize>; 3] =
            std::array::from_fn(|axis| share_range(nodes[axis], place[axis], grid[axis]));
        let known = std::array::from_fn(|axis| {
            let Range { start, end } = owned[axis];
            start.saturating_sub(1)..(end + 1).min(nodes[axis])
        });
        owned.iter().all(|range| !range.is_empty()).then_some(Self { mesh, owned, known })
    }

    /// Returns the number of mesh points with a local number.
    pub fn known_point_count(&self) -> usize {
        self.known.iter().map(ExactSizeIterator::len).product()
    }

    /// Returns the coordinates in the mesh, as indices, of the mesh point with a local number.
    pub fn node(&self, local: usize) -> [usize; 3] {
        let [x, y, _] = [0, 1, 2].map(|axis| self.known[axis].len());
        let steps = [local % x, local / x % y, local / x / y];
        std::array::from_fn(|axis| self.known[axis].start + steps[axis])
    }

    /// Returns the local number of a mesh point.
    pub fn local_number(&self, node: [usize; 3]) -> usize {
        let [x, y, z] = [0, 1, 2].map(|axis| node[axis] - self.known[axis].start);
        let [width, depth] = [0, 1].map(|axis| self.known[axis].len());
        x + width * (y + depth * z)
    }

    /// True if the rank owns the mesh point.
    pub fn owns(&self, node: [usize; 3]) -> bool {
        self.owned.iter().zip(node).all(|(range, i)| range.contains(&i))
    }

    /// Returns the local numbers of the mesh points that the rank owns, in ascending order.
    pub fn owned_points(&self) -> impl Iterator<Item = usize> {
        let [xs, ys, zs] = self.owned.clone();
        let lines = zs.flat_map(move |z| ys.clone().map(move |y| (y, z)));
        lines.flat_map(move |(y, z)| {
            let first = self.local_number([xs.start, y, z]);
            first..first + xs.len()
        })
    }

    /// Returns the local numbers of the mesh points that other ranks own, in ascending order.
    pub fn other_points(&self) -> impl Iterator<Item = usize> {
        let mut owned = self.owned_points().peekable();
        (0..self.known_point_count()).filter(move |local| owned.next_if_eq(local).is_none())
    }

    /// Returns the number of mesh points that share an element with the mesh point `node`, including `node` itself.
    pub fn neighbour_count(&self, node: [usize; 3]) -> usize {
        let nodes = self.mesh.points_per_axis();
        (0..3).map(|axis| adjacent(node[axis], &(0..nodes[axis])).len()).product()
    }

    /// Returns the number of owned mesh points that share an element with the owned mesh point `node`, including `node`
    /// itself.
    pub fn owned_neighbour_count(&self, node: [usize; 3]) -> usize {
        (0..3).map(|axis| adjacent(node[axis], &self.owned[axis]).len()).product()
    }

    /// Calls `visit` with the local number of each owned mesh point that shares an element with the owned mesh
    /// point `local`, in ascending order; the mesh point itself is excluded.
    #[inline]
    pub fn visit_owned_neighbours(&self, local: usize, mut visit: impl FnMut(usize)) {
        let node = self.node(local);
        let [xs, ys, zs]: [Range<usize>; 3] =
            std::array::from_fn(|axis| adjacent(node[axis], &self.owned[axis]));
        for z in zs {
            for y in ys.clone() {
                let first = self.local_number([xs.start, y, z]);
                for other in first..first + xs.len() {
                    if other != local {
                        visit(other);
                    }
                }
            }
        }
    }

    /// Returns the nine lines along x that contain the 27 neighbours of an inner mesh point of the rank. Each line is
    /// represented by the local number of its first neighbour; its other two neighbours have the next two numbers.
    /// Lines are in ascending order.
    #[inline]
    pub fn lines_around(&self, node: [usize; 3]) -> [usize; 9] {
        let [width, depth] = [0, 1].map(|axis| self.known[axis].len());
        let first = self.local_number(node.map(|at| at - 1));
        std::array::from_fn(|line| first + width * (line % 3 + depth * (line / 3)))
    }

    /// Returns the mesh points that share an element with the owned mesh point `node`, each with its position among the
    /// 27 neighbours. The position of `node` itself is [`SELF_INDEX`].
    pub fn neighbours(&self, node: [usize; 3]) -> impl Iterator<Item = (usize, [usize; 3])> {
        let nodes = self.mesh.points_per_axis();
        (0..NEIGHBOURS).filter_map(move |place| {
            let steps = [place % 3, place / 3 % 3, place / 9];
            let mut other = [0; 3];
            for axis in 0..3 {
                other[axis] = (node[axis] + steps[axis]).checked_sub(1)?;
                if other[axis] >= nodes[axis] {
                    return None;
                }
            }
            Some((place, other))
        })
    }
}

/// Returns the numbers in `range` that differ from `at` by at most one.
fn adjacent(at: usize, range: &Range<usize>) -> Range<usize> {
    at.saturating_sub(1).max(range.start)..(at + 2).min(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mesh_has_expected_number_of_blocks() {
        let mesh = Mesh { elements: [3, 1, 2] };
        let whole = Subdomain::whole_mesh(mesh);
        let counted: usize =
            whole.owned_points().map(|n| whole.neighbours(whole.node(n)).count()).sum();
        assert_eq!((mesh.point_count(), mesh.block_count(), counted), (24, 10 * 4 * 7, 10 * 4 * 7));
        let far = mesh.far_corner();
        assert!((far[0] - 1.0).abs() < 1e-15 && (far[2] - 2.0 / 3.0).abs() < 1e-15);
        for local in 0..whole.known_point_count() {
            assert_eq!(whole.local_number(whole.node(local)), local);
        }
        let (place, itself) = whole.neighbours([1, 1, 1]).find(|(p, _)| *p == SELF_INDEX).unwrap();
        assert_eq!((place, itself), (SELF_INDEX, [1, 1, 1]));
    }

    #[test]
    fn inner_mesh_point_has_nine_lines_of_neighbours() {
        let whole = Subdomain::whole_mesh(Mesh { elements: [4, 2, 3] });
        let adjacent = whole.neighbours([2, 1, 2]).map(|(_, other)| whole.local_number(other));
        let lines = whole.lines_around([2, 1, 2]);
        assert!(adjacent.eq(lines.into_iter().flat_map(|first| first..first + 3)));
    }

    #[test]
    fn every_mesh_point_is_owned_by_one_rank() {
        let mesh = Mesh { elements: [4, 3, 6] };
        let mut owners = vec![0; mesh.point_count()];
        let whole = Subdomain::whole_mesh(mesh);
        for rank in 0..12 {
            let part = Subdomain::for_rank(mesh, rank, [2, 2, 3]).unwrap();
            for local in part.owned_points() {
                let node = part.node(local);
                owners[whole.local_number(node)] += 1;
                for (_, other) in part.neighbours(node) {
                    assert_eq!(part.node(part.local_number(other)), other);
                }
                let all: Vec<_> = part.neighbours(node).map(|(_, other)| other).collect();
                assert_eq!(part.neighbour_count(node), all.len());
                let own: Vec<usize> = all
                    .into_iter()
                    .filter(|other| *other != node && part.owns(*other))
                    .map(|other| part.local_number(other))
                    .collect();
                assert_eq!(part.owned_neighbour_count(node), own.len() + 1);
                let mut visited = Vec::new();
                part.visit_owned_neighbours(local, |other| visited.push(other));
                assert_eq!(visited, own);
            }
        }
        assert!(owners.iter().all(|owners| *owners == 1));
        assert_eq!(Subdomain::for_rank(mesh, 0, [1, 1, 1]).unwrap(), whole);
        assert_eq!(Subdomain::for_rank(mesh, 0, [1, 5, 1]), None);
    }
}
