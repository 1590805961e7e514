//! Slices of block rows side by side (sliced ELL: M. Kreutzer et al., SIAM J. Sci. Comput. 36, 2014, without
//! sorting, which a mesh with rows of one length does not need).

use super::blocks::{BLOCK, Blocks};
use super::kernel::{self, LANES, Slices};
use crate::array::Array;
use crate::code::Code;
use nodegauge_measure::Failure;
use std::ops::Range;

/// The rows of a thread.
#[derive(Debug)]
pub(crate) struct Sliced {
    rows: Range<usize>,
    starts: Vec<usize>,
    columns: Array<u32>,
    values: Array<f64>,
}

impl Sliced {
    /// The rows of a thread, which calls this itself.
    ///
    /// # Errors
    /// When the kernel gives no memory.
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
                    // A place that a row does not have is a block of zeros in its first column.
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

    /// `y = A x` on the thread's rows.
    ///
    /// # Safety
    /// As for [`Blocks::multiply`].
    pub unsafe fn multiply(&self, code: Code, x: *const f64, y: *mut f64) {
        let slices = Slices {
            count: self.starts.len() - 1,
            first: self.rows.start,
            end: self.rows.end,
            starts: self.starts.as_ptr(),
            columns: self.columns.at(0),
            values: self.values.at(0),
        };
        // SAFETY: the slices are those of the rows; the rest is the caller's promise.
        unsafe { kernel::slices(code, &slices, x, y) }
    }

    /// Bytes that a product reads.
    pub fn bytes(&self) -> usize {
        self.columns.bytes() + self.values.bytes() + 8 * self.starts.len()
    }
}
