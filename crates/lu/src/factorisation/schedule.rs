//! Schedule of the factorisation: panels first, then the columns that are furthest behind.
//!
//! A block has as many columns as a panel; the step of a block is the number of panels that have been applied to the
//! block. The panel group takes the next panel as soon as the following columns are not too far behind. It applies the
//! missing panels to the block of that panel, and then factors the block. All other threads, and the panel group
//! between panels, update neighbouring blocks of equal step together, because a product of many columns copies less
//! data per operation. If there are fewer such ranges of blocks than threads, the rows of a product are divided into
//! pieces for several threads. With several NUMA nodes, a thread prefers columns on its own NUMA node, but takes
//! columns of others before it waits.

use super::LuShared;
use super::panel::{NoPivot, Panel};
use crate::distribution::ColumnDistribution;
use nodegauge_os::Spin;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of columns that are updated together. A product of this width performs about a thousand
/// operations per copied element of A; therefore copying takes less than one per cent of the time.
pub const MAX_UPDATE_COLUMNS: usize = 1024;
/// Minimum number of rows in a piece of a product. With fewer rows, copying B would take a considerable part of the
/// time.
const MIN_ROWS: usize = 512;
/// Maximum number of panels that may be missing in a block when the next panel is factored. With one, panels wait
/// for the slowest thread. With more than two, the products that update the block of the panel become narrow.
const DEPTH: usize = 2;
/// Number of times that a waiting thread checks for new work before it yields the CPU.
const SPINS_BEFORE_YIELD: u32 = 2_000;
/// Maximum time for which a waiting thread yields the CPU; then it sleeps. A piece of work takes much less time, unless
/// threads share CPUs or other programs run.
const YIELD_TIME: Duration = Duration::from_millis(100);

/// Update of neighbouring blocks with one panel, identified by the first block.
#[derive(Debug)]
struct Update {
    blocks: Range<usize>,
    step: usize,
    /// Rows that no thread has taken yet; empty during the row exchanges and the triangular solve.
    rows: Range<usize>,
    piece: usize,
    outstanding: usize,
}

#[derive(Debug)]
struct State {
    /// Number of panels that have been applied to every block.
    steps: Vec<usize>,
    /// True for each block on which a thread is working.
    claimed: Vec<bool>,
    updates: Vec<Update>,
}

#[derive(Debug)]
pub(super) struct LuSchedule {
    state: Mutex<State>,
    /// Number of changes of the schedule. After each change, waiting threads look for work.
    version: AtomicU64,
    factored: AtomicUsize,
    /// Number of panels for which the panel group has been called.
    called: AtomicUsize,
    nb: usize,
    threads: usize,
    distribution: ColumnDistribution,
}

/// Value of `called` after the panel group was dismissed.
const DISMISSED: usize = usize::MAX;

struct Work {
    blocks: Range<usize>,
    step: usize,
    /// Rows of a piece of the product; `None` for the row exchanges and the triangular solve before the product.
    rows: Option<Range<usize>>,
}

/// Times that a thread spent in panels and in waiting, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeBreakdown {
    pub panels: f64,
    pub waiting: f64,
    /// Time for which the thread slept, seconds; a part of the waiting time.
    pub slept: f64,
}

