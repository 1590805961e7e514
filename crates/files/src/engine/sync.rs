//! Calls that return when the block is moved, a row for each kind.

use super::Mover;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::fs::FileExt;

/// The calls of one kind on a file; each moves a whole block, most often in one call of the kernel.
pub(crate) struct Calls<'f>(pub(crate) &'f File, pub(crate) Kind);

/// How a block is read at an offset, and how one is written.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    read: fn(&File, u64, &mut [u8]) -> io::Result<()>,
    write: fn(&File, u64, &[u8]) -> io::Result<()>,
}

/// `read`, `write`: from the file's own position on, which is the offset that is asked for.
pub(crate) const SEQUENTIAL: Kind = Kind {
    read: |mut file, _, to| file.read_exact(to),
    write: |mut file, _, of| file.write_all(of),
};

/// `pread`, `pwrite`.
pub(crate) const POSITIONAL: Kind = Kind {
    read: |file, at, to| file.read_exact_at(to, at),
    write: |file, at, of| file.write_all_at(of, at),
};

/// `preadv`, `pwritev`: in several pieces a call.
pub(crate) const VECTORED: Kind = Kind { read: read_pieces, write: write_pieces };

impl Mover for Calls<'_> {
    #[inline]
    fn read(&mut self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        (self.1.read)(self.0, offset, block)
    }
    #[inline]
    fn write(&mut self, offset: u64, block: &[u8]) -> io::Result<()> {
        (self.1.write)(self.0, offset, block)
    }
}

/// Pieces of a block at most.
const PIECES: usize = 8;
/// A piece starts at a multiple of this: what direct I/O may ask for.
const ALIGNED: usize = 4096;

/// The length of the pieces of a block; the last may be shorter.
fn piece(block: usize) -> usize {
    block.div_ceil(PIECES).next_multiple_of(ALIGNED)
}

fn read_pieces(file: &File, offset: u64, block: &mut [u8]) -> io::Result<()> {
    let length = block.len();
    let mut pieces: [_; PIECES] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
    let chunks = block.chunks_mut(piece(length));
    let count = chunks.len();
    pieces.iter_mut().zip(chunks).for_each(|(to, chunk)| *to = IoSliceMut::new(chunk));
    let moved = rustix::io::preadv(file, &mut pieces[..count], offset);
    rest(moved, length, |moved| file.read_exact_at(&mut block[moved..], offset + moved as u64))
}

fn write_pieces(file: &File, offset: u64, block: &[u8]) -> io::Result<()> {
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let chunks = block.chunks(piece(block.len()));
    let count = chunks.len();
    pieces.iter_mut().zip(chunks).for_each(|(of, chunk)| *of = IoSlice::new(chunk));
    let moved = rustix::io::pwritev(file, &pieces[..count], offset);
    rest(moved, block.len(), |moved| file.write_all_at(&block[moved..], offset + moved as u64))
}

/// Moves what a call left over; seldom anything. A call that moved nothing is made again in one piece,
/// which says why.
fn rest(
    moved: rustix::io::Result<usize>,
    length: usize,
    finish: impl FnOnce(usize) -> io::Result<()>,
) -> io::Result<()> {
    match moved {
        Ok(moved) if moved == length => Ok(()),
        Ok(moved) => finish(moved),
        Err(rustix::io::Errno::INTR) => finish(0),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_block_and_stay_aligned() {
        for length in [1, 100, 4096, 8192, 12_288, 40_960, 65_536, 1 << 24] {
            assert!(piece(length).is_multiple_of(ALIGNED));
            assert!((1..=PIECES).contains(&length.div_ceil(piece(length))), "{length}");
        }
    }

    #[test]
    fn blocks_in_pieces_come_back() {
        let file = tempfile::tempfile().unwrap();
        let block: Vec<u8> = (0..50_000u32).map(|i| i as u8).collect();
        write_pieces(&file, 100, &block).unwrap();
        let mut back = vec![0; block.len()];
        read_pieces(&file, 100, &mut back).unwrap();
        assert!(back == block);
        let error = read_pieces(&file, 200, &mut back).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
