//! Rows of mesh points. Rows are computed only once for all mesh points with equal surroundings.

use super::kinds::{ABSENT_KIND, UNNUMBERED_KIND};
use super::mesh::NEIGHBOURS;
use super::problem::{Assembler, column_major};
use std::collections::HashMap;

/// Maximum number of different rows that are kept for reuse.
const KEPT: usize = 1024;

/// Computed rows of a mesh point, in the form in which the matrix stores them.
#[derive(Debug, Default)]
pub struct StoredRows {
    /// Differences between the local numbers of the neighbours and of the mesh point, in ascending order.
    pub offsets: Vec<isize>,
    /// Blocks of the neighbours, column by column.
    pub blocks: Vec<[f64; 9]>,
    /// Right-hand side of the three rows.
    pub rhs: [f64; 3],
}

/// Kinds of the neighbours of a mesh point. If no force acts on the mesh point, they determine its rows.
type Surroundings = [u8; NEIGHBOURS];

/// Number that identifies rows in a [`RowMaker`].
#[derive(Debug, Clone, Copy)]
pub enum RowNumber {
    /// Rows that are kept for reuse.
    Kept(usize),
    /// Rows that belong to a single mesh point.
    Single(usize),
}

/// Source of the rows of mesh points for one thread. It computes rows only once for all mesh points with equal
/// surroundings.
pub struct RowMaker<'a> {
    assembler: &'a Assembler<'a>,
    /// Kinds of all mesh points with a local number.
    kinds: &'a [u8],
    numbers: HashMap<Surroundings, usize>,
    kept: Vec<StoredRows>,
    /// Surroundings of the last mesh point whose rows are kept, and the index of these rows in `kept`.
    last: (Surroundings, usize),
    /// Rows that belong to a single mesh point.
    single: Vec<StoredRows>,
}

impl<'a> RowMaker<'a> {
    /// Creates a row maker; `kinds` contains the results of [`Assembler::classify`] for all local numbers.
    pub fn new(assembler: &'a Assembler<'a>, kinds: &'a [u8]) -> Self {
        Self {
            assembler,
            kinds,
            numbers: HashMap::new(),
            kept: Vec::new(),
            // No mesh point has these surroundings, because every mesh point is one of its neighbours.
            last: ([ABSENT_KIND; NEIGHBOURS], 0),
            single: Vec::new(),
        }
    }

    /// Returns the [`RowNumber`] of the rows of the mesh point with the local number `local`. Computes the rows if they
    /// are not kept.
    #[inline]
    pub fn make(&mut self, local: usize) -> RowNumber {
        let node = self.assembler.subdomain.node(local);
        if !self.assembler.is_loaded(node) {
            let surroundings = self.surroundings(node);
            if surroundings == self.last.0 {
                return RowNumber::Kept(self.last.1);
            }
            if let Some(number) = self.kept_row(node, local, surroundings) {
                return RowNumber::Kept(number);
            }
        }
        self.single.push(self.compute_row(node, local));
        RowNumber::Single(self.single.len() - 1)
    }

    /// Returns the rows with a number that [`RowMaker::make`] has returned.
    #[inline]
    pub fn row(&self, number: RowNumber) -> &StoredRows {
        match number {
            RowNumber::Kept(number) => &self.kept[number],
            RowNumber::Single(number) => &self.single[number],
        }
    }

    /// Removes the rows of single mesh points; their numbers become invalid.
    pub fn remove_single(&mut self) {
        self.single.clear();
    }

    /// Returns the kinds of the neighbours of a mesh point.
    #[inline]
    fn surroundings(&self, node: [usize; 3]) -> Surroundings {
        let subdomain = self.assembler.subdomain;
        let mut surroundings = [ABSENT_KIND; NEIGHBOURS];
        if subdomain.mesh.is_inner(node) {
            let lines = subdomain.lines_around(node);
            for (three, first) in surroundings.as_chunks_mut::<3>().0.iter_mut().zip(lines) {
                three.copy_from_slice(&self.kinds[first..first + 3]);
            }
        } else {
            for (place, other) in subdomain.neighbours(node) {
                surroundings[place] = self.kinds[subdomain.local_number(other)];
            }
        }
        surroundings
    }

