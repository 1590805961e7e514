//! One operation on one file: the timed loop.
//!
//! With one block in flight, the clock is read once per operation: the end of an operation is the start of the next
//! one. A latency therefore includes the choice of the offset and the stamp of the block, which take a few
//! nanoseconds each. The sum of all latencies is the time of the loop. With several blocks in flight, a latency is
//! the time from submission to completion.

use crate::clock::Clock;
use crate::data::FileContents;
use crate::engine::{
    self, BlockRequest, Engine, FileCalls, IoEngine, MappedFile, POSITIONAL, SEQUENTIAL, Stdio,
    SynchronousEngine, Uring, VECTORED,
};
use crate::error;
use crate::latency::LatencyHistogram;
use crate::operation::{Direction, Operation, TransferCall};
use crate::pattern::{AccessPattern, BlockOrder, mix_bits};
use crate::task::{Task, TaskSetup};
use nodegauge_measure::Failure;
use nodegauge_os::{Buffer, check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Parameters of one operation on one file.
#[derive(Clone, Copy)]
pub(crate) struct FilePass<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) task: &'a Task,
    /// Time limit of this operation; `None` without a limit.
    pub(crate) limit: Option<Duration>,
    /// Time at which the run must end, in ticks of the clock; `None` without a time limit.
    pub(crate) deadline: Option<u64>,
    /// Flag that another worker sets to a non-zero value when it has finished.
    pub(crate) stop: &'a AtomicU64,
    /// Function that returns true if the user has interrupted the run.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// Function that waits for the other workers. It is called when the file is open, before the first block.
    pub(crate) start: &'a dyn Fn(),
}

/// Reason why a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PassEnd {
    /// All blocks were transferred.
    Through,
    /// The time limit of the operation was reached.
    Limit,
    /// The time budget was used up.
    Budget,
    /// Another worker finished first.
    Stonewall,
    /// The user interrupted the run.
    Interrupted,
}

impl PassEnd {
    /// True if the budget or the user ended the pass early; no further pass is started then.
    pub fn is_early_end(self) -> bool {
        matches!(self, Self::Budget | Self::Interrupted)
    }
}

/// Result of a pass.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FilePassResult {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Time of the end in ticks of the clock.
    pub(crate) end: u64,
    /// Time of all operations in seconds. With one block in flight, it excludes the verification of the data.
    pub(crate) seconds: f64,
    pub(crate) end_reason: PassEnd,
}

impl FilePassResult {
    /// Adds the time since `start`, which is in ticks of the clock.
    fn extend(&mut self, clock: Clock, start: u64) {
        self.end = clock.now();
        self.seconds += clock.seconds(self.end - start).0;
    }
}

/// Resources of a worker for its passes: contents, memory, clock, histogram and file state.
pub(crate) struct FileBench {
    clock: Clock,
    pub(crate) data: Arc<FileContents>,
    /// Memory blocks of the last pass. The next pass reuses them if the block size is the same.
    blocks: Vec<Buffer>,
    pub(crate) latency: LatencyHistogram,
    pub(crate) file: PathBuf,
    /// Number of the pass whose data the file contains; 0 if the file does not exist.
    pub(crate) written_pass: u64,
    /// Seed of the random block order.
    pub(crate) seed: u64,
}

/// Interval at which the loop checks for interrupts and for the end of the budget.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

impl FileBench {
    pub(crate) fn new(data: Arc<FileContents>) -> Self {
        let clock = Clock::get();
        let latency = LatencyHistogram::new();
        let blocks = Vec::new();
        let file = PathBuf::new();
        Self { clock, data, blocks, latency, file, written_pass: 0, seed: 0 }
    }

    /// Returns memory blocks of `length` bytes, filled with contents and ready to be stamped and written.
    pub(crate) fn take_blocks(
        &mut self,
        count: usize,
        length: usize,
    ) -> Result<Vec<Buffer>, Failure> {
        let mut blocks = std::mem::take(&mut self.blocks);
        if blocks.len() != count || blocks.iter().any(|block| block.len() != length) {
            let made: io::Result<_> = (0..count).map(|_| Buffer::new(length)).collect();
            blocks = made.map_err(|cause| error::no_memory_error(count * length, cause))?;
        }
        blocks.iter_mut().for_each(|block| self.data.fill(block));
        Ok(blocks)
    }

