//! One turn: directories are created, the workers carry out all operations on their files, and the directories are
//! removed.

use super::pass::{EntryBench, EntryPass};
use super::{DirectoryLayout, EntryOperation, EntryTask};
use crate::cell::EarlyEnd;
use crate::error;
use crate::latency::LatencyHistogram;
use crate::scratch::ScratchDirectory;
use crate::workers::SharedWorkerState;
use nodegauge_machine::SysRoot;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{Failure, clock};
use nodegauge_team::{InterruptCheck, Laps, Member, TeamError, WorkerPool};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which interruptions and the deadline are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// File with which root makes the kernel drop its caches.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Value that makes the kernel drop the page cache, in which file systems keep their tables of entries, and all cached
/// entries.
const EVERYTHING: &str = "3";

/// Parameters that all turns share.
pub struct EntryContext<'a> {
    /// Folder of the directories.
    pub scratch: &'a ScratchDirectory,
    /// Time at which the run must end; `None` without a time limit.
    pub deadline: Option<Instant>,
    /// Function that returns true if the user has interrupted the run.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// Results of one operation on the files of all workers.
#[derive(Debug, Clone)]
pub struct EntryOperationResult {
    /// Operation that was carried out.
    pub operation: EntryOperation,
    /// Number of files of all workers on which the operation was carried out.
    pub completed_files: u64,
    /// Latencies in ticks of the clock, with their counts.
    pub latencies: Vec<(u64, u64)>,
    /// Bytes that the kernel read from devices for the workers; `None` if the kernel does not count them.
    pub read_bytes: Option<u64>,
}

/// Results of a turn.
#[derive(Debug, Clone)]
pub struct EntryTurnResult {
    /// Time of each operation: from the start on the first worker to the end on the last worker.
    pub sample: Sample,
    /// Results of the operations, in the order of the task.
    pub phases: Vec<EntryOperationResult>,
}

/// Report of one worker on one operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct WorkerPhase {
    done: Result<u64, Failure>,
    latencies: Vec<(u64, u64)>,
    read_bytes: Option<u64>,
}

/// Runner of turns. Its workers are started before the first turn.
pub struct EntryRunner<'a> {
    pool: WorkerPool<'a>,
    all: Vec<&'a nodegauge_team::Workers>,
    shared: SharedWorkerState,
}

impl<'a> EntryRunner<'a> {
    /// Starts the workers.
    ///
    /// # Errors
    /// Fails if a thread cannot be started, or if there is no memory for the flags of the workers.
    pub fn start(all: &'a [nodegauge_team::Workers]) -> Result<Self, Failure> {
        let pool = WorkerPool::start(all)?;
        let shared =
            SharedWorkerState::new().map_err(|cause| error::no_memory_error(4096, cause.into()))?;
        Ok(Self { pool, all: all.iter().collect(), shared })
    }

    /// Carries out the operations of a task on new files in new directories, which are removed afterwards. `at` is the
    /// index of the workers in the list given to [`EntryRunner::start`].
    ///
    /// # Errors
    /// Fails if an operation fails, if a worker is lost, or if the run must end before the end of the turn.
    pub fn run_turn(
        &mut self,
        at: usize,
        task: &EntryTask,
        context: &EntryContext<'_>,
    ) -> Result<EntryTurnResult, EarlyEnd> {
        let tree = context.scratch.create_tree("entries")?;
        let turn = self.turn_in(&tree, at, task, context);
        // A turn that was cut short leaves files behind.
        let cleared = context.scratch.remove_tree(&tree);
        let turn = turn?;
        cleared.map_err(|cause| error::entry_error("cannot remove", &tree, cause))?;
        Ok(turn)
    }

    fn turn_in(
        &mut self,
        tree: &Path,
        at: usize,
        task: &EntryTask,
        context: &EntryContext<'_>,
    ) -> Result<EntryTurnResult, EarlyEnd> {
        let workers = self.all[at];
        let mut benches = Vec::new();
        for (worker, folder) in directories(tree, workers.count(), task.layout)?.iter().enumerate()
        {
            benches.push(Mutex::new(EntryBench::new(folder, worker, task.bytes)?));
        }
        self.shared.reset();
        let shared = &self.shared;
        let mut is_cut = false;
        // Interrupted workers end by themselves.
        let mut ask = || {
            let is_late = context.deadline.is_some_and(|deadline| clock::now() >= deadline);
            if is_late || (context.interrupted)() {
                is_cut = true;
                shared.end.store(1, Ordering::Relaxed);
                shared.stop.store(1, Ordering::Relaxed);
            }
            false
        };
        let interrupt = InterruptCheck::when(&mut ask).every(CHECK_INTERVAL);
        // SAFETY: a worker uses only memory that was allocated before, the allocator and system calls. It waits only at
        // the barriers of its laps, and locks only its own bench.
        let (sample, timed) = unsafe {
            self.pool.sample(at, interrupt, |member, laps| {
                let mut bench =
                    benches[member.index].lock().unwrap_or_else(PoisonError::into_inner);
                carry_out(&mut bench, task, member, laps, shared, workers.are_processes())
            })
        }
        .map_err(ended)?;
        let ends_early = is_cut || shared.end.load(Ordering::Relaxed) != 0;
        let phases = joined(task, timed.results)?;
        let is_whole =
            phases.iter().all(|phase| phase.completed_files == task.files * benches.len() as u64);
        if ends_early && !is_whole {
            return Err(EarlyEnd::CutShort);
        }
        Ok(EntryTurnResult { sample, phases })
    }
}

