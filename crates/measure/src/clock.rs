//! Clock that times kernels: the monotonic clock of the operating system, read in user space through the vDSO. All CPUs
//! have the same clock, so that times from different threads can be subtracted from each other.
//!
//! Granularity and cost of a clock reading are measured, not assumed.

use crate::quantity::Seconds;
use std::cell::Cell;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// Returns the seconds since the first call of this function, which the program makes when it starts. Timestamps of
/// samples use this clock.
pub fn since_start() -> f64 {
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

static BUDGET_START: Mutex<Option<Instant>> = Mutex::new(None);

/// Starts the user's time budget now. The program calls this function when a command starts, so that everything before
/// the measurement counts; in a run on several hosts, it calls the function on all hosts simultaneously.
pub fn start_budget() {
    *BUDGET_START.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// Returns the start of the user's time budget if [`start_budget`] was called, otherwise the
/// current time.
pub fn budget_start() -> Instant {
    BUDGET_START.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(now)
}

thread_local! {
    static CLOCK_OFFSET: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the current time of the clock that measures time budgets.
pub fn now() -> Instant {
    Instant::now() + CLOCK_OFFSET.get()
}

/// Advances the clock of time budgets by `by` in this thread, to simulate a slow machine in tests.
pub fn advance_clock(by: Duration) {
    CLOCK_OFFSET.set(CLOCK_OFFSET.get() + by);
}

/// Granularity and cost of the clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockQuality {
    /// Smallest observed difference between two different readings; infinite if the clock did not advance.
    pub granularity: Seconds,
    /// Mean time of one reading.
    pub overhead: Seconds,
}

/// Number of clock readings from which granularity and cost are computed; they take about 30 us in total.
const READINGS: u32 = 1000;
/// Maximum number of readings until a coarse clock advances; they take about half a second in total.
const MAX_READINGS: u32 = 10_000_000;

/// Minimum number of clock ticks in a timed loop; STREAM requires the same minimum.
pub const MIN_TICKS: f64 = 20.0;

/// Measures granularity and cost of the clock with consecutive readings.
pub fn measure_quality() -> ClockQuality {
    clock_quality(|| Instant::now().duration_since(*START.get_or_init(Instant::now)))
}

/// Measures granularity and cost of a clock with consecutive readings. If the clock is coarse, more readings are made
/// until it has advanced.
fn clock_quality(mut read: impl FnMut() -> Duration) -> ClockQuality {
    let start = read();
    let mut last = start;
    let mut granularity = f64::INFINITY;
    let mut readings = 0;
    while readings < READINGS || (granularity.is_infinite() && readings < MAX_READINGS) {
        let now = read();
        let step = (now - last).as_secs_f64();
        if step > 0.0 {
            granularity = granularity.min(step);
        }
        last = now;
        readings += 1;
    }
    ClockQuality {
        granularity: Seconds(granularity),
        overhead: Seconds((last - start).as_secs_f64() / f64::from(readings)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn clock_granularity_is_less_than_10_ms() {
        let quality = super::measure_quality();
        assert!(quality.granularity.0 > 0.0 && quality.granularity.0 < 1e-2);
        assert!(quality.overhead.0 >= 0.0);
    }

    /// Measures a clock that advances by 10 ms every 70,000 readings, and a clock that never
    /// advances.
    #[test]
    fn coarse_clock_granularity_is_measured() {
        let mut readings = 0;
        let coarse = super::clock_quality(|| {
            readings += 1;
            super::Duration::from_millis(readings / 70_000 * 10)
        });
        assert_eq!(coarse.granularity.0, 0.01);
        let still = super::clock_quality(|| super::Duration::ZERO);
        assert_eq!(still.granularity.0, f64::INFINITY);
    }
}
