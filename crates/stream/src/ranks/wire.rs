//! The protocol between the coordinator and a rank: requests and responses, one JSON object a line.

use crate::kernels::{Kernel, Shape};
use crate::point::{PointConfig, Spans};
use crate::target::Seen;
use nodegauge_measure::Failure;
use nodegauge_measure::interference::Cause;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// From the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Request {
    /// Map the shared memory at this path.
    Map { path: String },
    /// Set up a point under a number.
    Prepare { point: u32, config: Box<PointConfig> },
    /// Take other loops.
    Reshape { point: u32, kernels: Vec<(Kernel, Shape)> },
    /// Run each kernel once together with `ranks - 1` others, with the core-to-core latency between ranks
    /// before and after if `ping_pong`.
    Pass { point: u32, ranks: usize, ping_pong: bool, over: Over },
    /// Check the arrays.
    Check { point: u32 },
    /// Ask the kernel what was got.
    Inspect { point: u32 },
    /// Give the arrays of a point back.
    Release { point: u32 },
    /// Leave with this exit code.
    End { code: u8 },
}

/// What of the arrays a request goes over.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Over {
    /// All: a pass.
    Whole,
    /// The part whose turn it is: a trial of loops.
    Trial,
    /// This part, of so many.
    Part(usize, usize),
}

/// A rank's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// Its number.
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// Its process.
    pub process: u32,
    /// The CPUs that it was given.
    pub cpus: Vec<u32>,
    /// The program, so that ranks of different builds do not measure together.
    pub version: String,
}

impl Handshake {
    /// Of this process.
    pub fn own(rank: u32, ranks: u32) -> Self {
        let cpus = nodegauge_placement::pin::current_affinity().unwrap_or_default();
        Self {
            rank,
            ranks,
            process: std::process::id(),
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
            version: format!("{} {}", env!("CARGO_PKG_VERSION"), crate::kernels::compiled_in()),
        }
    }
}

/// From a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Response {
    /// The first message of a rank.
    Handshake(Handshake),
    /// Done.
    Done,
    /// A pass.
    Passed(Passed),
    /// What the kernel says.
    Seen(Box<Seen>),
    /// Not done, and why.
    Failed(Failure),
}

/// One rank's part of a pass.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Passed {
    /// First start and last end of each kernel.
    pub(super) spans: Spans,
    /// Core-to-core latency before and after; `None` for a single thread, and for the rank of a pair
    /// that answers.
    pub(super) round_trips: (Option<f64>, Option<f64>),
    /// What interfered with nobody knows which kernel.
    pub(super) causes: Vec<Cause>,
    /// What interfered with each kernel.
    pub(super) part_causes: Vec<Vec<Cause>>,
}

/// Writes one message.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads one message; `None` when the connection has ended or the line is no message.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(bytes) if bytes > 0 => serde_json::from_str(&line).ok(),
        _ => None,
    }
}
