//! One panel, factored by a group of threads: recursively by halves of its columns, down to leaves
//! of a few, where each column is searched, exchanged and eliminated in one pass.
//!
//! A member owns rows of the panel. In a leaf there is one barrier a column: with its best
//! candidate each publishes the candidate's row, and whoever owns the diagonal's row publishes that,
//! so that each can exchange and eliminate in its own rows (as HPL's panels do across
//! processes). Between leaves, columns are shared out for exchanges and solves, rows for products.

use super::{LuShared, swaps};
use crate::leaf::{self, Elimination, Largest};
use nodegauge_os::Barrier;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Columns of a leaf at most: each of its passes reads and writes at most so many columns.
const LEAF: usize = 12;

/// What a member publishes for a column.
#[derive(Debug, Clone, Copy)]
#[repr(align(128))]
struct Slot {
    /// Its best candidate, and the row in the matrix.
    best: Largest,
    /// That row in the leaf's columns.
    row: [f64; LEAF],
    /// The diagonal's row, if it owns that.
    top: Option<[f64; LEAF]>,
}

#[derive(Debug)]
pub(super) struct PanelGroup {
    pub barrier: Barrier,
    pub size: usize,
    /// Panels that the block of the panel under way already has.
    pub step: AtomicUsize,
    /// Two sets, used by turns: a set is written again only after every member has passed the barrier
    /// behind its reading.
    slots: [Vec<UnsafeCell<Slot>>; 2],
}

// SAFETY: a member writes its own slot before a barrier, and all read behind it; see `slots`.
unsafe impl Sync for PanelGroup {}

impl PanelGroup {
    pub(super) fn new(size: usize) -> Self {
        let empty = Slot { best: (-1.0, 0), row: [0.0; LEAF], top: None };
        let slots = || (0..size).map(|_| UnsafeCell::new(empty)).collect();
        Self {
            barrier: Barrier::new(size),
            size,
            step: AtomicUsize::new(0),
            slots: [slots(), slots()],
        }
    }

    pub(super) fn wait(&self) {
        if self.size > 1 {
            self.barrier.wait();
        }
    }

    /// Part `rank` of `range`, in steps of `granule`.
    pub(super) fn part(&self, range: Range<usize>, rank: usize, granule: usize) -> Range<usize> {
        let units = range.len().div_ceil(granule);
        let bound = |i: usize| (range.start + units * i / self.size * granule).min(range.end);
        bound(rank)..bound(rank + 1)
    }
}

pub(super) struct NoPivot(pub usize);

/// A member's view of one panel.
pub(super) struct Panel<'a> {
    shared: &'a LuShared<'a>,
    rank: usize,
    rows: Range<usize>,
}

impl<'a> Panel<'a> {
    /// The panel of block `block`, for member `rank` of the panel group.
    pub(super) fn of(shared: &'a LuShared<'a>, block: usize, rank: usize) -> Self {
        let all = shared.columns(block).start..shared.view.n;
        // Whole lines, so that no two members write to one.
        Self { shared, rank, rows: shared.group.part(all, rank, 8) }
    }

    /// Factors the columns; every member calls this.
    ///
    /// # Safety
    /// The columns must belong to the panel group from their first row on.
    pub(super) unsafe fn factor(&self, columns: Range<usize>) -> Result<(), NoPivot> {
        let width = columns.len();
        if width <= LEAF {
            // SAFETY: the caller's promise.
            return unsafe { self.leaf(columns) };
        }
        let LuShared { view, engine, group, pivots, .. } = self.shared;
        let (first, last) = (columns.start, columns.end);
        let middle = first + (width / 2).next_multiple_of(4).min(width - 1);
        // SAFETY: between barriers, columns are shared out for exchanges and solves and rows for
        // products, and everything read was written before a barrier.
        unsafe {
            self.factor(first..middle)?;
            group.wait();
            self.shared.prepare(first..middle, group.part(middle..last, self.rank, 1));
            group.wait();
            engine.update(view.product(&self.below(middle), &(first..middle), &(middle..last)));
            self.factor(middle..last)?;
            group.wait();
            let mine = group.part(first..middle, self.rank, 1);
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
    /// As for [`Panel::factor`].
    unsafe fn leaf(&self, columns: Range<usize>) -> Result<(), NoPivot> {
        let LuShared { view, engine, group, pivots, .. } = self.shared;
        let (first, last) = (columns.start, columns.end);
        let width = last - first;
        let row_at = |i: usize| {
            let mut row = [0.0; LEAF];
            for (column, value) in row[..width].iter_mut().enumerate() {
                // SAFETY: a row of this panel; nobody writes own rows of others.
                *value = unsafe { *view.at(i, first + column) };
            }
            row
        };
        let set_row = |i: usize, row: &[f64; LEAF]| {
            for (column, value) in row[..width].iter().enumerate() {
                // SAFETY: an own row.
                unsafe { *view.at(i, first + column) = *value };
            }
        };
        let own = self.below(first);
        // SAFETY: own rows of the first column.
        let (value, at) =
            unsafe { leaf::largest(engine.isa, view.at(own.start, first), own.len()) };
        let mut best: Largest = (value, own.start + at);
        for j in columns {
            let slots = &self.shared.group.slots[(j - first) % 2];
            let owns = |row: usize| self.rows.contains(&row);
            let slot = Slot {
                best,
                row: if best.0 >= 0.0 { row_at(best.1) } else { [0.0; LEAF] },
                top: owns(j).then(|| row_at(j)),
            };
            // SAFETY: the own slot, before the barrier behind which others read it.
            unsafe { *slots[self.rank].get() = slot };
            group.wait();
            // SAFETY: all are written, and written again only two barriers from here.
            let read = |rank: usize| unsafe { &*slots[rank].get() };
            // The first of equals: rows are in order of ranks.
            let winner = (0..group.size)
                .map(read)
                .fold(read(0), |best, slot| if slot.best.0 > best.best.0 { slot } else { best });
            let (value, pivot_at) = winner.best;
            // Also when the value is no number.
            if value <= 0.0 || !value.is_finite() {
                return Err(NoPivot(j));
            }
            let pivot_row = winner.row;
            if self.rank == 0 {
                pivots[j].store(pivot_at as u32, Ordering::Relaxed);
            }
            if pivot_at != j {
                let top = (0..group.size).find_map(|rank| read(rank).top);
                if owns(j) {
                    set_row(j, &pivot_row);
                }
                if let (true, Some(top)) = (owns(pivot_at), top) {
                    set_row(pivot_at, &top);
                }
            }
            let pivot = pivot_row[j - first];
            let mut inverse = 1.0 / pivot;
            let own = self.below(j + 1);
            if !inverse.is_finite() {
                // A pivot so small that its inverse overflows: divide instead.
                for i in own.clone() {
                    // SAFETY: an own row.
                    unsafe { *view.at(i, j) /= pivot };
                }
                inverse = 1.0;
            }
            // SAFETY: own rows of this leaf's columns; the pivot's row is a copy.
            let (value, at) = unsafe {
                let job = Elimination {
                    x: view.at(own.start, j),
                    rest: view.at(own.start, j + 1),
                    ld: view.ld,
                    rows: own.len(),
                    columns: last - j - 1,
                    pivot_row: pivot_row[j + 1 - first..].as_ptr(),
                    inverse,
                };
                leaf::eliminate(engine.isa, job)
            };
            best = (value, own.start + at);
        }
        Ok(())
    }
}
