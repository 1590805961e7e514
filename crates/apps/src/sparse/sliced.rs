//! Slices of interleaved block rows (sliced ELL: M. Kreutzer et al., SIAM J. Sci. Comput. 36, 2014; the rows are not
//! sorted, because the rows of a mesh have nearly equal lengths).

use super::blocks::{BLOCK, Blocks};
use super::kernel::{self, LANES, Slices};
use crate::array::{Array, SharedArray};
use crate::code::Code;
use nodegauge_measure::Failure;
use std::ops::Range;

/// Matrix rows of a thread in sliced ELL.
#[derive(Debug)]
pub(crate) struct Sliced {
    rows: Range<usize>,
    starts: Vec<usize>,
    columns: Array<u32>,
    values: Array<f64>,
}

/// [`Sliced`] before it is filled.
#[derive(Debug)]
pub(crate) struct EmptySlices {
    rows: Range<usize>,
    starts: Vec<usize>,
    columns: SharedArray<u32>,
    values: SharedArray<f64>,
}

impl EmptySlices {
    /// Maps memory for the rows of a thread; the memory is not touched.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn map(blocks: &Blocks, rows: Range<usize>) -> Result<Self, Failure> {
        let mut starts = vec![0];
        for slice in rows.clone().step_by(LANES) {
            let of_slice = slice..(slice + LANES).min(rows.end);
            let width = of_slice.map(|row| blocks.row(row).0.len()).max().unwrap_or(0);
            starts.push(starts[starts.len() - 1] + width);
        }
        let places = starts[starts.len() - 1];
        let columns = SharedArray::map(places * LANES)?;
        let values = SharedArray::map(places * LANES * BLOCK)?;
        Ok(Self { rows, starts, columns, values })
    }

    /// Writes zero to each page; must be called by the thread of the rows, which touches the memory first.
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

    /// Copies the blocks; must be called by the thread of the rows.
    ///
    /// # Safety
    /// No other code uses the slices during the call.
    pub unsafe fn fill(&self, blocks: &Blocks) {
        // SAFETY: the caller meets the requirements of these functions.
        let (columns, values) = unsafe {
            (
                self.columns.part_mut(0..self.columns.len()),
                self.values.part_mut(0..self.values.len()),
            )
        };
        for (slice, first) in self.rows.clone().step_by(LANES).enumerate() {
            let places = self.starts[slice]..self.starts[slice + 1];
            for lane in 0..LANES {
                let row = first + lane;
                let (own_columns, own_blocks) =
                    if row < self.rows.end { blocks.row(row) } else { Default::default() };
                // A missing block of a short row is stored as a block of zeros in the first column of the row.
                let spare = own_columns.first().copied().unwrap_or(0);
                for (block, place) in places.clone().enumerate() {
                    let column = own_columns.get(block).copied().unwrap_or(spare);
                    columns[LANES * place + lane] = 3 * column;
                    let value = own_blocks.get(block).unwrap_or(&[0.0; BLOCK]);
                    let of_place = &mut values[LANES * BLOCK * place..][..LANES * BLOCK];
                    for (element, component) in value.iter().enumerate() {
                        of_place[LANES * element + lane] = *component;
                    }
                }
            }
        }
    }

    /// Converts to [`Sliced`] after the slices were filled.
    pub fn into_sliced(self) -> Sliced {
        let Self { rows, starts, columns, values } = self;
        Sliced { rows, starts, columns: columns.into_array(), values: values.into_array() }
    }
}

impl Sliced {
    /// Computes `y = A x` on the rows of the thread.
    ///
    /// # Safety
    /// The requirements are those of [`Blocks::multiply`].
    pub unsafe fn multiply(&self, code: Code, x: *const f64, y: *mut f64) {
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
