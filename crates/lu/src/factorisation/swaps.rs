//! Row exchanges within a range of columns. Each exchange accesses one cache line, and the lines are prefetched.

use crate::matrix::MatrixView;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of columns by which cache lines are prefetched ahead. The lines for the exchanges in a column (about 16
/// KiB) arrive while two other columns are processed.
const AHEAD: usize = 2;

/// Exchanges row i with row `pivots[i]` in `columns`, for all i in `rows`, in ascending order.
///
/// # Safety
/// No other thread may use those columns during the call.
pub(super) unsafe fn apply(
    view: MatrixView,
    pivots: &[AtomicU32],
    rows: Range<usize>,
    columns: Range<usize>,
) {
    // The pivots are read once, because they are the same for every column.
    let exchanges: Vec<(usize, usize)> = rows
        .map(|i| (i, pivots[i].load(Ordering::Relaxed) as usize))
        .filter(|(i, with)| i != with)
        .collect();
    for j in columns.clone() {
        if j + AHEAD < columns.end {
            for (i, with) in &exchanges {
                prefetch(view.at(*with, j + AHEAD));
                if i % 8 == 0 {
                    prefetch(view.at(*i, j + AHEAD));
                }
            }
        }
        for (i, with) in &exchanges {
            // SAFETY: both rows are in this column, which belongs to the caller.
            unsafe { std::ptr::swap(view.at(*i, j), view.at(*with, j)) };
        }
    }
}

#[inline(always)]
fn prefetch(address: *const f64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is allowed.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
