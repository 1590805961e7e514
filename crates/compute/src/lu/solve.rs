//! Back-substitution: U x = y, with y in the column of the right-hand side.

use super::LuShared;
use nodegauge_team::Member;
use std::ops::Range;

/// Columns of U that are taken off together, so that y is read and written seldom.
const COLUMNS: usize = 4;

/// Solves in blocks from the last: one member solves with the block's triangle, then all take the
/// block's columns off their rows of y.
pub(super) fn back_substitute(shared: &LuShared<'_>, member: &Member<'_>) {
    let view = shared.view;
    let n = view.n;
    for block in (0..shared.panels()).rev() {
        let Range { start: first, end: last } = shared.columns(block);
        if member.index == 0 {
            for j in (first..last).rev() {
                // SAFETY: rows of y in this block are this member's until the barrier; U is read.
                unsafe {
                    let x = *view.at(j, n) / *view.at(j, j);
                    *view.at(j, n) = x;
                    for i in first..j {
                        *view.at(i, n) -= *view.at(i, j) * x;
                    }
                }
            }
        }
        member.barrier();
        let lines = first.div_ceil(8);
        let bound = |i: usize| (lines * i / member.count * 8).min(first);
        // SAFETY: rows of y are shared out; x of this block and U are only read.
        unsafe { take_off(shared, bound(member.index)..bound(member.index + 1), first..last) };
        member.barrier();
    }
}

/// Subtracts the product of U and x in `columns` from y in `rows`.
///
/// # Safety
/// The rows of y must belong to the caller.
unsafe fn take_off(shared: &LuShared<'_>, rows: Range<usize>, columns: Range<usize>) {
    let (view, length) = (shared.view, rows.len());
    let n = view.n;
    // SAFETY: the caller's promise; columns of U are other memory than y.
    unsafe {
        let y = std::slice::from_raw_parts_mut(view.at(rows.start, n), length);
        let column = |j: usize| std::slice::from_raw_parts(view.at(rows.start, j), length);
        let mut j = columns.start;
        while j + COLUMNS <= columns.end {
            let u: [&[f64]; COLUMNS] = std::array::from_fn(|k| column(j + k));
            let x: [f64; COLUMNS] = std::array::from_fn(|k| *view.at(j + k, n));
            for (i, y) in y.iter_mut().enumerate() {
                *y -= u[0][i] * x[0] + u[1][i] * x[1] + u[2][i] * x[2] + u[3][i] * x[3];
            }
            j += COLUMNS;
        }
        for j in j..columns.end {
            let x = *view.at(j, n);
            for (y, u) in y.iter_mut().zip(column(j)) {
                *y -= u * x;
            }
        }
    }
}
