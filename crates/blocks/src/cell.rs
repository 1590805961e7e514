//! All operations for one combination of file size and block size (a cell), one after another, as IOzone performs
//! them for a line of its table. In throughput mode, several workers perform the operations, each on its own file.

use crate::cache;
use crate::clock::Clock;
use crate::counters::{self, IoCounters};
use crate::data::FileContents;
use crate::engine::{self, IoEngine};
use crate::error;
use crate::operation::{self, Direction, Operation};
use crate::pass::{self, FileBench, FilePass, FilePassResult};
use crate::scratch::ScratchDirectory;
use crate::task::{Task, TaskSetup};
use crate::volume::Volume;
use crate::workers::{
    FileWorkers, OperationSample, SharedWorkerState, WorkerReport, WorkerTask, combine_reports,
};
use nodegauge_machine::SysRoot;
use nodegauge_measure::Failure;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Parameters that all cells share.
pub struct CellContext<'a> {
    /// Folder of the files.
    pub scratch: &'a ScratchDirectory,
    /// File system of the folder.
    pub volume: &'a Volume,
    /// Root of the kernel's files, for the counters.
    pub root: &'a SysRoot,
    /// Time limit of each operation; `None` without a limit.
    pub limit: Option<Duration>,
    /// Time at which the run must end, in ticks of the clock; `None` without a time limit.
    pub deadline: Option<u64>,
    /// Function that returns true if the user has interrupted the run.
    pub interrupted: &'a dyn Fn() -> bool,
}

impl CellContext<'_> {
    /// True if the run must end: its time is used up, or the user has interrupted it.
    fn must_end(&self) -> bool {
        (self.interrupted)() || self.deadline.is_some_and(|deadline| Clock::get().now() >= deadline)
    }
}

/// Preparation of a worker's file between operations.
impl FileBench {
    /// Prepares the file for an operation. For an operation that creates the file, the file is removed; for other
    /// operations, it is written completely if it does not exist yet. If requested, the file is dropped from the page
    /// cache. Returns the share that could not be dropped.
    fn prepare(
        &mut self,
        operation: &Operation,
        task: &Task,
        context: &CellContext<'_>,
    ) -> Result<Option<f64>, EarlyEnd> {
        if operation.creates {
            if self.written_pass > 0 {
                std::fs::remove_file(&self.file)
                    .map_err(|cause| error::file_error("cannot remove", &self.file, None, cause))?;
            }
            return Ok(None);
        }
        if self.written_pass == 0 {
            self.lay_out(task, 0, 1, context)?;
            self.written_pass = 1;
        }
        let reads = operation.direction != Direction::Write;
        let drops = task.drop_before_reads && reads && !task.setup.direct;
        Ok(drops.then(|| cache::drop_pages(&self.file)).transpose()?)
    }

    /// Records the content of the file after an operation, and writes the blocks that the operation has not
    /// written.
    fn complete_file(
        &mut self,
        operation: &Operation,
        task: &Task,
        context: &CellContext<'_>,
        done: &FilePassResult,
    ) -> Result<(), EarlyEnd> {
        let covers = pass::writes_every_block(operation);
        self.written_pass += u64::from(covers);
        let whole = done.operations == task.cell.blocks();
        let completes = operation.creates || covers && task.setup.verify;
        if whole || done.end_reason.is_early_end() || !completes {
            return Ok(());
        }
        // An operation that creates the file has written the first blocks. For other operations, the written blocks are
        // unknown.
        let first = if operation.creates { done.operations } else { 0 };
        self.lay_out(task, first, self.written_pass, context)
    }

    /// Writes the blocks of a file, from number `first` to the end, through the page cache, with the data of pass
    /// `number`. Writing is not timed, and ends early if the run must end.
    fn lay_out(
        &mut self,
        task: &Task,
        first: u64,
        number: u64,
        context: &CellContext<'_>,
    ) -> Result<(), EarlyEnd> {
        let path = self.file.clone();
        let fail = |offset| {
            let path = &path;
            move |cause| error::file_error("cannot prepare", path, offset, cause)
        };
        let file = engine::open(&path, !path.exists(), false, None).map_err(fail(None))?;
        let mut blocks = self.take_blocks(1, task.cell.block.0 as usize)?;
        for offset in (first..task.cell.blocks()).map(|i| i * task.cell.block.0) {
            if context.must_end() {
                return Err(EarlyEnd::CutShort);
            }
            self.data.stamp(&mut blocks[0], offset, number);
            file.write_all_at(&blocks[0], offset).map_err(fail(Some(offset)))?;
        }
        if task.setup.direct {
            cache::drop_pages(&path)?;
        }
        Ok(())
    }
}

/// Reason why a cell ended early.
#[derive(Debug)]
pub enum EarlyEnd {
    /// The budget or the user cut an operation short.
    CutShort,
    /// An operation failed.
    Failed(Failure),
}

