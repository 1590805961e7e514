//! Who does what next: panels before everything, then the columns that are furthest behind.
//!
//! A block is as many columns as a panel; its step is how many panels have been applied to it. The
//! crew takes the next panel as soon as the columns behind are not too far behind, applies the panels
//! that its block still lacks, and factors it; everybody else, and the crew meanwhile, brings
//! neighbouring blocks of equal step up to date together, since a product of many columns copies
//! less for each operation. When there are fewer such ranges than threads, their rows are cut too.

use super::panel::{NoPivot, Panel};
use super::{Shared, swaps};
use crate::leaf::Product;
use nodegauge_os::Spin;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Columns that are updated together at most: a product of so many copies its A once for some
/// thousand operations an element, which is below a per cent.
const WIDEST: usize = 1024;
/// Rows that a cut product has at least, for the same reason on the other side.
const LEAST_ROWS: usize = 512;
/// A panel may be factored while blocks lack at most so many of those before it: one makes panels
/// wait for the slowest, and more than two narrows the products that bring the panel's block up.
const DEPTH: usize = 2;
/// Looks at the state's version before the CPU is offered to others.
const SPINS_BEFORE_YIELD: u32 = 2_000;

/// One range of blocks that is being brought one step further.
#[derive(Debug)]
struct Update {
    blocks: Range<usize>,
    /// The panel that is applied.
    step: usize,
    /// Rows that nobody has taken yet; empty while exchanges and solve go on.
    rows: Range<usize>,
    /// Rows to take at once.
    piece: usize,
    /// Pieces under way.
    outstanding: usize,
    number: u64,
}

#[derive(Debug)]
struct State {
    /// Panels applied to each block.
    steps: Vec<usize>,
    /// Blocks that somebody works on.
    claimed: Vec<bool>,
    updates: Vec<Update>,
    numbers: u64,
}

/// The state of a factorisation.
#[derive(Debug)]
pub(super) struct Schedule {
    state: Mutex<State>,
    /// Rises with every change that may give somebody work.
    version: AtomicU64,
    /// Panels factored.
    factored: AtomicUsize,
    /// Panels that the crew was called to.
    called: AtomicUsize,
    nb: usize,
    threads: usize,
}

/// Instead of a number of panels: the crew's first member has left.
const OVER: usize = usize::MAX;

/// Something to do.
enum Work {
    /// Exchanges and solve of a new update, then pieces of its product.
    Begin { number: u64, blocks: Range<usize>, step: usize },
    /// A piece of a product.
    Piece { number: u64, blocks: Range<usize>, step: usize, rows: Range<usize> },
}

/// How a thread spent its time, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub panels: f64,
    pub waiting: f64,
    /// Of the waiting, what was slept.
    pub slept: f64,
}

