//! Order in which an operation visits the blocks of a file. Each pattern except [`AccessPattern::Same`] visits
//! every block exactly once. The order needs the same memory for any file size.

use nodegauge_measure::Bytes;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use nodegauge_measure::quantity::read_bytes;
use std::str::FromStr;

/// Order in which the blocks of a file are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPattern {
    /// From the first block to the last.
    Forward,
    /// From the last block to the first.
    Backward,
    /// Every block once, in a pseudo-random order.
    Random,
    /// Every [`STRIDE`]th block, first beginning with the first block, then with the second, and so on; the user
    /// may set another distance.
    Stride,
    /// The first block, repeatedly.
    Same,
}

/// Default distance of strided accesses in blocks, as in IOzone.
pub const STRIDE: u64 = 17;

/// Distance of strided accesses, as a user gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stride {
    /// Distance between the starts of two blocks, in blocks; at least 1. It is IOzone's `-j`.
    Blocks(u64),
    /// Bytes between the end of a block and the start of the next.
    Skipped(Bytes),
}

impl Default for Stride {
    fn default() -> Self {
        Self::Blocks(STRIDE)
    }
}

impl Stride {
    /// Returns the distance in blocks of `block` bytes; `None` if the skipped bytes are not a whole number of blocks.
    pub fn in_blocks(self, block: Bytes) -> Option<u64> {
        match self {
            Self::Blocks(blocks) => Some(blocks),
            Self::Skipped(bytes) => {
                bytes.0.is_multiple_of(block.0.max(1)).then(|| bytes.0 / block.0.max(1) + 1)
            }
        }
    }
}

impl FromStr for Stride {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(
            "stride",
            "--stride 51 (in blocks, as IOzone's -j) or --stride 200KiB (bytes to skip)",
            text,
        );
        if text.chars().all(|c| c.is_ascii_digit()) {
            let blocks = cursor.number("expected a number of blocks, or bytes with a unit")?;
            if blocks == 0 {
                return Err(cursor.error_at(0, "a distance of 0 blocks is invalid"));
            }
            return Ok(Self::Blocks(blocks));
        }
        let bytes = read_bytes(&mut cursor)?;
        cursor.finish("expected the end")?;
        if bytes.0 == 0 {
            return Err(cursor.error_at(
                0,
                "at least one byte must be skipped; --stride 1 reads every block in order",
            ));
        }
        Ok(Self::Skipped(bytes))
    }
}

/// Iterator over block numbers in the order of a pattern.
#[derive(Debug, Clone)]
pub struct BlockOrder {
    pattern: AccessPattern,
    /// Distance of strided accesses.
    stride: u64,
    blocks: u64,
    taken: u64,
    /// Number of the next block; for [`AccessPattern::Random`], the state of the generator.
    next: u64,
    /// Smallest number of the form 2^n - 1 that is at least the last block number.
    mask: u64,
    shift: u32,
    key: u64,
}

impl BlockOrder {
    /// Creates the order of `blocks` blocks; `seed` selects the random order.
    pub fn new(pattern: AccessPattern, blocks: u64, seed: u64) -> Self {
        let mask = blocks.next_power_of_two().max(2) - 1;
        let next = match pattern {
            AccessPattern::Backward => blocks.saturating_sub(1),
            AccessPattern::Random => mix_bits(seed) & mask,
            _ => 0,
        };
        let shift = (mask.count_ones() / 2).max(1);
        let key = mix_bits(seed ^ 0x5bd1) | 1;
        Self { pattern, stride: STRIDE, blocks, taken: 0, next, mask, shift, key }
    }

    /// Sets the distance of strided accesses, which must not be zero.
    pub fn with_stride(self, stride: u64) -> Self {
        Self { stride, ..self }
    }

    /// Returns the next number of a permutation of the numbers up to `mask`. The permutation is a linear
    /// congruential generator of full period (Hull and Dobell, 1962: odd increment, multiplier 1 modulo 4). Its
    /// output is mixed by invertible operations, and numbers beyond the last block are skipped.
    fn random(&mut self) -> u64 {
        loop {
            self.next =
                self.next.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(self.key) & self.mask;
            let mut number = self.next;
            number ^= number >> self.shift;
            number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & self.mask;
            number ^= number >> self.shift;
            if number < self.blocks {
                return number;
            }
        }
    }
}

