//! Slices of interleaved block rows (sliced ELL: M. Kreutzer et al., SIAM J. Sci. Comput. 36, 2014; the rows are not
//! sorted, because the rows of a mesh have nearly equal lengths).

use super::blocks::{BLOCK, Blocks};
use super::kernel::{self, LANES, Slices};
use crate::array::Array;
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

impl Sliced {
    /// Creates the slices for the rows of a thread; must be called by that thread, which touches the memory first.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn of(blocks: &Blocks, rows: Range<usize>) -> Result<Self, Failure> {
        let mut starts = vec![0];
        for slice in rows.clone().step_by(LANES) {
            let of_slice = slice..(slice + LANES).min(rows.end);
            let width = of_slice.map(|row| blocks.row(row).0.len()).max().unwrap_or(0);
            starts.push(starts[starts.len() - 1] + width);
        }
        let places = starts[starts.len() - 1];
        let mut columns = Array::map(places * LANES)?;
        let mut values = Array::map(places * LANES * BLOCK)?;
        for (slice, row) in rows.clone().step_by(LANES).enumerate() {
            for place in starts[slice]..starts[slice + 1] {
                for lane in 0..LANES {
                    // A missing block of a short row is stored as a block of zeros in the first column of the row.
                    let own = row + lane;
                    let (own_columns, own_blocks) =
                        if own < rows.end { blocks.row(own) } else { Default::default() };
                    let block = place - starts[slice];
                    let column = own_columns.get(block).or(own_columns.first()).copied();
                    let column = column.unwrap_or(0);
                    let value = own_blocks.get(block).copied().unwrap_or([0.0; BLOCK]);
                    columns[LANES * place + lane] = 3 * column;
                    for (element, component) in value.into_iter().enumerate() {
                        values[LANES * (BLOCK * place + element) + lane] = component;
                    }
                }
            }
        }
        Ok(Self { rows, starts, columns, values })
    }

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
