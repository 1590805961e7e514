//! One operation on one file: the timed loop.
//!
//! The clock is read once an operation: what one ends at, the next begins at. A latency therefore
//! holds the choice of the offset and the stamp of the block, some nanoseconds each, and all
//! latencies together are the time of the loop. With several operations under way a latency is the
//! time from hand-over to result.

use crate::FilesError;
use crate::clock::Clock;
use crate::data::Data;
use crate::engine::{self, Access, Engine, Mover, Msync, Queue, aio::Aio, uring::Uring};
use crate::latency::Latency;
use crate::operation::{Direction, Operation, Way};
use crate::pattern::{Pattern, Walk, mix};
use nodegauge_measure::Bytes;
use nodegauge_os::{Buffer, check};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How operations are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Calls of the plain operations.
    pub engine: Engine,
    /// Blocks under way at once; one unless the engine queues.
    pub depth: u32,
    /// When a written mapping is written out.
    pub msync: Msync,
    /// How files are opened.
    pub access: Access,
    /// Whether closing the file is timed.
    pub include_close: bool,
    /// Whether writing the data out (`fsync`) is timed.
    pub include_fsync: bool,
    /// Whether what is read is compared with what was written.
    pub verify: bool,
    /// Share of reads of the random mix, percent.
    pub read_percent: u8,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            engine: Engine::Sync,
            depth: 1,
            msync: Msync::None,
            access: Access::default(),
            include_close: false,
            include_fsync: false,
            verify: false,
            read_percent: 50,
        }
    }
}

impl Setup {
    /// Why an operation cannot be carried out this way; `None` when it can.
    pub fn refuses(&self, operation: &Operation) -> Option<&'static str> {
        match operation.way {
            Way::Stdio if self.access.direct => {
                Some("the C library's buffers are not aligned as direct I/O asks")
            }
            Way::Stdio | Way::Positional | Way::Vector if self.engine != Engine::Sync => {
                Some("it is a call of its own, for the engine sync")
            }
            _ => None,
        }
    }
}

/// The file of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) file: &'a Path,
    /// Whole blocks.
    pub(crate) blocks: u64,
    pub(crate) block: usize,
    /// Number of the pass whose data the file holds, and of the data that a pass over the whole file
    /// leaves in it.
    pub(crate) holds: u64,
    pub(crate) leaves: u64,
    /// Tells random orders apart.
    pub(crate) seed: u64,
}

impl Target<'_> {
    fn bytes(&self) -> u64 {
        self.blocks * self.block as u64
    }
}

/// When to end before the last block.
pub(crate) struct Control<'a> {
    /// End of this operation, from its start.
    pub(crate) limit: Option<Duration>,
    /// End of everything, in ticks of the clock.
    pub(crate) deadline: Option<u64>,
    /// Another worker is through.
    pub(crate) stop: &'a AtomicBool,
    /// The user wants to end.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// Called when the file is open and the first block is next: waits for the other workers.
    pub(crate) start: &'a dyn Fn(),
}

/// Why a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// After the last block.
    Through,
    /// At the time that an operation may take.
    Limit,
    /// At the end of the budget.
    Budget,
    /// Another worker was through.
    Stonewall,
    /// By the user.
    Interrupted,
}

/// What a pass did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Start and end, in ticks of the clock.
    pub(crate) ticks: (u64, u64),
    /// Time of the operations, seconds: without the comparison of contents.
    pub(crate) seconds: f64,
    pub(crate) ended: Ended,
}

/// What a worker needs to run passes: contents, memory, clock, histogram. Made once.
pub(crate) struct Bench {
    pub(crate) clock: Clock,
    pub(crate) data: Arc<Data>,
    out: Buffer,
    into: Buffer,
    pub(crate) latency: Latency,
}

/// Contents and memory for blocks of one size.
pub(crate) struct Block<'a> {
    pub(crate) data: &'a Data,
    /// Filled, to be stamped and written.
    pub(crate) out: &'a mut [u8],
}

