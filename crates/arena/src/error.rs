//! Failures of measurements of memory.

use crate::ArrayError;
use nodegauge_measure::Failure;
use nodegauge_placement::SysError;
use nodegauge_team::TeamError;

/// Failure to set up memory and the threads on it, or to measure them.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// Failure of the team.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Failure to map the arrays.
    #[error(transparent)]
    Arrays(#[from] ArrayError),
    /// Failure of the memory policy.
    #[error(transparent)]
    Policy(#[from] SysError),
    /// Loops that do not exist on this processor, or that are for another element type or more arrays.
    #[error(transparent)]
    Loops(Failure),
    /// Failure of one of several processes that measure together.
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
