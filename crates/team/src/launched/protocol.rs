//! Messages between the coordinator and a rank: one JSON object per line.

use nodegauge_measure::Failure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// Requests and responses of a gauge.
pub trait Protocol {
    /// Request of the coordinator.
    type TargetRequest: Serialize + DeserializeOwned + Send + 'static;
    /// Response of a rank.
    type Response: Serialize + DeserializeOwned + Send + 'static;
    /// Hidden command of a process that serves as a rank, followed by the name of the socket, the rank and the number
    /// of ranks.
    const COMMAND: &'static str;
    /// Hint for the user when a rank is lost.
    const LOST_HINT: &'static str;

    /// Returns the version of the program: ranks of different builds do not work together.
    fn version() -> String;

    /// True if ranks wait for each other while they handle the request: if a rank fails, the others cannot continue.
    fn is_collective(request: &Self::TargetRequest) -> bool;
}

/// Message from the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToRank<Q> {
    /// Maps the shared memory at this path.
    Map { path: String },
    /// Handles a request of the gauge.
    Handle(Q),
    /// Ends the rank with this exit code.
    End { code: u8 },
}

/// Description of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// Rank.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Process identifier.
    pub process: u32,
    /// CPUs that the launcher gave to it.
    pub cpus: Vec<u32>,
    /// Version of the program, so that ranks of different builds do not measure together.
    pub version: String,
}

impl Handshake {
    /// Describes this process.
    pub(super) fn own(rank: u32, ranks: u32, version: String) -> Self {
        let cpus = nodegauge_placement::pin::current_affinity().unwrap_or_default();
        let cpus = cpus.iter().map(|cpu| cpu.0).collect();
        Self { rank, ranks, process: std::process::id(), cpus, version }
    }
}

/// Message from a rank.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromRank<R> {
    /// First message of a rank.
    Handshake(Handshake),
    /// The shared memory is mapped.
    Mapped,
    /// Response to a request of the gauge.
    Handled(R),
    /// The request failed.
    Failed(Failure),
}

/// Writes one message.
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
