//! Run of metadata measurements: turns of all cells, and the reference programs between turns.

use super::cells::MetadataCell;
use super::figures;
use super::measured::{MeasuredCell, MeasuredCells};
use super::plan::MetadataPlan;
use super::prediction::PredictedTurns;
use super::reference::ReferenceCells;
use crate::{GAUGE, METADATA_TEST};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_blocks::cell::EarlyEnd;
use nodegauge_blocks::clock::Clock;
use nodegauge_blocks::entries::{EntryContext, EntryRunner};
use nodegauge_blocks::latency;
use nodegauge_blocks::scratch::{self, ScratchDirectory};
use nodegauge_blocks::workers::WorkerKind;
use nodegauge_gauge::series::{ReferenceProgramRun, Series};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::interference::Cause;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, TurnFailure, policy};
use nodegauge_measure::{Failure, Notice, Observer, Outcome, Seconds, Unit};
use nodegauge_team::Workers;
use std::time::Instant;

impl PlannedRun for MetadataPlan {
    fn expected_cost(&self) -> ExpectedCost {
        let time = self.options.budget.unwrap_or(Self::BUDGET);
        ExpectedCost { time: Some(time), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let mut names = Vec::new();
        for cell in &self.cells {
            for operation in cell.operations() {
                names.extend(cell.figure_name(operation).filter(|name| !names.contains(name)));
            }
        }
        vec![PossibleFigures::new(GAUGE, METADATA_TEST, names, &[Unit::OperationsPerSecond])]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        run(*self, site, observer)
    }
}

/// Executes a plan.
///
/// # Errors
/// Fails if a scratch directory cannot be made, if nothing could be measured, or if the budget of the user is too
/// short.
pub(super) fn run(
    mut plan: MetadataPlan,
    site: &MeasuredNode,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let options = &plan.options;
    let limits =
        RunLimits::from_budget(Budget::new(options.budget, MetadataPlan::BUDGET), options.samples);
    let mut notices = std::mem::take(&mut plan.notices);
    let mut scratch = Vec::new();
    for volume in &plan.volumes {
        let left = scratch::leftovers(&volume.folder);
        notices.extend(left.iter().map(crate::run::leftover_notice));
        scratch.push(ScratchDirectory::create(&volume.folder)?);
    }
    let workers: Vec<Workers> =
        plan.options.workers.iter().map(|count| unbound_workers(&plan, *count)).collect();
    let mut runner = EntryRunner::start(&workers)?;
    let shared = SharedObserver::new(observer);
    let interrupted = || shared.is_interrupted();
    // A turn that would end after the grace time is cut short; all others end before it.
    let deadline =
        limits.samples.is_none().then(|| limits.started + limits.budget + limits.grace());
    let contexts = contexts(&scratch, deadline, &interrupted);
    let mut files = plan.files;
    let mut kept = plan.cells.len();
    if limits.samples.is_none() {
        (&mut &shared).begin_phase("predicting the time of the run");
        let mut turns = PredictedTurns::new(&plan, &mut runner, &contexts)?;
        limits.admit(&mut turns)?;
        files = turns.files;
        kept = turns.kept_cells;
        notices.extend(turns.notices());
    }
    (&mut &shared).begin_phase(&phase(files, kept));
    let cells = &plan.cells[..kept];
    let measured = MeasuredCells {
        cells: cells.iter().map(|cell| MeasuredCell::new(&plan.options, cell, files)).collect(),
        overhead: overhead(Clock::get()),
        clock: Clock::get(),
    };
    let mut run = MetadataRun { runner, contexts, measured };
    let mut series = Series::new(policy::METADATA, limits, kept);
    let all: Vec<usize> = (0..kept).filter(|at| !plan.cells[*at].drop_caches).collect();
    series.run(
        &mut |turn: Turn| run.turn(&plan, turn),
        &mut &shared,
        Some(&|samples: &[Vec<Sample>]| latest_rate(&plan, files, samples)),
    )?;
    let mut references = Vec::new();
    if !plan.programs.is_empty() {
        let of = ReferenceCells {
            options: &plan.options,
            volumes: &plan.volumes,
            cells,
            files,
            scratch: &scratch,
            site,
        };
        let program = ReferenceProgramRun {
            phase: "reference programs",
            compared: &all,
            run: &mut |has_ended| plan.programs.run(&of, has_ended),
        };
        references = series.run_reference_program(
            program,
            &mut |turn: Turn| run.turn(&plan, turn),
            &mut &shared,
        );
        notices.extend(plan.programs.notices(&plan.options));
    }
    let unmeasured = series.unmeasured_cells().into_iter();
    let unmeasured = unmeasured.filter(|_| series.stop_reason() == StopReason::Budget);
    notices.extend(
        unmeasured.map(|at| Notice::no_time_left(GAUGE, &cells[at].in_words(&plan.options))),
    );
    let mut outcome = Outcome { notices, ..Outcome::default() };
    outcome.measurements = figures::measurements(&plan, &run.measured, &series);
    outcome.measurements.extend(references);
    if outcome.measurements.is_empty() && series.stop_reason() == StopReason::Budget {
        return Err(limits.unmeasured_failure("fewer files (--files)"));
    }
    series.store_end(&mut outcome);
    Ok(outcome)
}

/// Measures the time for reading the clock and recording a latency. Returns the shortest of several trials, because
/// other programs can only lengthen a trial.
fn overhead(clock: Clock) -> Seconds {
    const TRIALS: usize = 5;
    let trials = (0..TRIALS).map(|_| latency::measure_overhead(clock).0);
    Seconds(trials.fold(f64::INFINITY, f64::min))
}

/// Returns a description of `count` workers that are not bound.
fn unbound_workers(plan: &MetadataPlan, count: usize) -> Workers {
    match plan.options.kind {
        WorkerKind::Threads => Workers::unbound_threads(count),
        WorkerKind::Processes => Workers::unbound_ranks(count),
    }
}

fn contexts<'c>(
    scratch: &'c [ScratchDirectory],
    deadline: Option<Instant>,
    interrupted: &'c dyn Fn() -> bool,
) -> Vec<EntryContext<'c>> {
    let contexts = scratch.iter().map(|scratch| EntryContext { scratch, deadline, interrupted });
    contexts.collect()
}

