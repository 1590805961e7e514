//! Clock that times kernels: the monotonic clock of the operating system, read in user space through the vDSO. It is
//! the same on all CPUs, so that times that different threads read can be subtracted from each other.
//!
//! Granularity and cost of a clock reading are measured, not assumed.

use crate::quantity::Seconds;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the seconds since the first call of this function, which the program makes when it starts. Timestamps of
/// samples use this clock.
pub fn since_start() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

thread_local! {
    static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the current time of the clock that measures time budgets.
pub fn now() -> Instant {
    Instant::now() + AHEAD.get()
}

/// Advances the clock of time budgets by `by` in this thread, to simulate a slow machine in tests.
pub fn run_ahead(by: Duration) {
    AHEAD.set(AHEAD.get() + by);
}

/// Granularity and cost of the clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockQuality {
    /// Smallest observed difference between two different readings.
    pub granularity: Seconds,
    /// Mean time of one reading.
    pub overhead: Seconds,
}

/// Number of clock readings for the measurement; they take about 30 us in total.
const READINGS: u32 = 1000;

/// Minimum number of clock ticks in a timed loop; STREAM requires the same minimum.
pub const MIN_TICKS: f64 = 20.0;

/// Measures granularity and cost of the clock with consecutive readings.
pub fn quality() -> ClockQuality {
    let start = Instant::now();
    let mut last = start;
    let mut granularity = f64::INFINITY;
    for _ in 0..READINGS {
        let now = Instant::now();
        let step = (now - last).as_secs_f64();
        if step > 0.0 {
            granularity = granularity.min(step);
        }
        last = now;
    }
    let total = (last - start).as_secs_f64();
    ClockQuality {
        granularity: Seconds(if granularity.is_finite() { granularity } else { total }),
        overhead: Seconds(total / f64::from(READINGS)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_ticks() {
        let quality = super::quality();
        assert!(quality.granularity.0 > 0.0 && quality.granularity.0 < 1e-2);
        assert!(quality.overhead.0 >= 0.0);
    }
}