    /// Performs one operation on the file. Afterwards, `self.latency` contains its latencies.
    pub(crate) fn run(&mut self, pass: &FilePass<'_>) -> Result<FilePassResult, Failure> {
        let FilePass { operation, task: Task { setup, cell, .. }, .. } = *pass;
        let path = self.file.clone();
        self.latency.clear();
        let fail = |cause| pass.failed(&path, None, cause);
        let file = engine::open(&path, operation.creates, setup.direct, setup.sync_writes)
            .map_err(fail)?;
        // True if the kernel's file position always equals the offset of the next block.
        let in_sequence =
            operation.pattern == AccessPattern::Forward && operation.direction != Direction::Mixed;
        let mut done = match (operation.calls, setup.engine) {
            (TransferCall::Plain, IoEngine::Uring) => {
                let ring = Uring::new(&file, pass.depth()).map_err(error::no_uring_error)?;
                self.transfer(pass, ring)
            }
            (TransferCall::Plain, IoEngine::Mmap) => {
                let bytes = cell.blocks() * cell.block.0;
                let mapped = MappedFile::new(&file, bytes, setup.msync).map_err(fail)?;
                self.transfer(pass, SynchronousEngine::new(mapped))
            }
            (TransferCall::Plain, IoEngine::Sync) if in_sequence => {
                self.transfer(pass, SynchronousEngine::new(FileCalls(&file, SEQUENTIAL)))
            }
            (TransferCall::Plain | TransferCall::Positional, _) => {
                self.transfer(pass, SynchronousEngine::new(FileCalls(&file, POSITIONAL)))
            }
            (TransferCall::Vector, _) => {
                self.transfer(pass, SynchronousEngine::new(FileCalls(&file, VECTORED)))
            }
            (TransferCall::Stdio, _) => {
                let stream = Stdio::new(&file).map_err(fail)?;
                self.transfer(pass, SynchronousEngine::new(stream))
            }
        }?;
        self.tail(&mut done, pass, file).map_err(fail)?;
        if setup.engine == IoEngine::Mmap
            && operation.creates
            && done.end_reason != PassEnd::Through
        {
            // The mapping extended the file to its full length, so that the file is truncated to the blocks that were
            // written.
            let cut = File::options().write(true).open(&path);
            cut.and_then(|opened| opened.set_len(done.bytes)).map_err(fail)?;
        }
        Ok(done)
    }

