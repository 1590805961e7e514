//! Execution of a plan, cell by cell. Reference programs run interleaved with the gauge.

use crate::plan::FilesPlan;
use crate::result::{self, MeasuredSamples};
use crate::{GAUGE, TEST, precision, prediction};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_blocks::cell::{CellContext, CellRunner, EarlyEnd};
use nodegauge_blocks::clock::Clock;
use nodegauge_blocks::data::FileContents;
use nodegauge_blocks::scratch::{self, Leftover, ScratchDirectory};
use nodegauge_blocks::task::Task;
use nodegauge_blocks::{cache, error, latency};
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_machine::SysRoot;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::policy::FILES;
use nodegauge_measure::schedule::{RunLimits, Turn, TurnFailure};
use nodegauge_measure::{
    Bytes, BytesPerSec, Failure, Notice, NoticeId, Observer, Outcome, Seconds, Unit,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

impl PlannedRun for FilesPlan {
    fn expected_cost(&self) -> ExpectedCost {
        let workers = self.options.workers.map_or(1, |workers| workers.count as u64);
        // Memory for the contents and for the blocks that each worker has in flight.
        let blocks = 1 + workers * u64::from(self.options.setup.depth);
        let memory = Some(Bytes(blocks * self.longest_block().0));
        ExpectedCost { time: self.options.budget.map(|budget| budget.time), memory }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let mut blocks: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (_, task) in &self.tasks {
            for operation in &task.operations {
                blocks.entry(operation.name).or_default().push(task.cell.block.0);
            }
        }
        let figures = |(name, sizes)| {
            PossibleFigures::new(GAUGE, TEST, [name], &[Unit::BytesPerSecond]).with_sizes(sizes)
        };
        blocks.into_iter().map(figures).collect()
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        run(*self, &site.root, observer)
    }
}

/// Time limit without a budget: a century.
const UNLIMITED: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Executes `plan`.
///
/// Fails if memory, a scratch directory or requested direct I/O is unavailable at the start. Later failures are part of
/// the outcome, together with the figures measured before them.
pub fn run(
    mut plan: FilesPlan,
    root: &SysRoot,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let left: Vec<Leftover> =
        plan.options.paths.iter().flat_map(|path| scratch::leftovers(path)).collect();
    let scratch = prepare(&mut plan)?;
    let once = (!plan.programs.is_empty()).then_some(1);
    let samples = plan.options.samples.or(once).map(|samples| samples.max(1));
    let limits = RunLimits::from_budget(plan.options.budget.unwrap_or(UNLIMITED.into()), samples);
    prediction::admit(&plan, &scratch, &limits, observer)?;
    let longest = plan.longest_block().0 as usize;
    let mut notices = std::mem::take(&mut plan.notices);
    let FilesPlan { options, tasks, .. } = &plan;
    let clock = Clock::get();
    // The contents differ between runs, so that data of an earlier run fails the verification.
    let seed = fastrand::u64(..);
    let data = FileContents::new(longest, options.compressible, seed)
        .map_err(|cause| error::no_memory_error(longest, cause))?;
    let runner = CellRunner::new(options.workers, data)?;
    observer.begin_phase(
        &(count_in_words(tasks.len(), "combination") + " of file size and block size"),
    );
    let shared = SharedObserver::new(observer);
    let latest = RefCell::new(String::new());
    // Steps before the first operation may use up a short budget; half of the grace time remains.
    let unused = limits.budget.saturating_sub(limits.elapsed()).max(limits.grace() / 2);
    let mut turns = Turns {
        plan: &plan,
        scratch: &scratch,
        root,
        runner,
        interrupted: &|| shared.is_interrupted(),
        deadline: options.budget.map(|_| clock.now() + clock.ticks(unused)),
        seed,
        reading: precision::measure_clock_reading_time(clock),
        spent: vec![Duration::ZERO; tasks.len()],
        share: limits.budget / tasks.len() as u32,
        measured: MeasuredSamples::default(),
        refused: BTreeMap::new(),
    };
    let of_rounds = RunLimits { budget: limits.elapsed() + unused, ..limits };
    let mut series = Series::new(FILES, of_rounds, tasks.len());
    let mut turn = |turn: Turn| -> Result<Vec<Sample>, TurnFailure> {
        // A cell that returns no further sample is finished.
        if turn.remaining.is_none() && turns.is_enough(turn.cell) {
            return Ok(Vec::new());
        }
        let sample = turns.turn(turn.cell, turn.round)?;
        latest.replace(turns.latest(turn.cell));
        Ok(vec![sample])
    };
    // Operations before the failed one have figures, although the cell has no sample.
    let _ = series.run(&mut turn, &mut &shared, Some(&|_: &[Vec<Sample>]| latest.borrow().clone()));
    let mut measured = turns.measured;
    let refused = turns.refused.into_values().next();
    // The loss of the folder is reported in the figure of the operation during which it occurred, not in all figures of
    // the grid.
    let is_target_lost = series.target_loss().is_some();
    for (number, (_, task)) in tasks.iter().enumerate() {
        if let Some(failure) = series.cell_failure(number).filter(|_| !is_target_lost) {
            measured.mark_lost(number, task, failure);
        }
    }
    let stop = series.stop_reason();
    let missing = tasks.len() - measured.complete_cell_count(tasks);
    if stop == StopReason::Budget && missing > 0 {
        let text = format!(
            "the time budget ended before {missing} of {} cells were measured; the measured cells span the grid",
            tasks.len()
        );
        let hint = "increase --budget SECONDS, or leave out large files with --max-size";
        notices.push(Notice::new(NoticeId::Budget, GAUGE, text).hint(hint));
    }
    notices.extend(left.iter().map(leftover_notice));
    let measurements = result::measurements(&plan, &measured, clock);
    let mut outcome = Outcome { measurements, notices, ..Outcome::default() };
    outcome.failure = refused.filter(|_| stop != StopReason::Interrupted);
    series.schedule.limits = limits;
    series.store_end(&mut outcome);
    Ok(outcome)
}

/// Creates a scratch directory under each path and tests direct I/O in it. If direct I/O is unavailable and the user
/// did not request it, its tasks are left out.
fn prepare(plan: &mut FilesPlan) -> Result<Vec<ScratchDirectory>, Failure> {
    let mut made = Vec::new();
    for (number, volume) in plan.volumes.iter().enumerate() {
        let scratch = ScratchDirectory::create(&volume.folder)?;
        let is_direct = |(at, task): &(usize, Task)| *at == number && task.setup.direct;
        if plan.tasks.iter().any(is_direct)
            && let Some(why) = cache::test_direct_io(scratch.folder(), volume)?
        {
            plan.tasks.retain(|task| !is_direct(task));
            if !plan.options.caches.is_empty() || plan.tasks.is_empty() {
                return Err(why);
            }
            plan.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, why.problem()));
        }
        made.push(scratch);
    }
    Ok(made)
}