    /// Returns the index of the kept rows for these surroundings, and computes the rows if necessary. Returns `None` if
    /// no more rows can be kept.
    fn kept_row(
        &mut self,
        node: [usize; 3],
        local: usize,
        surroundings: Surroundings,
    ) -> Option<usize> {
        let number = match self.numbers.get(&surroundings) {
            Some(number) => *number,
            None if self.kept.len() < KEPT && !surroundings.contains(&UNNUMBERED_KIND) => {
                let number = self.kept.len();
                self.kept.push(self.compute_row(node, local));
                self.numbers.insert(surroundings, number);
                number
            }
            None => return None,
        };
        self.last = (surroundings, number);
        Some(number)
    }

    /// Computes the rows of a mesh point.
    fn compute_row(&self, node: [usize; 3], local: usize) -> StoredRows {
        let subdomain = self.assembler.subdomain;
        let row = self.assembler.row(node);
        let mut made = StoredRows { rhs: row.rhs, ..StoredRows::default() };
        for (place, other) in subdomain.neighbours(node) {
            made.offsets.push(subdomain.local_number(other) as isize - local as isize);
            made.blocks.push(column_major(&row.blocks[place]));
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elasticity::{Material, Mesh, PointKinds, Problem, StretchedBox, Subdomain};

    /// Problem with a different prescribed displacement at every mesh point of one face, and no prescribed displacement
    /// elsewhere.
    struct Uneven;

    impl Problem for Uneven {
        fn material(&self) -> Material {
            StretchedBox.material()
        }
        fn fixed(&self, at: [f64; 3], _: [f64; 3]) -> [Option<f64>; 3] {
            let value = (at[0] == 0.0).then_some(at[1] + 100.0 * at[2]);
            [value, None, value]
        }
        fn force(&self, _: [f64; 3]) -> Option<[f64; 3]> {
            None
        }
        fn exact(&self, _: [f64; 3], _: [f64; 3]) -> [f64; 3] {
            [0.0; 3]
        }
    }

    /// Problem with a force that depends on the position.
    struct Loaded;

    impl Problem for Loaded {
        fn material(&self) -> Material {
            StretchedBox.material()
        }
        fn fixed(&self, at: [f64; 3], far: [f64; 3]) -> [Option<f64>; 3] {
            StretchedBox.fixed(at, far)
        }
        fn force(&self, at: [f64; 3]) -> Option<[f64; 3]> {
            Some(at)
        }
        fn exact(&self, _: [f64; 3], _: [f64; 3]) -> [f64; 3] {
            [0.0; 3]
        }
    }

    fn kinds_of(assembler: &Assembler<'_>, nodes: usize) -> Vec<u8> {
        let (all, mut kinds) = (PointKinds::default(), vec![0; nodes]);
        assembler.classify(&all, 0..nodes, &mut kinds);
        kinds
    }

    #[test]
    fn reused_rows_equal_computed_rows() {
        let mesh = Mesh { elements: [6, 18, 17] };
        let parts = [Subdomain::whole_mesh(mesh), Subdomain::for_rank(mesh, 3, [2, 2, 1]).unwrap()];
        let problems: [&dyn Problem; 3] = [&StretchedBox, &Uneven, &Loaded];
        for part in &parts {
            for problem in problems {
                let assembler = Assembler::new(part, problem).unwrap();
                let kinds = kinds_of(&assembler, part.known_point_count());
                let mut maker = RowMaker::new(&assembler, &kinds);
                for local in part.owned_points() {
                    let node = part.node(local);
                    let expected = assembler.row(node);
                    let number = maker.make(local);
                    let made = maker.row(number);
                    assert_eq!(made.rhs.map(f64::to_bits), expected.rhs.map(f64::to_bits));
                    assert_eq!(made.blocks.len(), part.neighbour_count(node));
                    let places = made.offsets.iter().zip(&made.blocks);
                    for ((place, other), (offset, block)) in part.neighbours(node).zip(places) {
                        assert_eq!(local.wrapping_add_signed(*offset), part.local_number(other));
                        let wanted = column_major(&expected.blocks[place]);
                        assert_eq!(block.map(f64::to_bits), wanted.map(f64::to_bits));
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_reused_for_equal_surroundings() {
        let whole = Subdomain::whole_mesh(Mesh { elements: [9, 8, 7] });
        let assembler = Assembler::new(&whole, &StretchedBox).unwrap();
        let kinds = kinds_of(&assembler, whole.known_point_count());
        let mut maker = RowMaker::new(&assembler, &kinds);
        for local in whole.owned_points() {
            maker.make(local);
            assert!(maker.single.is_empty());
        }
        // Along x and y: the wall, the next mesh point, inner mesh points, and the other face; along z, both faces are
        // prescribed.
        assert_eq!(maker.kept.len(), 4 * 4 * 5);
    }
}
