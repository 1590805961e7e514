//! Input files of the user, which are read completely ([`read_input`]) or in parts ([`Input`]). The type and the length
//! of the open file are checked, so that endless devices, pipes without a writer and very large files are refused
//! instead of read.
//!
//! One rule for pipes: a file that the user did not name is a regular file ([`read_file`]). A pipe that the user
//! named is read if a program has opened it for writing, or does so within [`WRITER_TIMEOUT`] ([`read_input`]).

use crate::end_request::is_end_requested;
use crate::wait::{Wait, WaitEnd, is_readable_within, wait_for_event};
use rustix::fs::{MemfdFlags, Mode, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Maximum length of a text in bytes. Output of programs, files written by users and records are shorter.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Maximum wait until a program opens a pipe for writing. For output, the wait for a reader is as long.
const WRITER_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks of a pipe.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum length of a program or library in bytes. Compiled sources of benchmarks are shorter.
pub const MAX_PROGRAM_BYTES: u64 = 256 << 20;

/// Reads a regular file of at most `longest` bytes.
///
/// # Errors
/// Fails if the file cannot be read, is not a regular file, or is longer than `longest`.
pub fn read_file(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    read_regular_file(open(path)?, longest)
}

/// Reads at most `longest` bytes from a file that the user named: a regular file, a pipe, or standard input (`-`).
///
/// # Errors
/// Returns the errors of [`read_file`]. Devices, and pipes to which no program writes, are refused.
pub fn read_input(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        return read_limited(io::stdin().lock(), longest, 0);
    }
    read_open_file(open(path)?, longest)
}

/// Input that is read in parts, any number of times: a regular file, or the content of a pipe, which is kept.
#[derive(Debug)]
pub struct Input<'a> {
    content: Content<'a>,
    /// Length in bytes when the input was opened. If the file has grown since, only this many bytes are read.
    length: u64,
    is_pipe: bool,
}

/// Content of an input.
#[derive(Debug)]
enum Content<'a> {
    File(File),
    Memory(Cow<'a, [u8]>),
}

/// Bytes of a pipe that are kept in memory. Further bytes are kept in an unnamed file in the folder for temporary
/// files.
const KEPT_IN_MEMORY: usize = 8 << 20;

impl Input<'static> {
    /// Opens a file of at most `longest` bytes that the user named: a regular file, a pipe, or standard input (`-`).
    ///
    /// # Errors
    /// Fails as [`read_input`] does, and if the content of a pipe cannot be kept.
    pub fn open(path: &Path, longest: u64) -> io::Result<Self> {
        if path == Path::new("-") {
            let mut file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
            let is_whole = file.metadata()?.is_file() && file.stream_position()? == 0;
            return if is_whole { Self::regular(file, longest) } else { Self::kept(file, longest) };
        }
        let file = open(path)?;
        if file.metadata()?.file_type().is_fifo() {
            return Self::kept(begin_reading(file, WRITER_TIMEOUT)?, longest);
        }
        Self::regular(file, longest)
    }

    /// Returns a regular file as an input.
    fn regular(file: File, longest: u64) -> io::Result<Self> {
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(not_regular());
        }
        if about.len() > longest {
            return Err(too_long(longest));
        }
        // The kernel reports no length for its own files.
        if about.len() == 0 {
            return Ok(Self { is_pipe: false, ..Self::kept(file, longest)? });
        }
        Ok(Self { content: Content::File(file), length: about.len(), is_pipe: false })
    }

    /// Reads a pipe, or a file whose length the kernel does not report, to its end and keeps the content.
    fn kept(mut pipe: impl Read, longest: u64) -> io::Result<Self> {
        let mut begin = Vec::new();
        pipe.by_ref().take(KEPT_IN_MEMORY as u64 + 1).read_to_end(&mut begin)?;
        if begin.len() as u64 > longest {
            return Err(too_long(longest));
        }
        if begin.len() <= KEPT_IN_MEMORY {
            return Ok(Self { is_pipe: true, ..Input::from(begin) });
        }
        let mut file = unnamed_file()?;
        file.write_all(&begin)?;
        let left = longest - begin.len() as u64;
        let more = io::copy(&mut pipe.take(left.saturating_add(1)), &mut file)?;
        if more > left {
            return Err(too_long(longest));
        }
        let length = begin.len() as u64 + more;
        Ok(Self { content: Content::File(file), length, is_pipe: true })
    }
}

impl Input<'_> {
    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// True if the input cannot be opened again.
    pub fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    /// Reads bytes from this position on, as many as the buffer takes; returns fewer only at the end.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn read_at(&self, from: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(from)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let mut read = 0;
        while read < wanted {
            let part = &mut buffer[read..wanted];
            let more = match &self.content {
                Content::File(file) => file.read_at(part, from + read as u64),
                Content::Memory(bytes) => {
                    let begin = usize::try_from(from).map_err(io::Error::other)? + read;
                    part.copy_from_slice(&bytes[begin..begin + part.len()]);
                    Ok(part.len())
                }
            };
            match more {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Returns all bytes.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if there is not enough memory.
    pub fn read_all(&self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.length).map_err(io::Error::other)?;
        let mut content = Vec::new();
        content.try_reserve_exact(length).map_err(io::Error::other)?;
        content.resize(length, 0);
        let read = self.read_at(0, &mut content)?;
        content.truncate(read);
        Ok(content)
    }
}

