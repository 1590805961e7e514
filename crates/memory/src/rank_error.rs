//! Why several processes cannot measure together.

use nodegauge_measure::Failure;
use std::time::Duration;

/// How long ranks wait for each other, unless [`JOIN_VARIABLE`] says otherwise.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// The variable with the seconds that ranks wait for each other.
pub(crate) const JOIN_VARIABLE: &str = "NODEGAUGE_JOIN_SECONDS";

/// Why ranks cannot measure together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RankError {
    /// A process ended while it was needed.
    #[error(
        "rank {rank} (process {process}) ended in the middle of the run{how}\nhint: look into the system's log whether memory ran out, and give a smaller --size"
    )]
    Lost {
        /// The rank.
        rank: u32,
        /// Its process.
        process: u32,
        /// `: signal 9 (killed, perhaps for want of memory)`, where that is known.
        how: String,
    },
    /// A rank failed.
    #[error("rank {rank}: {message}")]
    Failed {
        /// The rank.
        rank: u32,
        /// Why.
        message: String,
    },
    /// No response for a long time.
    #[error("no response from ranks {missing} within {seconds} s")]
    Silent {
        /// The ranks, as ranges.
        missing: String,
        /// How long was waited.
        seconds: u64,
    },
    /// Some ranks did not join.
    #[error(
        "only {joined} of {ranks} ranks joined within {seconds} s; missing: {missing}\nhint: start all ranks with the same command on one host"
    )]
    Missing {
        /// How many there are to be.
        ranks: u32,
        /// How many joined.
        joined: usize,
        /// The others, as ranges.
        missing: String,
        /// How long was waited.
        seconds: u64,
    },
    /// Rank 0, which coordinates, did not join.
    #[error(
        "rank {rank} of {ranks}: rank 0 has not joined within {seconds} s\nhint: start all ranks with the same command on one host"
    )]
    Alone {
        /// This rank.
        rank: u32,
        /// How many there are to be.
        ranks: u32,
        /// How long was waited.
        seconds: u64,
    },
    /// Another run of the same job coordinates under this name.
    #[error("another nodegauge of this job is measuring on this host\nhint: start one at a time")]
    Taken,
    /// The variable that says how long ranks wait for each other is wrong.
    #[error(
        "{JOIN_VARIABLE} is {text:?}: expected seconds from 0.1 to 3600\nhint: unset it for the usual {}",
        JOIN_TIMEOUT.as_secs()
    )]
    Timeout {
        /// What it holds.
        text: String,
    },
    /// The system refused what ranks need.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        cause: String,
    },
}

impl RankError {
    pub(crate) fn system(what: &'static str, cause: impl ToString) -> Self {
        Self::System { what, cause: cause.to_string() }
    }
}

impl From<RankError> for Failure {
    fn from(error: RankError) -> Self {
        match error {
            RankError::Timeout { .. } => Self::usage(error),
            _ => Self::missing(error),
        }
    }
}