impl From<Failure> for EarlyEnd {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Result of a cell.
#[derive(Default)]
pub struct CellOutcome {
    /// Completed operations in order, each with its sample.
    pub samples: Vec<(&'static Operation, OperationSample)>,
    /// Operation at which the cell ended early, with the reason.
    pub early_end: Option<(&'static Operation, EarlyEnd)>,
}

/// Runner for the operations of cells: this thread alone, or several workers.
pub struct CellRunner {
    workers: Option<FileWorkers>,
    benches: Vec<FileBench>,
    shared: SharedWorkerState,
}

impl CellRunner {
    /// Creates a runner that writes `data`.
    ///
    /// # Errors
    /// Fails if memory for the flags of the workers cannot be mapped.
    pub fn new(workers: Option<FileWorkers>, data: FileContents) -> Result<Self, Failure> {
        let data = Arc::new(data);
        let count = workers.map_or(1, |workers| workers.count);
        let shared =
            SharedWorkerState::new().map_err(|cause| error::no_memory_error(4096, cause.into()))?;
        let benches = (0..count).map(|_| FileBench::new(Arc::clone(&data))).collect();
        Ok(Self { workers, benches, shared })
    }

    /// Runs the operations of a task on a new file for each worker. The files are removed afterwards.
    pub fn run(&mut self, task: &Task, context: &CellContext<'_>, seed: u64) -> CellOutcome {
        for (i, bench) in (0..).zip(&mut self.benches) {
            let name = match self.workers {
                Some(_) => format!("worker{i}"),
                None => "file".to_owned(),
            };
            bench.file = context.scratch.file_path(&name);
            bench.written_pass = 0;
            bench.seed = seed.wrapping_add(i);
        }
        let mut outcome = CellOutcome::default();
        for operation in &task.operations {
            match self.run_operation(operation, task, context) {
                Ok(sample) => {
                    let cut = sample.end_reason.is_early_end().then_some(EarlyEnd::CutShort);
                    outcome.early_end = cut.map(|cut| (*operation, cut));
                    outcome.samples.push((operation, sample));
                }
                Err(ending) => outcome.early_end = Some((operation, ending)),
            }
            if outcome.early_end.is_some() {
                break;
            }
        }
        let writing = task.operations.iter().rev().find(|o| o.direction != Direction::Read);
        if outcome.early_end.is_none()
            && task.setup.verify
            && let Some(operation) = writing
            && let Err(error) = self.read_back(task)
        {
            outcome.early_end = Some((operation, EarlyEnd::Failed(error)));
        }
        for bench in &self.benches {
            // A file that cannot be removed now is removed later together with its folder.
            let _ = std::fs::remove_file(&bench.file);
        }
        outcome
    }

    fn run_operation(
        &mut self,
        operation: &'static Operation,
        task: &Task,
        context: &CellContext<'_>,
    ) -> Result<OperationSample, EarlyEnd> {
        let mut undropped_share = None;
        for bench in &mut self.benches {
            let stayed = bench.prepare(operation, task, context)?;
            // `None` is less than any share in this comparison.
            undropped_share = if stayed > undropped_share { stayed } else { undropped_share };
        }
        let CellContext { limit, deadline, .. } = *context;
        let work = WorkerTask { operation, task, workers: self.workers, limit, deadline };
        let before = IoCounters::read(context.root, context.volume);
        let (reports, released) = work.run(&mut self.benches, &self.shared, context.interrupted)?;
        let mut rise = IoCounters::read(context.root, context.volume).since(&before);
        reports.iter().for_each(|WorkerReport { rise: own, .. }| rise.merge(own));
        for (bench, report) in self.benches.iter_mut().zip(&reports) {
            bench.complete_file(operation, task, context, &report.result)?;
        }
        let bytes = reports.iter().map(|report| report.result.bytes).sum();
        let direct = task.setup.direct;
        let share =
            counters::device_share(operation.direction, direct, bytes, &rise, context.volume);
        Ok(OperationSample {
            share,
            undropped_share,
            ..combine_reports(&reports, released, task.cell)
        })
    }

    /// Reads all files again, from the device if possible, and compares their data with the written data.
    fn read_back(&mut self, task: &Task) -> Result<(), Failure> {
        let Some(operation) = operation::find("read") else { return Ok(()) };
        let setup = TaskSetup { verify: true, engine: IoEngine::Sync, depth: 1, ..task.setup };
        let task = Task { setup, ..task.clone() };
        for bench in &mut self.benches {
            if !setup.direct {
                cache::drop_pages(&bench.file)?;
            }
            bench.run(&FilePass {
                operation,
                task: &task,
                limit: None,
                deadline: None,
                stop: &0.into(),
                interrupted: &|| false,
                start: &|| {},
            })?;
        }
        Ok(())
    }
}
