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
        "look into the system's log whether memory ran out, and give a smaller --size";

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
    /// Set up a point under a number.
    Prepare { point: u32, config: Box<TargetConfig> },
    /// Take other loops.
    Reshape { point: u32, kernels: Vec<(Kernel, KernelShape)> },
    /// Run each kernel once together with `ranks - 1` others, with the core-to-core latency between ranks
    /// before and after if `ping_pong`.
    Pass { point: u32, ranks: usize, ping_pong: bool, over: Over },
    /// Check the arrays.
    Check { point: u32 },
    /// Ask the kernel what was got.
    Inspect { point: u32 },
    /// Give the arrays of a point back.
    Release { point: u32 },
}

/// Part of the arrays that a request goes over.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Over {
    /// All: a pass.
    Whole,
    /// The part whose turn it is: a trial of loops.
    Trial,
    /// One of several equal parts.
    Part {
        /// Number of the part, from 0.
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
    /// Answers of the kernel.
    Seen(Box<Seen>),
}

/// Pass of one rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Passed {
    /// First start and last end of each kernel.
    pub(super) spans: Spans,
    /// Core-to-core latency before and after; `None` for a single thread, and for the rank of a pair
    /// that answers.
    pub(super) round_trips: (Option<f64>, Option<f64>),
    /// Interference that cannot be attributed to one kernel.
    pub(super) causes: Vec<Cause>,
    /// Interference with each kernel.
    pub(super) part_causes: Vec<Vec<Cause>>,
}