/// How often the user is asked, and the budget looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Bench {
    pub(crate) fn new(data: Arc<Data>) -> Result<Self, FilesError> {
        let longest = data.longest();
        let memory = |_| {
            Buffer::new(longest)
                .map_err(|cause| FilesError::NoMemory { block: Bytes(2 * longest as u64), cause })
        };
        let (mut out, into) = (memory(())?, memory(())?);
        data.fill(&mut out);
        Ok(Self { clock: Clock::get(), data, out, into, latency: Latency::new() })
    }

    /// A block of `length` bytes to write.
    pub(crate) fn block(&mut self, length: usize) -> Block<'_> {
        Block { data: &self.data, out: &mut self.out[..length] }
    }

    /// Carries out one operation; its latencies are in `self.latency` afterwards.
    pub(crate) fn run(
        &mut self,
        operation: &Operation,
        setup: &Setup,
        target: &Target<'_>,
        control: &Control<'_>,
    ) -> Result<Done, FilesError> {
        self.latency.clear();
        let fail = |offset, cause| FilesError::Io {
            what: format!("cannot {}", verb(operation)),
            file: target.file.to_owned(),
            offset,
            cause,
        };
        let file = match operation.creates {
            true => setup.access.create(target.file),
            false => setup.access.open(target.file),
        }
        .map_err(|cause| fail(None, cause))?;
        let queued = operation.way == Way::Plain && setup.engine.queues();
        let done = if queued {
            self.queued(operation, setup, target, control, &file, &fail)
        } else {
            let mut mover =
                engine::mover(operation, setup.engine, setup.msync, &file, target.bytes())
                    .map_err(|cause| fail(None, cause))?;
            self.one_by_one(operation, setup, target, control, &mut *mover, &fail)
        }?;
        let done = self.tail(done, operation, setup, file).map_err(|cause| fail(None, cause))?;
        if setup.engine == Engine::Mmap && operation.creates && done.ended != Ended::Through {
            // A mapping makes the file as long as it will be.
            let cut = File::options().write(true).open(target.file);
            cut.and_then(|file| file.set_len(done.bytes)).map_err(|cause| fail(None, cause))?;
        }
        Ok(done)
    }

    /// The loop with one block under way.
    fn one_by_one(
        &mut self,
        operation: &Operation,
        setup: &Setup,
        target: &Target<'_>,
        control: &Control<'_>,
        mover: &mut dyn Mover,
        fail: &dyn Fn(Option<u64>, io::Error) -> FilesError,
    ) -> Result<Done, FilesError> {
        let out = &mut self.out[..target.block];
        let into = &mut self.into[..target.block];
        let stamp = stamped_as(operation, target);
        let mut look = Look::new(self.clock, control);
        (control.start)();
        let begun = self.clock.now();
        let (mut last, mut paused, mut operations) = (begun, 0, 0);
        let mut ended = Ended::Through;
        look.begin(begun);
        for number in Walk::new(operation.pattern, target.blocks, target.seed) {
            let offset = number * target.block as u64;
            let write = writes(operation, setup, target.seed, number);
            let moved = if write {
                self.data.stamp(out, offset, stamp);
                mover.write(offset, out)
            } else {
                mover.read(offset, into)
            };
            moved.map_err(|cause| fail(Some(offset), cause))?;
            let now = self.clock.now();
            self.latency.record(now.saturating_sub(last));
            last = now;
            operations += 1;
            if setup.verify && !write {
                self.data
                    .check(into, offset, target.holds)
                    .map_err(|wrong| FilesError::Wrong { file: target.file.to_owned(), wrong })?;
                last = self.clock.now();
                paused += last - now;
            }
            if let Some(why) = look.at(now) {
                if operations < target.blocks {
                    ended = why;
                }
                break;
            }
        }
        mover.finish(operation.direction != Direction::Read).map_err(|cause| fail(None, cause))?;
        let end = self.clock.now();
        Ok(Done {
            operations,
            bytes: operations * target.block as u64,
            ticks: (begun, end),
            seconds: self.clock.seconds((end - begun).saturating_sub(paused)).0,
            ended,
        })
    }

    /// The loop with several blocks under way.
    fn queued(
        &mut self,
        operation: &Operation,
        setup: &Setup,
        target: &Target<'_>,
        control: &Control<'_>,
        file: &File,
        fail: &dyn Fn(Option<u64>, io::Error) -> FilesError,
    ) -> Result<Done, FilesError> {
        let depth = (u64::from(setup.depth)).min(target.blocks).max(1) as usize;
        let mut queue: Box<dyn Queue + '_> = match setup.engine {
            Engine::Uring => {
                Box::new(Uring::new(file, depth, target.block).map_err(FilesError::NoUring)?)
            }
            _ => Box::new(Aio::new(file, depth, target.block).map_err(FilesError::NoAio)?),
        };
        for slot in 0..depth {
            self.data.fill(queue.block(slot));
        }
        let stamp = stamped_as(operation, target);
        let mut walk = Walk::new(operation.pattern, target.blocks, target.seed);
        let mut look = Look::new(self.clock, control);
        let mut slots: Vec<Under> = vec![Under::default(); depth];
        let mut free: Vec<usize> = (0..depth).rev().collect();
        let mut ended = Ended::Through;
        let mut operations = 0;
        (control.start)();
        let begun = self.clock.now();
        look.begin(begun);
        loop {
            while ended == Ended::Through && !free.is_empty() {
                let Some(number) = walk.next() else { break };
                let Some(slot) = free.pop() else { break };
                let offset = number * target.block as u64;
                let write = writes(operation, setup, target.seed, number);
                if write {
                    if setup.verify && operation.direction == Direction::Mixed {
                        // A read has put something else into the slot's memory.
                        self.data.fill(queue.block(slot));
                    }
                    self.data.stamp(queue.block(slot), offset, stamp);
                }
                slots[slot] = Under { offset, write, since: self.clock.now() };
                queue.submit(slot, write, offset).map_err(|cause| fail(Some(offset), cause))?;
            }
            if free.len() == depth {
                break;
            }
            let completion = queue.wait().map_err(|cause| fail(None, cause))?;
            let now = self.clock.now();
            let Under { offset, write, since } = slots[completion.slot];
            self.latency.record(now.saturating_sub(since));
            let moved = completion.result.map_err(|cause| fail(Some(offset), cause))?;
            if moved < target.block {
                rest(file, queue.block(completion.slot), moved, write, offset)
                    .map_err(|cause| fail(Some(offset), cause))?;
            }
            operations += 1;
            if setup.verify && !write {
                self.data
                    .check(queue.block(completion.slot), offset, target.holds)
                    .map_err(|wrong| FilesError::Wrong { file: target.file.to_owned(), wrong })?;
            }
            free.push(completion.slot);
            if ended == Ended::Through
                && let Some(why) = look.at(now)
                && operations < target.blocks
            {
                ended = why;
            }
        }
        let end = self.clock.now();
        if operations == target.blocks {
            ended = Ended::Through;
        }
        Ok(Done {
            operations,
            bytes: operations * target.block as u64,
            ticks: (begun, end),
            seconds: self.clock.seconds(end - begun).0,
            ended,
        })
    }

    /// What belongs to the operation after the last block, timed if so chosen.
    fn tail(
        &self,
        mut done: Done,
        operation: &Operation,
        setup: &Setup,
        file: File,
    ) -> io::Result<Done> {
        if setup.include_fsync && operation.direction != Direction::Read {
            let start = self.clock.now();
            engine::fsync(&file)?;
            done.ticks.1 = self.clock.now();
            done.seconds += self.clock.seconds(done.ticks.1 - start).0;
        }
        let start = self.clock.now();
        close(file)?;
        if setup.include_close {
            done.ticks.1 = self.clock.now();
            done.seconds += self.clock.seconds(done.ticks.1 - start).0;
        }
        Ok(done)
    }
}

