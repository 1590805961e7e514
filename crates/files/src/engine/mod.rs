//! Engines that move blocks between memory and files.
//!
//! An [`Engine`] has as many blocks under way as it is given; a [`Mover`] moves one at a time and is an
//! engine as [`OneByOne`]. Both are told where and how much, and know nothing of patterns, clocks or
//! contents.

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

/// Which calls carry out the plain operations.
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
    /// As it is written in options and records.
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

    /// Refuses an engine that the system lacks before anything is made with it.
    pub(crate) fn probe(self) -> Result<(), Failure> {
        match self {
            Self::Uring => uring::probe().map_err(error::no_uring),
            Self::Sync | Self::Mmap => Ok(()),
        }
    }
}

/// When a mapping that was written is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Msync {
    /// When the kernel likes.
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
    /// Data and all that the file system knows of the file (`O_SYNC`).
    Sync,
    /// Data and what is needed to find it again (`O_DSYNC`).
    Dsync,
}

/// A choice by its name in records; `expected` names all of them.
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

/// Opens a file for both directions: a new one, which must not be there, or one that is.
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

/// A block and what is to be done with it. Whoever has the block may touch it: while it is on its way
/// it belongs to the engine, whose completion gives it back.
#[derive(Debug)]
pub(crate) struct BlockRequest {
    /// The block; it lies at one address as long as it lives.
    pub(crate) block: Buffer,
    pub(crate) write: bool,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// When it was handed over, in ticks of the clock.
    pub(crate) since: u64,
}

/// A request that an engine gives back, and whether its block was moved.
pub(crate) type Completion = (BlockRequest, io::Result<()>);

impl BlockRequest {
    /// The outcome of a call that moved so many bytes, seldom fewer than all: the rest goes at once.
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

/// Carries requests out, as many at once as it was made for.
pub(crate) trait Engine {
    /// True if several may be under way.
    const QUEUES: bool = true;
    /// Takes a request over.
    fn submit(&mut self, request: BlockRequest) -> io::Result<()>;
    /// Waits for a request to end.
    fn wait(&mut self) -> io::Result<Completion>;
    /// Hands over what is held back after the last request; inside the timing.
    fn finish(&mut self, _wrote: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Moves one block at a time.
pub(crate) trait Mover {
    /// Writes `block` to the file at `offset`, or fills it from there.
    fn transfer(&mut self, write: bool, offset: u64, block: &mut [u8]) -> io::Result<()>;
    /// As [`Engine::finish`].
    fn finish(&mut self, _wrote: bool) -> io::Result<()> {
        Ok(())
    }
}

/// A mover as an engine: a request has ended when it is handed over.
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