impl Iterator for BlockOrder {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.taken == self.blocks {
            return None;
        }
        self.taken += 1;
        Some(match self.pattern {
            AccessPattern::Same => 0,
            AccessPattern::Forward => self.taken - 1,
            AccessPattern::Backward => self.blocks - self.taken,
            AccessPattern::Random => self.random(),
            AccessPattern::Stride => {
                let now = self.next;
                self.next = now.saturating_add(self.stride);
                if self.next >= self.blocks {
                    self.next = now % self.stride + 1;
                }
                now
            }
        })
    }
}

/// Mixes 64 bits (the finaliser of splitmix64: Steele, Lea, Flood 2014).
#[inline]
pub fn mix_bits(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_access_pattern_visits_blocks_in_its_order() {
        let walk = |pattern, n| BlockOrder::new(pattern, n, 1).collect::<Vec<_>>();
        assert_eq!(walk(AccessPattern::Forward, 4), [0, 1, 2, 3]);
        assert_eq!(walk(AccessPattern::Backward, 4), [3, 2, 1, 0]);
        assert_eq!(walk(AccessPattern::Same, 3), [0, 0, 0]);
        assert_eq!(walk(AccessPattern::Stride, 36)[..6], [0, 17, 34, 1, 18, 35]);
        for stride in [1, 2, 5, 17, 36, 40, u64::MAX] {
            let every = BlockOrder::new(AccessPattern::Stride, 36, 1).with_stride(stride);
            let mut every: Vec<u64> = every.collect();
            every.sort_unstable();
            assert_eq!(every, (0..36).collect::<Vec<_>>(), "{stride}");
        }
        assert!(walk(AccessPattern::Forward, 0).is_empty());
    }

    #[test]
    fn random_order_depends_on_seed_and_has_no_locality() {
        let walk = |seed| BlockOrder::new(AccessPattern::Random, 1 << 14, seed).collect::<Vec<_>>();
        let (one, two) = (walk(1), walk(2));
        assert_ne!(one, two);
        let adjacent = one.windows(2).filter(|w| w[1].abs_diff(w[0]) <= 1).count();
        assert!(adjacent < 20, "{adjacent} of 16384 steps go to a neighbour");
        // The mean distance of two random points on a line is a third of the line's length.
        let mean = one.windows(2).map(|w| w[1].abs_diff(w[0]) as f64).sum::<f64>() / 16383.0;
        assert!((mean / 16384.0 - 1.0 / 3.0).abs() < 0.05, "{mean}");
    }

    proptest! {
        #[test]
        fn every_block_is_visited_once(blocks in 1u64..5000, seed: u64, which in 0usize..4) {
            let pattern = [AccessPattern::Forward, AccessPattern::Backward, AccessPattern::Random, AccessPattern::Stride][which];
            let mut seen: Vec<u64> = BlockOrder::new(pattern, blocks, seed).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..blocks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn skipped_bytes_are_converted_to_blocks() {
        let stride: Stride = "200KiB".parse().unwrap();
        // The example of IOzone's documentation: 4 KiB are read, 200 KiB are skipped.
        assert_eq!(stride.in_blocks(Bytes::kib(4)), Some(51));
        assert_eq!(stride.in_blocks(Bytes::kib(8)), Some(26));
        assert_eq!(stride.in_blocks(Bytes::kib(16)), None);
        assert_eq!(stride.in_blocks(Bytes::kib(400)), None);
        let blocks: Stride = "51".parse().unwrap();
        assert_eq!(blocks.in_blocks(Bytes::kib(16)), Some(51));
        for wrong in ["", "0", "0KiB", "-1", "200KiB,", "many", "99999999999999999999"] {
            assert!(wrong.parse::<Stride>().is_err(), "{wrong:?}");
        }
    }
}