/// Closes a file and hears of a failure, which network file systems report here.
fn close(file: File) -> io::Result<()> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor was owned by `file` and is closed once.
    check("close", unsafe { libc::close(file.into_raw_fd()) })?;
    Ok(())
}

/// A block under way.
#[derive(Debug, Clone, Copy, Default)]
struct Under {
    offset: u64,
    write: bool,
    since: u64,
}

/// Looks whether to end, seldom but for the flag that another worker is through.
struct Look<'a> {
    control: &'a Control<'a>,
    every: u64,
    limit: Option<u64>,
    ends: u64,
    next: u64,
}

impl<'a> Look<'a> {
    fn new(clock: Clock, control: &'a Control<'a>) -> Self {
        let limit = control.limit.map(|limit| clock.ticks(limit));
        Self { control, every: clock.ticks(LOOK_EVERY), limit, ends: u64::MAX, next: 0 }
    }

    fn begin(&mut self, now: u64) {
        self.ends = self.limit.map_or(u64::MAX, |limit| now.saturating_add(limit));
        self.next = now + self.every;
    }

    #[inline]
    fn at(&mut self, now: u64) -> Option<Ended> {
        if self.control.stop.load(Ordering::Relaxed) {
            return Some(Ended::Stonewall);
        }
        if now < self.next { None } else { self.closely(now) }
    }

    #[cold]
    fn closely(&mut self, now: u64) -> Option<Ended> {
        self.next = now + self.every;
        if (self.control.interrupted)() {
            Some(Ended::Interrupted)
        } else if self.control.deadline.is_some_and(|deadline| now >= deadline) {
            Some(Ended::Budget)
        } else if now >= self.ends {
            Some(Ended::Limit)
        } else {
            None
        }
    }
}

/// The number of the pass with which written blocks are stamped. Operations that do not write every
/// block write what is there already, so that the whole file can be checked afterwards.
fn stamped_as(operation: &Operation, target: &Target<'_>) -> u64 {
    if covers(operation) { target.leaves } else { target.holds }
}

/// Whether an operation writes every block of the file.
pub(crate) fn covers(operation: &Operation) -> bool {
    operation.direction == Direction::Write && operation.pattern != Pattern::Same
}

/// Whether block `number` is written.
#[inline]
fn writes(operation: &Operation, setup: &Setup, seed: u64, number: u64) -> bool {
    match operation.direction {
        Direction::Read => false,
        Direction::Write => true,
        Direction::Mixed => {
            mix(seed ^ number.wrapping_mul(0x9E37)) % 100 >= u64::from(setup.read_percent)
        }
    }
}

/// Moves what a queued request left over; seldom.
fn rest(file: &File, block: &mut [u8], moved: usize, write: bool, offset: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (fd, offset) = (file.as_raw_fd(), offset + moved as u64);
    match write {
        true => engine::sync::write_at(fd, offset, &block[moved..]),
        false => engine::sync::read_at(fd, offset, &mut block[moved..]),
    }
}

/// What an operation does, for messages.
fn verb(operation: &Operation) -> &'static str {
    match operation.direction {
        Direction::Read => "read",
        Direction::Write => "write",
        Direction::Mixed => "read or write",
    }
}
