//! One operation on all files of a worker: the timed loop.
//!
//! The clock is read after each batch of calls; the end of a batch is the start of the next one. A latency is the time
//! of a batch divided by its number of calls, and includes making the path. The sum of the times of all batches is the
//! time of the loop.

use super::EntryOperation;
use super::names::FileNames;
use crate::clock::Clock;
use crate::error;
use crate::latency::LatencyHistogram;
use nodegauge_measure::Failure;
use nodegauge_os::check;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Beginning of the names of created files.
const CREATED: &str = "file";
/// Beginning of the names of renamed files, as long as [`CREATED`].
const RENAMED: &str = "name";
/// Mode of the created files.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Parameters of an operation on all files of a worker.
#[derive(Clone, Copy)]
pub struct EntryPass<'a> {
    /// Number of files.
    pub files: u64,
    /// True if a created file is written to the device before it is closed.
    pub fsync: bool,
    /// Number of operations between two readings of the clock, a power of two.
    pub batch: u64,
    /// Flag that is not zero when the operation must end.
    pub stop: &'a AtomicU64,
}

/// Files of a worker, with the latencies of the latest operation.
pub(super) struct EntryBench {
    clock: Clock,
    created: FileNames,
    renamed: FileNames,
    /// True if the files have been renamed.
    is_renamed: bool,
    data: Vec<u8>,
    pub(super) latency: LatencyHistogram,
}

impl EntryBench {
    /// Prepares the names of a worker's files in a folder without creating them. `bytes` is the size of each file.
    pub(super) fn new(folder: &Path, worker: usize, bytes: u64) -> Result<Self, Failure> {
        let [created, renamed] = [CREATED, RENAMED].map(|kind| {
            FileNames::new(folder, kind, worker)
                .map_err(|cause| error::unwritable_error(folder, cause))
        });
        Ok(Self {
            clock: Clock::get(),
            created: created?,
            renamed: renamed?,
            is_renamed: false,
            data: vec![0x5a; bytes as usize],
            latency: LatencyHistogram::new(),
        })
    }

    /// Carries out an operation on all files, and records its latencies. Returns the number of files on which it was
    /// carried out.
    #[inline(never)]
    pub(super) fn run(
        &mut self,
        operation: EntryOperation,
        pass: &EntryPass<'_>,
    ) -> Result<u64, Failure> {
        let Self { clock, created, renamed, is_renamed, data, latency } = self;
        let from = if *is_renamed { &mut *renamed } else { &mut *created };
        let done = match operation {
            EntryOperation::Create => {
                repeat(*clock, latency, pass, |number| create(from, number, data, pass.fsync))
            }
            EntryOperation::Stat => repeat(*clock, latency, pass, |number| {
                rustix::fs::stat(from.path(number)).map(drop).map_err(io::Error::from)
            }),
            EntryOperation::Open => repeat(*clock, latency, pass, |number| {
                close(rustix::fs::open(
                    from.path(number),
                    OFlags::RDONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?)
            }),
            EntryOperation::Rename => {
                *is_renamed = true;
                repeat(*clock, latency, pass, |number| {
                    let to = renamed.path(number);
                    rustix::fs::rename(created.path(number), to).map_err(io::Error::from)
                })
            }
            EntryOperation::Remove => repeat(*clock, latency, pass, |number| {
                rustix::fs::unlink(from.path(number)).map_err(io::Error::from)
            }),
        };
        done.map_err(|cause| self.failed(operation, cause))
    }

    fn failed(&self, operation: EntryOperation, cause: io::Error) -> Failure {
        let has_new_name = self.is_renamed && operation != EntryOperation::Rename;
        let names = if has_new_name { &self.renamed } else { &self.created };
        error::entry_error(&format!("cannot {operation}"), &names.latest_path(), cause)
    }
}

/// Calls `call` for each file until `stop` is set, and records the latency of each batch. Returns the number of calls.
#[inline(always)]
fn repeat(
    clock: Clock,
    latency: &mut LatencyHistogram,
    pass: &EntryPass<'_>,
    mut call: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let shift = pass.batch.trailing_zeros();
    let inside = pass.batch - 1;
    let mut last = clock.now();
    let mut done = 0;
    while done < pass.files {
        call(done)?;
        done += 1;
        if done & inside == 0 {
            let now = clock.now();
            latency.record(now.saturating_sub(last) >> shift);
            last = now;
            if pass.stop.load(Ordering::Relaxed) != 0 {
                break;
            }
        }
    }
    Ok(done)
}

/// Creates a file that does not exist, and writes its data.
#[inline(always)]
fn create(names: &mut FileNames, number: u64, data: &[u8], fsync: bool) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(names.path(number), flags, MODE)?;
    let mut rest = data;
    while !rest.is_empty() {
        match rustix::io::write(&file, rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    if fsync {
        rustix::fs::fsync(&file)?;
    }
    close(file)
}

/// Closes a file. Network file systems report errors of creation in this call.
#[inline(always)]
fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: `file` owned the descriptor, which is closed only once.
    check("close", unsafe { libc::close(file.into_raw_fd()) })?;
    Ok(())
}
