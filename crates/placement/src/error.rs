//! Error of a placement request.

use nodegauge_measure::Failure;

/// Error for a request that contradicts itself, or that the topology cannot fulfil. The text contains the numbers of
/// the machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct PlacementError(Failure);

impl PlacementError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self(Failure::insufficient(problem.into()))
    }

    /// Sets the hint.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self(self.0.hint(hint))
    }

    /// Error for zero threads, or zero threads per cache.
    pub(crate) fn no_threads() -> Self {
        Self::new("cannot place 0 threads").hint("request at least 1")
    }

    /// Error for a topology in which this process may not use any CPU.
    pub(crate) fn no_cpus() -> Self {
        Self::new("this process may not use any CPU of this machine")
    }

    /// Error for two options that both decide where threads or memory go; `what` is `threads go` or `memory goes`.
    pub(crate) fn conflict(what: &str, first: &str, second: &str) -> Self {
        let problem = format!("{first} and {second} both decide where {what}");
        Self(Failure::usage(problem).hint("give only one of these options"))
    }
}

impl From<PlacementError> for Failure {
    fn from(error: PlacementError) -> Self {
        error.0
    }
}
