//! Ranks that stay: processes that a launcher has started, or this program itself, and that serve requests.
//!
//! One process, the [`Coordinator`], sends requests, lines of JSON on a local socket without a file, and measures
//! nothing; the others each [`serve()`] with a state of their own, and wait for each other at a barrier in shared memory.
//! Requests and responses are a gauge's own, by [`Protocol`].

mod coordinator;
mod link;
mod protocol;
mod serve;

pub use coordinator::{Coordinator, SharedCoordinator};
pub use protocol::{Handshake, Protocol};
pub use serve::{RankBarrier, Service, serve};

use nodegauge_measure::Failure;
use std::time::Duration;

/// Exit code of a rank whose coordinator, or another rank, has gone.
pub(crate) const ABANDONED: u8 = 3;

/// Time for which ranks wait for each other, unless [`JOIN_VARIABLE`] sets another.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Variable with the seconds for which ranks wait for each other.
const JOIN_VARIABLE: &str = "NODEGAUGE_JOIN_SECONDS";

/// Time for which ranks wait for each other.
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

/// Failure of a system call that ranks need.
fn cannot(what: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::missing(format!("cannot {what}: {cause}"))
}
