//! Engines that move blocks between memory and files.
//!
//! An [`Engine`] has several blocks under way; a [`Mover`] moves one at a time and becomes an engine in
//! [`OneByOne`]. Both receive offset and length, and do not depend on patterns, clocks or contents.

mod mapped;
mod stdio;
mod sync;
mod uring;

pub(crate) use mapped::Mapped;
pub(crate) use stdio::Stdio;
pub(crate) use sync::{Calls, POSITIONAL, SEQUENTIAL, VECTORED};
pub(crate) use uring::Uring;

use crate::error;
use nodegauge_measure::Failure;
use nodegauge_os::Buffer;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

/// Calls that carry out the plain operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IoEngine {
    /// `read`, `write`, `pread`, `pwrite`.
    #[serde(alias = "psync")]
    Sync,
    /// Copies from and to a shared mapping of the file.
    Mmap,
    /// The kernel's submission and completion rings.
    #[serde(alias = "io_uring")]
    Uring,
}

impl IoEngine {
    /// Returns the name in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Mmap => "mmap",
            Self::Uring => "uring",
        }
    }

    /// True if the engine can have several operations under way.
    pub(crate) fn queues(self) -> bool {
        self == Self::Uring
    }

    /// Checks that the system supports the engine.
    pub(crate) fn probe(self) -> Result<(), Failure> {
        match self {
            Self::Uring => uring::probe().map_err(error::no_uring),
            Self::Sync | Self::Mmap => Ok(()),
        }
    }
}

/// Time at which a changed mapping is written to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Msync {
    /// At a time that the kernel chooses.
    None,
    /// Scheduled at the end of the operation (`MS_ASYNC`).
    Async,
    /// Before the operation ends (`MS_SYNC`).
    Sync,
}

/// Event for which each single write waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncWrites {
    /// Data and all metadata of the file (`O_SYNC`).
    Sync,
    /// Data and the metadata that is required to read it (`O_DSYNC`).
    Dsync,
}

/// Parses a choice by its name in records; `expected` lists all names.
pub(crate) fn choice<T: DeserializeOwned>(text: &str, expected: &str) -> Result<T, String> {
    let text: value::StrDeserializer<'_, value::Error> = text.into_deserializer();
    T::deserialize(text).map_err(|_| format!("expected {expected}"))
}

impl FromStr for IoEngine {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        choice(text, "sync, mmap or uring")
    }
}

impl FromStr for Msync {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        choice(text, "none, async or sync")
    }
}

impl FromStr for SyncWrites {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        choice(text, "sync or dsync")
    }
}

/// Opens a file for reading and writing: a new file, which must not exist, or an existing one.
pub(crate) fn open(
    path: &Path,
    new: bool,
    direct: bool,
    sync: Option<SyncWrites>,
) -> io::Result<File> {
    let sync = match sync {
        None => 0,
        Some(SyncWrites::Sync) => libc::O_SYNC,
        Some(SyncWrites::Dsync) => libc::O_DSYNC,
    };
    let flags = if direct { libc::O_DIRECT } else { 0 } | sync | libc::O_NOFOLLOW;
    let mut options = File::options();
    options.read(true).write(true).create_new(new).mode(0o600).custom_flags(flags).open(path)
}

/// Block and the transfer to carry out. Only the owner of the block may access it: the engine while the
/// request is under way, the caller after its completion.
#[derive(Debug)]
pub(crate) struct BlockRequest {
    /// The block; its address does not change.
    pub(crate) block: Buffer,
    pub(crate) write: bool,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Time of the submission, in ticks of the clock.
    pub(crate) since: u64,
}

/// Completed request, with the result of the transfer.
pub(crate) type Completion = (BlockRequest, io::Result<()>);

impl BlockRequest {
    /// Completes a request after a call that moved `moved` bytes. If it moved only a part, the rest is moved
    /// at once.
    fn completed(mut self, moved: io::Result<usize>, file: &File) -> Completion {
        let moved = moved.and_then(|moved| match moved {
            0 if self.write => Err(io::ErrorKind::WriteZero.into()),
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            moved => {
                let at = self.offset + moved as u64;
                POSITIONAL(file, self.write, at, &mut self.block[moved..])
            }
        });
        (self, moved)
    }
}

/// Engine for requests, several of which may be under way.
pub(crate) trait Engine {
    /// True if several requests may be under way.
    const QUEUES: bool = true;
    /// Submits a request.
    fn submit(&mut self, request: BlockRequest) -> io::Result<()>;
    /// Waits for a request to end.
    fn wait(&mut self) -> io::Result<Completion>;
    /// Flushes buffered data after the last request; this is timed.
    fn finish(&mut self, _wrote: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Moves one block at a time.
pub(crate) trait Mover {
    /// Writes `block` to the file at `offset`, or fills it from there.
    fn transfer(&mut self, write: bool, offset: u64, block: &mut [u8]) -> io::Result<()>;
    /// Does the same as [`Engine::finish`].
    fn finish(&mut self, _wrote: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Engine from a mover: a request is complete when it has been submitted.
pub(crate) struct OneByOne<M> {
    mover: M,
    ended: Option<Completion>,
}

impl<M: Mover> OneByOne<M> {
    pub(crate) fn new(mover: M) -> Self {
        Self { mover, ended: None }
    }
}

impl<M: Mover> Engine for OneByOne<M> {
    const QUEUES: bool = false;

    #[inline]
    fn submit(&mut self, mut request: BlockRequest) -> io::Result<()> {
        let moved = self.mover.transfer(request.write, request.offset, &mut request.block);
        self.ended = Some((request, moved));
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<Completion> {
        self.ended.take().ok_or_else(|| io::Error::other("no request is under way"))
    }

    fn finish(&mut self, wrote: bool) -> io::Result<()> {
        self.mover.finish(wrote)
    }
}
