//! Why files could not be measured: which file, which value, and what to do.

use nodegauge_measure::{Bytes, Failure, FailureKind};
use std::io;
use std::path::Path;

/// An operation on a file failed. Only an error of the device speaks against the device.
pub(crate) fn of_file(what: &str, file: &Path, offset: Option<u64>, cause: io::Error) -> Failure {
    let at = offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default();
    let kind = match cause.raw_os_error() {
        Some(libc::EIO) => FailureKind::Unmet,
        _ => FailureKind::Missing,
    };
    let hint = remedy(&cause).map(str::to_owned);
    Failure::new(kind, format!("{what} {file:?}{at}")).cause(cause).hint_if(hint)
}

/// Nothing can be written in a folder.
pub(crate) fn unwritable(path: &Path, cause: io::Error) -> Failure {
    let hint = remedy(&cause).map(str::to_owned);
    Failure::missing(format!("cannot write in {path:?}")).cause(cause).hint_if(hint)
}

/// No memory for blocks, which take so many bytes together.
pub(crate) fn no_memory(blocks: usize, cause: io::Error) -> Failure {
    let blocks = Bytes(blocks as u64);
    Failure::missing(format!("no memory for blocks of {blocks}"))
        .cause(cause)
        .hint("smaller --block-sizes or --depth")
}

/// The kernel refuses io_uring.
pub(crate) fn no_uring(cause: io::Error) -> Failure {
    Failure::missing("no io_uring here").cause(cause).hint(
        "it may be switched off (sysctl kernel.io_uring_disabled) or filtered in a \
             container; --engine sync",
    )
}

/// A hint for causes that have a remedy.
fn remedy(cause: &io::Error) -> Option<&'static str> {
    Some(match cause.raw_os_error() {
        Some(libc::ENOSPC) => "free some space, or give less with --max-size",
        Some(libc::EDQUOT) => "the quota is used up; give less with --max-size, or another --path",
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => {
            "give a folder that you may write, --path DIR"
        }
        Some(libc::EIO) => "the device reports an error; see the kernel's log (dmesg)",
        Some(libc::ENOENT | libc::ESTALE | libc::ENODEV | libc::ENOTCONN) => {
            "the file system or the folder went away while it was measured"
        }
        None if cause.kind() == io::ErrorKind::UnexpectedEof => {
            "something else made the file shorter while it was measured"
        }
        _ => return None,
    })
}
