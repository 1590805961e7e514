//! Times at which samples are due: a start time plus multiples of an interval, in wall-clock time. They do not depend
//! on the duration of samples, or on a suspend of the machine.

use std::time::{Duration, SystemTime};

/// Sequence of times with equal intervals.
pub(super) struct TimeGrid {
    first: SystemTime,
    every: Duration,
}

impl TimeGrid {
    pub(super) fn new(first: SystemTime, every: Duration) -> Self {
        Self { first, every }
    }

    /// Returns the next time after `now`. Times that have passed are skipped. If `now` is before the start time, the
    /// clock was set back, and the sequence restarts at `now`.
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
    fn sampling_times_stay_on_the_grid_after_delays_and_suspension() {
        let at = |seconds: f64| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(1e9 + seconds);
        let mut grid = TimeGrid::new(at(0.0), Duration::from_secs(600));
        for (now, next) in [(6.5, 600.0), (600.0, 1200.0), (606.0, 1200.0), (1900.0, 2400.0)] {
            assert_eq!(grid.next(at(now)), at(next), "{now}");
        }
        // After a long suspend, only one sample is due, and the missed samples are skipped.
        assert_eq!(grid.next(at(30_123.0)), at(30_600.0));
        // The clock is set back twice: to a time within the series, and to a time before its start.
        assert_eq!(grid.next(at(27_000.0)), at(27_600.0));
        assert_eq!(grid.next(at(-3000.0)), at(-2400.0));
        assert_eq!(grid.next(at(-2395.0)), at(-1800.0));
    }
}
