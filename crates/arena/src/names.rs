//! Names of the tests of memory, as records have them: the gauges of STREAM and of curves have one name there.

pub use nodegauge_measure::figure_names::stream::{GAUGE, TEST as STREAM, TRIAD};

/// The search of the tuner.
pub const TUNE: &str = "tune";
/// The result of the tuner.
pub const CHOICE: &str = "choice";
/// Bandwidth by working set.
pub const LADDER: &str = "ladder";
/// Latency by working set.
pub const LATENCY: &str = "latency";
/// NUMA node to NUMA node, and CPU to CPU.
pub const MATRIX: &str = "matrix";
/// Latency under load.
pub const LOADED: &str = "loaded";
/// Bandwidth by the mix of reads and writes.
pub const MIX: &str = "mix";
/// The tests of curves, in the order of a page.
pub const CURVES: [&str; 5] = [LADDER, LATENCY, MATRIX, LOADED, MIX];
