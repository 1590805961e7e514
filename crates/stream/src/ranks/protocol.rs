//! Requests and responses of ranks that measure.

use crate::kernels::{Kernel, KernelShape};
use crate::point::{PointObservations, Spans};
use crate::target::TargetConfig;
use nodegauge_measure::interference::Cause;
use nodegauge_team::rank_service::Protocol;
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
        format!("{} {}", env!("CARGO_PKG_VERSION"), crate::kernels::compiled_count())
    }

    fn is_collective(request: &Request) -> bool {
        matches!(request, Request::Pass { .. })
    }
}

/// Request of the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Sets up a point; later requests refer to it by the number `point`.
    Prepare { point: u32, config: Box<TargetConfig> },
    /// Sets other loops for a point.
    Reshape { point: u32, kernels: Vec<(Kernel, KernelShape)> },
    /// Runs each kernel once, together with the other `ranks - 1` ranks. If `ping_pong` is true, also measures the
    /// core-to-core latency between ranks before and after the kernels.
    Pass { point: u32, ranks: usize, ping_pong: bool, over: PassExtent },
    /// Checks every element of the arrays.
    Check { point: u32 },
    /// Queries the actual placement and pages from the operating system.
    Inspect { point: u32 },
    /// Frees the arrays of a point.
    Release { point: u32 },
}

/// Part of the arrays that a request covers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum PassExtent {
    /// The whole arrays are covered: a pass.
    Whole,
    /// One of several equal parts is covered.
    Part {
        /// Index of the part.
        index: usize,
        /// Number of parts of the arrays.
        count: usize,
    },
}

/// Response of a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Response {
    /// The request was completed; there is no data.
    Done,
    /// Result of a pass.
    PassResult(PassResult),
    /// Placement and pages, as reported by the operating system.
    Seen(Box<PointObservations>),
}

/// Result of a pass in one rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PassResult {
    /// Earliest start and latest end of each kernel over the threads of the rank.
    pub(super) spans: Spans,
    /// Core-to-core latency before and after the pass; `None` for a single thread, and for the passive rank of a pair.
    pub(super) round_trips: (Option<f64>, Option<f64>),
    /// Interference that cannot be attributed to one kernel.
    pub(super) causes: Vec<Cause>,
    /// Interference with each kernel.
    pub(super) part_causes: Vec<Vec<Cause>>,
}
