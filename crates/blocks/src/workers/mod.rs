//! Workers (threads or processes), each with its own file. This corresponds to IOzone's throughput mode.
//!
//! All workers start together. With the stonewall option, the first worker that finishes stops the others, so that only
//! the time in which all workers are active is measured. The rate of a worker is computed from its own time. The
//! parent's rate is the total number of bytes divided by the time from the common start to the end of the last worker.

mod shared;

pub(crate) use shared::SharedWorkerState;

use crate::clock::Clock;
use crate::counters::{DeviceShare, IoCounters};
use crate::latency::LatencyHistogram;
use crate::operation::Operation;
use crate::pass::{FileBench, FilePass, FilePassResult, PassEnd};
use crate::task::CellSize;
use crate::task::Task;
use crate::volume::Volume;
use nodegauge_machine::SysRoot;
use nodegauge_measure::Failure;
use nodegauge_team::{InterruptCheck, Member, WorkerPool};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Kind of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    /// Threads of this process.
    Threads,
    /// Processes.
    Processes,
}

/// Requested workers, each with its own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileWorkers {
    /// Kind of the workers.
    pub kind: WorkerKind,
    /// Number of workers.
    pub count: usize,
    /// True if the first worker that finishes stops the others.
    pub stonewall: bool,
}

/// Sample of one operation.
#[derive(Debug, Clone)]
pub struct OperationSample {
    /// Rate in bytes per second.
    pub rate: f64,
    /// Time of all operations, seconds.
    pub seconds: f64,
    /// Number of transferred blocks, and number of blocks in the file.
    pub operations: (u64, u64),
    /// Reason why the operation ended.
    pub end_reason: PassEnd,
    /// Latencies in ticks of the clock, with their counts.
    pub latencies: Vec<(u64, u64)>,
    /// Share of the data that was read from or written to the device; `None` if it is unknown.
    pub share: Option<DeviceShare>,
    /// Share of the file's pages that could not be dropped from the page cache before the operation, 0 to 1.
    pub undropped_share: Option<f64>,
    /// Rates of several workers; `None` for a single worker.
    pub workers: Option<WorkerFigures>,
}

/// Rates of several workers, each with its own file.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerFigures {
    /// Total bytes divided by the time from the common start to the end of the last worker, B/s.
    pub parent: f64,
    /// Rate of each worker, B/s.
    pub rates: Vec<f64>,
    /// Smallest number of bytes that a worker transferred.
    pub min_bytes: u64,
}

/// Report of a worker on an operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerReport {
    pub(crate) result: FilePassResult,
    latencies: Vec<(u64, u64)>,
    /// Increase of the kernel's counters for the process of the worker; zero if the counters of the parent include
    /// it.
    pub(crate) rise: IoCounters,
}

/// Interval at which the parent checks for interrupts and for dead workers.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Result of a worker, in the form in which a worker process sends it.
type Message = Result<WorkerReport, Failure>;

/// Guard that registers a worker as ready when it is dropped. If the worker fails or panics early, the other workers
/// therefore do not wait for it.
struct Arrival<'a> {
    shared: &'a SharedWorkerState,
    count: usize,
    has_arrived: Cell<bool>,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if !self.has_arrived.get() {
            self.shared.arrive(self.count);
        }
    }
}

/// Operation for one or several workers to perform.
pub(crate) struct WorkerTask<'a> {
    pub(crate) operation: &'static Operation,
    pub(crate) task: &'a Task,
    pub(crate) workers: Option<FileWorkers>,
    pub(crate) limit: Option<Duration>,
    pub(crate) deadline: Option<u64>,
}

