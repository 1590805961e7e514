//! Lengths of detours as a histogram, fine enough to count those of about one length.

/// Number of bins per power of two: a bin is 9 % wide.
const PER_OCTAVE: f64 = 8.0;
/// Number of bins, up to 2 s in nanoseconds.
const BINS: usize = 31 * PER_OCTAVE as usize;
/// Ratio of lengths that count as about the same: the time of a task varies, and its switches are part of a detour.
const NEAR: f64 = 1.5;

/// Numbers of detours by length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lengths {
    bins: Vec<u64>,
}

impl Lengths {
    /// Adds a detour of this length in nanoseconds.
    pub(crate) fn add(&mut self, length: u64) {
        self.bins.resize(BINS, 0);
        self.bins[bin(length as f64)] += 1;
    }

    /// Returns the number of detours of about this length in nanoseconds.
    pub(crate) fn near(&self, length: u64) -> u64 {
        let length = length as f64;
        let range = bin(length / NEAR)..=bin(length * NEAR);
        self.bins.get(range).unwrap_or_default().iter().sum()
    }
}

/// Returns the bin of a length in nanoseconds.
fn bin(length: f64) -> usize {
    ((length.max(1.0).log2() * PER_OCTAVE) as usize).min(BINS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_of_about_one_length_are_counted() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.near(1000), 0);
        for length in [1, 700, 1000, 1400, 4000, u64::MAX] {
            lengths.add(length);
        }
        assert_eq!(lengths.near(1000), 3);
        assert_eq!(lengths.near(4000), 1);
        assert_eq!(lengths.near(0), 1);
    }
}
