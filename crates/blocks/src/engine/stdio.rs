//! Engine with buffered files of the C library: `fread` and `fwrite`.

use super::Mover;
use std::fs::File;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Stream of the C library over a duplicate of the file's descriptor, with the library's buffer. The stream is
/// sequential: it uses its own position and ignores offsets.
pub(crate) struct Stdio(*mut libc::FILE);

impl Stdio {
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let fd = OwnedFd::from(file.try_clone()?).into_raw_fd();
        // SAFETY: the descriptor is open and not used elsewhere; the mode ends with a zero byte.
        let stream = unsafe { libc::fdopen(fd, c"r+".as_ptr()) };
        if stream.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: `fdopen` failed, so that the stream does not own the descriptor.
            unsafe { libc::close(fd) };
            return Err(error);
        }
        Ok(Self(stream))
    }

    /// Returns an error if the call was incomplete (`done` is false): the stream's error, or an unexpected end of
    /// the file.
    fn checked(&self, done: bool, write: bool) -> io::Result<()> {
        let error = io::Error::last_os_error();
        if done {
            return Ok(());
        }
        // SAFETY: the stream is open until dropped.
        if unsafe { libc::ferror(self.0) } != 0 {
            return Err(error);
        }
        let kind = if write { io::ErrorKind::WriteZero } else { io::ErrorKind::UnexpectedEof };
        Err(kind.into())
    }
}

impl Mover for Stdio {
    fn transfer(&mut self, write: bool, _: u64, block: &mut [u8]) -> io::Result<()> {
        let start = block.as_mut_ptr().cast();
        let length = block.len();
        // SAFETY: at most the bytes of `block` are read or written; the stream is open.
        let moved = unsafe {
            if write {
                libc::fwrite(start, 1, length, self.0)
            } else {
                libc::fread(start, 1, length, self.0)
            }
        };
        self.checked(moved == length, write)
    }

    fn finish(&mut self, wrote: bool) -> io::Result<()> {
        // SAFETY: the stream is open.
        self.checked(!wrote || unsafe { libc::fflush(self.0) } == 0, true)
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // `finish` has already reported write errors.
        // SAFETY: the stream is open and not used after this; it closes its own descriptor.
        unsafe { libc::fclose(self.0) };
    }
}
