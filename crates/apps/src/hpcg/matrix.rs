//! A domain's part of the matrix: slices of eight rows side by side (sliced ELL), with the coefficients of
//! every row in full and a column for each slot of a slice, whose eight columns follow each other.
//!
//! Rows of a slice are neighbours in a line of the grid, so that the only coefficients within a slice are
//! those of the point before and the point behind: they have slots of their own, and everything else of a
//! sweep is done with vectors. Below and above the diagonal lie apart, for a sweep that needs only one half.

use super::problem::{DomainLayout, GridPoints};
use crate::array::Array;
use nodegauge_measure::Failure;

/// Rows of a slice.
pub(crate) const LANES: usize = 8;
/// Slots on each side of the diagonal whose columns are in no slice that they are coefficients of.
pub(crate) const OUTER: usize = 12;
/// Slots on each side; the last is that of the neighbour in the line.
pub(crate) const SIDE: usize = OUTER + 1;

/// Steps to the neighbours below the diagonal, the one in the line last; those above are opposite.
const BELOW: [[isize; 3]; SIDE] = {
    let mut steps = [[0; 3]; SIDE];
    let mut slot = 0;
    while slot < OUTER {
        let (row, x) = (slot / 3, slot as isize % 3 - 1);
        // The three lines of the plane before, then the line before in this plane.
        let [y, z] = if row < 3 { [row as isize - 1, -1] } else { [-1, 0] };
        steps[slot] = [x, y, z];
        slot += 1;
    }
    steps[OUTER] = [-1, 0, 0];
    steps
};

/// Layout of the points of a domain in its vectors: lines with room for points of other domains around them, each
/// starting at a multiple of [`LANES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VectorShape {
    /// Points in each direction.
    pub grid: GridPoints,
    /// From a line to the next.
    line: usize,
}

impl VectorShape {
    pub fn new(grid: GridPoints) -> Self {
        // The point behind a full line is the first of these eight, the one before the next line the last.
        Self { grid, line: grid[0].next_multiple_of(LANES) + LANES }
    }

    /// Numbers of a vector.
    pub fn length(&self) -> usize {
        LANES + self.line * (self.grid[1] + 2) * (self.grid[2] + 2)
    }

    /// The number of a point; of others' points -1 or one more than there are.
    #[inline]
    pub fn at(&self, [x, y, z]: [isize; 3]) -> usize {
        let lines = (z + 1) as usize * (self.grid[1] + 2) + (y + 1) as usize;
        (LANES + lines * self.line).wrapping_add_signed(x)
    }

    /// The first number of each line, in the order of rows.
    #[inline]
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = usize> + Clone + use<> {
        let Self { grid: [_, y, z], .. } = *self;
        let shape = *self;
        (0..y * z).map(move |line| shape.at([0, (line % y) as isize, (line / y) as isize]))
    }

    /// Slices of a line.
    #[inline]
    pub fn slices(&self) -> usize {
        self.grid[0].div_ceil(LANES)
    }

    /// Slices of all lines.
    pub fn all_slices(&self) -> usize {
        self.slices() * self.grid[1] * self.grid[2]
    }
}

/// A domain's rows on one grid.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub shape: VectorShape,
    /// [`SIDE`] slots of [`LANES`] for each slice.
    pub lower: Array<f64>,
    pub upper: Array<f64>,
    /// [`LANES`] for each slice; and their inverses.
    pub diagonal: Array<f64>,
    pub inverse: Array<f64>,
    /// [`OUTER`] first columns for each slice, as numbers of vectors.
    pub below: Array<u32>,
    pub above: Array<u32>,
}

impl Matrix {
    /// The rows of a domain, touched by the thread that will use them.
    ///
    /// # Errors
    /// When the kernel gives no memory.
    pub fn new(layout: &DomainLayout, domain: usize) -> Result<Self, Failure> {
        let shape = VectorShape::new(layout.local);
        let slices = shape.all_slices();
        let mut matrix = Self {
            shape,
            lower: Array::map(slices * SIDE * LANES)?,
            upper: Array::map(slices * SIDE * LANES)?,
            diagonal: Array::map(slices * LANES)?,
            inverse: Array::map(slices * LANES)?,
            below: Array::map(slices * OUTER)?,
            above: Array::map(slices * OUTER)?,
        };
        matrix.fill(layout, domain);
        Ok(matrix)
    }

    fn fill(&mut self, layout: &DomainLayout, domain: usize) {
        let (shape, global, place) = (self.shape, layout.global(), layout.place(domain));
        let [points, lines, _] = shape.grid;
        let exists = |point: [isize; 3], steps: [isize; 3]| {
            (0..3).all(|axis| {
                let first = (place[axis] * shape.grid[axis]) as isize;
                (0..global[axis] as isize).contains(&(first + point[axis] + steps[axis]))
            })
        };
        for slice in 0..shape.all_slices() {
            let (line, first) = (slice / shape.slices(), slice % shape.slices() * LANES);
            let [y, z] = [line % lines, line / lines].map(|at| at as isize);
            for (side, sign) in [(&mut self.lower, 1), (&mut self.upper, -1)] {
                for (slot, steps) in BELOW.iter().enumerate() {
                    let steps = steps.map(|step| sign * step);
                    for lane in (0..LANES).filter(|lane| first + lane < points) {
                        let coupled = exists([(first + lane) as isize, y, z], steps);
                        side[(slice * SIDE + slot) * LANES + lane] =
                            if coupled { -1.0 } else { 0.0 };
                    }
                }
            }
            for (columns, sign) in [(&mut self.below, 1), (&mut self.above, -1)] {
                for (slot, steps) in BELOW[..OUTER].iter().enumerate() {
                    let [dx, dy, dz] = steps.map(|step| sign * step);
                    let column = shape.at([first as isize + dx, y + dy, z + dz]);
                    columns[slice * OUTER + slot] = column as u32;
                }
            }
            for lane in (0..LANES).filter(|lane| first + lane < points) {
                self.diagonal[slice * LANES + lane] = 26.0;
                self.inverse[slice * LANES + lane] = 1.0 / 26.0;
            }
        }
    }

    /// Multiplies the diagonal by what `factor` says of each point, in the order of rows.
    pub fn scale_diagonal(&mut self, mut factor: impl FnMut([usize; 3]) -> f64) {
        let [points, lines, _] = self.shape.grid;
        for slice in 0..self.shape.all_slices() {
            let (line, first) = (slice / self.shape.slices(), slice % self.shape.slices() * LANES);
            for lane in (0..LANES).filter(|lane| first + lane < points) {
                let at = slice * LANES + lane;
                self.diagonal[at] *= factor([first + lane, line % lines, line / lines]);
                self.inverse[at] = 1.0 / self.diagonal[at];
            }
        }
    }

    /// Puts another diagonal in the place of this one; rows that are not there have 0.
    pub fn set_diagonal(&mut self, diagonal: &[f64]) {
        self.diagonal.copy_from_slice(diagonal);
        for (inverse, x) in self.inverse.iter_mut().zip(diagonal) {
            *inverse = if *x == 0.0 { 0.0 } else { 1.0 / x };
        }
    }

    /// Bytes of the rows.
    pub fn bytes(shape: &VectorShape) -> usize {
        shape.all_slices() * ((2 * SIDE + 2) * LANES * 8 + 2 * OUTER * 4)
    }
}
