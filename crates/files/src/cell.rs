//! All operations on one file of one size in blocks of one size, one after another, as IOzone does
//! for a line of its table.

use crate::FilesError;
use crate::cache;
use crate::counters::{self, Counters, DeviceShare};
use crate::engine::{self, OpenMode};
use crate::grid::CellSize;
use crate::operation::{Direction, Operation};
use crate::pass::{self, Bench, Control, PassEnd, PassResult, PassTarget, Setup};
use crate::scratch::ScratchDirectory;
use crate::volume::Volume;
use nodegauge_machine::SysRoot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What the page cache may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CacheMode {
    /// Whatever it does: IOzone's default.
    Cached,
    /// Writing out is timed, and pages are dropped before anything is read.
    Fsync,
    /// Nothing: direct I/O.
    Direct,
    /// Little: the file is twice as large as memory.
    Beyond,
}

impl CacheMode {
    /// As it is written in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Fsync => "fsync",
            Self::Direct => "direct",
            Self::Beyond => "beyond",
        }
    }

    /// The setup with what this mode asks for.
    pub(crate) fn applied(self, setup: Setup) -> Setup {
        Setup {
            access: OpenMode {
                direct: setup.access.direct || self == Self::Direct,
                ..setup.access
            },
            include_fsync: setup.include_fsync || self == Self::Fsync,
            ..setup
        }
    }
}

impl FromStr for CacheMode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cached" => Ok(Self::Cached),
            "fsync" => Ok(Self::Fsync),
            "direct" => Ok(Self::Direct),
            "beyond" => Ok(Self::Beyond),
            _ => Err("expected cached, fsync, direct or beyond".to_owned()),
        }
    }
}

/// One sample of one operation.
#[derive(Debug, Clone)]
pub struct OperationSample {
    /// Bytes per second as the field counts them.
    pub rate: f64,
    /// Time of the operation, seconds.
    pub seconds: f64,
    /// Blocks moved, and blocks that the file has.
    pub operations: (u64, u64),
    /// Why it ended.
    pub ended: PassEnd,
    /// Latencies in ticks of the clock, with their counts.
    pub latencies: Vec<(u64, u64)>,
    /// What was the device's.
    pub share: Option<DeviceShare>,
    /// Share of the file's pages that stayed although they were to be dropped.
    pub not_dropped: Option<f64>,
    /// What several workers did, when there were several.
    pub workers: Option<WorkerFigures>,
}

/// Several workers on files of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerFigures {
    /// All bytes over the time from the start of all to the end of the last, B/s.
    pub parent: f64,
    /// Each worker's own rate, B/s.
    pub rates: Vec<f64>,
    /// Fewest bytes that a worker moved.
    pub least_bytes: u64,
}

/// What does not change from cell to cell.
pub(crate) struct CellContext<'a> {
    pub(crate) scratch: &'a ScratchDirectory,
    pub(crate) volume: &'a Volume,
    pub(crate) root: &'a SysRoot,
    /// Time for each operation.
    pub(crate) limit: Option<Duration>,
    /// End of everything, in ticks of the clock.
    pub(crate) deadline: Option<u64>,
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// What is measured on a file.
#[derive(Debug, Clone)]
pub struct Task {
    /// Sizes.
    pub cell: CellSize,
    /// What the page cache may do.
    pub cache: CacheMode,
    /// How operations are carried out.
    pub setup: Setup,
    /// Whether pages are dropped before operations that read.
    pub drop_before_reads: bool,
    /// Which operations, in order.
    pub operations: Vec<&'static Operation>,
}

/// A file between operations.
pub(crate) struct FileState {
    pub(crate) path: PathBuf,
    /// Number of the pass whose data it holds; `None` before there is a file.
    pub(crate) holds: Option<u64>,
    seed: u64,
}

impl FileState {
    pub(crate) fn new(path: PathBuf, seed: u64) -> Self {
        Self { path, holds: None, seed }
    }

    pub(crate) fn target(&self, cell: CellSize) -> PassTarget<'_> {
        let holds = self.holds.unwrap_or(0);
        PassTarget {
            file: &self.path,
            blocks: cell.blocks(),
            block: cell.block.0 as usize,
            holds,
            leaves: holds + 1,
            seed: self.seed.wrapping_add(holds),
        }
    }

    /// Makes the file ready for an operation: away for those that create it, there for the others,
    /// out of the page cache where that is asked for. The share that could not be dropped.
    pub(crate) fn prepare(
        &mut self,
        operation: &Operation,
        task: &Task,
        bench: &mut Bench,
    ) -> Result<Option<f64>, FilesError> {
        if operation.creates {
            if self.holds.is_some() {
                self.remove()?;
            }
            return Ok(None);
        }
        if self.holds.is_none() {
            lay_out(&self.path, task.cell, 0, 1, bench)?;
            self.holds = Some(1);
            if task.setup.access.direct {
                cache::drop_pages(&self.path)?;
            }
        }
        let reads = operation.direction != Direction::Write;
        if task.drop_before_reads && reads && !task.setup.access.direct {
            return cache::drop_pages(&self.path).map(Some);
        }
        Ok(None)
    }

    /// Keeps account of what an operation left in the file, and completes what it did not finish.
    pub(crate) fn after(
        &mut self,
        operation: &Operation,
        task: &Task,
        done: &PassResult,
        bench: &mut Bench,
    ) -> Result<(), FilesError> {
        let over = matches!(done.ended, PassEnd::Budget | PassEnd::Interrupted);
        let whole = done.operations == task.cell.blocks();
        let covers = pass::covers(operation);
        if operation.creates {
            self.holds = Some(self.holds.unwrap_or(0) + 1);
        } else if covers {
            self.holds = self.holds.map(|holds| holds + 1);
        }
        if whole || over || !covers {
            return Ok(());
        }
        // What an operation wrote in order is there; of one that went to and fro, nothing is known.
        let first = if operation.creates { done.operations } else { 0 };
        if operation.creates || task.setup.verify {
            lay_out(&self.path, task.cell, first, self.holds.unwrap_or(0), bench)?;
            if task.setup.access.direct {
                cache::drop_pages(&self.path)?;
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self) -> Result<(), FilesError> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(()),
            Err(cause) => Err(FilesError::io("cannot remove", &self.path, cause)),
        }
    }
}

