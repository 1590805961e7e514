//! Input files of the user, which are read completely. The type and the length of the open file are checked, so
//! that endless devices, pipes without a writer and very large files are refused.
//!
//! One rule for pipes: a file that the user did not name is a regular file ([`read_file`]). A pipe that the user
//! named is read if a program has opened it for writing, or does so within [`WRITER`] ([`read_input`]).

use crate::end_request::is_end_requested;
use crate::wait::{Unmet, Wait, is_readable_within, wait_for_event};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Maximum length of a text in bytes. Output of programs, files written by users and records are shorter.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Maximum wait until a program opens a pipe for writing. For output, the wait for a reader is as long.
const WRITER: Duration = Duration::from_secs(10);
/// Interval between two checks of a pipe.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Maximum length of a program or library in bytes. Compiled sources of benchmarks are shorter.
pub const MAX_PROGRAM_BYTES: u64 = 256 << 20;

/// Reads a regular file of at most `longest` bytes.
///
/// # Errors
/// Fails if the file cannot be read, is not a regular file, or is longer than `longest`.
pub fn read_file(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    read_regular(open(path)?, longest)
}

/// Reads at most `longest` bytes from a file that the user named: a regular file, a pipe, or standard input (`-`).
///
/// # Errors
/// Returns the errors of [`read_file`]. Devices, and pipes to which no program writes, are refused.
pub fn read_input(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        return read_limited(io::stdin().lock(), longest, 0);
    }
    read_open(open(path)?, longest)
}

/// Reads at most `longest` bytes from a regular file or a pipe that has been opened without waiting.
pub(crate) fn read_open(file: File, longest: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.file_type().is_fifo() {
        return read_regular(file, longest);
    }
    read_pipe(file, longest, WRITER)
}

/// Reads at most `longest` bytes from a pipe that was opened without waiting. A program must open the pipe for
/// writing within `wait`; after that, its time is not limited.
fn read_pipe(file: File, longest: u64, wait: Duration) -> io::Result<Vec<u8>> {
    let for_writer = Wait::within(wait).every(LOOK_EVERY).unless(&is_end_requested);
    let begun = wait_for_event(&for_writer, |pause| opened_writer(&file, pause).transpose());
    let first = match begun.map_err(|reason| unwritten(reason, wait))?? {
        Writer::HasWritten(first) => first,
        Writer::IsSilent => {
            // The wait ends when the writer writes to the pipe, or closes it.
            let for_text = Wait::unlimited().every(LOOK_EVERY).unless(&is_end_requested);
            let written = wait_for_event(&for_text, |pause| {
                is_readable_within(&file, pause)
                    .map(|is_readable| is_readable.then_some(()))
                    .transpose()
            });
            written.map_err(|reason| unwritten(reason, wait))??;
            Vec::new()
        }
    };
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    read_limited(first.as_slice().chain(file), longest, 0)
}

/// Program that has opened a pipe for writing.
enum Writer {
    /// The program has written these bytes and may write more, or it has closed the pipe.
    HasWritten(Vec<u8>),
    /// The program has not written anything yet.
    IsSilent,
}

/// Returns the state of the program that has opened the pipe for writing; `None` if there is no such program after
/// the pause.
fn opened_writer(mut file: &File, pause: Duration) -> io::Result<Option<Writer>> {
    if is_readable_within(file, pause)? {
        return Ok(Some(Writer::HasWritten(Vec::new())));
    }
    // A pipe without a writer is at its end; one with a writer that has written nothing would block.
    let mut byte = [0];
    match file.read(&mut byte) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(Writer::HasWritten(byte.to_vec()))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(Writer::IsSilent)),
        Err(error) => Err(error),
    }
}

/// Returns the error for a pipe that no program has opened for writing in this time.
fn unwritten(reason: Unmet, wait: Duration) -> io::Error {
    if reason == Unmet::Interrupted {
        return io::Error::other("the end of the run was requested");
    }
    let text = format!("no program has written to this pipe within {} s", wait.as_secs_f64());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Reads a part of a regular file.
///
/// # Errors
/// Fails if the file cannot be read, is not a regular file, or ends before the part does.
pub fn read_part(path: &Path, part: Range<u64>) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(not_regular());
    }
    let length = usize::try_from(part.end.saturating_sub(part.start)).map_err(io::Error::other)?;
    let mut content = vec![0; length];
    file.read_exact_at(&mut content, part.start)?;
    Ok(content)
}

fn not_regular() -> io::Error {
    io::Error::other("it is not a regular file")
}

/// Opens a file without waiting for the writer of a pipe. Folders can be opened as well, and are refused with the error
/// that reading them returns.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    Ok(file)
}

/// Reads an open regular file of at most `longest` bytes.
pub(crate) fn read_regular(file: File, longest: u64) -> io::Result<Vec<u8>> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(not_regular());
    }
    // A sparse file of any length takes no space, but a long time to read.
    if about.len() > longest {
        return Err(too_long(longest));
    }
    // One byte more, so that the end is found without more memory.
    read_limited(file, longest, about.len() as usize + 1)
}

/// Reads at most `longest` bytes. The buffer has `expected` bytes at first and grows as needed.
fn read_limited(from: impl Read, longest: u64, expected: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    content.try_reserve(expected).map_err(io::Error::other)?;
    from.take(longest.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > longest {
        return Err(too_long(longest));
    }
    Ok(content)
}

fn too_long(longest: u64) -> io::Error {
    io::Error::other(format!("it is longer than {} MiB", longest >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write;

    fn make_pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[test]
    fn only_regular_files_within_the_size_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        make_pipe(&pipe);
        std::fs::write(&file, vec![b'x'; 2 << 20]).unwrap();
        let refused = |path: &Path, longest| read_file(path, longest).unwrap_err().to_string();
        assert_eq!(read_file(&file, 2 << 20).unwrap().len(), 2 << 20);
        assert_eq!(refused(&file, 1 << 20), "it is longer than 1 MiB");
        let sparse = folder.path().join("sparse");
        File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(refused(&sparse, 1 << 20), "it is longer than 1 MiB");
        for path in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/dev/null")] {
            assert_eq!(refused(path, 1 << 20), "it is not a regular file", "{path:?}");
        }
        assert_eq!(refused(folder.path(), 1), "Is a directory (os error 21)");
        assert_eq!(read_file(Path::new("none"), 1).unwrap_err().kind(), io::ErrorKind::NotFound);
        // The kernel reports no length for this file.
        assert!(!read_file(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
    }

    #[test]
    fn pipe_of_another_program_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        make_pipe(&pipe);
        let path = pipe.clone();
        let writer = std::thread::spawn(move || File::create(path)?.write_all(b"Triad: 1"));
        assert_eq!(read_input(&pipe, 100).unwrap(), b"Triad: 1");
        writer.join().unwrap().unwrap();
        assert!(read_input(Path::new("/dev/zero"), 100).is_err());
    }

    #[test]
    fn slow_writer_of_open_pipe_is_awaited() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        make_pipe(&pipe);
        let reader = open(&pipe).unwrap();
        let mut writer =
            File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
        let written = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            writer.write_all(b"Triad: 2")
        });
        assert_eq!(read_pipe(reader, 100, Duration::ZERO).unwrap(), b"Triad: 2");
        written.join().unwrap().unwrap();
    }

    #[test]
    fn pipe_without_writer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        make_pipe(&pipe);
        let refused = read_pipe(open(&pipe).unwrap(), 100, Duration::from_millis(100)).unwrap_err();
        assert_eq!(refused.to_string(), "no program has written to this pipe within 0.1 s");
    }
}