impl LuSchedule {
    pub(super) fn new(
        blocks: usize,
        nb: usize,
        threads: usize,
        distribution: ColumnDistribution,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                steps: vec![0; blocks],
                claimed: vec![false; blocks],
                updates: Vec::new(),
            }),
            version: AtomicU64::new(0),
            factored: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            nb,
            threads,
            distribution,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the panel group to the next panel, unless the group has been dismissed.
    fn call(&self) {
        let _ = self.called.try_update(Ordering::AcqRel, Ordering::Acquire, |called| {
            (called != DISMISSED).then(|| called + 1)
        });
    }

    /// Dismisses the panel group after a member has failed.
    pub(super) fn abandon(&self) {
        self.called.store(DISMISSED, Ordering::Release);
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Claims the block of the next panel for the panel group, and returns the step of the block. Returns `None` if
    /// other blocks are too far behind.
    fn claim_panel(&self) -> Option<usize> {
        let next = self.factored.load(Ordering::Acquire);
        let mut state = self.lock();
        let behind = state.steps.iter().skip(next).min()?;
        if state.claimed[next] || behind + DEPTH < next {
            return None;
        }
        state.claimed[next] = true;
        Some(state.steps[next])
    }

    fn block_node(&self, block: usize) -> usize {
        self.distribution.column_numa_node(block * self.nb)
    }

    /// Takes and returns the next work of a thread for a system of order `n`; returns `None` if there is none at the
    /// moment.
    fn take(&self, n: usize, thread: usize) -> Option<Work> {
        let own = self.distribution.thread_numa_node(thread);
        let mut state = self.lock();
        self.take_wanted(&mut state, n, &|block| self.block_node(block) == own)
            .or_else(|| self.take_wanted(&mut state, n, &|_| true))
    }

    /// Takes and returns the next work in blocks for which `wanted` returns true: a piece of an update in progress,
    /// otherwise an update of the blocks that are furthest behind.
    fn take_wanted(
        &self,
        state: &mut State,
        n: usize,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Option<Work> {
        let factored = self.factored.load(Ordering::Acquire);
        for update in &mut state.updates {
            if !update.rows.is_empty() && wanted(update.blocks.start) {
                return Some(update.take_piece());
            }
        }
        let State { steps, claimed, updates } = state;
        // For the block of the next panel, the panel group applies the last panel.
        let may = |block: usize| {
            let ready =
                if block == factored { factored.saturating_sub(1) } else { factored.min(block) };
            !claimed[block] && steps[block] < ready
        };
        let all = || (0..steps.len()).filter(|block| may(*block) && wanted(*block));
        let open = all().count();
        let first = all().min_by_key(|block| steps[*block])?;
        let step = steps[first];
        let node = self.block_node(first);
        let threads = self.distribution.threads_on(node, self.threads);
        let widest = (MAX_UPDATE_COLUMNS / self.nb).max(1).min(open.div_ceil(threads));
        let last = (first..steps.len())
            .take(widest)
            .take_while(|block| {
                may(*block) && steps[*block] == step && self.block_node(*block) == node
            })
            .last()?
            + 1;
        claimed[first..last].fill(true);
        // Number of ranges of blocks that can be updated simultaneously. There should be two pieces of work per thread.
        let ranges = open.div_ceil(widest);
        let pieces = (2 * threads).div_ceil(ranges);
        let rows = n.saturating_sub((step + 1) * self.nb);
        let piece = rows.div_ceil(pieces).next_multiple_of(64).max(MIN_ROWS);
        let blocks = first..last;
        updates.push(Update { blocks: blocks.clone(), step, rows: 0..0, piece, outstanding: 0 });
        Some(Work { blocks, step, rows: None })
    }

    /// Makes the rows of the product available to all threads, after the row exchanges and the triangular solve of
    /// the update that begins at `block`. Returns a piece of the product for the caller.
    fn open(&self, block: usize, rows: Range<usize>) -> Option<Work> {
        let mut state = self.lock();
        let update = state.updates.iter_mut().find(|update| update.blocks.start == block)?;
        update.rows = rows;
        let piece = update.take_piece();
        let more = !update.rows.is_empty();
        drop(state);
        if more {
            self.changed();
        }
        Some(piece)
    }

    /// Marks a piece as completed; returns the next piece of the same update, if there is one.
    fn finish_piece(&self, block: usize) -> Option<Work> {
        let mut state = self.lock();
        let at = state.updates.iter().position(|update| update.blocks.start == block)?;
        let update = &mut state.updates[at];
        update.outstanding -= 1;
        if !update.rows.is_empty() {
            return Some(update.take_piece());
        }
        if update.outstanding == 0 {
            let Update { blocks, step, .. } = state.updates.swap_remove(at);
            for freed in blocks {
                state.steps[freed] = step + 1;
                state.claimed[freed] = false;
            }
            drop(state);
            self.changed();
        }
        None
    }

    fn publish(&self, panel: usize) {
        let mut state = self.lock();
        // The block of a factored panel needs no more panels, so its step becomes the maximum.
        state.steps[panel] = usize::MAX - DEPTH;
        drop(state);
        self.factored.store(panel + 1, Ordering::Release);
        self.changed();
    }
}

impl Update {
    fn take_piece(&mut self) -> Work {
        // A remainder of less than half a piece is added to this piece.
        let length = self.rows.len();
        let taken = if length < self.piece + self.piece / 2 { length } else { self.piece };
        let rows = Some(self.rows.start..self.rows.start + taken);
        self.rows.start += taken;
        self.outstanding += 1;
        Work { blocks: self.blocks.clone(), step: self.step, rows }
    }
}

/// Runs one thread's part of a factorisation.
pub(super) fn work(shared: &LuShared<'_>, index: usize) -> TimeBreakdown {
    let schedule = &shared.schedule;
    let mut spent = TimeBreakdown::default();
    let mut joined = 0;
    loop {
        let called = schedule.called.load(Ordering::Acquire);
        let over = shared.stopped() || schedule.factored.load(Ordering::Acquire) == shared.panels();
        if called == DISMISSED || (over && (index == 0 || index >= shared.group.size)) {
            break;
        }
        let version = schedule.version.load(Ordering::Acquire);
        let start = Instant::now();
        if index == 0
            && let Some(step) = schedule.claim_panel()
        {
            // The step of the block is stored before the call; the panel group reads the step after the first barrier.
            shared.group.step.store(step, Ordering::Relaxed);
            schedule.call();
        }
        let panels_called = schedule.called.load(Ordering::Acquire);
        if index < shared.group.size && panels_called > joined && panels_called != DISMISSED {
            shared.group.wait();
            panel(shared, joined, index);
            joined += 1;
            spent.panels += start.elapsed().as_secs_f64();
            continue;
        }
        let Some(mut work) = schedule.take(shared.view.n, index) else {
            spent.slept += wait_for_change(shared, version, index, joined);
            spent.waiting += start.elapsed().as_secs_f64();
            continue;
        };
        while let Some(next) = carry_out(shared, work) {
            work = next;
        }
    }
    if index == 0 {
        // The panel group is dismissed when the first member leaves, so that no thread waits in a panel for a member
        // that has left.
        schedule.called.store(DISMISSED, Ordering::Release);
    }
    spent
}

/// Waits until the schedule changes; returns the seconds for which the thread slept.
fn wait_for_change(shared: &LuShared<'_>, version: u64, index: usize, joined: usize) -> f64 {
    let schedule = &shared.schedule;
    let mut spin = Spin::new(SPINS_BEFORE_YIELD);
    let mut slept = 0.0;
    while schedule.version.load(Ordering::Acquire) == version {
        let is_over = shared.stopped() && (index == 0 || index >= shared.group.size);
        let is_called =
            index < shared.group.size && schedule.called.load(Ordering::Acquire) > joined;
        if is_over || is_called {
            break;
        }
        slept += spin.pause_or_sleep(YIELD_TIME, || {}).as_secs_f64();
    }
    slept
}

/// Runs the part of panel-group member `rank` in panel `number`.
fn panel(shared: &LuShared<'_>, number: usize, rank: usize) {
    let LuShared { view, group, .. } = shared;
    let columns = shared.columns(number);
    let with_rhs = shared.with_rhs(&(number..number + 1));
    for step in group.step.load(Ordering::Relaxed)..number {
        let depth = shared.columns(step);
        group.wait();
        // SAFETY: the panel group has claimed the block. The members divide the columns of the block and, after a
        // barrier, the rows. The panel of that step is finished and is only read.
        unsafe {
            shared.prepare(depth.clone(), group.member_range(with_rhs.clone(), rank, 1));
            group.wait();
            let rows = group.member_range(depth.end..view.n, rank, 8);
            shared.engine.update(view.product(&rows, &depth, &with_rhs));
        }
        if rank == 0 {
            count(shared, view.n - depth.end, with_rhs.len(), depth.len());
        }
    }
    group.wait();
    // SAFETY: as above.
    let factored = unsafe { Panel::new(shared, number, rank).factor(columns.clone()) };
    group.wait();
    if rank != 0 {
        return;
    }
    match factored {
        Err(NoPivot(column)) => shared.singular.store(column + 1, Ordering::Relaxed),
        Ok(()) => {
            if with_rhs.end > columns.end {
                // SAFETY: the right-hand side belongs to this block.
                unsafe { shared.prepare(columns.clone(), columns.end..with_rhs.end) };
            }
            let m = (view.n - columns.start) as f64;
            let w = columns.len() as f64;
            shared.progress.flops.fetch_add((w * w * (m - w / 3.0)) as u64, Ordering::Relaxed);
            shared.schedule.publish(number);
        }
    }
}

/// Performs one item of work; returns the item that must follow directly, if there is one.
fn carry_out(shared: &LuShared<'_>, work: Work) -> Option<Work> {
    let LuShared { view, engine, schedule, .. } = shared;
    let Work { blocks, step, rows } = work;
    let depth = shared.columns(step);
    let columns = shared.with_rhs(&blocks);
    let Some(rows) = rows else {
        // SAFETY: this update has claimed the blocks, and no other thread can take rows of the update yet.
        unsafe { shared.prepare(depth.clone(), columns) };
        return schedule.open(blocks.start, depth.end..view.n);
    };
    // SAFETY: only this thread has taken these rows of the update's blocks; the solved rows above and the panel
    // are only read.
    unsafe { engine.update(view.product(&rows, &depth, &columns)) };
    count(shared, rows.len(), columns.len(), depth.len());
    schedule.finish_piece(blocks.start)
}

/// Adds the operations of a product to the progress, and the corresponding operations of the triangular solve.
fn count(shared: &LuShared<'_>, rows: usize, columns: usize, depth: usize) {
    let flops = 2 * rows as u64 * columns as u64 * depth as u64;
    shared.progress.flops.fetch_add(flops, Ordering::Relaxed);
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_schedule_does_not_call_the_panel_group() {
        let schedule = LuSchedule::new(4, 8, 2, ColumnDistribution::single_numa_node());
        schedule.call();
        assert_eq!(schedule.called.load(Ordering::Relaxed), 1);
        schedule.abandon();
        schedule.call();
        assert_eq!(schedule.called.load(Ordering::Relaxed), DISMISSED);
    }
}