/// Returns the reason why a turn ended early.
fn ended(error: TeamError) -> EarlyEnd {
    match error {
        TeamError::Interrupted => EarlyEnd::CutShort,
        error => EarlyEnd::Failed(error.into()),
    }
}

/// Creates the directories of the workers, and returns the directory of each worker. They are as many levels below the
/// user's folder as the directories of mdtest.
fn directories(
    tree: &Path,
    workers: usize,
    layout: DirectoryLayout,
) -> Result<Vec<PathBuf>, Failure> {
    let top = tree.join("dir.tree");
    std::fs::create_dir(&top).map_err(|cause| error::entry_error("cannot make", &top, cause))?;
    let mut folders = Vec::new();
    for worker in 0..workers {
        let number = if layout == DirectoryLayout::Own { worker } else { 0 };
        let folder = top.join(format!("dir.{number}"));
        if number == worker {
            std::fs::create_dir(&folder)
                .map_err(|cause| error::entry_error("cannot make", &folder, cause))?;
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// Carries out all operations in one worker. After a worker has failed, all workers still pass through the remaining
/// operations, but without calls, because every worker must time the same operations.
fn carry_out(
    bench: &mut EntryBench,
    task: &EntryTask,
    member: &Member<'_>,
    laps: &mut Laps<'_>,
    shared: &SharedWorkerState,
    is_process: bool,
) -> Vec<WorkerPhase> {
    let counts = is_process || member.index == 0;
    let mut phases = Vec::with_capacity(task.operations.len());
    for (operation, batch) in task.operations.iter().zip(&task.batches) {
        // Touches the memory of the histogram, which a forked process would otherwise copy in a timed loop.
        bench.latency.clear();
        let mut failure = None;
        if task.drop_caches && *operation != EntryOperation::Create && member.index == 0 {
            failure = drop_caches().err();
        }
        let before = if counts { read_bytes() } else { None };
        let has_stopped = shared.stop.load(Ordering::Relaxed) != 0 || failure.is_some();
        let files = if has_stopped { 0 } else { task.files };
        let pass = EntryPass { files, fsync: task.fsync, batch: *batch, stop: &shared.stop };
        let done = laps.time(|| bench.run(*operation, &pass));
        // The counter of a process includes the operations of all its threads.
        member.barrier();
        let read_bytes = read_bytes_since(before.filter(|_| counts));
        let done = failure.map_or(done, Err);
        if done.is_err() {
            shared.stop.store(1, Ordering::Relaxed);
        }
        phases.push(WorkerPhase { done, latencies: bench.latency.pairs(), read_bytes });
    }
    phases
}

/// Combines the reports of all workers into one result per operation.
fn joined(
    task: &EntryTask,
    all: Vec<Vec<WorkerPhase>>,
) -> Result<Vec<EntryOperationResult>, Failure> {
    let mut phases = Vec::new();
    for (number, operation) in task.operations.iter().enumerate() {
        let mut completed_files = 0;
        let mut read_bytes = None;
        let mut latencies = Vec::new();
        for of_worker in &all {
            let phase = &of_worker[number];
            completed_files += phase.done.clone()?;
            latencies.extend(&phase.latencies);
            read_bytes = match (read_bytes, phase.read_bytes) {
                (Some(sum), Some(more)) => Some(sum + more),
                (sum, more) => sum.or(more),
            };
        }
        let latencies = LatencyHistogram::from_pairs(&latencies).pairs();
        phases.push(EntryOperationResult {
            operation: *operation,
            completed_files,
            latencies,
            read_bytes,
        });
    }
    Ok(phases)
}

/// Checks that this process may make the kernel drop its caches. The check itself drop_caches nothing.
///
/// # Errors
///
/// Fails if this process may not write to `DROP_CACHES`.
pub fn check_cache_drop() -> Result<(), Failure> {
    File::options().write(true).open(DROP_CACHES).map(drop).map_err(cannot_drop)
}

/// Writes all modified data to the devices, and makes the kernel drop its page cache and its cached entries.
fn drop_caches() -> Result<(), Failure> {
    // Only clean entries are dropped.
    rustix::fs::sync();
    std::fs::write(DROP_CACHES, EVERYTHING).map_err(cannot_drop)
}

fn cannot_drop(cause: io::Error) -> Failure {
    Failure::missing("cannot drop the caches of this node")
        .cause(cause)
        .hint(format!("only root of the node may write to {DROP_CACHES}; leave out --drop"))
}

/// Returns the bytes that the kernel has read from devices for this process.
fn read_bytes() -> Option<u64> {
    crate::counters::IoCounters::read_process(&SysRoot::live()).read_bytes()
}

/// Returns the increase of [`read_bytes`].
fn read_bytes_since(before: Option<u64>) -> Option<u64> {
    let before = before?;
    Some(read_bytes()?.saturating_sub(before))
}
