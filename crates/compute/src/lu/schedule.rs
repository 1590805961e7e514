//! Who does what next: panels before everything, then the columns that are furthest behind.
//!
//! A block is as many columns as a panel; its step is how many panels have been applied to it. The
//! panel group takes the next panel as soon as the columns behind are not too far behind, applies the
//! panels that its block still lacks, and factors it; every other thread, and the panel group in
//! between, brings neighbouring blocks of equal step up to date together, since a product of many
//! columns copies less for each operation. When there are fewer such ranges than threads, their rows
//! are cut too. On several NUMA nodes a thread prefers columns that lie on its own, and takes others'
//! before it waits.

use super::LuShared;
use super::panel::{NoPivot, Panel};
use crate::homes::Homes;
use nodegauge_os::Spin;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Columns that are updated together at most: a product of so many copies its A once for some
/// thousand operations an element, which is below a per cent.
pub const WIDEST: usize = 1024;
/// Rows that a cut product has at least, for the same reason on the other side.
const LEAST_ROWS: usize = 512;
/// A panel may be factored while blocks lack at most so many of those before it: one makes panels
/// wait for the slowest, and more than two narrows the products that bring the panel's block up.
const DEPTH: usize = 2;
/// Looks at the state's version before the CPU is offered to others.
const SPINS_BEFORE_YIELD: u32 = 2_000;

/// Neighbouring blocks that are brought one step further; the first tells it from others.
#[derive(Debug)]
struct Update {
    blocks: Range<usize>,
    step: usize,
    /// Rows that no thread has taken yet; empty while exchanges and solve go on.
    rows: Range<usize>,
    piece: usize,
    outstanding: usize,
}

#[derive(Debug)]
struct State {
    /// Panels applied to each block.
    steps: Vec<usize>,
    /// Blocks that a thread works on.
    claimed: Vec<bool>,
    updates: Vec<Update>,
}

#[derive(Debug)]
pub(super) struct LuSchedule {
    state: Mutex<State>,
    /// Rises with every change that may give a waiting thread work.
    version: AtomicU64,
    factored: AtomicUsize,
    /// Panels that the panel group was called to.
    called: AtomicUsize,
    nb: usize,
    threads: usize,
    homes: Homes,
}

/// Instead of a number of panels: the panel group's first member has left.
const OVER: usize = usize::MAX;

struct Work {
    blocks: Range<usize>,
    step: usize,
    /// A piece of a product; `None` for exchanges and solve of a new update, then pieces of its product.
    rows: Option<Range<usize>>,
}

/// How a thread spent its time, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub panels: f64,
    pub waiting: f64,
    /// Of the waiting, what was slept.
    pub slept: f64,
}