fn phase(files: u64, cells: usize) -> String {
    let combinations = count_in_words(cells, "combination");
    format!("{files} files per worker, in {combinations} of workers and directories")
}

/// Returns a text with the rate of the first operation in the latest turn, for the progress display.
fn latest_rate(plan: &MetadataPlan, files: u64, samples: &[Vec<Sample>]) -> String {
    for (cell, of_cell) in plan.cells.iter().zip(samples).rev() {
        if let Some(last) = of_cell.last() {
            let all = files as f64 * plan.options.workers[cell.workers] as f64;
            return format!("create {}", Unit::OperationsPerSecond.in_words(all / last.seconds[0]));
        }
    }
    String::new()
}

/// State of a run: the workers, and the cells that they measure.
struct MetadataRun<'a> {
    runner: EntryRunner<'a>,
    contexts: Vec<EntryContext<'a>>,
    measured: MeasuredCells,
}

impl MetadataRun<'_> {
    /// Runs all operations of a cell once.
    fn turn(&mut self, plan: &MetadataPlan, turn: Turn) -> Result<Vec<Sample>, TurnFailure> {
        let of_cell = &mut self.measured.cells[turn.cell];
        let MetadataCell { path, workers, .. } = of_cell.cell;
        let context = &self.contexts[path];
        let taken = self.runner.run_turn(workers, &of_cell.task, context);
        let mut taken = taken.map_err(|ending| match ending {
            EarlyEnd::CutShort => TurnFailure::OutOfTime,
            EarlyEnd::Failed(failure) if !context.scratch.folder().exists() => {
                TurnFailure::Target(failure)
            }
            EarlyEnd::Failed(failure) => TurnFailure::Cell(failure),
        })?;
        keep_disturbances(&mut taken.sample, plan.volumes[path].is_in_memory());
        if of_cell.is_warm {
            of_cell.add(&taken.phases);
        } else {
            of_cell.set_batches(&taken.sample.seconds, self.measured.overhead);
        }
        Ok(vec![taken.sample])
    }
}

/// Removes causes that are no disturbance. A thread that waits for a device, a server or the lock of a directory leaves
/// its CPU, which is part of the operation. Only on a file system in memory does a preemption show that another program
/// used the CPU.
fn keep_disturbances(sample: &mut Sample, is_in_memory: bool) {
    sample.causes.retain(|cause| is_disturbance(cause, is_in_memory));
    for causes in &mut sample.part_causes {
        causes.retain(|cause| is_disturbance(cause, is_in_memory));
    }
}

fn is_disturbance(cause: &Cause, is_in_memory: bool) -> bool {
    match cause {
        Cause::Preempted { switches, .. } => is_in_memory && *switches > 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of remaining causes in two parts: one with a preemption, and one with page faults.
    fn left(switches: u64, is_in_memory: bool) -> Vec<usize> {
        let preempted = Cause::Preempted { switches, lost: Seconds(1e-3) };
        let part_causes = vec![vec![preempted], vec![Cause::Faults(99)]];
        let mut sample = Sample { part_causes, ..Sample::from_times(vec![1.0, 1.0]) };
        keep_disturbances(&mut sample, is_in_memory);
        sample.part_causes.iter().map(Vec::len).collect()
    }

    #[test]
    fn preemption_disturbs_turns_only_on_file_systems_in_memory() {
        assert_eq!(left(1, true), [1, 1]);
        assert_eq!(left(0, true), [0, 1]);
        assert_eq!(left(1, false), [0, 1]);
    }
}