    /// Runs the loop: submits requests while blocks are free, and waits for the next completion.
    fn transfer<E: Engine>(
        &mut self,
        pass: &FilePass<'_>,
        mut engine: E,
    ) -> Result<FilePassResult, Failure> {
        let FilePass { operation, task: Task { setup, cell, .. }, .. } = *pass;
        let path = self.file.clone();
        let fail = |offset, cause| pass.failed(&path, offset, cause);
        let clock = self.clock;
        let depth = if E::QUEUES { pass.depth() } else { 1 };
        let blocks = cell.blocks();
        let block_bytes = cell.block.0;
        let written_pass = self.written_pass;
        let seed = self.seed.wrapping_add(written_pass);
        let mut free = self.take_blocks(depth, block_bytes as usize)?;
        // Operations that do not write every block write the data that the file already contains, so that the whole
        // file can be verified afterwards.
        let stamp = written_pass + u64::from(writes_every_block(operation));
        // With verification, blocks are filled again before writing, because a read may have changed them.
        let refills = setup.verify && operation.direction == Direction::Mixed;
        let mut walk = BlockOrder::new(operation.pattern, blocks, seed).with_stride(setup.stride);
        let mut end_reason = PassEnd::Through;
        let mut operations = 0;
        let mut paused = 0;
        (pass.start)();
        let begun = clock.now();
        let mut last = begun;
        let limit = pass.limit.map_or(u64::MAX, |limit| clock.ticks(limit));
        let ends = begun.saturating_add(limit);
        let look_every = clock.ticks(CHECK_INTERVAL);
        let mut next_look = begun + look_every;
        loop {
            while end_reason == PassEnd::Through
                && !free.is_empty()
                && let Some(number) = walk.next()
                && let Some(mut block) = free.pop()
            {
                let offset = number * block_bytes;
                let write = writes(operation, setup, seed, number);
                if write {
                    if refills {
                        self.data.fill(&mut block);
                    }
                    self.data.stamp(&mut block, offset, stamp);
                }
                let submit_ticks = if E::QUEUES { clock.now() } else { last };
                let request = BlockRequest { block, write, offset, submit_ticks };
                engine.submit(request).map_err(|cause| fail(Some(offset), cause))?;
            }
            if free.len() == depth {
                break;
            }
            let (request, moved) = engine.wait().map_err(|cause| fail(None, cause))?;
            let BlockRequest { block, write, offset, submit_ticks } = request;
            last = clock.now();
            moved.map_err(|cause| fail(Some(offset), cause))?;
            self.latency.record(last.saturating_sub(submit_ticks));
            operations += 1;
            let now = last;
            if setup.verify && !write {
                self.data
                    .check(&block, offset, written_pass)
                    .map_err(|wrong| wrong.into_failure(&path))?;
                if depth == 1 {
                    last = clock.now();
                    paused += last - now;
                }
            }
            free.push(block);
            if end_reason == PassEnd::Through && operations < blocks {
                if pass.stop.load(Ordering::Relaxed) != 0 {
                    end_reason = PassEnd::Stonewall;
                } else if now >= next_look {
                    next_look = now + look_every;
                    end_reason = pass.end_at(now, ends);
                }
            }
        }
        engine.finish(operation.direction != Direction::Read).map_err(|cause| fail(None, cause))?;
        let end = clock.now();
        self.blocks = free;
        Ok(FilePassResult {
            operations,
            bytes: operations * block_bytes,
            end,
            seconds: clock.seconds((end - begun).saturating_sub(paused)).0,
            // The blocks that were in flight may have been the last blocks.
            end_reason: if operations == blocks { PassEnd::Through } else { end_reason },
        })
    }

    /// Performs the calls after the last block, e.g. `fsync` and `close`. They are timed if the setup requests
    /// this.
    fn tail(&self, done: &mut FilePassResult, pass: &FilePass<'_>, file: File) -> io::Result<()> {
        let start = self.clock.now();
        if pass.task.setup.include_fsync && pass.operation.direction != Direction::Read {
            file.sync_all()?;
            done.extend(self.clock, start);
        }
        let before_close = self.clock.now();
        // SAFETY: `file` owned the descriptor, which is closed only once. The error of `close` is reported, because
        // network file systems report write errors in this call.
        check("close", unsafe { libc::close(file.into_raw_fd()) })?;
        if pass.task.setup.include_close {
            done.extend(self.clock, before_close);
        }
        Ok(())
    }
}

impl FilePass<'_> {
    /// Returns the maximum number of blocks in flight.
    fn depth(&self) -> usize {
        u64::from(self.task.setup.depth).min(self.task.cell.blocks()).max(1) as usize
    }

    /// Returns the reason why the pass must end now, or [`PassEnd::Through`] if it can go on. It is called rarely.
    #[cold]
    fn end_at(&self, now: u64, limit: u64) -> PassEnd {
        if (self.interrupted)() {
            PassEnd::Interrupted
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            PassEnd::Budget
        } else if now >= limit {
            PassEnd::Limit
        } else {
            PassEnd::Through
        }
    }

    fn failed(&self, file: &Path, offset: Option<u64>, cause: io::Error) -> Failure {
        let what = match self.operation.direction {
            Direction::Read => "cannot read",
            Direction::Write => "cannot write",
            Direction::Mixed => "cannot read or write",
        };
        error::file_error(what, file, offset, cause)
    }
}

/// True if an operation writes every block of the file.
pub(crate) fn writes_every_block(operation: &Operation) -> bool {
    operation.direction == Direction::Write && operation.pattern != AccessPattern::Same
}

/// True if the operation writes block `number`.
#[inline]
fn writes(operation: &Operation, setup: &TaskSetup, seed: u64, number: u64) -> bool {
    match operation.direction {
        Direction::Read => false,
        Direction::Write => true,
        Direction::Mixed => {
            mix_bits(seed ^ number.wrapping_mul(0x9E37)) % 100 >= u64::from(setup.read_percent)
        }
    }
}
