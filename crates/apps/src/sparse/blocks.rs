//! Block rows one after another, as long as each is.

use super::kernel::{self, Rows};
use crate::array::Array;
use crate::code::{Code, multiply_add};
use nodegauge_measure::Failure;
use std::ops::Range;

/// Numbers of a block, its columns one after another.
pub(crate) const BLOCK: usize = 9;

/// Block rows of all threads, each of which writes and reads its own.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub starts: Array<usize>,
    pub columns: Array<u32>,
    pub values: Array<f64>,
}

impl Blocks {
    /// Memory for rows with so many blocks each, and where each starts; the blocks are not touched.
    ///
    /// # Errors
    /// When the kernel gives no memory.
    pub fn map(lengths: impl ExactSizeIterator<Item = usize>) -> Result<Self, Failure> {
        let mut starts = Array::map(lengths.len() + 1)?;
        let mut end = 0;
        for (row, length) in lengths.enumerate() {
            end += length;
            starts[row + 1] = end;
        }
        Ok(Self { starts, columns: Array::map(end)?, values: Array::map(end * BLOCK)? })
    }

    /// Where the blocks of a row are.
    pub fn row(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    /// Columns and values of rows, to be written by the thread that has them.
    ///
    /// # Safety
    /// While the results live nobody else uses these rows.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn rows_mut(&self, rows: Range<usize>) -> (&mut [u32], &mut [f64]) {
        let blocks = self.starts[rows.start]..self.starts[rows.end];
        // SAFETY: the caller's promise.
        unsafe {
            let values = self.values.part(BLOCK * blocks.start..BLOCK * blocks.end);
            (self.columns.part(blocks), values)
        }
    }

    /// Columns and blocks of a row.
    ///
    /// # Safety
    /// While the results live nobody writes the row.
    #[inline]
    pub unsafe fn row_ref(&self, row: usize) -> (&[u32], &[[f64; BLOCK]]) {
        let blocks = self.row(row);
        assert!(blocks.end <= self.columns.len());
        // SAFETY: the row lies within both arrays; the rest is the caller's promise.
        unsafe {
            let values = self.values.at(BLOCK * blocks.start).cast::<[f64; BLOCK]>();
            (
                std::slice::from_raw_parts(self.columns.at(blocks.start), blocks.len()),
                std::slice::from_raw_parts(values, blocks.len()),
            )
        }
    }

    /// Block `at`, a copy.
    #[inline]
    pub fn value(&self, at: usize) -> [f64; BLOCK] {
        assert!(BLOCK * at + BLOCK <= self.values.len());
        // SAFETY: the block is there; it is written by nobody while it is read, as its threads see to.
        unsafe { self.values.at(BLOCK * at).cast::<[f64; BLOCK]>().read() }
    }

    /// The column of block `at`.
    #[inline]
    pub fn column(&self, at: usize) -> usize {
        assert!(at < self.columns.len());
        // SAFETY: as above.
        unsafe { *self.columns.at(at) as usize }
    }

    /// Some rows as a loop sees them.
    pub fn rows(&self, range: &Range<usize>) -> Rows {
        assert!(range.end < self.starts.len());
        Rows {
            range: (range.start, range.end),
            starts: self.starts.at(0),
            columns: self.columns.at(0),
            values: self.values.at(0),
        }
    }

    /// `y = A x` on some rows.
    ///
    /// # Safety
    /// The processor has the instruction set of `code`; every column that the rows name is one of `x`; nobody writes `x`,
    /// and nobody else uses these rows of `y`.
    pub unsafe fn multiply(&self, code: Code, rows: &Range<usize>, x: *const f64, y: *mut f64) {
        // SAFETY: the rows were checked; the rest is the caller's promise.
        unsafe { kernel::product(code, &self.rows(rows), x, y) }
    }

    /// Bytes that a product reads of some rows.
    pub fn bytes_of(&self, rows: &Range<usize>) -> usize {
        let blocks = self.starts[rows.end] - self.starts[rows.start];
        blocks * (8 * BLOCK + 4) + rows.len() * 8
    }
}

/// A block with rows and columns exchanged.
pub(crate) fn transpose(block: &[f64; BLOCK]) -> [f64; BLOCK] {
    std::array::from_fn(|at| block[3 * (at % 3) + at / 3])
}

/// `sum += scale a b^T` of blocks.
#[inline(always)]
pub(crate) fn add_product<const FMA: bool>(
    sum: &mut [f64; BLOCK],
    scale: f64,
    a: &[f64; BLOCK],
    b: &[f64; BLOCK],
) {
    for column in 0..3 {
        for inner in 0..3 {
            let factor = scale * b[3 * inner + column];
            for row in 0..3 {
                let at = 3 * column + row;
                sum[at] = multiply_add::<FMA>(a[3 * inner + row], factor, sum[at]);
            }
        }
    }
}
