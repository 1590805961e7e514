//! Why a placement is impossible.

/// A request that the topology cannot fulfil, in words: with the numbers of the machine and, where
/// there is one, the remedy on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct PlacementError {
    problem: String,
    /// Whether the request contradicts itself, on every machine.
    is_conflict: bool,
}

impl PlacementError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), is_conflict: false }
    }

    /// Zero threads, or zero threads per cache.
    pub(crate) fn no_threads() -> Self {
        Self::new("cannot place 0 threads\nhint: ask for at least 1")
    }

    /// A topology of which the process may use no CPU.
    pub(crate) fn no_cpus() -> Self {
        Self::new("this process may use no CPU of this machine")
    }

    /// Two options that each decide `what`: `threads go` or `memory goes`.
    pub(crate) fn conflict(what: &str, first: &str, second: &str) -> Self {
        let problem = format!("{first} and {second} both say where {what}\nhint: give one of them");
        Self { problem, is_conflict: true }
    }
}

impl From<PlacementError> for nodegauge_measure::Failure {
    fn from(error: PlacementError) -> Self {
        if error.is_conflict { Self::usage(error) } else { Self::beyond(error) }
    }
}
