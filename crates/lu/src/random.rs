//! Random numbers of the matrix: uniform in [-0.5, 0.5), from a linear congruential generator. Any number of the
//! sequence can be computed without the preceding numbers.
//!
//! The generator is that of HPL: X(i+1) = a X(i) + c modulo 2^64. X(i+k) is computed in log2(k) steps, because k steps
//! together also have the form A X + C. Threads therefore generate their columns independently and reproducibly, and
//! the residual check generates the matrix a second time. Constants: Knuth, The Art of Computer Programming 2, 3.3.4
//! (MMIX). Element (i, j) of a problem of order n is number j n + i; the right-hand side is column n.

/// Multiplier a of the generator.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// Increment c of the generator.
const INCREMENT: u64 = 1_442_695_040_888_963_407;
/// Number of interleaved chains, because a step of a chain waits about four cycles for the multiplication.
const CHAINS: usize = 8;

/// Jump over several steps: X becomes A X + C.
#[derive(Debug, Clone, Copy)]
struct Jump(u64, u64);

impl Jump {
    const ONE: Self = Self(MULTIPLIER, INCREMENT);
    const NONE: Self = Self(1, 0);

    /// Returns this jump followed by the jump `next`.
    fn then(self, next: Self) -> Self {
        Self(self.0.wrapping_mul(next.0), next.apply(self.1))
    }

    /// Returns a jump of `steps` steps, by repeated squaring.
    fn from_steps(mut steps: u64) -> Self {
        let mut jump = Self::NONE;
        let mut power = Self::ONE;
        while steps > 0 {
            if steps & 1 == 1 {
                jump = jump.then(power);
            }
            power = power.then(power);
            steps >>= 1;
        }
        jump
    }

    fn apply(self, x: u64) -> u64 {
        self.0.wrapping_mul(x).wrapping_add(self.1)
    }
}

/// Returns the upper 53 bits as a number in [-0.5, 0.5). The lower bits of such generators are of poor quality.
fn number(x: u64) -> f64 {
    (x >> 11) as f64 * (1.0 / (1u64 << 53) as f64) - 0.5
}

/// Sequence of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    start: u64,
}

impl Sequence {
    /// Returns the sequence for `seed`. Similar seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        // The finaliser of SplitMix64 (Steele, Lea, Flood 2014) spreads a seed over all bits.
        let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self { start: x ^ (x >> 31) }
    }

    /// Fills `out` with consecutive numbers of the sequence, beginning at number `first`.
    pub fn fill(self, first: u64, out: &mut [f64]) {
        let mut x = Jump::from_steps(first + 1).apply(self.start);
        let mut chains = [0; CHAINS];
        for chain in &mut chains {
            *chain = x;
            x = Jump::ONE.apply(x);
        }
        let jump = Jump::from_steps(CHAINS as u64);
        for part in out.chunks_mut(CHAINS) {
            for (slot, chain) in part.iter_mut().zip(&mut chains) {
                *slot = number(*chain);
                *chain = jump.apply(*chain);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_sequence_equals_range_of_whole_sequence() {
        let sequence = Sequence::new(42);
        let mut whole = vec![0.0; 1000];
        sequence.fill(0, &mut whole);
        for (first, length) in [(0, 1), (1, 17), (7, 993), (999, 1), (512, 64)] {
            let mut part = vec![0.0; length];
            sequence.fill(first, &mut part);
            assert_eq!(part, whole[first as usize..first as usize + length]);
        }
    }

    #[test]
    fn random_numbers_follow_recurrence() {
        let sequence = Sequence::new(1);
        let mut numbers = vec![0.0; 100_000];
        sequence.fill(0, &mut numbers);
        let mut x = sequence.start;
        for got in &numbers[..100] {
            x = x.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            assert_eq!(*got, number(x));
        }
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance =
            numbers.iter().map(|number| number * number).sum::<f64>() / numbers.len() as f64;
        assert!(numbers.iter().all(|number| (-0.5..0.5).contains(number)));
        assert!(mean.abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.001);
    }

    #[test]
    fn similar_seeds_give_different_numbers() {
        let first = |seed| {
            let mut out = [0.0];
            Sequence::new(seed).fill(0, &mut out);
            out[0]
        };
        assert!((first(1) - first(2)).abs() > 1e-3);
    }
}
