//! Why files could not be measured: which file, which value, and what to do.

use crate::data::WrongByte;
use nodegauge_measure::Bytes;
use nodegauge_toolchain::ToolchainError;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// `--path` is something else than a folder, or is not there.
    #[error("{path:?} is {what}\nhint: give a folder that exists, e.g. --path /scratch")]
    NotAFolder {
        /// As given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Nothing can be written there.
    #[error("cannot write in {path:?}: {cause}{}", remedy(cause))]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Less room than the files take.
    #[error(
        "{path:?} has {free} left ({basis}), files of {needed} do not fit\nhint: give less with --max-size or --file-sizes, or another --path"
    )]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// What there is.
        free: Bytes,
        /// Free space or quota.
        basis: &'static str,
        /// What would be needed.
        needed: Bytes,
    },
    /// The file system does no direct I/O.
    #[error(
        "{file_system} at {path:?} does no direct I/O: {why}\nhint: --cache fsync goes to the device through the page cache"
    )]
    NoDirect {
        /// The folder.
        path: PathBuf,
        /// Its type.
        file_system: String,
        /// How it was found out.
        why: String,
    },
    /// The kernel refuses io_uring.
    #[error(
        "no io_uring here: {0}\nhint: it may be switched off (sysctl kernel.io_uring_disabled) or filtered in a container; --engine aio or sync"
    )]
    NoUring(io::Error),
    /// The C library refuses POSIX asynchronous I/O.
    #[error("no POSIX asynchronous I/O here: {0}\nhint: --engine uring or sync")]
    NoAio(io::Error),
    /// An operation on a file failed.
    #[error("{what} {file:?}{}: {cause}{}", at(*offset), remedy(cause))]
    Io {
        /// The operation.
        what: String,
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: Option<u64>,
        /// Why.
        cause: io::Error,
    },
    /// Reading back did not give what was written.
    #[error(
        "{file:?} has a wrong byte at offset {}: expected {:#04x}, found {:#04x}",
        wrong.offset, wrong.expected, wrong.found
    )]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The byte.
        wrong: WrongByte,
    },
    /// The same, found by a worker process, in its words.
    #[error("{0}")]
    WrongInWorker(String),
    /// A size, a choice or a combination that cannot be.
    #[error("{0}")]
    Usage(String),
    /// No memory for blocks.
    #[error("no memory for blocks of {block}: {cause}\nhint: smaller --block-sizes or --depth")]
    NoMemory {
        /// All blocks under way.
        block: Bytes,
        /// Why.
        cause: io::Error,
    },
    /// A worker process ended without a result.
    #[error("worker {worker} ended without a result: {why}")]
    Worker {
        /// Its number.
        worker: usize,
        /// What is known.
        why: String,
    },
    /// What a killed run left cannot be removed.
    #[error(
        "cannot remove {}, which a killed run left: {cause}\nhint: look into it and remove it by hand",
        folder.display()
    )]
    Leftover {
        /// Its directory.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A reference program.
    #[error(transparent)]
    Program(#[from] ToolchainError),
    /// A reference program gave something else than its output.
    #[error("{program}: {why}")]
    Reference {
        /// Its command.
        program: String,
        /// What is wrong.
        why: String,
    },
}

fn at(offset: Option<u64>) -> String {
    offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default()
}

/// A hint for causes that have a remedy.
fn remedy(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::ENOSPC) => "\nhint: free some space, or give less with --max-size",
        Some(libc::EDQUOT) => {
            "\nhint: the quota is used up; give less with --max-size, or another --path"
        }
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => {
            "\nhint: give a folder that you may write, --path DIR"
        }
        Some(libc::EIO) => "\nhint: the device reports an error; see the kernel's log (dmesg)",
        Some(libc::ENOENT | libc::ESTALE | libc::ENODEV | libc::ENOTCONN) => {
            "\nhint: the file system or the folder went away while it was measured"
        }
        _ => "",
    }
}

impl FilesError {
    /// An operation on a file that failed.
    pub(crate) fn io(what: impl Into<String>, file: &Path, cause: io::Error) -> Self {
        Self::Io { what: what.into(), file: file.to_owned(), offset: None, cause }
    }

    /// Whether the system lacks something: space, a permission, a feature.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::NotAFolder { .. }
            | Self::Usage(_)
            | Self::Wrong { .. }
            | Self::WrongInWorker(_) => false,
            Self::Io { cause, .. } => cause.raw_os_error() != Some(libc::EIO),
            _ => true,
        }
    }

    /// Whether the arguments are at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NotAFolder { .. } | Self::Usage(_))
    }
}

impl From<FilesError> for nodegauge_measure::Failure {
    fn from(error: FilesError) -> Self {
        if error.is_usage() {
            Self::usage(error)
        } else if error.is_missing() {
            Self::missing(error)
        } else {
            Self::unmet(error)
        }
    }
}
