//! Why a placement is impossible.

use nodegauge_measure::Failure;

/// A request that the topology cannot fulfil, with the numbers of the machine; or one that contradicts itself on
/// every machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct PlacementError(Failure);

impl PlacementError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self(Failure::beyond(problem.into()))
    }

    /// Sets what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self(self.0.hint(hint))
    }

    /// Zero threads, or zero threads per cache.
    pub(crate) fn no_threads() -> Self {
        Self::new("cannot place 0 threads").hint("ask for at least 1")
    }

    /// A topology of which the process may use no CPU.
    pub(crate) fn no_cpus() -> Self {
        Self::new("this process may use no CPU of this machine")
    }

    /// Two options that each decide `what`: `threads go` or `memory goes`.
    pub(crate) fn conflict(what: &str, first: &str, second: &str) -> Self {
        let problem = format!("{first} and {second} both say where {what}");
        Self(Failure::usage(problem).hint("give one of them"))
    }
}

impl From<PlacementError> for Failure {
    fn from(error: PlacementError) -> Self {
        error.0
    }
}
