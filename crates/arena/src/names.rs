//! Names of the tests of memory in records; the gauges of STREAM and of curves share one gauge name there.

pub use nodegauge_measure::figure_names::stream::{GAUGE, TEST as STREAM, TRIAD};

/// Search of the tuner.
pub const TUNE: &str = "tune";
/// Result of the tuner.
pub const CHOICE: &str = "choice";
/// Bandwidth by working set.
pub const LADDER: &str = "ladder";
/// Latency by working set.
pub const LATENCY: &str = "latency";
/// Bandwidth and latency between NUMA nodes and between CPUs.
pub const MATRIX: &str = "matrix";
/// Latency under load.
pub const LOADED: &str = "loaded";
/// Bandwidth by the mix of reads and writes.
pub const MIX: &str = "mix";
/// Tests of curves, in the order of a page.
pub const CURVES: [&str; 5] = [LADDER, LATENCY, MATRIX, LOADED, MIX];
