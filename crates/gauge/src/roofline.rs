//! The roofline model (Williams, Waterman, Patterson 2009, doi 10.1145/1498765.1498785): the rate that a program can
//! reach, by its operations per byte, and the ceiling that limits it.
//!
//! Gauges measure the ceilings ([`Gauge::ceilings`](crate::Gauge::ceilings)) and may place their own figures under
//! them ([`Gauge::points`](crate::Gauge::points)). Each level of memory has a roof of its own: a point is compared
//! with the level whose bytes were counted. The gauge that collects them is the crate `nodegauge-roofline`.

mod ceiling;
mod chart;
mod point;
#[cfg(test)]
mod tests;

pub use ceiling::{Ceiling, Roofline};
pub use chart::{Dot, chart, intensity};
pub use point::{Point, PointConfig};

use nodegauge_measure::Bytes;
use nodegauge_placement::{MemoryPolicy, Placement};
use std::time::Duration;

/// The gauge's name, as records have it.
pub const GAUGE: &str = "roofline";
/// The test of bandwidths: names are a level and a kernel, `L1_read`, `memory_triad`.
pub const BANDWIDTH: &str = "bandwidth";
/// The test of peaks: [`PEAKS`].
pub const PEAK: &str = "peak";
/// The test of kernels that were measured beside the ceilings: named like bandwidths.
pub const KERNEL: &str = "kernel";
/// The test of all other points.
pub const POINT: &str = "point";
/// The peaks: fused multiply-adds, vectors without them, one number at a time, and products of matrices.
pub const PEAKS: [&str; 4] = ["fma", "simd", "scalar", "dgemm"];
/// The level behind all caches.
pub const MEMORY: &str = "memory";
/// What ends the name of a ceiling of a single thread beside those of all.
pub const ONE_THREAD: &str = "_one";

/// Threads of which a roofline is asked for.
#[derive(Clone, Copy)]
pub struct CeilingsPart<'a> {
    /// The threads that measure together.
    pub placement: &'a Placement,
    /// What ends the names of their figures: nothing, or [`ONE_THREAD`].
    pub suffix: &'static str,
    /// Share of the time for them, 0 to 1.
    pub share: f64,
    /// Whether kernels are placed under the ceilings as well.
    pub kernels: bool,
}

/// What is asked of a gauge for a roofline.
#[derive(Clone, Copy)]
pub struct CeilingsAsk<'a> {
    /// One after another.
    pub parts: &'a [CeilingsPart<'a>],
    /// The policy of the threads' memory.
    pub policy: &'a MemoryPolicy,
    /// The set that is to lie in main memory, all threads together; `None` leaves the choice.
    pub largest: Option<Bytes>,
    /// Time for the gauge.
    pub budget: Duration,
    /// Exactly this many samples, whatever the time.
    pub samples: Option<usize>,
}
