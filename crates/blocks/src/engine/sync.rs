//! Engine with system calls that return after the block was transferred. Each kind of call is a function in a constant.

use super::Mover;
use rustix::io::{Errno, preadv, pwritev};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::fs::FileExt;

/// File, with the kind of call that transfers its blocks.
pub(crate) struct FileCalls<'f>(pub(crate) &'f File, pub(crate) Kind);

/// Function that writes or reads a whole block at an offset, usually with one system call.
type Kind = fn(&File, bool, u64, &mut [u8]) -> io::Result<()>;

/// `read` and `write` at the file's position, which equals the requested offset.
pub(crate) const SEQUENTIAL: Kind =
    |mut file, write, _, block| if write { file.write_all(block) } else { file.read_exact(block) };

/// `pread` and `pwrite`.
pub(crate) const POSITIONAL: Kind = |file, write, offset, block| {
    if write { file.write_all_at(block, offset) } else { file.read_exact_at(block, offset) }
};

/// `preadv` and `pwritev` with several buffers per call. If a call transfers only a part of the block, the rest is
/// transferred with one buffer.
pub(crate) const VECTORED: Kind = |file, write, offset, block| {
    let length = block.len();
    let moved = if write {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let chunks = block.chunks(piece(length));
        pieces.iter_mut().zip(chunks).for_each(|(of, chunk)| *of = IoSlice::new(chunk));
        pwritev(file, &pieces[..length.div_ceil(piece(length))], offset)
    } else {
        let mut pieces: [_; PIECES] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let chunks = block.chunks_mut(piece(length));
        pieces.iter_mut().zip(chunks).for_each(|(to, chunk)| *to = IoSliceMut::new(chunk));
        preadv(file, &mut pieces[..length.div_ceil(piece(length))], offset)
    };
    let moved = match moved {
        Err(Errno::INTR) => 0,
        moved => moved?,
    };
    POSITIONAL(file, write, offset + moved as u64, &mut block[moved..])
};

impl Mover for FileCalls<'_> {
    #[inline]
    fn transfer(&mut self, write: bool, offset: u64, block: &mut [u8]) -> io::Result<()> {
        (self.1)(self.0, write, offset, block)
    }
}

/// Maximum number of buffers per block.
const PIECES: usize = 8;
/// Alignment of the buffers; direct I/O may require it.
const ALIGNED: usize = 4096;

/// Returns the length of the buffers into which a block is divided; the last buffer may be shorter.
fn piece(block: usize) -> usize {
    block.div_ceil(PIECES).next_multiple_of(ALIGNED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_cover_block_and_are_aligned() {
        for length in [1, 100, 4096, 8192, 12_288, 40_960, 65_536, 1 << 24] {
            assert!(piece(length).is_multiple_of(ALIGNED));
            assert!((1..=PIECES).contains(&length.div_ceil(piece(length))), "{length}");
        }
    }

    #[test]
    fn vectored_blocks_round_trip() {
        let file = tempfile::tempfile().unwrap();
        let mut block: Vec<u8> = (0..50_000u32).map(|i| i as u8).collect();
        VECTORED(&file, true, 100, &mut block).unwrap();
        let mut back = vec![0; block.len()];
        VECTORED(&file, false, 100, &mut back).unwrap();
        assert!(back == block);
        let error = VECTORED(&file, false, 200, &mut back).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
