//! Part of the matrix in one domain, stored in slices of eight rows (sliced ELL). All coefficients of a row are stored.
//! A slot contains one coefficient of each of the eight rows of a slice; each coefficient has a column index.
//!
//! The rows of a slice are neighbours in a line of the grid. Within the slice, a row can have only two columns: those
//! of the preceding and of the following point. Their coefficients have separate slots, so that the rest of a sweep can
//! use vectors. The parts below and above the diagonal are stored separately, for sweeps that need only one of them.

use super::problem::{DomainLayout, GridPoints};
use crate::array::MappedArray;
use crate::system::check_end_request;
use nodegauge_measure::Failure;
use nodegauge_os::is_end_requested;

/// Number of rows of a slice.
pub(crate) const LANES: usize = 8;
/// Number of slots below (or above) the diagonal whose columns are outside the slice.
pub(crate) const OUTER_SLOTS: usize = 12;
/// Number of slots below (or above) the diagonal; the last one is for the neighbour in the same line.
pub(crate) const SIDE_SLOTS: usize = OUTER_SLOTS + 1;

/// Steps from a point to its neighbours below the diagonal; the neighbour in the same line is last. The steps to
/// neighbours above the diagonal have opposite signs.
const BELOW: [[isize; 3]; SIDE_SLOTS] = {
    let mut steps = [[0; 3]; SIDE_SLOTS];
    let mut slot = 0;
    while slot < OUTER_SLOTS {
        let row = slot / 3;
        let x = slot as isize % 3 - 1;
        // The rows are the three lines of the previous plane, then the previous line in the same plane.
        let [y, z] = if row < 3 { [row as isize - 1, -1] } else { [-1, 0] };
        steps[slot] = [x, y, z];
        slot += 1;
    }
    steps[OUTER_SLOTS] = [-1, 0, 0];
    steps
};

/// Layout of a vector with the points of a domain. Its lines are surrounded by points of neighbouring domains; each
/// line starts at a multiple of [`LANES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VectorShape {
    /// Number of points in each direction.
    pub grid: GridPoints,
    /// Distance between the starts of two successive lines.
    line: usize,
}

impl VectorShape {
    pub fn new(grid: GridPoints) -> Self {
        // Eight numbers are added to every line: the first is the point after a full line, the last is the point before
        // the next line.
        Self { grid, line: grid[0].next_multiple_of(LANES) + LANES }
    }

    /// Returns the length of a vector.
    pub fn length(&self) -> usize {
        LANES + self.line * (self.grid[1] + 2) * (self.grid[2] + 2)
    }

    /// Returns the index of a point. Points of neighbouring domains have the coordinate -1 or the number of points.
    #[inline]
    pub fn at(&self, [x, y, z]: [isize; 3]) -> usize {
        let lines = (z + 1) as usize * (self.grid[1] + 2) + (y + 1) as usize;
        (LANES + lines * self.line).wrapping_add_signed(x)
    }

    /// Returns the first index of each line, in the order of rows.
    #[inline]
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = usize> + Clone + use<> {
        let Self { grid: [_, y, z], .. } = *self;
        let shape = *self;
        (0..y * z).map(move |line| shape.at([0, (line % y) as isize, (line / y) as isize]))
    }

    /// Returns the number of slices of a line.
    #[inline]
    pub fn slices_per_line(&self) -> usize {
        self.grid[0].div_ceil(LANES)
    }

    /// Returns the number of slices of all lines.
    pub fn slice_count(&self) -> usize {
        self.slices_per_line() * self.grid[1] * self.grid[2]
    }
}

/// Number of slices that are filled between two checks whether the run must end; filling them takes milliseconds.
const SLICES_UNCHECKED: usize = 1024;

/// Matrix rows of a domain on one grid.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub shape: VectorShape,
    /// Coefficients below the diagonal: [`SIDE_SLOTS`] slots of [`LANES`] coefficients per slice.
    pub lower: MappedArray<f64>,
    pub upper: MappedArray<f64>,
    /// Diagonal coefficients, and their inverses: [`LANES`] per slice.
    pub diagonal: MappedArray<f64>,
    pub inverse: MappedArray<f64>,
    /// Columns of the coefficients, as indices into vectors, in the order of the coefficients.
    pub below_columns: MappedArray<u32>,
    pub above_columns: MappedArray<u32>,
}