impl Schedule {
    pub(super) fn new(blocks: usize, nb: usize, threads: usize) -> Self {
        Self {
            state: Mutex::new(State {
                steps: vec![0; blocks],
                claimed: vec![false; blocks],
                updates: Vec::new(),
                numbers: 0,
            }),
            version: AtomicU64::new(0),
            factored: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            nb,
            threads,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the crew to the next panel, unless it was sent away.
    fn call(&self) {
        let next = |called| (called != OVER).then(|| called + 1);
        let _ = self.called.try_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Sends the crew away: a member has failed.
    pub(super) fn abandon(&self) {
        self.called.store(OVER, Ordering::Release);
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Claims the next panel's block for the crew, if it is time; its step.
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

    /// The next thing to do for one thread.
    fn take(&self, n: usize) -> Option<Work> {
        let factored = self.factored.load(Ordering::Acquire);
        let mut state = self.lock();
        for update in &mut state.updates {
            if !update.rows.is_empty() {
                return Some(update.take_piece());
            }
        }
        let State { steps, claimed, updates, numbers } = &mut *state;
        // The last panel before that of the next block to be factored is applied by the crew.
        let may = |block: usize| {
            let ready =
                if block == factored { factored.saturating_sub(1) } else { factored.min(block) };
            !claimed[block] && steps[block] < ready
        };
        let open = (0..steps.len()).filter(|block| may(*block)).count();
        let first =
            (0..steps.len()).filter(|block| may(*block)).min_by_key(|block| steps[*block])?;
        let step = steps[first];
        let widest = (WIDEST / self.nb).max(1).min(open.div_ceil(self.threads));
        let last = (first..steps.len())
            .take(widest)
            .take_while(|block| may(*block) && steps[*block] == step)
            .last()?
            + 1;
        claimed[first..last].fill(true);
        *numbers += 1;
        let number = *numbers;
        // Ranges that can go on side by side, against twice the threads.
        let ranges = open.div_ceil(widest);
        let pieces = (2 * self.threads).div_ceil(ranges);
        let rows = n.saturating_sub((step + 1) * self.nb);
        let piece = rows.div_ceil(pieces).next_multiple_of(64).max(LEAST_ROWS);
        let blocks = first..last;
        updates.push(Update {
            blocks: blocks.clone(),
            step,
            rows: 0..0,
            piece,
            outstanding: 0,
            number,
        });
        Some(Work::Begin { number, blocks, step })
    }

    /// Exchanges and solve are done: the product's rows are open to all; a piece of them for the
    /// caller.
    fn open(&self, number: u64, rows: Range<usize>) -> Option<Work> {
        let mut state = self.lock();
        let update = state.updates.iter_mut().find(|update| update.number == number)?;
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
    fn finish_piece(&self, number: u64) -> Option<Work> {
        let mut state = self.lock();
        let at = state.updates.iter().position(|update| update.number == number)?;
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

    /// A panel is factored.
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
        let rows = self.rows.start..self.rows.start + taken;
        self.rows.start += taken;
        self.outstanding += 1;
        Work::Piece { number: self.number, blocks: self.blocks.clone(), step: self.step, rows }
    }
}

/// One thread's part in a factorisation.
pub(super) fn work(shared: &Shared<'_>, index: usize) -> Spent {
    let schedule = &shared.schedule;
    let mut spent = Spent::default();
    let mut joined = 0;
    let timed = |sum: &mut f64, start: Instant| *sum += start.elapsed().as_secs_f64();
    loop {
        let called = schedule.called.load(Ordering::Acquire);
        let over = shared.stopped() || schedule.factored.load(Ordering::Acquire) == shared.panels();
        if called == OVER || (over && (index == 0 || index >= shared.crew.size)) {
            break;
        }
        let version = schedule.version.load(Ordering::Acquire);
        let start = Instant::now();
        if index == 0
            && let Some(step) = schedule.claim_panel()
        {
            // The step goes with the call: the crew reads it behind the first barrier.
            shared.crew.step.store(step, Ordering::Relaxed);
            schedule.call();
        }
        let called = schedule.called.load(Ordering::Acquire);
        if index < shared.crew.size && called > joined && called != OVER {
            shared.crew.wait();
            panel(shared, joined, index);
            joined += 1;
            timed(&mut spent.panels, start);
            continue;
        }
        let Some(mut work) = schedule.take(shared.view.n) else {
            spent.slept += wait_for_change(shared, version, index, joined);
            timed(&mut spent.waiting, start);
            continue;
        };
        while let Some(next) = carry_out(shared, work) {
            work = next;
        }
    }
    if index == 0 {
        // The crew leaves with its first member, so that nobody waits in a panel for who has left.
        schedule.called.store(OVER, Ordering::Release);
    }
    spent
}

/// Waits until there may be something to do; the seconds of it that were slept.
fn wait_for_change(shared: &Shared<'_>, version: u64, index: usize, joined: usize) -> f64 {
    let schedule = &shared.schedule;
    let called = || index < shared.crew.size && schedule.called.load(Ordering::Acquire) > joined;
    let (mut spin, mut slept) = (Spin::new(SPINS_BEFORE_YIELD), 0.0);
    let over = || shared.stopped() && (index == 0 || index >= shared.crew.size);
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

/// The crew's work on panel `number`, for one member.
fn panel(shared: &Shared<'_>, number: usize, rank: usize) {
    let Shared { view, crew, engine, pivots, .. } = shared;
    let (first, last) = (shared.start(number), shared.end(number));
    let with_rhs = shared.end_with_rhs(number);
    for step in crew.step.load(Ordering::Relaxed)..number {
        let (start, end) = (shared.start(step), shared.end(step));
        crew.wait();
        let columns = crew.part(first..with_rhs, rank, 1);
        let rows = crew.part(end..view.n, rank, 8);
        // SAFETY: the block is claimed by the crew, whose members share its columns out, and behind
        // a barrier its rows; the panel of that step is finished and only read.
        unsafe {
            prepare(shared, step, columns);
            crew.wait();
            engine.update(Product {
                size: (rows.len(), with_rhs - first, end - start),
                a: view.at(rows.start, start),
                lda: view.ld,
                b: view.at(start, first),
                ldb: view.ld,
                c: view.at(rows.start, first),
                ldc: view.ld,
            });
        }
        if rank == 0 {
            count(shared, view.n - end, with_rhs - first, end - start);
        }
    }
    crew.wait();
    // SAFETY: as above.
    let factored = unsafe { Panel::of(shared, number, rank).factor(first..last) };
    crew.wait();
    if rank != 0 {
        return;
    }
    match factored {
        Err(NoPivot(column)) => shared.singular.store(column + 1, Ordering::Relaxed),
        Ok(()) => {
            if with_rhs > last {
                // SAFETY: the right-hand side belongs to this block.
                unsafe {
                    swaps::apply(*view, pivots, first..last, last..with_rhs);
                    let rhs = view.at(first, last);
                    engine.solve((last - first, 1), view.at(first, first), view.ld, rhs, view.ld);
                }
            }
            let (m, w) = ((view.n - first) as f64, (last - first) as f64);
            shared.progress.flops.fetch_add((w * w * (m - w / 3.0)) as u64, Ordering::Relaxed);
            shared.progress.panels.store(number + 1, Ordering::Relaxed);
            shared.schedule.publish(number);
        }
    }
}

/// Exchanges and the triangular solve of panel `step` in `columns`.
///
/// # Safety
/// The columns must belong to the caller.
unsafe fn prepare(shared: &Shared<'_>, step: usize, columns: Range<usize>) {
    let Shared { view, engine, pivots, .. } = shared;
    let (start, end) = (shared.start(step), shared.end(step));
    // SAFETY: the caller's promise; the panel is finished and only read.
    unsafe {
        swaps::apply(*view, pivots, start..end, columns.clone());
        engine.solve(
            (end - start, columns.len()),
            view.at(start, start),
            view.ld,
            view.at(start, columns.start),
            view.ld,
        );
    }
}

/// Does one thing; what follows from it directly.
fn carry_out(shared: &Shared<'_>, work: Work) -> Option<Work> {
    let Shared { view, engine, schedule, .. } = shared;
    let columns =
        |blocks: &Range<usize>| shared.start(blocks.start)..shared.end_with_rhs(blocks.end - 1);
    match work {
        Work::Begin { number, blocks, step } => {
            // SAFETY: the blocks are claimed by this update, and its rows are not open yet.
            unsafe { prepare(shared, step, columns(&blocks)) };
            schedule.open(number, shared.end(step)..view.n)
        }
        Work::Piece { number, blocks, step, rows } => {
            let (start, end) = (shared.start(step), shared.end(step));
            let columns = columns(&blocks);
            // SAFETY: these rows of the update's blocks were taken by this thread; the solved rows
            // above and the panel are only read.
            unsafe {
                engine.update(Product {
                    size: (rows.len(), columns.len(), end - start),
                    a: view.at(rows.start, start),
                    lda: view.ld,
                    b: view.at(start, columns.start),
                    ldb: view.ld,
                    c: view.at(rows.start, columns.start),
                    ldc: view.ld,
                });
            }
            count(shared, rows.len(), columns.len(), end - start);
            schedule.finish_piece(number)
        }
    }
}

/// Counts the operations of a product, and its part of the solves.
fn count(shared: &Shared<'_>, rows: usize, columns: usize, depth: usize) {
    let flops = 2 * rows as u64 * columns as u64 * depth as u64;
    shared.progress.flops.fetch_add(flops, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crew_that_was_sent_away_is_not_called_back() {
        let schedule = Schedule::new(4, 8, 2);
        schedule.call();
        assert_eq!(schedule.called.load(Ordering::Relaxed), 1);
        schedule.abandon();
        schedule.call();
        assert_eq!(schedule.called.load(Ordering::Relaxed), OVER);
    }
}
