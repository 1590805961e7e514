//! Slices of interleaved block rows (sliced ELL: M. Kreutzer et al., SIAM J. Sci. Comput. 36, 2014; the rows are not
//! sorted, because the rows of a mesh have nearly equal lengths).

use super::blocks::{BLOCK, BlockRow};
use super::kernel::{self, LANES, Slices};
use crate::array::{MappedArray, SharedArray};
use crate::code::{LoopCode, compiled};
use nodegauge_kernels::isa::InstructionSet;
use nodegauge_kernels::{NUMBERS_PER_LINE, store_line_nontemporal};
use nodegauge_measure::Failure;
use std::ops::Range;

/// Checks that one element of the blocks of all rows in a slice fills a cache line.
const _: () = assert!(LANES == NUMBERS_PER_LINE);

/// Matrix rows of a thread, in sliced ELL.
#[derive(Debug)]
pub(crate) struct SlicedRows {
    rows: Range<usize>,
    starts: Vec<usize>,
    columns: MappedArray<u32>,
    values: MappedArray<f64>,
}

/// [`SlicedRows`] before they are filled.
#[derive(Debug)]
pub(crate) struct EmptySlices {
    rows: Range<usize>,
    starts: Vec<usize>,
    columns: SharedArray<u32>,
    values: SharedArray<f64>,
}

impl EmptySlices {
    /// Maps memory for the rows of a thread; no memory is touched. `length_of` returns the number of blocks of a
    /// row.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn allocate(
        rows: Range<usize>,
        length_of: impl Fn(usize) -> usize,
    ) -> Result<Self, Failure> {
        let mut starts = Vec::with_capacity(rows.len().div_ceil(LANES) + 1);
        let mut places = 0;
        starts.push(0);
        for slice in rows.clone().step_by(LANES) {
            let of_slice = slice..(slice + LANES).min(rows.end);
            places += of_slice.map(&length_of).max().unwrap_or(0);
            starts.push(places);
        }
        let columns = SharedArray::allocate(places * LANES)?;
        let values = SharedArray::allocate(places * LANES * BLOCK)?;
        Ok(Self { rows, starts, columns, values })
    }

    /// Writes zero to each page. It must be called by the thread that owns the rows, so that this thread touches
    /// the memory first.
    ///
    /// # Safety
    /// No other code uses the slices during the call.
    pub unsafe fn touch(&self) {
        // SAFETY: the caller meets the requirements of these functions.
        unsafe {
            self.columns.touch(0..self.columns.len());
            self.values.touch(0..self.values.len());
        }
    }

    /// Returns the rows of a slice.
    pub fn slice_rows(&self, slice: usize) -> Range<usize> {
        let first = self.rows.start + LANES * slice;
        first..self.rows.end.min(first + LANES)
    }

    /// Returns the number of slices.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Copies the rows of a slice with non-temporal stores. It must be called by the thread that owns the rows. Rows
    /// after the last row of the thread are empty.
    ///
    /// # Safety
    /// No other code uses the slice during the call.
    pub unsafe fn fill(&self, code: LoopCode, slice: usize, rows: &[BlockRow<'_>; LANES]) {
        // SAFETY: the caller meets the requirements of this function; the processor has the instruction set.
        unsafe { fill(code, self, slice, rows) };
    }

    /// Converts to [`SlicedRows`] after the slices were filled.
    pub fn into_sliced(self) -> SlicedRows {
        let Self { rows, starts, columns, values } = self;
        SlicedRows { rows, starts, columns: columns.into_array(), values: values.into_array() }
    }
}

compiled! {
    /// Copies rows into a slice.
    ///
    /// # Safety
    /// The processor must support the instruction set, and no other code may use the slice during the call.
    fill = fill_body(slices: &EmptySlices, slice: usize, rows: &[BlockRow<'_>; LANES])
}

/// Body of [`fill`].
///
/// # Safety
/// The requirements of [`fill`] apply.
#[inline(always)]
unsafe fn fill_body<S: InstructionSet, const ASK: bool>(
    slices: &EmptySlices,
    slice: usize,
    rows: &[BlockRow<'_>; LANES],
) {
    let EmptySlices { starts, columns, values, .. } = slices;
    // A missing block of a short row is stored as a block of zeros in the first column of the row.
    let spare = rows.map(|row| row.columns.first().copied().unwrap_or(0));
    for (number, place) in (starts[slice]..starts[slice + 1]).enumerate() {
        // SAFETY: the caller guarantees that no other code uses the slice.
        let of_place = unsafe { columns.slice_mut(LANES * place..LANES * (place + 1)) };
        for (lane, column) in of_place.iter_mut().enumerate() {
            *column = 3 * rows[lane].columns.get(number).copied().unwrap_or(spare[lane]);
        }
        let blocks: [&[f64; BLOCK]; LANES] =
            std::array::from_fn(|lane| rows[lane].blocks.get(number).unwrap_or(&[0.0; BLOCK]));
        for element in 0..BLOCK {
            let line = std::array::from_fn(|lane| blocks[lane][element]);
            let to = values.at(LANES * (BLOCK * place + element));
            // SAFETY: the line exists, and begins at a cache line, because the array does.
            unsafe { store_line_nontemporal::<S>(to, &line) };
        }
    }
}

impl SlicedRows {
    /// Computes `y = A x` on the rows of the thread.
    ///
    /// # Safety
    /// The requirements of [`super::blocks::Blocks::multiply`] apply.
    pub unsafe fn multiply(&self, code: LoopCode, x: *const f64, y: *mut f64) {
        let slices = Slices {
            count: self.starts.len() - 1,
            first: self.rows.start,
            end: self.rows.end,
            starts: self.starts.as_ptr(),
            columns: self.columns.at(0),
            values: self.values.at(0),
        };
        // SAFETY: the slices contain exactly the rows of the thread; the caller guarantees the remaining requirements.
        unsafe { kernel::slices(code, &slices, x, y) }
    }

    /// Returns the bytes that a product reads.
    pub fn bytes(&self) -> usize {
        self.columns.bytes() + self.values.bytes() + 8 * self.starts.len()
    }
}
