//! Input files of the user, which are read completely. The type and the length of the open file are checked, so that
//! endless devices, pipes without a writer and very large files are refused instead of read.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::retry_on_intr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Maximum length of a text in bytes. It exceeds what programs print, users write, or runs record.
pub const LONGEST_TEXT: u64 = 64 << 20;

/// Maximum length of a program or library in bytes. It exceeds what compilers make of the sources of a benchmark.
pub const LONGEST_PROGRAM: u64 = 256 << 20;

/// Reads a regular file of at most `longest` bytes.
///
/// # Errors
/// Fails if the file cannot be read, is not a regular file, or is longer than `longest`.
pub fn read_file(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    read_regular(open(path)?, longest)
}

/// Reads at most `longest` bytes from a regular file, a pipe, or standard input (`-`).
///
/// # Errors
/// Fails as [`read_file`] does; devices are refused.
pub fn read_input(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        return read_at_most(io::stdin().lock(), longest, 0);
    }
    let file = open(path)?;
    if !file.metadata()?.file_type().is_fifo() {
        return read_regular(file, longest);
    }
    // The wait ends when a writer writes to the pipe, or when a writer has closed the pipe.
    retry_on_intr(|| poll(&mut [PollFd::new(&file, PollFlags::IN)], None))?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    read_at_most(file, longest, 0)
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

fn read_regular(file: File, longest: u64) -> io::Result<Vec<u8>> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(not_regular());
    }
    // A sparse file of any length takes no space, but a long time to read.
    if about.len() > longest {
        return Err(too_long(longest));
    }
    // One byte more, so that the end is found without more memory.
    read_at_most(file, longest, about.len() as usize + 1)
}

/// Reads at most `longest` bytes into memory for `expected` bytes, which grows as needed.
fn read_at_most(from: impl Read, longest: u64, expected: usize) -> io::Result<Vec<u8>> {
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
    fn only_regular_files_of_sane_length_are_files() {
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
    fn what_another_program_writes_is_an_input() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        make_pipe(&pipe);
        let path = pipe.clone();
        let writer = std::thread::spawn(move || File::create(path)?.write_all(b"Triad: 1"));
        assert_eq!(read_input(&pipe, 100).unwrap(), b"Triad: 1");
        writer.join().unwrap().unwrap();
        assert!(read_input(Path::new("/dev/zero"), 100).is_err());
    }
}
