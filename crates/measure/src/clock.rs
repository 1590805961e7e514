//! The clock that times kernels: the kernel's monotonic one, read in user space through the vDSO,
//! the same on all CPUs, so that the first start and the last end of a team can be subtracted.
//!
//! Its granularity and the cost of a reading are measured, not assumed.

use crate::quantity::Seconds;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Seconds since the first call, which the program makes when it begins: what samples are dated by.
pub fn since_start() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

thread_local! {
    static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Now, on the clock by which budgets are kept.
pub fn now() -> Instant {
    Instant::now() + AHEAD.get()
}

/// Lets that clock run ahead on this thread as if `by` had passed: for simulations of slow machines.
pub fn run_ahead(by: Duration) {
    AHEAD.set(AHEAD.get() + by);
}

/// What the clock can tell apart and what asking it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockQuality {
    /// Smallest difference seen between two readings that differ.
    pub granularity: Seconds,
    /// Mean time of one reading.
    pub overhead: Seconds,
}

/// Readings used to judge the clock: some 30 us in all.
const READINGS: u32 = 1000;

/// STREAM asks for at least this many clock ticks in a timed loop.
pub const MIN_TICKS: f64 = 20.0;

/// Judges the clock by reading it in a row.
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
