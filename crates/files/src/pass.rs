//! One operation on one file: the timed loop.
//!
//! With one block under way the clock is read once per operation: the end of one operation is the start of
//! the next. A latency therefore includes the choice of the offset and the stamp of the block, some
//! nanoseconds each, and the sum of all latencies is the time of the loop. With several operations under way
//! a latency is the time from submission to completion.

use crate::clock::Clock;
use crate::data::Data;
use crate::engine::{
    self, BlockRequest, Calls, Engine, IoEngine, Mapped, OneByOne, POSITIONAL, SEQUENTIAL, Stdio,
    Uring, VECTORED,
};
use crate::error;
use crate::latency::Latency;
use crate::operation::{Direction, Operation, Way};
use crate::pattern::{AccessPattern, Walk, mix};
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

/// One operation on one file.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) task: &'a Task,
    /// Time limit of this operation.
    pub(crate) limit: Option<Duration>,
    /// End of the run, in ticks of the clock.
    pub(crate) deadline: Option<u64>,
    /// Not zero when another worker has finished.
    pub(crate) stop: &'a AtomicU64,
    /// Returns true if the user interrupts the run.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// Called when the file is open and the first block is next: waits for the other workers.
    pub(crate) start: &'a dyn Fn(),
}

/// Reason why a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PassEnd {
    /// After the last block.
    Through,
    /// At the time limit of the operation.
    Limit,
    /// At the end of the budget.
    Budget,
    /// Another worker had finished.
    Stonewall,
    /// The user interrupted it.
    Interrupted,
}

impl PassEnd {
    /// True if the budget or the user ended the pass early, so that no pass follows.
    pub(crate) fn is_cut(self) -> bool {
        matches!(self, Self::Budget | Self::Interrupted)
    }
}

/// Result of a pass.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PassResult {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// End, in ticks of the clock.
    pub(crate) end: u64,
    /// Time of the operations in seconds. At depth 1 it excludes the verification of the data.
    pub(crate) seconds: f64,
    pub(crate) ended: PassEnd,
}

/// Resources of a worker for its passes: contents, memory, clock, histogram and file.
pub(crate) struct Bench {
    clock: Clock,
    pub(crate) data: Arc<Data>,
    /// Blocks of the last pass, reused for the same block size.
    blocks: Vec<Buffer>,
    pub(crate) latency: Latency,
    pub(crate) file: PathBuf,
    /// Number of the pass whose data the file holds; 0 before there is a file.
    pub(crate) holds: u64,
    /// Seed of random orders.
    pub(crate) seed: u64,
}