impl LuSchedule {
    pub(super) fn new(blocks: usize, nb: usize, threads: usize, homes: Homes) -> Self {
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
            homes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the panel group to the next panel, unless it was sent away.
    fn call(&self) {
        let next = |called| (called != OVER).then(|| called + 1);
        let _ = self.called.try_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Sends the panel group away: a member has failed.
    pub(super) fn abandon(&self) {
        self.called.store(OVER, Ordering::Release);
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Claims the next panel's block for the panel group, if it is time; its step.
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

    fn home(&self, block: usize) -> usize {
        self.homes.of_column(block * self.nb)
    }

    /// The next thing to do for one thread of a system of order `n`.
    fn take(&self, n: usize, thread: usize) -> Option<Work> {
        let (own, mut state) = (self.homes.of_thread(thread), self.lock());
        let mine = |block: usize| self.home(block) == own;
        self.take_of(&mut state, n, &mine).or_else(|| self.take_of(&mut state, n, &|_| true))
    }

    /// The next thing to do among those `wanted` by their first block: pieces of what is begun, then what
    /// is furthest behind.
    fn take_of(&self, state: &mut State, n: usize, wanted: &dyn Fn(usize) -> bool) -> Option<Work> {
        let factored = self.factored.load(Ordering::Acquire);
        let begun = |update: &&mut Update| !update.rows.is_empty() && wanted(update.blocks.start);
        if let Some(update) = state.updates.iter_mut().find(begun) {
            return Some(update.take_piece());
        }
        let State { steps, claimed, updates } = state;
        // The last panel before that of the next block to be factored is applied by the panel group.
        let may = |block: usize| {
            let ready =
                if block == factored { factored.saturating_sub(1) } else { factored.min(block) };
            !claimed[block] && steps[block] < ready
        };
        let all = || (0..steps.len()).filter(|block| may(*block) && wanted(*block));
        let (open, first) = (all().count(), all().min_by_key(|block| steps[*block])?);
        let (step, home) = (steps[first], self.home(first));
        let threads = self.homes.threads_on(home, self.threads);
        let widest = (WIDEST / self.nb).max(1).min(open.div_ceil(threads));
        let same = |block: usize| steps[block] == step && self.home(block) == home;
        let last = (first..steps.len())
            .take(widest)
            .take_while(|block| may(*block) && same(*block))
            .last()?
            + 1;
        claimed[first..last].fill(true);
        // Ranges that can go on side by side, against twice the threads.
        let ranges = open.div_ceil(widest);
        let pieces = (2 * threads).div_ceil(ranges);
        let rows = n.saturating_sub((step + 1) * self.nb);
        let piece = rows.div_ceil(pieces).next_multiple_of(64).max(LEAST_ROWS);
        let blocks = first..last;
        updates.push(Update { blocks: blocks.clone(), step, rows: 0..0, piece, outstanding: 0 });
        Some(Work { blocks, step, rows: None })
    }

    /// Exchanges and solve of the update of `block` are done: the product's rows are open to all; a piece
    /// of them for the caller.
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

    /// A piece is done; the next of the same update, if there is one.
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
            for block in blocks {
                state.steps[block] = step + 1;
                state.claimed[block] = false;
            }
            drop(state);
            self.changed();
        }
        None
    }

    fn publish(&self, panel: usize) {
        let mut state = self.lock();
        // No panel is applied to a block whose own is factored.
        state.steps[panel] = usize::MAX - DEPTH;
        drop(state);
        self.factored.store(panel + 1, Ordering::Release);
        self.changed();
    }
}

impl Update {
    fn take_piece(&mut self) -> Work {
        // A remainder of less than half a piece goes along.
        let length = self.rows.len();
        let taken = if length < self.piece + self.piece / 2 { length } else { self.piece };
        let rows = Some(self.rows.start..self.rows.start + taken);
        self.rows.start += taken;
        self.outstanding += 1;
        Work { blocks: self.blocks.clone(), step: self.step, rows }
    }
}

/// One thread's part in a factorisation.
pub(super) fn work(shared: &LuShared<'_>, index: usize) -> Spent {
    let schedule = &shared.schedule;
    let mut spent = Spent::default();
    let mut joined = 0;
    let timed = |sum: &mut f64, start: Instant| *sum += start.elapsed().as_secs_f64();
    loop {
        let called = schedule.called.load(Ordering::Acquire);
        let over = shared.stopped() || schedule.factored.load(Ordering::Acquire) == shared.panels();
        if called == OVER || (over && (index == 0 || index >= shared.group.size)) {
            break;
        }
        let version = schedule.version.load(Ordering::Acquire);
        let start = Instant::now();
        if index == 0
            && let Some(step) = schedule.claim_panel()
        {
            // The step goes with the call: the panel group reads it behind the first barrier.
            shared.group.step.store(step, Ordering::Relaxed);
            schedule.call();
        }
        let called = schedule.called.load(Ordering::Acquire);
        if index < shared.group.size && called > joined && called != OVER {
            shared.group.wait();
            panel(shared, joined, index);
            joined += 1;
            timed(&mut spent.panels, start);
            continue;
        }
        let Some(mut work) = schedule.take(shared.view.n, index) else {
            spent.slept += wait_for_change(shared, version, index, joined);
            timed(&mut spent.waiting, start);
            continue;
        };
        while let Some(next) = carry_out(shared, work) {
            work = next;
        }
    }
    if index == 0 {
        // The panel group leaves with its first member, so that no thread waits in a panel for one that has left.
        schedule.called.store(OVER, Ordering::Release);
    }
    spent
}

/// Waits until there may be something to do; the seconds of it that were slept.
fn wait_for_change(shared: &LuShared<'_>, version: u64, index: usize, joined: usize) -> f64 {
    let schedule = &shared.schedule;
    let called = || index < shared.group.size && schedule.called.load(Ordering::Acquire) > joined;
    let (mut spin, mut slept) = (Spin::new(SPINS_BEFORE_YIELD), 0.0);
    let over = || shared.stopped() && (index == 0 || index >= shared.group.size);
    while schedule.version.load(Ordering::Acquire) == version && !over() && !called() {
        spin.pause_or(|looks| match looks {
            // Far beyond the time of a piece: threads share CPUs, or the machine is busy.
            1_000_000.. => {
                let start = Instant::now();
                std::thread::sleep(Duration::from_micros(50));
                slept += start.elapsed().as_secs_f64();
            }
            _ => std::thread::yield_now(),
        });
    }
    slept
}

/// The panel group's work on panel `number`, for one member.
fn panel(shared: &LuShared<'_>, number: usize, rank: usize) {
    let LuShared { view, group, .. } = shared;
    let columns = shared.columns(number);
    let with_rhs = shared.with_rhs(&(number..number + 1));
    for step in group.step.load(Ordering::Relaxed)..number {
        let depth = shared.columns(step);
        group.wait();
        // SAFETY: the block is claimed by the panel group, whose members share its columns out, and behind
        // a barrier its rows; the panel of that step is finished and only read.
        unsafe {
            shared.prepare(depth.clone(), group.part(with_rhs.clone(), rank, 1));
            group.wait();
            let rows = group.part(depth.end..view.n, rank, 8);
            shared.engine.update(view.product(&rows, &depth, &with_rhs));
        }
        if rank == 0 {
            count(shared, view.n - depth.end, with_rhs.len(), depth.len());
        }
    }
    group.wait();
    // SAFETY: as above.
    let factored = unsafe { Panel::of(shared, number, rank).factor(columns.clone()) };
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
            let (m, w) = ((view.n - columns.start) as f64, columns.len() as f64);
            shared.progress.flops.fetch_add((w * w * (m - w / 3.0)) as u64, Ordering::Relaxed);
            shared.schedule.publish(number);
        }
    }
}

