//! The roofline model (Williams, Waterman, Patterson 2009, doi 10.1145/1498765.1498785): the rate that a program with a
//! given number of operations per byte can reach, and the ceiling that limits the program.
//!
//! Gauges measure the ceilings ([`Gauge::ceilings_plan`](crate::Gauge::ceilings_plan)) and may add their own figures as
//! points ([`Gauge::roofline_points`](crate::Gauge::roofline_points)). Each memory level has its own roof. A point is
//! compared with the roof of the memory level whose bytes were counted. The gauge that collects ceilings and points is
//! in the crate `nodegauge-roofline`.

mod ceiling;
mod chart;
mod point;
#[cfg(test)]
mod tests;

pub use ceiling::{Ceiling, Roofline};
pub use chart::{RooflineDot, chart, format_intensity};
pub use point::{NoPointReason, RooflinePoint, RooflinePointConfig};

use nodegauge_measure::Bytes;
use nodegauge_measure::schedule::Budget;
use nodegauge_placement::{MemoryPolicy, Placement};
use std::time::Duration;

/// Name of the gauge in records.
pub const GAUGE: &str = "roofline";
/// Test name of bandwidths. The figure names consist of a level and a kernel: `L1_read`, `memory_triad`.
pub const BANDWIDTH_TEST: &str = "bandwidth";
/// Test name of peaks. The figure names are listed in [`PEAK_NAMES`].
pub const PEAK_TEST: &str = "peak";
/// Test name of kernels as points: operations per second of loops that also measure bandwidths. The figure names have
/// the same form as those of bandwidths.
pub const KERNEL_TEST: &str = "kernel";
/// Test name of all other points, e.g. of points that the user gives.
pub const POINT_TEST: &str = "point";
/// Names of the peaks: fused multiply-adds, SIMD without FMA, scalar operations, and matrix products.
pub const PEAK_NAMES: [&str; 4] = ["fma", "simd", "scalar", "dgemm"];
/// Name of the level of main memory.
pub const MEMORY_LEVEL: &str = "memory";
/// Suffix of the names of single-thread ceilings.
pub const ONE_THREAD_SUFFIX: &str = "_one";

/// Group of threads whose roofline is measured.
#[derive(Clone, Copy)]
pub struct RooflineThreads<'a> {
    /// CPUs of the threads that measure together.
    pub placement: &'a Placement,
    /// Suffix of the figure names of this group: empty, or [`ONE_THREAD_SUFFIX`].
    pub suffix: &'static str,
    /// Share of the time budget for this group, 0 to 1.
    pub share: f64,
    /// True to show kernels as points under the ceilings, too.
    pub kernels: bool,
}

/// Request for a gauge's part of a roofline.
#[derive(Clone, Copy)]
pub struct CeilingsRequest<'a> {
    /// Groups of threads, measured one after another.
    pub parts: &'a [RooflineThreads<'a>],
    /// Memory policy of the threads.
    pub policy: &'a MemoryPolicy,
    /// Working set in main memory, of all threads together; `None` for the gauge's default.
    pub largest: Option<Bytes>,
    /// Time budget of the gauge.
    pub budget: Duration,
    /// Time budget of the whole run. A gauge that exceeds it during its set-up refuses the run.
    pub whole: Budget,
    /// Exact number of samples, regardless of the time.
    pub samples: Option<usize>,
}
