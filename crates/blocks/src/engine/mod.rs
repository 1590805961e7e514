//! Engines that transfer blocks between memory and files.
//!
//! An `Engine` can have several blocks in flight. A `Mover` transfers one block at a time; `SynchronousEngine`
//! adapts it to the interface of an engine. Engines and movers receive only offsets and blocks; they do not depend
//! on patterns, clocks or contents.

mod mapped;
mod stdio;
mod sync;
mod uring;

pub(crate) use mapped::MappedFile;
pub(crate) use stdio::Stdio;
pub(crate) use sync::{FileCalls, POSITIONAL, SEQUENTIAL, VECTORED};
pub(crate) use uring::Uring;

use crate::error;
use nodegauge_measure::{Failure, UnknownName};
use nodegauge_os::Buffer;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

/// System calls with which operations read and write. Operations whose name begins with `f` (C library) or `p`
/// (`pread`, `pwritev`) use the calls of their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IoEngine {
    /// `read`, `write`, `pread`, `pwrite`.
    #[serde(alias = "psync")]
    Sync,
    /// Copies from and to a shared mapping of the file.
    Mmap,
    /// Submission and completion rings of the kernel's io_uring.
    #[serde(alias = "io_uring")]
    Uring,
}

impl IoEngine {
    /// Returns the engine's name in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Mmap => "mmap",
            Self::Uring => "uring",
        }
    }

    /// True if the engine can have several operations in flight.
    pub fn has_queue(self) -> bool {
        self == Self::Uring
    }

    /// Checks that the system supports the engine.
    pub fn probe(self) -> Result<(), Failure> {
        match self {
            Self::Uring => uring::probe().map_err(error::no_uring_error),
            Self::Sync | Self::Mmap => Ok(()),
        }
    }
}

/// Time at which changes to a mapping are written to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Msync {
    /// The kernel chooses the time.
    None,
    /// The write is scheduled at the end of the operation (`MS_ASYNC`).
    Async,
    /// The write is complete before the operation ends (`MS_SYNC`).
    Sync,
}

/// Data that must be on the device before a write call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncWrites {
    /// Data and all metadata of the file (`O_SYNC`).
    Sync,
    /// Data, and the metadata that reading the data requires (`O_DSYNC`).
    Dsync,
}

/// Parses the name of a choice as in records. For the error, `what` describes the choice, and `known` contains all
/// names.
pub(crate) fn parse_choice<T: DeserializeOwned>(
    text: &str,
    what: &'static str,
    known: &[&'static str],
) -> Result<T, UnknownName> {
    let value: value::StrDeserializer<'_, value::Error> = text.into_deserializer();
    let given = text.to_owned();
    T::deserialize(value).map_err(|_| UnknownName { what, given, known: known.to_vec() })
}

impl FromStr for IoEngine {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_choice(text, "engine", &["sync", "mmap", "uring"])
    }
}

impl FromStr for Msync {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_choice(text, "msync", &["none", "async", "sync"])
    }
}

impl FromStr for SyncWrites {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_choice(text, "kind of synchronous write", &["sync", "dsync"])
    }
}

/// Opens a file for reading and writing: a new file if `new` is true, otherwise an existing file.
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

/// Transfer request with its memory block. Only the owner of the block may access it: the engine while the request is
/// in flight, and the caller after completion.
#[derive(Debug)]
pub(crate) struct BlockRequest {
    /// Memory block; its address never changes.
    pub(crate) block: Buffer,
    pub(crate) write: bool,
    /// Offset of the block in the file.
    pub(crate) offset: u64,
    /// Submission time in ticks of the clock.
    pub(crate) submit_ticks: u64,
}

/// Completed request, with the result of the transfer.
pub(crate) type Completion = (BlockRequest, io::Result<()>);

impl BlockRequest {
    /// Completes a request after a call that transferred `moved` bytes. If this is only a part of the block, the
    /// rest is transferred immediately.
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

/// Engine that accepts transfer requests, several of which may be in flight.
pub(crate) trait Engine {
    /// True if several requests may be in flight.
    const QUEUES: bool = true;
    /// Submits a request.
    fn submit(&mut self, request: BlockRequest) -> io::Result<()>;
    /// Waits for the completion of a request.
    fn wait(&mut self) -> io::Result<Completion>;
    /// Flushes buffered data after the last request. This time is included in the measurement.
    fn finish(&mut self, _wrote: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Interface that transfers one block at a time.
pub(crate) trait Mover {
    /// Writes `block` to the file at `offset` if `write` is true; otherwise reads `block` from there.
    fn transfer(&mut self, write: bool, offset: u64, block: &mut [u8]) -> io::Result<()>;
    /// Flushes buffered data after the last transfer, as [`Engine::finish`] does.
    fn finish(&mut self, _wrote: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Engine that uses a mover. A request is complete as soon as it has been submitted.
pub(crate) struct SynchronousEngine<M> {
    mover: M,
    ended: Option<Completion>,
}

impl<M: Mover> SynchronousEngine<M> {
    pub(crate) fn new(mover: M) -> Self {
        Self { mover, ended: None }
    }
}

impl<M: Mover> Engine for SynchronousEngine<M> {
    const QUEUES: bool = false;

    #[inline]
    fn submit(&mut self, mut request: BlockRequest) -> io::Result<()> {
        let moved = self.mover.transfer(request.write, request.offset, &mut request.block);
        self.ended = Some((request, moved));
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<Completion> {
        self.ended.take().ok_or_else(|| io::Error::other("no request is in flight"))
    }

    fn finish(&mut self, wrote: bool) -> io::Result<()> {
        self.mover.finish(wrote)
    }
}
