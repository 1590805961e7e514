//! Back-substitution: solves U x = y; y is the column of the right-hand side.

use super::LuShared;
use nodegauge_team::Member;
use std::ops::Range;

/// Solves block by block, from the last to the first. One member solves the triangle of the block; then every
/// member subtracts the columns of the block from its part of y.
pub(super) fn back_substitute(shared: &LuShared<'_>, member: &Member<'_>) {
    let view = shared.view;
    let n = view.n;
    for block in (0..shared.panels()).rev() {
        let Range { start: first, end: last } = shared.columns(block);
        if member.index == 0 {
            for j in (first..last).rev() {
                // SAFETY: only this member uses the rows of y in this block until the barrier; U is only read.
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
        let [start, end] = [member.index, member.index + 1]
            .map(|member_index| (lines * member_index / member.count * 8).min(first));
        let rows = start..end;
        // SAFETY: the members use different rows of y; x of this block and U are only read.
        unsafe {
            let y = std::slice::from_raw_parts_mut(view.at(rows.start, n), rows.len());
            for j in first..last {
                let u = std::slice::from_raw_parts(view.at(rows.start, j), rows.len());
                let x = *view.at(j, n);
                for (of_y, of_u) in y.iter_mut().zip(u) {
                    *of_y -= of_u * x;
                }
            }
        }
        member.barrier();
    }
}
