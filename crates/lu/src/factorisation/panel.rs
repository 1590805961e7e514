//! Factorisation of one panel by a group of threads. The columns are halved recursively, until leaves of a few columns
//! remain. In a leaf, one pass over a column finds the pivot, exchanges rows and eliminates.
//!
//! Every member of the group owns rows of the panel. A leaf has one barrier per column. Every member publishes the best
//! pivot candidate of its own rows, together with the candidate's row. The owner of the row on the diagonal publishes
//! that row. All members can then exchange and eliminate in their own rows, as the processes of HPL do. Between leaves,
//! the members divide the columns among themselves for exchanges and solves, and the rows for products.

use super::{LuShared, swaps};
use crate::leaf::{self, EliminationOperands, LargestValue};
use nodegauge_os::Barrier;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of columns of a leaf. Each pass over a leaf reads and writes all of its columns.
const LEAF: usize = 12;

/// Data that a member publishes for a column.
#[derive(Debug, Clone, Copy)]
#[repr(align(128))]
struct Slot {
    /// Best pivot candidate, with the row number in the matrix.
    best: LargestValue,
    /// Elements of the candidate's row, in the columns of the leaf.
    row: [f64; LEAF],
    /// Elements of the row on the diagonal; `None` if another member owns that row.
    top: Option<[f64; LEAF]>,
}

#[derive(Debug)]
pub(super) struct PanelGroup {
    pub barrier: Barrier,
    pub size: usize,
    /// Number of panels that have been applied to the block of the current panel.
    pub step: AtomicUsize,
    /// Two sets of slots, used alternately. A set is overwritten only after every member has read it and passed a
    /// barrier.
    slots: [Vec<UnsafeCell<Slot>>; 2],
}

// SAFETY: a member writes only one slot before a barrier, and all members read the slots after the barrier; see
// `slots`.
unsafe impl Sync for PanelGroup {}

impl PanelGroup {
    pub(super) fn new(size: usize) -> Self {
        let empty = Slot { best: (-1.0, 0), row: [0.0; LEAF], top: None };
        Self {
            barrier: Barrier::new(size),
            size,
            step: AtomicUsize::new(0),
            slots: [0, 1].map(|_| (0..size).map(|_| UnsafeCell::new(empty)).collect()),
        }
    }

    pub(super) fn wait(&self) {
        if self.size > 1 {
            self.barrier.wait();
        }
    }

    /// Returns the part of `range` that belongs to member `rank`; parts begin at multiples of `granule`.
    pub(super) fn member_range(
        &self,
        range: Range<usize>,
        rank: usize,
        granule: usize,
    ) -> Range<usize> {
        let units = range.len().div_ceil(granule);
        let [start, end] = [rank, rank + 1]
            .map(|bound| (range.start + units * bound / self.size * granule).min(range.end));
        start..end
    }
}

pub(super) struct NoPivot(pub usize);

/// Panel as one member of the panel group sees it.
pub(super) struct Panel<'a> {
    shared: &'a LuShared<'a>,
    rank: usize,
    rows: Range<usize>,
}

impl<'a> Panel<'a> {
    /// Returns the panel in block `block` for member `rank` of the panel group.
    pub(super) fn new(shared: &'a LuShared<'a>, block: usize, rank: usize) -> Self {
        let all = shared.columns(block).start..shared.view.n;
        // Members own whole cache lines, so that no two members write to one line.
        Self { shared, rank, rows: shared.group.member_range(all, rank, 8) }
    }

    /// Factors the columns; every member calls this.
    ///
    /// # Safety
    /// No thread outside the panel group may use the columns, from their first row on.
    pub(super) unsafe fn factor(&self, columns: Range<usize>) -> Result<(), NoPivot> {
        let width = columns.len();
        if width <= LEAF {
            // SAFETY: the caller meets the requirements of this function.
            return unsafe { self.leaf(columns) };
        }
        let LuShared { view, engine, group, pivots, .. } = self.shared;
        let first = columns.start;
        let last = columns.end;
        let middle = first + (width / 2).next_multiple_of(4).min(width - 1);
        // SAFETY: between barriers, members divide columns for exchanges and solves, and rows for products;
        // everything that is read was written before a barrier.
        unsafe {
            self.factor(first..middle)?;
            group.wait();
            self.shared.prepare(first..middle, group.member_range(middle..last, self.rank, 1));
            group.wait();
            engine.update(view.product(&self.below(middle), &(first..middle), &(middle..last)));
            self.factor(middle..last)?;
            group.wait();
            let mine = group.member_range(first..middle, self.rank, 1);
            swaps::apply(*view, pivots, middle..last, mine);
        }
        Ok(())
    }

