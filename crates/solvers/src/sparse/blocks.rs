//! Storage of consecutive block rows of different lengths (BCSR).

use super::kernel::{self, Rows};
use crate::array::{MappedArray, SharedArray};
use crate::code::LoopCode;
use crate::context::Threads;
use crate::order::Numbering;
use crate::setup_clock::SetupClock;
use nodegauge_kernels::isa::InstructionSet;
use nodegauge_kernels::{F64x4, copy_nontemporal};
use nodegauge_measure::Failure;
use std::ops::Range;

/// Number of elements of a block, which is stored by columns.
pub(crate) const BLOCK: usize = 9;

/// Blocks of a row, with their columns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockRow<'a> {
    pub columns: &'a [u32],
    pub blocks: &'a [[f64; BLOCK]],
}

/// Block rows of all threads.
#[derive(Debug)]
pub(crate) struct Blocks {
    starts: MappedArray<usize>,
    columns: MappedArray<u32>,
    values: MappedArray<f64>,
}

/// [`Blocks`] while threads write different rows.
#[derive(Debug)]
pub(crate) struct SharedBlocks {
    starts: MappedArray<usize>,
    columns: SharedArray<u32>,
    values: SharedArray<f64>,
}

impl SharedBlocks {
    /// Maps memory for rows with these numbers of blocks and sets the start of each row. The threads that own the
    /// rows touch the memory of their blocks first. The clock does not count the time for which the kernel provides
    /// memory.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if a thread fails.
    pub fn allocate(
        threads: &mut impl Threads,
        numbering: &Numbering,
        lengths: &[u32],
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let starts = SharedArray::<usize>::allocate(lengths.len() + 1)?;
        clock.touch_untimed(threads, |context| {
            if context.thread == 0 {
                // SAFETY: only this thread uses the array.
                unsafe { starts.touch(0..starts.len()) };
            }
        })?;
        let mut starts = starts.into_array();
        let mut end = 0;
        for (start, length) in starts[1..].iter_mut().zip(lengths) {
            end += *length as usize;
            *start = end;
        }
        let columns = SharedArray::allocate(end)?;
        let values = SharedArray::allocate(end * BLOCK)?;
        let made = Self { starts, columns, values };
        clock.touch_untimed(threads, |context| {
            // SAFETY: the rows belong to this thread.
            unsafe { made.touch(&numbering.thread_rows(context.thread)) };
        })?;
        Ok(made)
    }

