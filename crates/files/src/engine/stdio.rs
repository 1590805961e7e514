//! The C library's buffered files: `fread`, `fwrite`.

use super::Mover;
use crate::operation::Direction;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A stream of its own over a duplicate of the file's descriptor, with the C library's buffer. From
/// first to last; offsets are where it stands.
pub(crate) struct Stdio(*mut libc::FILE);

impl Stdio {
    pub(crate) fn new(file: &File, direction: Direction) -> io::Result<Self> {
        let mode = if direction == Direction::Read { c"r" } else { c"r+" };
        // SAFETY: duplicates an open descriptor.
        let fd = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open and not used elsewhere; the mode ends with a zero byte.
        let stream = unsafe { libc::fdopen(fd, mode.as_ptr()) };
        if stream.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: the stream did not take the descriptor over.
            unsafe { libc::close(fd) };
            return Err(error);
        }
        Ok(Self(stream))
    }

    /// The stream's error: of the call before, or that the file ends.
    fn error(&self, write: bool) -> io::Error {
        let error = io::Error::last_os_error();
        // SAFETY: the stream is open until dropped.
        if unsafe { libc::ferror(self.0) } != 0 { error } else { super::nothing_moved(write) }
    }
}

impl Mover for Stdio {
    fn read(&mut self, _: u64, block: &mut [u8]) -> io::Result<()> {
        // SAFETY: at most `block.len()` bytes are written into `block`; the stream is open.
        let moved = unsafe { libc::fread(block.as_mut_ptr().cast(), 1, block.len(), self.0) };
        if moved == block.len() { Ok(()) } else { Err(self.error(false)) }
    }

    fn write(&mut self, _: u64, block: &[u8]) -> io::Result<()> {
        // SAFETY: `block.len()` bytes of `block` are read; the stream is open.
        let moved = unsafe { libc::fwrite(block.as_ptr().cast(), 1, block.len(), self.0) };
        if moved == block.len() { Ok(()) } else { Err(self.error(true)) }
    }

    fn finish(&mut self, wrote: bool) -> io::Result<()> {
        // SAFETY: the stream is open.
        let done = !wrote || unsafe { libc::fflush(self.0) } == 0;
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // What is lost here was reported by `finish`.
        // SAFETY: the stream is open and not used after this; it closes its own descriptor.
        unsafe { libc::fclose(self.0) };
    }
}