    fn below(&self, row: usize) -> Range<usize> {
        self.rows.start.max(row).min(self.rows.end)..self.rows.end
    }

    /// Factors at most [`LEAF`] columns.
    ///
    /// # Safety
    /// The requirements of [`Panel::factor`] apply.
    unsafe fn leaf(&self, columns: Range<usize>) -> Result<(), NoPivot> {
        let LuShared { view, engine, group, pivots, .. } = self.shared;
        let first = columns.start;
        let last = columns.end;
        let width = last - first;
        let row_at = |i: usize| {
            let mut row = [0.0; LEAF];
            for (column, value) in row[..width].iter_mut().enumerate() {
                // SAFETY: the row belongs to this panel, and no other member writes the rows of this member.
                *value = unsafe { *view.at(i, first + column) };
            }
            row
        };
        let set_row = |i: usize, row: &[f64; LEAF]| {
            for (column, value) in row[..width].iter().enumerate() {
                // SAFETY: the row belongs to this member.
                unsafe { *view.at(i, first + column) = *value };
            }
        };
        let own = self.below(first);
        // SAFETY: this member's rows of the first column.
        let (value, at) =
            unsafe { leaf::find_largest(engine.isa, view.at(own.start, first), own.len()) };
        let mut best: LargestValue = (value, own.start + at);
        for j in columns {
            let slots = &self.shared.group.slots[(j - first) % 2];
            let slot = Slot {
                best,
                row: if best.0 >= 0.0 { row_at(best.1) } else { [0.0; LEAF] },
                top: self.rows.contains(&j).then(|| row_at(j)),
            };
            // SAFETY: only this member writes the slot, and other members read the slot only after the next barrier.
            unsafe { *slots[self.rank].get() = slot };
            group.wait();
            // SAFETY: all slots have been written, and are written again only two barriers later.
            let all = slots[..group.size].iter().map(|of_rank| unsafe { &*of_rank.get() });
            // If candidates are equal, the first one is chosen; rows are in the order of the ranks.
            let winner =
                all.clone().reduce(
                    |largest, other| {
                        if other.best.0 > largest.best.0 { other } else { largest }
                    },
                );
            let winner = winner.expect("a group has a member");
            let (magnitude, pivot_at) = winner.best;
            // This condition also rejects NaN.
            if magnitude <= 0.0 || !magnitude.is_finite() {
                return Err(NoPivot(j));
            }
            let pivot_row = winner.row;
            if self.rank == 0 {
                pivots[j].store(pivot_at as u32, Ordering::Relaxed);
            }
            if pivot_at != j {
                let top = all.clone().find_map(|of_rank| of_rank.top);
                if self.rows.contains(&j) {
                    set_row(j, &pivot_row);
                }
                if let (true, Some(top)) = (self.rows.contains(&pivot_at), top) {
                    set_row(pivot_at, &top);
                }
            }
            let pivot = pivot_row[j - first];
            let mut inverse = 1.0 / pivot;
            let trailing = self.below(j + 1);
            if !inverse.is_finite() {
                // The reciprocal of a very small pivot overflows, so the elements are divided by the pivot.
                for i in trailing.clone() {
                    // SAFETY: the row belongs to this member.
                    unsafe { *view.at(i, j) /= pivot };
                }
                inverse = 1.0;
            }
            // SAFETY: this member's rows of the leaf's columns; the pivot's row is a copy.
            let (next_value, next_at) = unsafe {
                let job = EliminationOperands {
                    x: view.at(trailing.start, j),
                    rest: view.at(trailing.start, j + 1),
                    ld: view.ld,
                    rows: trailing.len(),
                    columns: last - j - 1,
                    pivot_row: pivot_row[j + 1 - first..].as_ptr(),
                    inverse,
                };
                leaf::eliminate(engine.isa, job)
            };
            best = (next_value, trailing.start + next_at);
        }
        Ok(())
    }
}
