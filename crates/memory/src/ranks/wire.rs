//! What the coordinator and a rank say to each other, one JSON object a line.

use crate::kernels::{Kernel, Shape};
use crate::point::{PointConfig, Spans};
use crate::target::Seen;
use nodegauge_measure::interference::Cause;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// From the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Order {
    /// Map the shared memory at this path.
    Meet { path: String },
    /// Set up a point under a number.
    Prepare { point: u32, config: Box<PointConfig> },
    /// Take other loops.
    Reshape { point: u32, kernels: Vec<(Kernel, Shape)> },
    /// Run one pass together with `ranks - 1` others, with the core-to-core latency between ranks before and after
    /// if `courts`.
    Pass { point: u32, ranks: usize, courts: bool },
    /// Check the arrays.
    Check { point: u32 },
    /// Ask the kernel what was got.
    See { point: u32 },
    /// Give the arrays of a point back.
    Forget { point: u32 },
    /// Leave with this exit code.
    End { code: u8 },
}

/// From a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The first thing that a rank says.
    Hello(super::Hello),
    /// Carried out.
    Done,
    /// A pass.
    Passed(Passed),
    /// What the kernel says.
    Seen(Box<Seen>),
    /// Not carried out, and why.
    Failed(String),
}

/// One rank's part of a pass.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Passed {
    /// First start and last end of each kernel.
    pub(super) spans: Spans,
    /// Fingerprint before and after; `None` for a single thread, and for the rank of a pair that
    /// answers.
    pub(super) round_trips: (Option<f64>, Option<f64>),
    /// Why the pass does not count.
    pub(super) causes: Vec<Cause>,
}

/// Writes one message.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads one message; `None` when the other side has gone or says what is no message.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(bytes) if bytes > 0 => serde_json::from_str(&line).ok(),
        _ => None,
    }
}
