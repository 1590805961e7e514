//! Several workers, threads or processes, each on a file of its own: IOzone's throughput mode.
//!
//! All start together. With the stonewall the first that is through stops the others, so that only
//! time in which all work is measured; each worker's rate is over its own time. The parent's rate is
//! all that was moved over the time from the start to the end of the last.

mod processes;
mod shared;
mod threads;

pub(crate) use shared::SharedFlags;

use crate::clock::Clock;
use crate::counters::{Counters, DeviceShare};
use crate::grid::CellSize;
use crate::latency::Latency;
use crate::operation::Operation;
use crate::pass::{Bench, Pass, PassEnd, PassResult};
use crate::task::Task;
use nodegauge_measure::Failure;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What workers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    /// Threads of this process.
    Threads,
    /// Processes.
    Processes,
}

/// How many workers of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// What they are.
    pub kind: WorkerKind,
    /// How many.
    pub count: usize,
    /// Whether the first that is through stops the others.
    pub stonewall: bool,
}

/// One sample of one operation.
#[derive(Debug, Clone)]
pub(crate) struct OperationSample {
    /// Bytes per second as the field counts them.
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    /// Blocks moved, and blocks that the file has.
    pub(crate) operations: (u64, u64),
    pub(crate) ended: PassEnd,
    /// Latencies in ticks of the clock, with their counts.
    pub(crate) latencies: Vec<(u64, u64)>,
    pub(crate) share: Option<DeviceShare>,
    /// Share of the file's pages that stayed although they were to be dropped.
    pub(crate) not_dropped: Option<f64>,
    pub(crate) workers: Option<WorkerFigures>,
}

/// Several workers on files of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WorkerFigures {
    /// All bytes over the time from the start of all to the end of the last, B/s.
    pub(crate) parent: f64,
    /// Each worker's own rate, B/s.
    pub(crate) rates: Vec<f64>,
    /// Fewest bytes that a worker moved.
    pub(crate) least_bytes: u64,
}

/// What a worker reports of an operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerReport {
    pub(crate) done: PassResult,
    latencies: Vec<(u64, u64)>,
    /// What its process counters rose by; nothing where the parent's count it already.
    pub(crate) rise: Counters,
}

/// What is done at once, or alone where there are no workers.
pub(crate) struct WorkerTask<'a> {
    pub(crate) operation: &'static Operation,
    pub(crate) task: &'a Task,
    pub(crate) workers: Option<Workers>,
    pub(crate) limit: Option<Duration>,
    pub(crate) deadline: Option<u64>,
}

impl WorkerTask<'_> {
    /// Lets all work; their reports in order, and when several were let go.
    pub(crate) fn run(
        &self,
        benches: &mut [Bench],
        shared: &SharedFlags,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(Vec<WorkerReport>, Option<u64>), Failure> {
        shared.reset();
        let (reports, released) = match self.workers.map(|workers| workers.kind) {
            Some(WorkerKind::Threads) => threads::run(self, benches, shared, interrupted),
            Some(WorkerKind::Processes) => processes::run(self, benches, shared, interrupted),
            None => {
                let report = self.pass(&mut benches[0], shared, interrupted, &|| {})?;
                return Ok((vec![report], None));
            }
        }?;
        Ok((reports, Some(released)))
    }

    /// One worker's part: opens its file, waits for the others, works, tells the others when it is
    /// through.
    fn carry_out(&self, bench: &mut Bench, shared: &SharedFlags) -> Result<WorkerReport, Failure> {
        let arrived = Cell::new(false);
        let start = || {
            arrived.set(true);
            shared.arrive_and_wait();
        };
        let interrupted = || shared.end.load(Ordering::Relaxed) != 0;
        let report = self.pass(bench, shared, &interrupted, &start);
        if !arrived.get() {
            // It failed before it could start: nobody must wait for it.
            shared.arrive();
        }
        let stonewall = self.workers.is_some_and(|workers| workers.stonewall);
        let through = |report: &WorkerReport| stonewall && report.done.ended == PassEnd::Through;
        if report.as_ref().map_or(true, through) {
            shared.stop.store(1, Ordering::Relaxed);
        }
        report
    }

    fn pass(
        &self,
        bench: &mut Bench,
        shared: &SharedFlags,
        interrupted: &dyn Fn() -> bool,
        start: &dyn Fn(),
    ) -> Result<WorkerReport, Failure> {
        let Self { operation, task, limit, deadline, .. } = *self;
        let stop = &shared.stop;
        let pass = Pass { operation, task, limit, deadline, stop, interrupted, start };
        let done = bench.run(&pass)?;
        Ok(WorkerReport { done, latencies: bench.latency.pairs(), rise: Counters::default() })
    }
}

/// All reports as one sample. `released` is when several workers were let go, in ticks.
pub(crate) fn summed(
    reports: &[WorkerReport],
    released: Option<u64>,
    cell: CellSize,
) -> OperationSample {
    let all = || reports.iter().map(|report| &report.done);
    let rates: Vec<f64> = all().map(|done| done.bytes as f64 / done.seconds).collect();
    let alone = all().map(|done| done.seconds).sum();
    let seconds = released.map_or(alone, |released| {
        let end = all().map(|done| done.end).max().unwrap_or(released);
        Clock::get().seconds(end.saturating_sub(released)).0
    });
    // That one of them was through and stopped the others is how it should end.
    let ended = [PassEnd::Interrupted, PassEnd::Budget, PassEnd::Limit, PassEnd::Stonewall]
        .into_iter()
        .find(|why| all().any(|done| done.ended == *why));
    OperationSample {
        rate: rates.iter().sum(),
        seconds,
        operations: (all().map(|done| done.operations).sum(), cell.blocks() * reports.len() as u64),
        ended: ended.unwrap_or(PassEnd::Through),
        latencies: Latency::of_pairs(reports.iter().flat_map(|report| &report.latencies)).pairs(),
        share: None,
        not_dropped: None,
        workers: released.map(|_| WorkerFigures {
            parent: all().map(|done| done.bytes).sum::<u64>() as f64 / seconds,
            rates,
            least_bytes: all().map(|done| done.bytes).min().unwrap_or(0),
        }),
    }
}