/// Interval at which interrupts and the budget are checked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Bench {
    pub(crate) fn new(data: Arc<Data>) -> Self {
        let (clock, latency) = (Clock::get(), Latency::new());
        let (blocks, file) = (Vec::new(), PathBuf::new());
        Self { clock, data, blocks, latency, file, holds: 0, seed: 0 }
    }

    /// Returns filled blocks of `length` bytes, ready to be stamped and written.
    pub(crate) fn take_blocks(
        &mut self,
        count: usize,
        length: usize,
    ) -> Result<Vec<Buffer>, Failure> {
        let mut blocks = std::mem::take(&mut self.blocks);
        if blocks.len() != count || blocks.iter().any(|block| block.len() != length) {
            let made: io::Result<_> = (0..count).map(|_| Buffer::new(length)).collect();
            blocks = made.map_err(|cause| error::no_memory(count * length, cause))?;
        }
        blocks.iter_mut().for_each(|block| self.data.fill(block));
        Ok(blocks)
    }

    /// Carries out one operation; its latencies are in `self.latency` afterwards.
    pub(crate) fn run(&mut self, pass: &Pass<'_>) -> Result<PassResult, Failure> {
        let Pass { operation, task: Task { setup, cell, .. }, .. } = *pass;
        let path = self.file.clone();
        self.latency.clear();
        let fail = |cause| pass.failed(&path, None, cause);
        let file = engine::open(&path, operation.creates, setup.direct, setup.sync_writes)
            .map_err(fail)?;
        let calls = |kind| OneByOne::new(Calls(&file, kind));
        // True if the kernel's own position in the file is always the next offset.
        let in_sequence =
            operation.pattern == AccessPattern::Forward && operation.direction != Direction::Mixed;
        let mut done = match (operation.way, setup.engine) {
            (Way::Plain, IoEngine::Uring) => {
                let ring = Uring::new(&file, pass.depth()).map_err(error::no_uring)?;
                self.transfer(pass, ring)
            }
            (Way::Plain, IoEngine::Mmap) => {
                let bytes = cell.blocks() * cell.block.0;
                let mapped = Mapped::new(&file, bytes, setup.msync).map_err(fail)?;
                self.transfer(pass, OneByOne::new(mapped))
            }
            (Way::Plain, IoEngine::Sync) if in_sequence => self.transfer(pass, calls(SEQUENTIAL)),
            (Way::Plain | Way::Positional, _) => self.transfer(pass, calls(POSITIONAL)),
            (Way::Vector, _) => self.transfer(pass, calls(VECTORED)),
            (Way::Stdio, _) => {
                let stream = Stdio::new(&file).map_err(fail)?;
                self.transfer(pass, OneByOne::new(stream))
            }
        }?;
        self.tail(&mut done, pass, file).map_err(fail)?;
        if setup.engine == IoEngine::Mmap && operation.creates && done.ended != PassEnd::Through {
            // A mapping has extended the file to its full length.
            let cut = File::options().write(true).open(&path);
            cut.and_then(|opened| opened.set_len(done.bytes)).map_err(fail)?;
        }
        Ok(done)
    }

    /// Runs the loop: submits blocks while there are free ones, and waits for the next completion.
    fn transfer<E: Engine>(
        &mut self,
        pass: &Pass<'_>,
        mut engine: E,
    ) -> Result<PassResult, Failure> {
        let Pass { operation, task: Task { setup, cell, .. }, .. } = *pass;
        let path = self.file.clone();
        let fail = |offset, cause| pass.failed(&path, offset, cause);
        let (clock, depth) = (self.clock, if E::QUEUES { pass.depth() } else { 1 });
        let (blocks, block_bytes, holds) = (cell.blocks(), cell.block.0, self.holds);
        let seed = self.seed.wrapping_add(holds);
        let mut free = self.take_blocks(depth, block_bytes as usize)?;
        // Operations that do not write every block write what is there already, so that the whole file
        // can be checked afterwards.
        let stamp = holds + u64::from(covers(operation));
        // A read may change the content of the block.
        let refills = setup.verify && operation.direction == Direction::Mixed;
        let mut walk = Walk::new(operation.pattern, blocks, seed);
        let (mut ended, mut operations, mut paused) = (PassEnd::Through, 0, 0);
        (pass.start)();
        let begun = clock.now();
        let mut last = begun;
        let limit = pass.limit.map_or(u64::MAX, |limit| clock.ticks(limit));
        let (ends, look_every) = (begun.saturating_add(limit), clock.ticks(LOOK_EVERY));
        let mut next_look = begun + look_every;
        loop {
            while ended == PassEnd::Through
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
                let since = if E::QUEUES { clock.now() } else { last };
                let request = BlockRequest { block, write, offset, since };
                engine.submit(request).map_err(|cause| fail(Some(offset), cause))?;
            }
            if free.len() == depth {
                break;
            }
            let (request, moved) = engine.wait().map_err(|cause| fail(None, cause))?;
            let BlockRequest { block, write, offset, since } = request;
            last = clock.now();
            moved.map_err(|cause| fail(Some(offset), cause))?;
            self.latency.record(last.saturating_sub(since));
            operations += 1;
            let now = last;
            if setup.verify && !write {
                self.data.check(&block, offset, holds).map_err(|wrong| wrong.of(&path))?;
                if depth == 1 {
                    last = clock.now();
                    paused += last - now;
                }
            }
            free.push(block);
            if ended == PassEnd::Through && operations < blocks {
                if pass.stop.load(Ordering::Relaxed) != 0 {
                    ended = PassEnd::Stonewall;
                } else if now >= next_look {
                    next_look = now + look_every;
                    ended = pass.end_at(now, ends);
                }
            }
        }
        engine.finish(operation.direction != Direction::Read).map_err(|cause| fail(None, cause))?;
        let end = clock.now();
        self.blocks = free;
        Ok(PassResult {
            operations,
            bytes: operations * block_bytes,
            end,
            seconds: clock.seconds((end - begun).saturating_sub(paused)).0,
            // The blocks in progress may have been the last.
            ended: if operations == blocks { PassEnd::Through } else { ended },
        })
    }

    /// Runs the part of the operation after the last block, timed if the option asks for it.
    fn tail(&self, done: &mut PassResult, pass: &Pass<'_>, file: File) -> io::Result<()> {
        let mut timed = |is_timed: bool, start: u64| {
            if is_timed {
                done.end = self.clock.now();
                done.seconds += self.clock.seconds(done.end - start).0;
            }
        };
        let start = self.clock.now();
        if pass.task.setup.include_fsync && pass.operation.direction != Direction::Read {
            file.sync_all()?;
            timed(true, start);
        }
        let pass_start = self.clock.now();
        // SAFETY: the descriptor was owned by `file` and is closed once. A failure is reported, which
        // network file systems have here.
        check("close", unsafe { libc::close(file.into_raw_fd()) })?;
        timed(pass.task.setup.include_close, pass_start);
        Ok(())
    }
}

impl Pass<'_> {
    /// Returns the number of blocks under way at once.
    fn depth(&self) -> usize {
        u64::from(self.task.setup.depth).min(self.task.cell.blocks()).max(1) as usize
    }

    /// Returns the reason to end now, if any; called rarely.
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
        error::of_file(what, file, offset, cause)
    }
}

/// True if an operation writes every block of the file.
pub(crate) fn covers(operation: &Operation) -> bool {
    operation.direction == Direction::Write && operation.pattern != AccessPattern::Same
}

/// True if block `number` is written.
#[inline]
fn writes(operation: &Operation, setup: &TaskSetup, seed: u64, number: u64) -> bool {
    match operation.direction {
        Direction::Read => false,
        Direction::Write => true,
        Direction::Mixed => {
            mix(seed ^ number.wrapping_mul(0x9E37)) % 100 >= u64::from(setup.read_percent)
        }
    }
}
