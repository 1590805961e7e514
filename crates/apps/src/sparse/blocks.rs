//! Storage of consecutive block rows of different lengths (BCSR).

use super::kernel::{self, Rows};
use crate::array::{Array, SharedArray};
use crate::code::Code;
use nodegauge_kernels::isa::{InstructionSet, multiply_add};
use nodegauge_measure::Failure;
use std::ops::Range;

/// Number of elements of a block, which is stored by columns.
pub(crate) const BLOCK: usize = 9;

/// Block rows of all threads.
#[derive(Debug)]
pub(crate) struct Blocks {
    starts: Array<usize>,
    columns: Array<u32>,
    values: Array<f64>,
}

/// [`Blocks`] while threads write different rows.
#[derive(Debug)]
pub(crate) struct SharedBlocks {
    starts: Array<usize>,
    columns: SharedArray<u32>,
    values: SharedArray<f64>,
}

impl SharedBlocks {
    /// Maps memory for rows with these numbers of blocks and sets the start of every row; the memory of the blocks is
    /// not touched.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn map(lengths: impl ExactSizeIterator<Item = usize>) -> Result<Self, Failure> {
        let mut starts = Array::map(lengths.len() + 1)?;
        let mut end = 0;
        for (row, length) in lengths.enumerate() {
            end += length;
            starts[row + 1] = end;
        }
        Ok(Self { starts, columns: SharedArray::map(end)?, values: SharedArray::map(end * BLOCK)? })
    }

    /// Returns columns and values of a row; the thread that owns the row writes them.
    ///
    /// # Safety
    /// While the results live, no other code reads or writes the row.
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller guarantees exclusive use, as for a SharedArray"
    )]
    pub unsafe fn row_mut(&self, row: usize) -> (&mut [u32], &mut [[f64; BLOCK]]) {
        let blocks = self.starts[row]..self.starts[row + 1];
        let numbers = BLOCK * blocks.start..BLOCK * blocks.end;
        // SAFETY: the caller meets the requirements of this function.
        unsafe { (self.columns.part_mut(blocks), self.values.part_mut(numbers).as_chunks_mut().0) }
    }

    /// Writes zero to each page of a range of rows, which have not been written yet.
    ///
    /// # Safety
    /// No other code uses the rows during the call.
    pub unsafe fn touch(&self, rows: &Range<usize>) {
        let blocks = self.starts[rows.start]..self.starts[rows.end];
        let numbers = BLOCK * blocks.start..BLOCK * blocks.end;
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            self.columns.touch(blocks);
            self.values.touch(numbers);
        }
    }

    /// Returns columns and blocks of a row.
    ///
    /// # Safety
    /// While the results live, no other code writes the row.
    #[inline]
    pub unsafe fn row(&self, row: usize) -> (&[u32], &[[f64; BLOCK]]) {
        let blocks = self.starts[row]..self.starts[row + 1];
        let numbers = BLOCK * blocks.start..BLOCK * blocks.end;
        // SAFETY: the caller meets the requirements of this function.
        unsafe { (self.columns.part(blocks), self.values.part(numbers).as_chunks().0) }
    }

    /// Converts to [`Blocks`] after all threads have written their rows.
    pub fn into_blocks(self) -> Blocks {
        let Self { starts, columns, values } = self;
        Blocks { starts, columns: columns.into_array(), values: values.into_array() }
    }
}

impl Blocks {
    /// Returns the number of blocks.
    pub fn count(&self) -> usize {
        self.columns.len()
    }

    /// Returns the number of blocks in a range of rows.
    pub fn count_of(&self, rows: &Range<usize>) -> usize {
        self.starts[rows.end] - self.starts[rows.start]
    }

    /// Returns columns and blocks of a row.
    #[inline]
    pub fn row(&self, row: usize) -> (&[u32], &[[f64; BLOCK]]) {
        let blocks = self.starts[row]..self.starts[row + 1];
        let numbers = BLOCK * blocks.start..BLOCK * blocks.end;
        (&self.columns[blocks], self.values[numbers].as_chunks().0)
    }

    /// Returns a range of rows in the form that loops use.
    pub fn rows(&self, range: &Range<usize>) -> Rows {
        assert!(range.end < self.starts.len());
        Rows {
            range: (range.start, range.end),
            starts: self.starts.at(0),
            columns: self.columns.at(0),
            values: self.values.at(0),
        }
    }

    /// Computes `y = A x` on a range of rows.
    ///
    /// # Safety
    /// The processor must support the instruction set of `code`. `x` must have every column of the rows. No thread may
    /// write `x`, and no other thread may use these rows of `y`.
    pub unsafe fn multiply(&self, code: Code, rows: &Range<usize>, x: *const f64, y: *mut f64) {
        // SAFETY: the rows were checked; the caller guarantees the rest.
        unsafe { kernel::product(code, &self.rows(rows), x, y) }
    }

    /// Returns the bytes that a product reads for a range of rows.
    pub fn bytes_of(&self, rows: &Range<usize>) -> usize {
        self.count_of(rows) * (8 * BLOCK + 4) + rows.len() * 8
    }
}

/// Returns the transposed block.
pub(crate) fn transpose(block: &[f64; BLOCK]) -> [f64; BLOCK] {
    std::array::from_fn(|at| block[3 * (at % 3) + at / 3])
}

/// Block whose columns have four lanes, the last of which is not used, so that a vector instruction updates a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaddedBlock([[f64; 4]; 3]);

impl PaddedBlock {
    /// Block of zeros.
    pub const ZERO: Self = Self([[0.0; 4]; 3]);

    /// Returns a block with padded columns.
    #[inline(always)]
    pub fn of(block: &[f64; BLOCK]) -> Self {
        let column = |at: usize| [block[3 * at], block[3 * at + 1], block[3 * at + 2], 0.0];
        Self([column(0), column(1), column(2)])
    }

    /// Returns the block without padding.
    #[inline(always)]
    pub fn block(&self) -> [f64; BLOCK] {
        std::array::from_fn(|at| self.0[at / 3][at % 3])
    }

    /// Multiplies the diagonal by `factor`.
    #[inline(always)]
    pub fn scale_diagonal(&mut self, factor: f64) {
        self.0.iter_mut().enumerate().for_each(|(at, column)| column[at] *= factor);
    }

    /// Adds `scale a b^T`.
    #[inline(always)]
    pub fn add_product<S: InstructionSet>(&mut self, scale: f64, a: &Self, b: &[f64; BLOCK]) {
        for (column, sums) in self.0.iter_mut().enumerate() {
            for (inner, factors) in a.0.iter().enumerate() {
                let factor = scale * b[3 * inner + column];
                for (sum, each) in sums.iter_mut().zip(factors) {
                    *sum = multiply_add::<S>(*each, factor, *sum);
                }
            }
        }
    }
}
