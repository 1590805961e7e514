//! How blocks are moved between memory and files.
//!
//! A [`Mover`] moves one block at a time; a [`Queue`] has several under way. Both are told where and
//! how much, and know nothing of patterns, clocks or contents.

pub(crate) mod aio;
pub(crate) mod mapped;
pub(crate) mod stdio;
pub(crate) mod sync;
pub(crate) mod uring;

use crate::operation::{Direction, Operation, Way};
use crate::pattern::Pattern;
use nodegauge_os::check;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

/// Which calls carry out the plain operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// `read`, `write`, `pread`, `pwrite`.
    Sync,
    /// Copies from and to a shared mapping of the file.
    Mmap,
    /// POSIX asynchronous I/O, as the C library carries it out.
    Aio,
    /// The kernel's submission and completion rings.
    Uring,
}

impl Engine {
    /// As it is written in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Mmap => "mmap",
            Self::Aio => "aio",
            Self::Uring => "uring",
        }
    }

    /// Whether it can have several operations under way.
    pub fn queues(self) -> bool {
        matches!(self, Self::Aio | Self::Uring)
    }
}

impl FromStr for Engine {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sync" | "psync" => Ok(Self::Sync),
            "mmap" => Ok(Self::Mmap),
            "aio" | "posixaio" => Ok(Self::Aio),
            "uring" | "io_uring" => Ok(Self::Uring),
            _ => Err("expected sync, mmap, aio or uring".to_owned()),
        }
    }
}

/// When a mapping that was written is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Msync {
    /// When the kernel likes.
    None,
    /// Scheduled at the end of the operation (`MS_ASYNC`).
    Async,
    /// Before the operation ends (`MS_SYNC`).
    Sync,
}

impl FromStr for Msync {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "async" => Ok(Self::Async),
            "sync" => Ok(Self::Sync),
            _ => Err("expected none, async or sync".to_owned()),
        }
    }
}

/// What each single write waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncWrites {
    /// Data and all that the file system knows of the file (`O_SYNC`).
    Sync,
    /// Data and what is needed to find it again (`O_DSYNC`).
    Dsync,
}

impl FromStr for SyncWrites {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sync" => Ok(Self::Sync),
            "dsync" => Ok(Self::Dsync),
            _ => Err("expected sync or dsync".to_owned()),
        }
    }
}

/// How files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Access {
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// What each write waits for.
    pub sync: Option<SyncWrites>,
}

impl Access {
    fn flags(self) -> i32 {
        let direct = if self.direct { libc::O_DIRECT } else { 0 };
        let sync = match self.sync {
            None => 0,
            Some(SyncWrites::Sync) => libc::O_SYNC,
            Some(SyncWrites::Dsync) => libc::O_DSYNC,
        };
        direct | sync | libc::O_NOFOLLOW
    }

    /// Opens an existing file for both directions.
    pub(crate) fn open(self, path: &Path) -> io::Result<File> {
        File::options().read(true).write(true).custom_flags(self.flags()).open(path)
    }

    /// Makes a new file; one that exists is an error.
    pub(crate) fn create(self, path: &Path) -> io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(self.flags())
            .open(path)
    }
}

/// Moves one block at a time.
pub(crate) trait Mover {
    /// Fills `block` from the file at `offset`.
    fn read(&mut self, offset: u64, block: &mut [u8]) -> io::Result<()>;
    /// Writes `block` to the file at `offset`.
    fn write(&mut self, offset: u64, block: &[u8]) -> io::Result<()>;
    /// Hands over what is held back; inside the timing.
    fn finish(&mut self, wrote: bool) -> io::Result<()>;
}

/// Why a queue gave back a request.
#[derive(Debug)]
pub(crate) struct Completion {
    /// The slot that is free again.
    pub(crate) slot: usize,
    /// Bytes moved.
    pub(crate) result: io::Result<usize>,
}

/// Has one block for each slot under way.
pub(crate) trait Queue {
    /// The memory of a slot that is free.
    fn block(&mut self, slot: usize) -> &mut [u8];
    /// Starts to move the slot's block.
    fn submit(&mut self, slot: usize, write: bool, offset: u64) -> io::Result<()>;
    /// Waits for one block to be moved.
    fn wait(&mut self) -> io::Result<Completion>;
}

/// The mover of an operation on an open file. `bytes` is the size of the file, which a mapping needs.
pub(crate) fn mover<'f>(
    operation: &Operation,
    engine: Engine,
    msync: Msync,
    file: &'f File,
    bytes: u64,
) -> io::Result<Box<dyn Mover + 'f>> {
    Ok(match (operation.way, engine) {
        (Way::Plain, Engine::Mmap) => Box::new(mapped::Mapped::new(file, bytes, msync)?),
        (Way::Plain, _) if in_sequence(operation) => Box::new(sync::Sequential::new(file)),
        (Way::Plain | Way::Positional, _) => Box::new(sync::Positional::new(file)),
        (Way::Vector, _) => Box::new(sync::Vector::new(file)),
        (Way::Stdio, _) => Box::new(stdio::Stdio::new(file, operation.direction)?),
    })
}

/// Whether the kernel's own position of the file is the next offset.
fn in_sequence(operation: &Operation) -> bool {
    operation.pattern == Pattern::Forward && operation.direction != Direction::Mixed
}

/// Waits until the file's data is on the device (`fsync`).
pub(crate) fn fsync(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open while `file` lives.
    check("fsync", unsafe { libc::fsync(file.as_raw_fd()) })?;
    Ok(())
}

/// Nothing was moved although something was asked for.
pub(crate) fn nothing_moved(write: bool) -> io::Error {
    match write {
        true => io::Error::new(io::ErrorKind::WriteZero, "the kernel wrote nothing"),
        false => io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before its size"),
    }
}