impl WorkerTask<'_> {
    /// Runs all workers. Returns the reports in worker order and, for several workers, the time at which they were
    /// released.
    pub(crate) fn run(
        &self,
        benches: &mut [FileBench],
        shared: &SharedWorkerState,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(Vec<WorkerReport>, Option<u64>), Failure> {
        shared.reset();
        let Some(workers) = self.workers else {
            let report = self.pass(&mut benches[0], shared, interrupted, &|| {})?;
            return Ok((vec![report], None));
        };
        let several = match workers.kind {
            WorkerKind::Threads => nodegauge_team::Workers::unbound_threads(benches.len()),
            WorkerKind::Processes => nodegauge_team::Workers::unbound_ranks(benches.len()),
        };
        let mut pool = WorkerPool::start([&several])?;
        let benches: Vec<Mutex<&mut FileBench>> = benches.iter_mut().map(Mutex::new).collect();
        // Interrupted workers end by themselves and return the measurements that are complete.
        let mut ask = || {
            if interrupted() {
                shared.end.store(1, Ordering::Relaxed);
            }
            false
        };
        let interrupt = InterruptCheck::when(&mut ask).every(CHECK_INTERVAL);
        // SAFETY: a worker uses only memory that was allocated before, the allocator and system calls. It waits only
        // for flags, and locks only its own bench.
        let messages: Vec<Message> = unsafe {
            pool.run(0, interrupt, |member| {
                let mut bench =
                    benches[member.index].lock().unwrap_or_else(PoisonError::into_inner);
                match workers.kind {
                    WorkerKind::Threads => self.carry_out(&mut bench, member, shared),
                    WorkerKind::Processes => self.carry_out_counted(&mut bench, member, shared),
                }
            })
        }?;
        let mut reports = Vec::with_capacity(messages.len());
        for message in messages {
            reports.push(message?);
        }
        Ok((reports, Some(shared.release_ticks())))
    }

    /// Performs the operation in a worker process, and adds the increase of the kernel's counters for this process.
    fn carry_out_counted(
        &self,
        bench: &mut FileBench,
        member: &Member<'_>,
        shared: &SharedWorkerState,
    ) -> Result<WorkerReport, Failure> {
        let root = SysRoot::live();
        let nowhere = Volume::default();
        let before = IoCounters::read(&root, &nowhere);
        let report = self.carry_out(bench, member, shared);
        let rise = IoCounters::read(&root, &nowhere).since(&before);
        report.map(|report| WorkerReport { rise, ..report })
    }

    /// Performs the operation in one worker: opens its file, waits for the other workers, runs the pass, and then
    /// stops the other workers if requested.
    fn carry_out(
        &self,
        bench: &mut FileBench,
        member: &Member<'_>,
        shared: &SharedWorkerState,
    ) -> Result<WorkerReport, Failure> {
        let arrived = Arrival { shared, count: member.count, has_arrived: Cell::new(false) };
        let start = || {
            arrived.has_arrived.set(true);
            shared.arrive_and_wait(member.count);
        };
        let interrupted = || shared.end.load(Ordering::Relaxed) != 0;
        let report = self.pass(bench, shared, &interrupted, &start);
        drop(arrived);
        let ends_all = match &report {
            Ok(own) => {
                let stonewall = self.workers.is_some_and(|workers| workers.stonewall);
                stonewall && own.result.end_reason == PassEnd::Through
            }
            Err(_) => true,
        };
        if ends_all {
            shared.stop.store(1, Ordering::Relaxed);
        }
        report
    }

    fn pass(
        &self,
        bench: &mut FileBench,
        shared: &SharedWorkerState,
        interrupted: &dyn Fn() -> bool,
        start: &dyn Fn(),
    ) -> Result<WorkerReport, Failure> {
        let Self { operation, task, limit, deadline, .. } = *self;
        let stop = &shared.stop;
        let pass = FilePass { operation, task, limit, deadline, stop, interrupted, start };
        let result = bench.run(&pass)?;
        Ok(WorkerReport { result, latencies: bench.latency.pairs(), rise: IoCounters::default() })
    }
}

/// Combines the reports of all workers into one sample. `released` is the time in ticks at which several workers were
/// released.
pub(crate) fn combine_reports(
    reports: &[WorkerReport],
    released: Option<u64>,
    cell: CellSize,
) -> OperationSample {
    let all = || reports.iter().map(|report| &report.result);
    let rates: Vec<f64> = all().map(|done| done.bytes as f64 / done.seconds).collect();
    let alone = all().map(|done| done.seconds).sum();
    let seconds = released.map_or(alone, |released| {
        let end = all().map(|done| done.end).max().unwrap_or(released);
        Clock::get().seconds(end.saturating_sub(released)).0
    });
    // The stonewall is the normal end, so that it has the lowest priority.
    let end_reason = [PassEnd::Interrupted, PassEnd::Budget, PassEnd::Limit, PassEnd::Stonewall]
        .into_iter()
        .find(|why| all().any(|done| done.end_reason == *why));
    OperationSample {
        rate: rates.iter().sum(),
        seconds,
        operations: (all().map(|done| done.operations).sum(), cell.blocks() * reports.len() as u64),
        end_reason: end_reason.unwrap_or(PassEnd::Through),
        latencies: LatencyHistogram::from_pairs(
            reports.iter().flat_map(|report| &report.latencies),
        )
        .pairs(),
        share: None,
        undropped_share: None,
        workers: released.map(|_| WorkerFigures {
            parent: all().map(|done| done.bytes).sum::<u64>() as f64 / seconds,
            rates,
            min_bytes: all().map(|done| done.bytes).min().unwrap_or(0),
        }),
    }
}
