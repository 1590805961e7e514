//! Calls that return when the block is moved: `read`, `write`, `pread`, `pwrite`, `preadv`,
//! `pwritev`.

use super::{Mover, nothing_moved};
use nodegauge_os::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The bytes that a call has moved.
#[inline]
fn bytes(moved: isize) -> io::Result<usize> {
    Ok(check("read or write", moved)? as usize)
}

/// Repeats a call until the whole block is moved; most often the first moves all of it.
#[inline]
fn whole(write: bool, length: usize, mut call: impl FnMut(usize) -> isize) -> io::Result<()> {
    let mut moved = 0;
    while moved < length {
        match bytes(call(moved)) {
            Ok(0) => return Err(nothing_moved(write)),
            Ok(n) => moved += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// From the file's own position on: the offset that is asked for is where it stands.
pub(crate) struct Sequential<'f>(&'f File);

impl<'f> Sequential<'f> {
    pub(crate) fn new(file: &'f File) -> Self {
        Self(file)
    }
}

impl Mover for Sequential<'_> {
    fn read(&mut self, _: u64, block: &mut [u8]) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        whole(false, block.len(), |moved| {
            let rest = &mut block[moved..];
            // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`.
            unsafe { libc::read(fd, rest.as_mut_ptr().cast(), rest.len()) }
        })
    }

    fn write(&mut self, _: u64, block: &[u8]) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        whole(true, block.len(), |moved| {
            let rest = &block[moved..];
            // SAFETY: the kernel reads at most `rest.len()` bytes of `rest`.
            unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) }
        })
    }

    fn finish(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

/// At any offset.
pub(crate) struct Positional<'f>(&'f File);

impl<'f> Positional<'f> {
    pub(crate) fn new(file: &'f File) -> Self {
        Self(file)
    }
}

/// Reads a whole block at `offset`.
#[inline]
pub(crate) fn read_at(fd: RawFd, offset: u64, block: &mut [u8]) -> io::Result<()> {
    whole(false, block.len(), |moved| {
        let rest = &mut block[moved..];
        let at = (offset + moved as u64) as libc::off_t;
        // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`.
        unsafe { libc::pread(fd, rest.as_mut_ptr().cast(), rest.len(), at) }
    })
}

/// Writes a whole block at `offset`.
#[inline]
pub(crate) fn write_at(fd: RawFd, offset: u64, block: &[u8]) -> io::Result<()> {
    whole(true, block.len(), |moved| {
        let rest = &block[moved..];
        let at = (offset + moved as u64) as libc::off_t;
        // SAFETY: the kernel reads at most `rest.len()` bytes of `rest`.
        unsafe { libc::pwrite(fd, rest.as_ptr().cast(), rest.len(), at) }
    })
}

impl Mover for Positional<'_> {
    fn read(&mut self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        read_at(self.0.as_raw_fd(), offset, block)
    }
    fn write(&mut self, offset: u64, block: &[u8]) -> io::Result<()> {
        write_at(self.0.as_raw_fd(), offset, block)
    }
    fn finish(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

/// In several pieces a call.
pub(crate) struct Vector<'f>(&'f File);

/// Pieces of a block at most.
const PIECES: usize = 8;
/// A piece is at least this long and starts at a multiple of it: what direct I/O may ask for.
const PIECE: usize = 4096;

/// Into how many pieces a block of this length goes.
pub(crate) fn pieces(block: usize) -> usize {
    (block / PIECE).clamp(1, PIECES)
}

impl<'f> Vector<'f> {
    pub(crate) fn new(file: &'f File) -> Self {
        Self(file)
    }

    /// The pieces of the memory from `start` on. All but the last are equally long.
    fn vectors(start: *mut u8, length: usize) -> ([libc::iovec; PIECES], usize) {
        let count = pieces(length);
        let each = if count == 1 { length } else { length / count / PIECE * PIECE };
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES];
        for (i, vector) in vectors.iter_mut().enumerate().take(count) {
            vector.iov_base = start.wrapping_add(i * each).cast();
            vector.iov_len = if i + 1 == count { length - i * each } else { each };
        }
        (vectors, count)
    }
}

impl Mover for Vector<'_> {
    fn read(&mut self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let length = block.len();
        let (vectors, count) = Self::vectors(block.as_mut_ptr(), length);
        // SAFETY: the vectors are pieces of `block`, which the kernel may fill.
        let moved = bytes(unsafe {
            libc::preadv(fd, vectors.as_ptr(), count as i32, offset as libc::off_t)
        });
        match moved {
            Ok(0) => Err(nothing_moved(false)),
            Ok(moved) if moved < length => read_at(fd, offset + moved as u64, &mut block[moved..]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => read_at(fd, offset, block),
            other => other.map(drop),
        }
    }

    fn write(&mut self, offset: u64, block: &[u8]) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let (vectors, count) = Self::vectors(block.as_ptr().cast_mut(), block.len());
        // SAFETY: the vectors are pieces of `block`, which the kernel only reads.
        let moved = bytes(unsafe {
            libc::pwritev(fd, vectors.as_ptr(), count as i32, offset as libc::off_t)
        });
        match moved {
            Ok(0) => Err(nothing_moved(true)),
            Ok(moved) if moved < block.len() => {
                write_at(fd, offset + moved as u64, &block[moved..])
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => write_at(fd, offset, block),
            other => other.map(drop),
        }
    }

    fn finish(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_block_and_stay_aligned() {
        for length in [1, 100, 4096, 8192, 12_288, 65_536, 1 << 24] {
            let (vectors, count) = Vector::vectors(std::ptr::null_mut(), length);
            let mut at = 0;
            for vector in &vectors[..count] {
                assert_eq!(vector.iov_base as usize, at);
                assert!(at.is_multiple_of(PIECE));
                at += vector.iov_len;
            }
            assert_eq!(at, length);
        }
    }
}
