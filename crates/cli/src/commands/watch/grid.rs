//! When samples are due: at whole multiples of a time after the first, by the clock on the wall, whatever a
//! sample takes, however long the machine slept and wherever the clock is set.

use std::time::{Duration, SystemTime};

/// Moments that lie evenly in time.
pub(super) struct TimeGrid {
    first: SystemTime,
    every: Duration,
}

impl TimeGrid {
    pub(super) fn new(first: SystemTime, every: Duration) -> Self {
        Self { first, every }
    }

    /// The next moment after `now`. Those that passed meanwhile are not made up for. A clock that shows a time
    /// before the first moment was set back: from then on it counts anew.
    pub(super) fn next(&mut self, now: SystemTime) -> SystemTime {
        if now < self.first {
            self.first = now;
        }
        let passed = now.duration_since(self.first).unwrap_or_default();
        let into = Duration::from_nanos((passed.as_nanos() % self.every.as_nanos()) as u64);
        now - into + self.every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_in_step_whatever_they_take_and_however_long_the_machine_slept() {
        let at = |seconds: f64| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(1e9 + seconds);
        let mut grid = TimeGrid::new(at(0.0), Duration::from_secs(600));
        for (now, next) in [(6.5, 600.0), (600.0, 1200.0), (606.0, 1200.0), (1900.0, 2400.0)] {
            assert_eq!(grid.next(at(now)), at(next), "{now}");
        }
        // A night of sleep is one gap, not fifty samples at once.
        assert_eq!(grid.next(at(30_123.0)), at(30_600.0));
        // Set back by an hour, into the series and to before its beginning.
        assert_eq!(grid.next(at(27_000.0)), at(27_600.0));
        assert_eq!(grid.next(at(-3000.0)), at(-2400.0));
        assert_eq!(grid.next(at(-2395.0)), at(-1800.0));
    }
}