/// Returns the notice about files that a killed run has left, with the command that removes these files.
pub(crate) fn leftover_notice(left: &Leftover) -> Notice {
    let text = format!("a killed run left {} ({})", left.folder.display(), left.bytes);
    let parent = left.folder.parent().unwrap_or(Path::new(".")).display();
    Notice::new(NoticeId::Other, GAUGE, text)
        .hint(format!("nodegauge io --path {parent} --remove-leftovers"))
}

/// State of the execution: the plan, its limits, and the samples measured so far.
struct Turns<'a> {
    plan: &'a FilesPlan,
    scratch: &'a [ScratchDirectory],
    root: &'a SysRoot,
    runner: CellRunner,
    interrupted: &'a dyn Fn() -> bool,
    /// Time at which the run must end, in ticks of the clock.
    deadline: Option<u64>,
    seed: u64,
    /// Time for reading the clock, seconds.
    reading: Seconds,
    /// Time that each cell has used so far.
    spent: Vec<Duration>,
    /// Share of the time budget for each cell.
    share: Duration,
    measured: MeasuredSamples,
    /// Failures of reference programs, by program index. A program that failed is not run again.
    refused: BTreeMap<usize, Failure>,
}

impl Turns<'_> {
    /// True if a cell needs no further pass: each operation has the minimum number of passes, and either all rates are
    /// determined or the cell's share of the budget is used up.
    fn is_enough(&self, cell: usize) -> bool {
        let mut are_known = true;
        for operation in &self.plan.tasks[cell].1.operations {
            let Some(own) = self.measured.gauge_samples.get(&(cell, operation.name)) else {
                return false;
            };
            if own.len() < precision::MIN_PASSES {
                return false;
            }
            are_known &= precision::doubt_reason(own.iter(), self.reading).is_none();
        }
        are_known || self.spent[cell] >= self.share
    }

    /// Runs the operations of a cell once with the gauge and once with the reference programs. The order alternates
    /// between rounds.
    fn turn(&mut self, cell: usize, round: usize) -> Result<Sample, TurnFailure> {
        let begun = Instant::now();
        let own_first = (cell + round).is_multiple_of(2);
        if !own_first {
            self.references(cell)?;
        }
        let own = self.own(cell, round);
        let seconds = own.map_err(|ending| self.turn_failure(cell, ending))?;
        if own_first {
            self.references(cell)?;
        }
        self.spent[cell] += begun.elapsed();
        Ok(Sample::from_times(seconds))
    }

    /// Returns the failure of a turn. It affects only the cell, e.g. because its files are too large for the disk,
    /// unless the scratch directory is lost.
    fn turn_failure(&self, cell: usize, ending: EarlyEnd) -> TurnFailure {
        let (path, _) = &self.plan.tasks[cell];
        let is_gone = !self.scratch[*path].folder().exists();
        match ending {
            EarlyEnd::CutShort => TurnFailure::OutOfTime,
            EarlyEnd::Failed(failure) if is_gone => TurnFailure::Target(failure),
            EarlyEnd::Failed(failure) => TurnFailure::Cell(failure),
        }
    }

    /// Runs the operations of a cell with the gauge. Returns the times of the operations in seconds.
    fn own(&mut self, cell: usize, round: usize) -> Result<Vec<f64>, EarlyEnd> {
        let (path, task) = &self.plan.tasks[cell];
        let context = CellContext {
            scratch: &self.scratch[*path],
            volume: &self.plan.volumes[*path],
            root: self.root,
            limit: self.plan.options.limit,
            deadline: self.deadline,
            interrupted: self.interrupted,
        };
        let seed = self.seed.wrapping_add((cell as u64) << 20).wrapping_add(round as u64);
        let outcome = self.runner.run(task, &context, seed);
        let seconds = outcome.samples.iter().map(|(_, sample)| sample.seconds).collect();
        for (operation, sample) in outcome.samples {
            self.measured.gauge_samples.entry((cell, operation.name)).or_default().push(sample);
        }
        let Some((operation, ending)) = outcome.early_end else { return Ok(seconds) };
        if let EarlyEnd::Failed(failure) = &ending {
            self.measured.failures.insert((cell, operation.name), failure.clone());
        }
        Err(ending)
    }

    /// Runs the operations of a cell with the reference programs. The failure of a program ends only the runs of this
    /// program.
    fn references(&mut self, cell: usize) -> Result<(), TurnFailure> {
        let (path, task) = &self.plan.tasks[cell];
        let clock = Clock::get();
        for (number, program) in self.plan.programs.iter().enumerate() {
            if self.refused.contains_key(&number) {
                continue;
            }
            let left = self.deadline.map(|deadline| {
                let left = clock.seconds(deadline.saturating_sub(clock.now()));
                Duration::try_from_secs_f64(left.0).unwrap_or_default()
            });
            match program.run(task, &self.scratch[*path], left, self.interrupted) {
                Ok(figures) => {
                    for (operation, figure) in figures {
                        let key = (cell, number, operation.name);
                        self.measured.reference_figures.entry(key).or_default().push(figure);
                    }
                }
                Err(EarlyEnd::CutShort) => return Err(TurnFailure::OutOfTime),
                Err(EarlyEnd::Failed(failure)) => {
                    self.refused.insert(number, failure);
                }
            }
        }
        Ok(())
    }

    /// Returns a text with the latest figure of a cell.
    fn latest(&self, cell: usize) -> String {
        let (_, task) = &self.plan.tasks[cell];
        let rate = task.operations.iter().rev().find_map(|operation| {
            let sample = self.measured.gauge_samples.get(&(cell, operation.name))?.last()?;
            Some(format!(", {} {}", operation.name, BytesPerSec(sample.rate)))
        });
        format!("{} in {}{}", task.cell.file, task.cell.block, rate.unwrap_or_default())
    }
}

/// Returns the size of a latency histogram in memory, and the time for recording one latency.
pub fn latency_cost() -> (Bytes, Seconds) {
    (Bytes(latency::HISTOGRAM_BYTES), latency::measure_overhead(Clock::get()))
}