/// Does one thing; what follows from it directly.
fn carry_out(shared: &LuShared<'_>, work: Work) -> Option<Work> {
    let LuShared { view, engine, schedule, .. } = shared;
    let Work { blocks, step, rows } = work;
    let (depth, columns) = (shared.columns(step), shared.with_rhs(&blocks));
    let Some(rows) = rows else {
        // SAFETY: the blocks are claimed by this update, and its rows are not open yet.
        unsafe { shared.prepare(depth.clone(), columns) };
        return schedule.open(blocks.start, depth.end..view.n);
    };
    // SAFETY: these rows of the update's blocks were taken by this thread; the solved rows above and
    // the panel are only read.
    unsafe { engine.update(view.product(&rows, &depth, &columns)) };
    count(shared, rows.len(), columns.len(), depth.len());
    schedule.finish_piece(blocks.start)
}

/// Counts the operations of a product, and its part of the solves.
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
    fn a_group_that_was_sent_away_is_not_called_back() {
        let schedule = LuSchedule::new(4, 8, 2, Homes::one());
        schedule.call();
        assert_eq!(schedule.called.load(Ordering::Relaxed), 1);
        schedule.abandon();
        schedule.call();
        assert_eq!(schedule.called.load(Ordering::Relaxed), OVER);
    }
}
