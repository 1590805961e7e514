//! Names of memory tests in records. STREAM and the memory curves belong to one gauge in records.

pub use nodegauge_measure::figure_names::stream::{GAUGE, TEST as STREAM, TRIAD};

/// Name of the test whose figures are the results of the tuner's search.
pub const TUNE: &str = "tune";
/// Name of the figure for the result of the tuner.
pub const CHOICE: &str = "choice";
/// Name of the test of bandwidth by working set.
pub const LADDER: &str = "ladder";
/// Name of the test of latency by working set.
pub const LATENCY: &str = "latency";
/// Name of the test of bandwidth and latency between NUMA nodes and between CPUs.
pub const MATRIX: &str = "matrix";
/// Name of the test of latency under load.
pub const LOADED: &str = "loaded";
/// Name of the test of bandwidth by the mix of reads and writes.
pub const MIX: &str = "mix";
/// Name of the test of the family of curves: latency under load, by the mix of reads and writes.
pub const CURVE_FAMILY: &str = "curves";
/// Name of the test of bandwidth by the number of threads.
pub const SCALING: &str = "scaling";
/// Name of the test of the bandwidths that are predicted for [`SCALING`].
pub const PREDICTION: &str = "prediction";
/// Names of the tests of memory curves, in the order of a page.
pub const CURVE_TESTS: [&str; 8] =
    [LADDER, LATENCY, MATRIX, LOADED, MIX, CURVE_FAMILY, PREDICTION, SCALING];
