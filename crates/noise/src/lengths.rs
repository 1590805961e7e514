//! Histogram of the lengths of detours. It is an HDR histogram, which is exact to two digits.

use hdrhistogram::Histogram;

/// Longest recorded length in nanoseconds. A longer detour is recorded with this length.
const LONGEST: u64 = 1 << 40;
/// Number of exact decimal digits of a length.
const DIGITS: u8 = 2;
/// Number of octaves. The last octave also contains all longer detours; it begins at about 1 s.
const OCTAVES: u32 = 31;
/// Maximum ratio between lengths that count as about equal. Lengths differ because the time of a task varies, and
/// because a detour includes switches to and from the task.
const MAX_LENGTH_RATIO: f64 = 1.5;

/// Numbers of detours by length.
#[derive(Debug, Clone)]
pub(crate) struct DetourLengths(Histogram<u64>);

impl Default for DetourLengths {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        Self(histogram.unwrap_or_else(|_| unreachable!("the constant bounds are valid")))
    }
}

impl DetourLengths {
    /// Adds a detour of this length in nanoseconds.
    pub(crate) fn add(&mut self, length: u64) {
        self.0.saturating_record(length.max(1));
    }

    /// Returns the number of detours.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the number of detours whose length is about `length` nanoseconds.
    pub(crate) fn count_near(&self, length: u64) -> u64 {
        let length = length.max(1) as f64;
        self.0.count_between((length / MAX_LENGTH_RATIO) as u64, (length * MAX_LENGTH_RATIO) as u64)
    }

    /// Returns the number of detours in each octave. Element i counts detours of at least 2^i and less than 2^(i+1)
    /// nanoseconds; the last element also counts longer detours.
    pub(crate) fn octave_counts(&self) -> Vec<u64> {
        let last = OCTAVES - 1;
        let mut counts: Vec<u64> =
            (0..last).map(|octave| self.0.count_between(1 << octave, (2 << octave) - 1)).collect();
        counts.push(self.count() - counts.iter().sum::<u64>());
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_of_similar_length_are_counted() {
        let mut lengths = DetourLengths::default();
        assert_eq!(lengths.count_near(1000), 0);
        for length in [1, 700, 1000, 1400, 4000, u64::MAX] {
            lengths.add(length);
        }
        assert_eq!(lengths.count_near(1000), 3);
        assert_eq!(lengths.count_near(4000), 1);
        assert_eq!(lengths.count_near(0), 1);
    }

    #[test]
    fn octaves_begin_at_powers_of_two() {
        let mut lengths = DetourLengths::default();
        for octave in 0..64 {
            lengths.add(1 << octave);
            lengths.add((1 << octave) + ((1 << octave) - 1));
        }
        let counts = lengths.octave_counts();
        assert_eq!(counts[..30], [2; 30]);
        assert_eq!(counts[30..], [2 * 34]);
        assert_eq!(counts.iter().sum::<u64>(), lengths.count());
    }
}
