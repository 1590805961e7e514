//! Failures of work on memory.

use crate::ArrayError;
use nodegauge_measure::Failure;
use nodegauge_placement::SysError;
use nodegauge_team::TeamError;

/// Failure to set up memory and the threads on it, or to measure them.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// The team.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The arrays.
    #[error(transparent)]
    Arrays(#[from] ArrayError),
    /// The memory policy.
    #[error(transparent)]
    Policy(#[from] SysError),
    /// Loops that do not exist here, or are for other elements.
    #[error(transparent)]
    Loops(Failure),
    /// A process of several that measure together.
    #[error(transparent)]
    Rank(#[from] Failure),
}

impl From<ArenaError> for Failure {
    fn from(error: ArenaError) -> Self {
        match error {
            ArenaError::Rank(failure) | ArenaError::Loops(failure) => failure,
            ArenaError::Team(error) => error.into(),
            ArenaError::Arrays(error) => error.into(),
            ArenaError::Policy(error) => Self::missing(error),
        }
    }
}
