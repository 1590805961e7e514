//! Errors of file measurements, each with the file, the value and a remedy.

use nodegauge_measure::{Bytes, Failure, FailureKind};
use std::io;
use std::path::Path;

/// Returns the error for a failed operation on a file.
pub fn file_error(what: &str, file: &Path, offset: Option<u64>, cause: io::Error) -> Failure {
    let at = offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default();
    let kind = match cause.raw_os_error() {
        Some(libc::EIO) => FailureKind::Unmet,
        _ => FailureKind::Missing,
    };
    let hint = remedy(&cause).map(str::to_owned);
    Failure::new(kind, format!("{what} {file:?}{at}")).cause(cause).hint_if(hint)
}

/// Returns the error for a failed operation on an entry of a directory.
pub fn entry_error(what: &str, path: &Path, cause: io::Error) -> Failure {
    let of_number = match cause.raw_os_error() {
        Some(libc::ENOSPC) => "free inodes (df -i) or space (df), or use fewer --files",
        Some(libc::EDQUOT) => "the quota is used up; use fewer --files, or another --path",
        _ => return file_error(what, path, None, cause),
    };
    Failure::missing(format!("{what} {path:?}")).cause(cause).hint(of_number)
}

/// Returns the error for a folder that is not writable.
pub fn unwritable_error(path: &Path, cause: io::Error) -> Failure {
    let hint = remedy(&cause).map(str::to_owned);
    Failure::missing(format!("cannot write in {path:?}")).cause(cause).hint_if(hint)
}

/// Returns the error for blocks that need more memory than is available; `blocks` is their total size in bytes.
pub fn no_memory_error(blocks: usize, cause: io::Error) -> Failure {
    let blocks = Bytes(blocks as u64);
    Failure::missing(format!("cannot allocate {blocks} of memory for blocks"))
        .cause(cause)
        .hint("use smaller --block-sizes or a smaller --depth")
}

/// Returns the error for an unavailable io_uring.
pub fn no_uring_error(cause: io::Error) -> Failure {
    Failure::missing("io_uring is unavailable").cause(cause).hint(
        "io_uring may be disabled (sysctl kernel.io_uring_disabled) or filtered in a \
             container; use --engine sync",
    )
}

/// Returns a hint for an error that the user can remedy.
fn remedy(cause: &io::Error) -> Option<&'static str> {
    Some(match cause.raw_os_error() {
        Some(libc::ENOSPC) => "free some space, or use a smaller --max-size",
        Some(libc::EDQUOT) => "the quota is used up; use a smaller --max-size, or another --path",
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => {
            "give a folder that you can write to, --path DIR"
        }
        Some(libc::EIO) => "the device reports an error; see the kernel's log (dmesg)",
        Some(libc::ENOENT | libc::ESTALE | libc::ENODEV | libc::ENOTCONN) => {
            "the file system or the folder disappeared during the measurement"
        }
        None if cause.kind() == io::ErrorKind::UnexpectedEof => {
            "another program truncated the file during the measurement"
        }
        _ => return None,
    })
}
