//! The clock that times kernels: the kernel's monotonic one, read in user space through the vDSO,
//! the same on all CPUs, so that the first start and the last end of a team can be subtracted.
//!
//! Its granularity and the cost of a reading are measured, not assumed.

use crate::quantity::Seconds;
use std::time::Instant;

/// What the clock can tell apart and what asking it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockQuality {
    /// Smallest difference seen between two readings that differ.
    pub granularity: Seconds,
    /// Mean time of one reading.
    pub overhead: Seconds,
}

/// Nanoseconds since an origin that all processes of this machine share: the clock behind
/// [`Instant`], which does not give its number away.
#[allow(unsafe_code)]
pub fn nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure; every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