impl<'a> From<&'a [u8]> for Input<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        let content = Content::Memory(Cow::Borrowed(bytes));
        Self { content, length: bytes.len() as u64, is_pipe: false }
    }
}

impl From<Vec<u8>> for Input<'static> {
    fn from(bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        Self { content: Content::Memory(Cow::Owned(bytes)), length, is_pipe: false }
    }
}

/// Creates a file without a name in the folder for temporary files, or in memory if its file system has no unnamed
/// files. No other user can open the file, and the kernel removes it when this process ends.
fn unnamed_file() -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let created = rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR);
    match created {
        Ok(file) => Ok(File::from(file)),
        Err(_) => Ok(File::from(memfd_create(c"nodegauge-input", MemfdFlags::CLOEXEC)?)),
    }
}

/// Reads at most `longest` bytes from a regular file or a pipe that has been opened without waiting.
pub(crate) fn read_open_file(file: File, longest: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.file_type().is_fifo() {
        return read_regular_file(file, longest);
    }
    read_pipe(file, longest, WRITER_TIMEOUT)
}

/// Reads at most `longest` bytes from a pipe. A program must open the pipe for writing within `wait`.
fn read_pipe(file: File, longest: u64, wait: Duration) -> io::Result<Vec<u8>> {
    read_limited(begin_reading(file, wait)?, longest, 0)
}

/// Returns the content of a pipe that was opened without waiting. A program must open the pipe for writing within
/// `wait`; the time that the program then takes to write is not limited.
fn begin_reading(file: File, wait: Duration) -> io::Result<impl Read> {
    let for_writer = Wait::within(wait).every(CHECK_INTERVAL).unless(&is_end_requested);
    let begun = wait_for_event(&for_writer, |pause| opened_writer(&file, pause).transpose());
    let first = match begun.map_err(|reason| no_writer_error(reason, wait))?? {
        Writer::HasWritten(first) => first,
        Writer::IsSilent => {
            // The wait ends when the writer writes to the pipe, or closes it.
            let for_text = Wait::unlimited().every(CHECK_INTERVAL).unless(&is_end_requested);
            let written = wait_for_event(&for_text, |pause| {
                is_readable_within(&file, pause)
                    .map(|is_readable| is_readable.then_some(()))
                    .transpose()
            });
            written.map_err(|reason| no_writer_error(reason, wait))??;
            Vec::new()
        }
    };
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(io::Cursor::new(first).chain(file))
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
fn no_writer_error(reason: WaitEnd, wait: Duration) -> io::Error {
    if reason == WaitEnd::Interrupted {
        return io::Error::other("the end of the run was requested");
    }
    let text = format!("no program has written to this pipe within {} s", wait.as_secs_f64());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Reads a part of a regular file.
///
/// # Errors
/// Fails if the file cannot be read, is not a regular file, or ends before the part does.
pub fn read_range(path: &Path, part: Range<u64>) -> io::Result<Vec<u8>> {
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

/// Opens a file without waiting for the writer of a pipe. Opening a folder succeeds; the folder is refused with the
/// error that reading it returns.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    Ok(file)
}

/// Reads an open regular file of at most `longest` bytes.
pub(crate) fn read_regular_file(file: File, longest: u64) -> io::Result<Vec<u8>> {
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
    use rustix::fs::{CWD, FileType, mknodat};

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
    fn input_can_be_read_in_parts_repeatedly() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"0123456789").unwrap();
        let input = Input::open(&file, 10).unwrap();
        File::options().append(true).open(&file).unwrap().write_all(b"more").unwrap();
        let mut part = [0; 4];
        for _ in 0..2 {
            assert_eq!(input.read_at(8, &mut part).unwrap(), 2, "only the first 10 bytes");
            assert_eq!(&part[..2], b"89");
            assert_eq!(input.read_at(3, &mut part).unwrap(), 4);
            assert_eq!(&part, b"3456");
            assert_eq!(input.read_at(11, &mut part).unwrap(), 0);
        }
        assert_eq!(input.read_all().unwrap(), b"0123456789");
        assert!(Input::open(&file, 10).is_err(), "now it is longer");
        assert!(Input::open(folder.path(), 10).is_err());
        assert!(Input::open(Path::new("/dev/zero"), 10).is_err());
        let own = Input::open(Path::new("/proc/self/status"), 1 << 20).unwrap();
        assert!(own.length() > 0 && !own.is_pipe());
    }

    #[test]
    fn long_input_of_a_pipe_is_kept_outside_memory() {
        let long: Vec<u8> = (0..KEPT_IN_MEMORY as u32 + 5).map(|at| (at % 251) as u8).collect();
        let kept = Input::kept(long.as_slice(), 1 << 30).unwrap();
        assert!(matches!(kept.content, Content::File(_)) && kept.is_pipe());
        assert_eq!(kept.read_all().unwrap(), long);
        assert_eq!(kept.length(), long.len() as u64);
        let short = Input::kept(&long[..100], 1 << 30).unwrap();
        assert!(matches!(short.content, Content::Memory(_)));
        assert_eq!(short.read_all().unwrap(), long[..100]);
        for longest in [99, KEPT_IN_MEMORY as u64 + 4] {
            assert!(Input::kept(long.as_slice(), longest).is_err(), "{longest}");
        }
    }

    #[test]
    fn reader_waits_for_the_slow_writer_of_an_open_pipe() {
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