    /// Returns the columns and the values of a row, for the thread that owns the row.
    ///
    /// # Safety
    /// While the results live, no other code reads or writes the row.
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller guarantees exclusive use, as for a SharedArray"
    )]
    #[inline(always)]
    pub unsafe fn row_mut(&self, row: usize) -> (&mut [u32], &mut [[f64; BLOCK]]) {
        let blocks = self.starts[row]..self.starts[row + 1];
        let numbers = BLOCK * blocks.start..BLOCK * blocks.end;
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            (self.columns.slice_mut(blocks), self.values.slice_mut(numbers).as_chunks_mut().0)
        }
    }

    /// Writes zero to each page of a range of rows, which have not been written yet.
    ///
    /// # Safety
    /// No other code uses the rows during the call.
    unsafe fn touch(&self, rows: &Range<usize>) {
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
    #[inline(always)]
    pub unsafe fn row(&self, row: usize) -> (&[u32], &[[f64; BLOCK]]) {
        let blocks = self.starts[row]..self.starts[row + 1];
        let numbers = BLOCK * blocks.start..BLOCK * blocks.end;
        // SAFETY: the caller meets the requirements of this function.
        unsafe { (self.columns.slice(blocks), self.values.slice(numbers).as_chunks().0) }
    }

    /// Prefetches block `index` of a row, which other code may be writing.
    #[inline(always)]
    pub fn prefetch(&self, row: usize, index: usize) {
        prefetch_block(self.values.at(0).wrapping_add(BLOCK * (self.starts[row] + index)));
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
    pub fn block_count(&self, rows: &Range<usize>) -> usize {
        self.starts[rows.end] - self.starts[rows.start]
    }

    /// Returns columns and blocks of a row.
    #[inline]
    pub fn row(&self, row: usize) -> (&[u32], &[[f64; BLOCK]]) {
        let blocks = self.starts[row]..self.starts[row + 1];
        let numbers = BLOCK * blocks.start..BLOCK * blocks.end;
        (&self.columns[blocks], self.values[numbers].as_chunks().0)
    }

    /// Returns a range of rows in the form that the loops use.
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
    pub unsafe fn multiply(&self, code: LoopCode, rows: &Range<usize>, x: *const f64, y: *mut f64) {
        // SAFETY: the rows were checked; the caller guarantees the rest.
        unsafe { kernel::product(code, &self.rows(rows), x, y) }
    }

    /// Returns the bytes that a product reads for a range of rows.
    pub fn product_bytes(&self, rows: &Range<usize>) -> usize {
        self.block_count(rows) * (8 * BLOCK + 4) + rows.len() * 8
    }
}

/// Copies blocks with non-temporal stores to memory that is read much later.
///
/// # Panics
/// Panics if the numbers of blocks differ.
pub(crate) fn stream_blocks(code: LoopCode, to: &mut [[f64; BLOCK]], from: &[[f64; BLOCK]]) {
    assert_eq!(to.len(), from.len());
    let numbers = BLOCK * to.len();
    // SAFETY: both slices have the numbers, and the processor has the instruction set.
    unsafe { copy_nontemporal(code.isa(), to.as_mut_ptr().cast(), from.as_ptr().cast(), numbers) }
}

/// Prefetches the cache lines of a block.
#[inline(always)]
pub(crate) fn prefetch_block(block: *const f64) {
    nodegauge_kernels::prefetch::<false>(block.cast());
    nodegauge_kernels::prefetch::<false>(block.wrapping_add(BLOCK - 1).cast());
}

/// Returns the transposed block.
pub(crate) fn transpose(block: &[f64; BLOCK]) -> [f64; BLOCK] {
    std::array::from_fn(|at| block[3 * (at % 3) + at / 3])
}

/// Block with four lanes per column, so that one vector instruction updates a column. The last lane is undefined.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct PaddedBlock([[f64; 4]; 3]);

impl PaddedBlock {
    /// Block of zeros.
    pub const ZERO: Self = Self([[0.0; 4]; 3]);
}

/// Block in three registers, one per column. The last lane of each register is undefined.
pub(crate) struct RegisterBlock<S: InstructionSet>([S::F64x4; 3]);

impl<S: InstructionSet> RegisterBlock<S> {
    /// Returns a block of zeros.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    pub unsafe fn zero() -> Self {
        // SAFETY: the caller guarantees the instruction set.
        Self([unsafe { S::F64x4::splat(0.0) }; 3])
    }

    /// Loads a block.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    pub unsafe fn load(block: &[f64; BLOCK]) -> Self {
        let from = block.as_ptr();
        // SAFETY: the caller guarantees the instruction set, and all numbers are in the block.
        unsafe {
            Self([
                S::F64x4::load(from),
                S::F64x4::load(from.add(3)),
                S::F64x4::load_three(from.add(6)),
            ])
        }
    }

    /// Stores the block.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    pub unsafe fn store(&self, block: &mut [f64; BLOCK]) {
        let [first, second, third] = self.0;
        let to = block.as_mut_ptr();
        // SAFETY: the caller guarantees the instruction set, and all numbers are in the block; the next column
        // overwrites the last lane.
        unsafe {
            first.store(to);
            second.store(to.add(3));
            third.store_three(to.add(6));
        }
    }

    /// Stores the block with its padding.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    pub unsafe fn store_padded(&self, block: &mut PaddedBlock) {
        for (column, to) in self.0.iter().zip(&mut block.0) {
            // SAFETY: the caller guarantees the instruction set.
            unsafe { column.store(to.as_mut_ptr()) };
        }
    }

    /// Adds `a b^T` to this block.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    pub unsafe fn add_product(&mut self, a: &Self, b: &[f64; BLOCK]) {
        for (column, sum) in self.0.iter_mut().enumerate() {
            for (inner, lanes) in a.0.iter().enumerate() {
                // SAFETY: the caller guarantees the instruction set.
                *sum = unsafe { sum.add_product(*lanes, S::F64x4::splat(b[3 * inner + column])) };
            }
        }
    }

    /// Subtracts `a b^T` from this block.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    pub unsafe fn subtract_product(&mut self, a: &Self, b: &[f64; BLOCK]) {
        for (column, sum) in self.0.iter_mut().enumerate() {
            for (inner, lanes) in a.0.iter().enumerate() {
                let factor = b[3 * inner + column];
                // SAFETY: the caller guarantees the instruction set.
                *sum = unsafe { sum.subtract_product(*lanes, S::F64x4::splat(factor)) };
            }
        }
    }

    /// Subtracts `a b^T` from this block.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    pub unsafe fn subtract_padded_product(&mut self, a: &PaddedBlock, b: &[f64; BLOCK]) {
        // SAFETY: the caller guarantees the instruction set.
        unsafe {
            let a = Self(a.0.each_ref().map(|column| S::F64x4::load(column.as_ptr())));
            self.subtract_product(&a, b);
        }
    }
}
