//! Persistent ranks: processes, started by a launcher or by this program, that handle requests.
//!
//! One process, the [`Coordinator`], sends requests as lines of JSON over a local socket without a file, and measures
//! nothing. The ranks call [`serve()`] to handle the requests; each rank has its own state. Ranks wait for each other
//! at a barrier in shared memory. Each gauge defines its requests and responses with [`Protocol`].

mod coordinator;
pub(crate) mod link;
mod protocol;
mod serve;

pub use coordinator::{Coordinator, SharedCoordinator};
pub use protocol::{Handshake, Protocol};
pub use serve::{RankBarrier, Service, serve};

use nodegauge_measure::Failure;
use std::time::Duration;

/// Exit code of a rank that has lost its coordinator or another rank.
pub(crate) const ABANDONED_EXIT_CODE: u8 = 3;

/// Default timeout for the connection of all ranks; [`JOIN_VARIABLE`] sets another.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Environment variable that sets the timeout for the connection of all ranks, in seconds.
const JOIN_VARIABLE: &str = "NODEGAUGE_JOIN_SECONDS";

/// Hint for ranks that do not find each other.
const SAME_COMMAND: &str = "start all ranks with the same command on one host";

/// Returns the timeout for the connection of all ranks.
pub fn join_timeout() -> Result<Duration, Failure> {
    let Ok(text) = std::env::var(JOIN_VARIABLE) else { return Ok(JOIN_TIMEOUT) };
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Failure::usage(format!(
            "{JOIN_VARIABLE} is {text:?}: expected a time of 0.1 to 3600 seconds"
        ))
        .hint(format!("unset it for the default of {} s", JOIN_TIMEOUT.as_secs()))),
    }
}

/// Returns the failure of a system call: `cannot`, followed by `what` and the cause.
fn cannot(what: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::missing(format!("cannot {what}: {cause}"))
}
