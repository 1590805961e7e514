//! Several processes that measure at once, each with arrays of its own, as flat MPI does.
//!
//! One process, the coordinator, sends requests, lines of JSON on a local socket without a file, and
//! measures nothing; the others each hold points of their own and meet at a barrier in shared memory
//! before each kernel. A kernel's time is that from the first start to the last end over all ranks,
//! as in stream_mpi.c; the clock is the machine's, so that it needs no message.

mod coordinator;
mod joined;
mod link;
mod point;
pub mod started;
mod wire;
mod worker;

pub use coordinator::{Coordinator, SharedCoordinator};
pub use joined::Joined;
pub(crate) use point::RanksPoint;
pub use started::Started;
pub use worker::serve;

use nodegauge_measure::{Failure, FailureKind};
use std::time::Duration;

/// The hidden command of a process that measures as a rank, followed by the socket's name, the rank
/// and the number of ranks; it ends up in [`serve`].
pub const COMMAND: &str = "measure-as-rank";

/// How long ranks wait for each other, unless [`JOIN_VARIABLE`] says otherwise.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// The variable with the seconds that ranks wait for each other.
const JOIN_VARIABLE: &str = "NODEGAUGE_JOIN_SECONDS";

/// How long ranks wait for each other.
fn join_timeout() -> Result<Duration, Failure> {
    let Ok(text) = std::env::var(JOIN_VARIABLE) else { return Ok(JOIN_TIMEOUT) };
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Failure::usage(format!(
            "{JOIN_VARIABLE} is {text:?}: expected seconds from 0.1 to 3600"
        ))
        .hint(format!("unset it for the usual {}", JOIN_TIMEOUT.as_secs()))),
    }
}

/// The system refused what ranks need.
fn cannot(what: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::missing(format!("cannot {what}: {cause}"))
}

/// Failure of one rank.
fn failed(rank: u32, failure: Failure) -> Failure {
    failure.of(format_args!("rank {rank}")).kind(FailureKind::Missing)
}