/// Writes the blocks of a file from `first` on through the page cache, untimed, with the data of pass
/// `number`.
fn lay_out(
    path: &Path,
    cell: CellSize,
    first: u64,
    number: u64,
    bench: &mut Bench,
) -> Result<(), FilesError> {
    let fail = |cause| FilesError::io("cannot prepare", path, cause);
    let access = OpenMode::default();
    let file = if path.exists() { access.open(path) } else { access.create(path) }.map_err(fail)?;
    let block = bench.block(cell.block.0 as usize);
    for i in first..cell.blocks() {
        let offset = i * cell.block.0;
        block.data.stamp(block.out, offset, number);
        engine::sync::write_at(file.as_raw_fd(), offset, block.out).map_err(|cause| {
            FilesError::Io {
                what: "cannot prepare".to_owned(),
                file: path.to_owned(),
                offset: Some(offset),
                cause,
            }
        })?;
    }
    Ok(())
}

/// What a cell came to.
pub(crate) struct CellOutcome {
    pub(crate) samples: Vec<(&'static Operation, OperationSample)>,
    /// Why it ended before its last operation.
    pub(crate) cut: Option<PassEnd>,
    /// What failed, after the samples above.
    pub(crate) failure: Option<(&'static Operation, FilesError)>,
}

/// Runs the operations of a task on a new file, which is removed afterwards.
pub(crate) fn run(
    task: &Task,
    context: &CellContext<'_>,
    bench: &mut Bench,
    seed: u64,
) -> CellOutcome {
    let mut state = FileState::new(context.scratch.file("file"), seed);
    let mut outcome = CellOutcome { samples: Vec::new(), cut: None, failure: None };
    for operation in &task.operations {
        match one(operation, task, context, bench, &mut state) {
            Ok(sample) => {
                let ended = sample.ended;
                outcome.samples.push((operation, sample));
                if matches!(ended, PassEnd::Budget | PassEnd::Interrupted) {
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
    if outcome.failure.is_none()
        && outcome.cut.is_none()
        && task.setup.verify
        && let Some(operation) =
            task.operations.iter().rev().find(|o| o.direction != Direction::Read)
        && let Err(error) = read_back(&state, task, bench)
    {
        outcome.failure = Some((operation, error));
    }
    // The folder's removal takes what could not be removed here.
    let _ = std::fs::remove_file(&state.path);
    outcome
}

fn one(
    operation: &'static Operation,
    task: &Task,
    context: &CellContext<'_>,
    bench: &mut Bench,
    state: &mut FileState,
) -> Result<OperationSample, FilesError> {
    let not_dropped = state.prepare(operation, task, bench)?;
    let stop = AtomicBool::new(false);
    let control = Control {
        limit: context.limit,
        deadline: context.deadline,
        stop: &stop,
        interrupted: context.interrupted,
        start: &|| {},
    };
    let before = Counters::now(context.root, context.volume);
    let done = bench.run(operation, &task.setup, &state.target(task.cell), &control)?;
    let rise = Counters::now(context.root, context.volume).since(&before);
    let sample = OperationSample {
        rate: done.bytes as f64 / done.seconds,
        seconds: done.seconds,
        operations: (done.operations, task.cell.blocks()),
        ended: done.ended,
        latencies: bench.latency.pairs(),
        share: counters::share(
            operation.direction,
            task.setup.access.direct,
            done.bytes,
            &rise,
            context.volume,
        ),
        not_dropped,
        workers: None,
    };
    state.after(operation, task, &done, bench)?;
    Ok(sample)
}

/// Reads the whole file once more, from the device where that can be had, and compares.
fn read_back(state: &FileState, task: &Task, bench: &mut Bench) -> Result<(), FilesError> {
    if !task.setup.access.direct {
        cache::drop_pages(&state.path)?;
    }
    let Some(read) = crate::operation::named("read") else { return Ok(()) };
    let setup = Setup { verify: true, engine: engine::IoEngine::Sync, depth: 1, ..task.setup };
    let stop = AtomicBool::new(false);
    let control =
        Control { limit: None, deadline: None, stop: &stop, interrupted: &|| false, start: &|| {} };
    bench.run(read, &setup, &state.target(task.cell), &control).map(drop)
}
