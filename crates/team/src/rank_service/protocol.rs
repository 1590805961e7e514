//! Messages between the coordinator and a rank: one JSON object per line.

use nodegauge_measure::Failure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// Types of the requests and responses of a gauge.
pub trait Protocol {
    /// Request from the coordinator.
    type TargetRequest: Serialize + DeserializeOwned + Send + 'static;
    /// Response from a rank.
    type Response: Serialize + DeserializeOwned + Send + 'static;
    /// Hidden command that starts a process as a rank. Its arguments are the name of the socket, the rank and the
    /// number of ranks.
    const COMMAND: &'static str;
    /// Hint for the user when a rank is lost.
    const LOST_HINT: &'static str;

    /// Returns the version of the program; all ranks must have the same version.
    fn version() -> String;

    /// True if ranks wait for each other while they handle the request. If a rank fails during such a request, the
    /// other ranks cannot continue.
    fn is_collective(request: &Self::TargetRequest) -> bool;
}

/// Message from the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CoordinatorMessage<Q> {
    /// Maps the shared memory at this path.
    Map { path: String },
    /// Handles a request of the gauge.
    Handle(Q),
    /// Ends the rank with this exit code.
    End { code: u8 },
}

/// Description of a rank, which it sends after connecting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// Number of the rank.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Process identifier.
    pub process: u32,
    /// CPUs that the launcher assigned to the rank.
    pub cpus: Vec<u32>,
    /// Version of the program; ranks of different builds are refused.
    pub version: String,
}

impl Handshake {
    /// Creates the description of this process.
    pub(super) fn new(rank: u32, ranks: u32, version: String) -> Self {
        let cpus = nodegauge_placement::pin::current_affinity().unwrap_or_default();
        let cpus = cpus.iter().map(|cpu| cpu.0).collect();
        Self { rank, ranks, process: std::process::id(), cpus, version }
    }
}

/// Message from a rank.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RankMessage<R> {
    /// First message of a rank.
    Handshake(Handshake),
    /// The rank has mapped the shared memory.
    Mapped,
    /// Response to a request of the gauge.
    Handled(R),
    /// The rank failed to handle the request.
    Failed(Failure),
}

/// Sends one message as a line of JSON.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads one message; returns `None` if the connection has ended or the line is invalid.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(bytes) if bytes > 0 => serde_json::from_str(&line).ok(),
        _ => None,
    }
}
