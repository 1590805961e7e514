//! Practical limits: the smallest loss of a figure that matters, by test.
//!
//! Memory: LSF's guide excludes a node whose Triad is more than 4 % below the reference ("Check compute node
//! performance", IBM Spectrum LSF, energy aware scheduling). Floating point: rates of DGEMM vary less than bandwidth,
//! because caches hide the placement of pages. Messages and files use wires, switches and servers that are shared with
//! other nodes. Good nodes therefore differ more, and these limits are higher.

use nodegauge_measure::Fraction;
use nodegauge_measure::figure_names::{hpl, io, stream};

/// Name of the clock frequency with all cores busy, in references and verdicts. Records contain it as a property of the
/// machine, not as a figure. It explains the figures of nodes and does not rank nodes.
pub const CLOCK: &str = "clock";
/// Smallest loss of clock frequency that matters.
pub const CLOCK_LIMIT: f64 = 0.03;

/// Tests with their short names in reasons, and the smallest losses that matter in practice.
const TESTS: [(&str, &str, f64); 10] = [
    (stream::TEST, "mem", 0.04),
    (stream::TEST_ON_DEVICES, "dev", 0.04),
    ("latency", "lat", 0.05),
    (hpl::TEST, "fp", 0.03),
    ("mpi", "msg", 0.10),
    ("transport", "msg", 0.10),
    (io::TEST, "file", 0.20),
    ("iccg", "app", 0.04),
    ("hpcg", "app", 0.04),
    (CLOCK, "clock", CLOCK_LIMIT),
];
/// Short name and practical limit for tests that are not in the table.
const OTHER_TEST: (&str, f64) = ("fig", 0.05);

/// Source of the practical limit of memory bandwidth.
pub const MEMORY_LIMIT_SOURCE: &str = "memory 4 % (IBM Spectrum LSF, energy aware scheduling)";

/// Returns the smallest loss of a figure of this test that matters in practice, as a share of the peers' median.
pub fn limit(test: &str) -> Fraction {
    Fraction(row(test).map_or(OTHER_TEST.1, |row| row.2))
}

/// Returns the short name of figures of this test, e.g. `mem`.
pub fn short_name(test: &str) -> &'static str {
    row(test).map_or(OTHER_TEST.0, |row| row.1)
}

fn row(test: &str) -> Option<&'static (&'static str, &'static str, f64)> {
    TESTS.iter().find(|(name, ..)| *name == test)
}
