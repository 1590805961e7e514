//! Several workers, threads or processes, each on a file of its own: IOzone's throughput mode.
//!
//! All start together. With the stonewall the first that is through stops the others, so that only
//! time in which all work is measured; each worker's rate is over its own time. The parent's rate is
//! all that was moved over the time from the start to the end of the last.

mod processes;
mod shared;
mod threads;

use crate::FilesError;
use crate::cell::{Outcome, Place, Sample, State, Task, Workers};
use crate::counters::{self, Counters};
use crate::data::Data;
use crate::grid::Cell;
use crate::operation::Operation;
use crate::pass::{Bench, Done, Ended};
use crate::team::shared::SharedFlags;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What workers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Threads of this process.
    Threads,
    /// Processes.
    Processes,
}

/// How many workers of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crew {
    /// What they are.
    pub kind: Kind,
    /// How many.
    pub count: usize,
    /// Whether the first that is through stops the others.
    pub stonewall: bool,
}

/// What a worker reports of an operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    done: Done,
    latencies: Vec<(u64, u64)>,
    /// What its process counters rose by; zero where the parent's count it already.
    rise: Counters,
}

/// Workers that are ready to work.
pub(crate) struct Team {
    crew: Crew,
    benches: Vec<Bench>,
    shared: SharedFlags,
}

/// What is done at once.
struct Work<'a> {
    operation: &'static Operation,
    task: &'a Task,
    states: &'a [State],
    crew: Crew,
    limit: Option<Duration>,
    deadline: Option<u64>,
}

impl Team {
    pub(crate) fn new(crew: Crew, data: &Arc<Data>) -> Result<Self, FilesError> {
        let benches =
            (0..crew.count).map(|_| Bench::new(Arc::clone(data))).collect::<Result<_, _>>()?;
        let shared = SharedFlags::zeroed().map_err(|cause| FilesError::NoMemory {
            block: nodegauge_measure::Bytes(4096),
            cause: cause.into(),
        })?;
        Ok(Self { crew, benches, shared })
    }

    /// Runs the operations of a task on a new file for each worker.
    pub(crate) fn run(&mut self, task: &Task, place: &Place<'_>, seed: u64) -> Outcome {
        let mut states: Vec<State> = (0..self.crew.count)
            .map(|i| State::new(place.ground.file(&format!("worker{i}")), seed + i as u64))
            .collect();
        let mut outcome = Outcome { samples: Vec::new(), cut: None, failure: None };
        for operation in &task.operations {
            match self.one(operation, task, place, &mut states) {
                Ok(sample) => {
                    let ended = sample.ended;
                    outcome.samples.push((operation, sample));
                    if matches!(ended, Ended::Budget | Ended::Interrupted) {
                        outcome.cut = Some(ended);
                        break;
                    }
                }
                Err(error) => {
                    outcome.failure = Some((operation, error));
                    break;
                }
            }
        }
        for state in &states {
            // The folder's removal takes what could not be removed here.
            let _ = std::fs::remove_file(&state.path);
        }
        outcome
    }

    fn one(
        &mut self,
        operation: &'static Operation,
        task: &Task,
        place: &Place<'_>,
        states: &mut [State],
    ) -> Result<Sample, FilesError> {
        let mut not_dropped = None;
        for (state, bench) in states.iter_mut().zip(&mut self.benches) {
            let share = state.prepare(operation, task, bench)?;
            not_dropped = match (not_dropped, share) {
                (Some(a), Some(b)) => Some(f64::max(a, b)),
                (a, b) => a.or(b),
            };
        }
        self.shared.reset();
        let work = Work {
            operation,
            task,
            states,
            crew: self.crew,
            limit: place.limit,
            deadline: place.deadline,
        };
        let ask = place.interrupted;
        let before = Counters::now(place.root, place.volume);
        let (reports, released) = match self.crew.kind {
            Kind::Threads => threads::run(&work, &mut self.benches, &self.shared, ask),
            Kind::Processes => processes::run(&work, &mut self.benches, &self.shared, ask),
        }?;
        let mut rises = vec![Counters::now(place.root, place.volume).since(&before)];
        rises.extend(reports.iter().map(|report| report.rise));
        for ((state, bench), report) in states.iter_mut().zip(&mut self.benches).zip(&reports) {
            state.after(operation, task, &report.done, bench)?;
        }
        let sample = summed(&reports, released, task.cell);
        let bytes = reports.iter().map(|report| report.done.bytes).sum();
        let share = counters::share(
            operation.direction,
            task.setup.access.direct,
            bytes,
            &Counters::joined(&rises),
            place.volume,
        );
        Ok(Sample { share, not_dropped, ..sample })
    }
}

/// All workers' reports as one sample. `released` is when they were let go, in ticks.
fn summed(reports: &[Report], released: u64, cell: Cell) -> Sample {
    let clock = crate::clock::Clock::get();
    let rates: Vec<f64> = reports.iter().map(|r| r.done.bytes as f64 / r.done.seconds).collect();
    let bytes: u64 = reports.iter().map(|report| report.done.bytes).sum();
    let end = reports.iter().map(|report| report.done.ticks.1).max().unwrap_or(released);
    let seconds = clock.seconds(end.saturating_sub(released)).0;
    let mut latencies = std::collections::BTreeMap::new();
    for (value, count) in reports.iter().flat_map(|report| &report.latencies) {
        *latencies.entry(*value).or_insert(0) += count;
    }
    // That one of them was through and stopped the others is how it should end.
    let ended = [Ended::Interrupted, Ended::Budget, Ended::Limit, Ended::Stonewall]
        .into_iter()
        .find(|why| reports.iter().any(|report| report.done.ended == *why))
        .unwrap_or(Ended::Through);
    Sample {
        rate: rates.iter().sum(),
        seconds,
        operations: (
            reports.iter().map(|report| report.done.operations).sum(),
            cell.blocks() * reports.len() as u64,
        ),
        ended,
        latencies: latencies.into_iter().collect(),
        share: None,
        not_dropped: None,
        workers: Some(Workers {
            parent: bytes as f64 / seconds,
            rates,
            least_bytes: reports.iter().map(|report| report.done.bytes).min().unwrap_or(0),
        }),
    }
}

impl Work<'_> {
    /// One worker's part: opens its file, waits for the others, works, tells the others when it is
    /// through.
    fn carry_out(
        &self,
        worker: usize,
        bench: &mut Bench,
        shared: &SharedFlags,
    ) -> Result<Report, FilesError> {
        use std::cell::Cell;
        use std::sync::atomic::Ordering;
        let arrived = Cell::new(false);
        let start = || {
            arrived.set(true);
            shared.arrive_and_wait();
        };
        let control = crate::pass::Control {
            limit: self.limit,
            deadline: self.deadline,
            stop: &shared.stop,
            interrupted: &|| shared.end.load(Ordering::Relaxed),
            start: &start,
        };
        let target = self.states[worker].target(self.task.cell);
        let done = bench.run(self.operation, &self.task.setup, &target, &control);
        if !arrived.get() {
            // It failed before it could start: nobody must wait for it.
            shared.arrive();
        }
        let failed = done.is_err();
        if failed || (self.crew.stonewall && done.as_ref().is_ok_and(|d| d.ended == Ended::Through))
        {
            shared.stop.store(true, Ordering::Relaxed);
        }
        Ok(Report { done: done?, latencies: bench.latency.pairs(), rise: Counters::default() })
    }
}
