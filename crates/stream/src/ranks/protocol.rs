//! Requests and responses of ranks that measure.

use crate::kernels::{Kernel, KernelShape};
use crate::point::{Spans, TargetConfig};
use crate::target::Seen;
use nodegauge_measure::interference::Cause;
use nodegauge_team::launched::Protocol;
use serde::{Deserialize, Serialize};

/// Ranks that measure as one target.
#[derive(Debug)]
pub enum MeasuringRanks {}

impl Protocol for MeasuringRanks {
    type TargetRequest = Request;
    type Response = Response;
    const COMMAND: &'static str = super::COMMAND;
    const LOST_HINT: &'static str =
        "check the system log for an out-of-memory kill, and use a smaller --size";

    fn version() -> String {
        format!("{} {}", env!("CARGO_PKG_VERSION"), crate::kernels::compiled_in())
    }

    fn is_collective(request: &Request) -> bool {
        matches!(request, Request::Pass { .. })
    }
}

/// Request of the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Sets up a point under a number.
    Prepare { point: u32, config: Box<TargetConfig> },
    /// Sets other loops.
    Reshape { point: u32, kernels: Vec<(Kernel, KernelShape)> },
    /// Runs each kernel once together with `ranks - 1` others, and measures the core-to-core latency between ranks
    /// before and after if `ping_pong`.
    Pass { point: u32, ranks: usize, ping_pong: bool, over: Over },
    /// Checks the arrays.
    Check { point: u32 },
    /// Asks the operating system for placement and pages.
    Inspect { point: u32 },
    /// Frees the arrays of a point.
    Release { point: u32 },
}

/// Part of the arrays that a request covers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Over {
    /// The whole arrays: a pass.
    Whole,
    /// The next part in turn: a trial of loops.
    Trial,
    /// One of several equal parts.
    Part {
        /// Index of the part.
        index: usize,
        /// Number of parts.
        count: usize,
    },
}

/// Response of a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Response {
    /// Done.
    Done,
    /// A pass.
    Passed(Passed),
    /// Placement and pages, as reported by the operating system.
    Seen(Box<Seen>),
}

/// Pass of one rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Passed {
    /// First start and last end of each kernel.
    pub(super) spans: Spans,
    /// Core-to-core latency before and after; `None` for a single thread, and for the rank of a pair that answers.
    pub(super) round_trips: (Option<f64>, Option<f64>),
    /// Interference that cannot be attributed to one kernel.
    pub(super) causes: Vec<Cause>,
    /// Interference with each kernel.
    pub(super) part_causes: Vec<Vec<Cause>>,
}