impl Matrix {
    /// Creates the rows of a domain. It must be called by the thread that uses the rows, so that this thread
    /// touches them first.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if the user ends the run.
    pub fn new(layout: &DomainLayout, domain: usize) -> Result<Self, Failure> {
        let shape = VectorShape::new(layout.local);
        let slices = shape.slice_count();
        let mut matrix = Self {
            shape,
            lower: MappedArray::allocate(slices * SIDE_SLOTS * LANES)?,
            upper: MappedArray::allocate(slices * SIDE_SLOTS * LANES)?,
            diagonal: MappedArray::allocate(slices * LANES)?,
            inverse: MappedArray::allocate(slices * LANES)?,
            below_columns: MappedArray::allocate(slices * SIDE_SLOTS * LANES)?,
            above_columns: MappedArray::allocate(slices * SIDE_SLOTS * LANES)?,
        };
        matrix.fill(layout, domain);
        check_end_request()?;
        Ok(matrix)
    }

    fn fill(&mut self, layout: &DomainLayout, domain: usize) {
        let shape = self.shape;
        let global = layout.global();
        let place = layout.position(domain);
        let [points, lines, _] = shape.grid;
        let exists = |point: [isize; 3], steps: [isize; 3]| {
            (0..3).all(|axis| {
                let first = (place[axis] * shape.grid[axis]) as isize;
                (0..global[axis] as isize).contains(&(first + point[axis] + steps[axis]))
            })
        };
        for slice in 0..shape.slice_count() {
            if slice.is_multiple_of(SLICES_UNCHECKED) && is_end_requested() {
                return;
            }
            let line = slice / shape.slices_per_line();
            let first = slice % shape.slices_per_line() * LANES;
            let [y, z] = [line % lines, line / lines].map(|at| at as isize);
            for (side, sign) in [(&mut self.lower, 1), (&mut self.upper, -1)] {
                for (slot, steps) in BELOW.iter().enumerate() {
                    let steps = steps.map(|step| sign * step);
                    for lane in (0..LANES).filter(|lane| first + lane < points) {
                        let coupled = exists([(first + lane) as isize, y, z], steps);
                        side[(slice * SIDE_SLOTS + slot) * LANES + lane] =
                            if coupled { -1.0 } else { 0.0 };
                    }
                }
            }
            for (side, sign) in [(&mut self.below_columns, 1), (&mut self.above_columns, -1)] {
                for (slot, steps) in BELOW.iter().enumerate() {
                    let [dx, dy, dz] = steps.map(|step| sign * step);
                    let neighbour = shape.at([first as isize + dx, y + dy, z + dz]) as u32;
                    let indices = &mut side[(slice * SIDE_SLOTS + slot) * LANES..][..LANES];
                    for (index, column) in indices.iter_mut().zip(neighbour..) {
                        *index = column;
                    }
                }
            }
            for lane in (0..LANES).filter(|lane| first + lane < points) {
                self.diagonal[slice * LANES + lane] = 26.0;
                self.inverse[slice * LANES + lane] = 1.0 / 26.0;
            }
        }
    }

    /// Multiplies the diagonal by `factor` at each point, in row order.
    pub fn scale_diagonal(&mut self, mut factor: impl FnMut([usize; 3]) -> f64) {
        let [points, lines, _] = self.shape.grid;
        for slice in 0..self.shape.slice_count() {
            let line = slice / self.shape.slices_per_line();
            let first = slice % self.shape.slices_per_line() * LANES;
            for lane in (0..LANES).filter(|lane| first + lane < points) {
                let at = slice * LANES + lane;
                self.diagonal[at] *= factor([first + lane, line % lines, line / lines]);
                self.inverse[at] = 1.0 / self.diagonal[at];
            }
        }
    }

    /// Replaces the diagonal. The diagonal of padding rows becomes 0.
    pub fn set_diagonal(&mut self, diagonal: &[f64]) {
        self.diagonal.copy_from_slice(diagonal);
        for (inverse, x) in self.inverse.iter_mut().zip(diagonal) {
            *inverse = if *x == 0.0 { 0.0 } else { 1.0 / x };
        }
    }

    /// Returns the size of the rows in bytes.
    pub fn bytes(shape: &VectorShape) -> usize {
        shape.slice_count() * LANES * ((2 * SIDE_SLOTS + 2) * 8 + 2 * SIDE_SLOTS * 4)
    }
}
