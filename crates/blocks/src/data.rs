//! Contents of files: pseudo-random bytes that are generated once for all operations. Every 4 KiB contain a stamp with
//! the offset and the number of the pass.
//!
//! Random bytes cannot be compressed. The stamps make all blocks different, so that file systems with deduplication
//! store every block. The stamps also reveal a block at a wrong position or of an earlier pass.

use crate::pattern::mix_bits;
use nodegauge_measure::Failure;
use nodegauge_os::Buffer;
use std::io;
use std::path::Path;

/// Size in bytes of the sections of a block; each section begins with a stamp.
const PIECE: usize = 4096;
/// Size of a stamp in bytes.
const STAMP: usize = 8;

/// Wrong byte at an offset of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongByte {
    offset: u64,
    expected: u8,
    found: u8,
}

impl WrongByte {
    pub(crate) fn into_failure(self, file: &Path) -> Failure {
        let Self { offset, expected, found } = self;
        Failure::unmet(format!(
            "{file:?} has a wrong byte at offset {offset}: expected {expected:#04x}, found {found:#04x}"
        ))
    }
}

/// Generator of the contents of files.
#[derive(Debug)]
pub struct FileContents {
    pristine: Buffer,
    seed: u64,
}

impl FileContents {
    /// Creates contents for blocks of at most `longest` bytes, from a sequence of splitmix64. The last `compressible`
    /// (0 to 100) percent of every 4 KiB are zeros. Different values of `seed` give different contents.
    pub fn new(longest: usize, compressible: u8, seed: u64) -> io::Result<Self> {
        let mut pristine = Buffer::new(longest)?;
        let mut state = seed;
        for piece in pristine.chunks_mut(PIECE) {
            let random = piece.len() * (100 - usize::from(compressible.min(100))) / 100;
            for word in piece[..random].chunks_mut(8) {
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                word.copy_from_slice(&mix_bits(state).to_le_bytes()[..word.len()]);
            }
        }
        Ok(Self { pristine, seed })
    }

    /// Fills `block` with contents that have no stamps yet; [`FileContents::stamp`] adds them.
    pub fn fill(&self, block: &mut [u8]) {
        block.copy_from_slice(&self.pristine[..block.len()]);
    }

    /// Stamps a filled block for `offset` in pass `pass`. This takes one store instruction per 4 KiB.
    #[inline]
    pub fn stamp(&self, block: &mut [u8], offset: u64, pass: u64) {
        for (i, piece) in block.chunks_mut(PIECE).enumerate() {
            let stamp = self.block_stamp(offset + (i * PIECE) as u64, pass);
            let len = piece.len().min(STAMP);
            piece[..len].copy_from_slice(&stamp[..len]);
        }
    }

    fn block_stamp(&self, offset: u64, pass: u64) -> [u8; STAMP] {
        mix_bits(offset ^ mix_bits(pass.wrapping_add(self.seed))).to_le_bytes()
    }

    /// Compares a block that was read at `offset` with the data of pass `pass`. The error is the first wrong byte.
    pub(crate) fn check(&self, block: &[u8], offset: u64, pass: u64) -> Result<(), WrongByte> {
        let pieces = block.chunks(PIECE).zip(self.pristine.chunks(PIECE));
        for (at, (piece, pristine)) in (offset..).step_by(PIECE).zip(pieces) {
            let stamp = self.block_stamp(at, pass);
            let len = piece.len().min(STAMP);
            let pristine = &pristine[len..piece.len()];
            if piece[..len] == stamp[..len] && piece[len..] == *pristine {
                continue;
            }
            let expected = stamp[..len].iter().chain(pristine);
            for (position, (found, wanted)) in (at..).zip(piece.iter().zip(expected)) {
                if found != wanted {
                    return Err(WrongByte { offset: position, expected: *wanted, found: *found });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the entropy of the distribution of single bytes, in bits per byte.
    fn entropy(bytes: &[u8]) -> f64 {
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
        let n = bytes.len() as f64;
        counts.iter().filter(|c| **c > 0).map(|c| f64::from(*c) / n).map(|p| -p * p.log2()).sum()
    }

    #[test]
    fn data_are_as_compressible_as_requested() {
        let dense = FileContents::new(1 << 20, 0, 1).unwrap();
        assert!(entropy(&dense.pristine) > 7.99);
        let half = FileContents::new(1 << 20, 50, 1).unwrap();
        let zeros = half.pristine.iter().filter(|b| **b == 0).count() as f64 / (1 << 20) as f64;
        assert!((0.49..0.52).contains(&zeros), "{zeros}");
        assert!(FileContents::new(4096, 100, 1).unwrap().pristine.iter().all(|b| *b == 0));
    }

    #[test]
    fn data_differ_by_position_pass_and_seed() {
        let data = FileContents::new(8192, 0, 1).unwrap();
        let block = |stamps: &FileContents, offset, pass| {
            let mut block = vec![0; 8192];
            stamps.fill(&mut block);
            stamps.stamp(&mut block, offset, pass);
            block
        };
        let one = block(&data, 0, 0);
        assert_ne!(one, block(&data, 8192, 0));
        assert_ne!(one, block(&data, 0, 1));
        assert_ne!(one, block(&FileContents::new(8192, 0, 2).unwrap(), 0, 0));
        assert_ne!(one[..4096], one[4096..]);
        assert!(data.check(&one, 0, 0).is_ok());
        assert!(data.check(&one, 0, 1).is_err() && data.check(&one, 8192, 0).is_err());
    }

    proptest! {
        #[test]
        fn single_wrong_bit_is_located(
            len in 1usize..20_000, at in 0usize..20_000, bit in 0u8..8, offset in 0u64..1 << 40
        ) {
            let at = at % len;
            let data = FileContents::new(20_000, 30, 7).unwrap();
            let mut block = vec![0; len];
            data.fill(&mut block);
            data.stamp(&mut block, offset, 3);
            prop_assert_eq!(data.check(&block, offset, 3), Ok(()));
            let expected = block[at];
            block[at] ^= 1 << bit;
            let wrong = WrongByte { offset: offset + at as u64, expected, found: block[at] };
            prop_assert_eq!(data.check(&block, offset, 3), Err(wrong));
        }
    }
}
