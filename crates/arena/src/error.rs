//! Errors of memory measurements.

use crate::ArrayError;
use nodegauge_measure::Failure;
use nodegauge_measure::schedule::TurnFailure;
use nodegauge_placement::SysError;
use nodegauge_team::TeamError;

/// Error during the set-up of memory and threads, or during a measurement.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// The team of threads failed.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The arrays could not be mapped.
    #[error(transparent)]
    Arrays(#[from] ArrayError),
    /// The memory policy could not be applied.
    #[error(transparent)]
    Policy(#[from] SysError),
    /// The requested loops do not exist on this processor, or require another element type or more arrays.
    #[error(transparent)]
    Loops(Failure),
    /// One of several processes that measure together has failed.
    #[error(transparent)]
    Rank(#[from] Failure),
    /// The user requested the end of the run during the setup.
    #[error("interrupted")]
    Interrupted,
}

/// The loss of a team or a rank ends the measurement of all cells.
impl From<ArenaError> for TurnFailure {
    fn from(error: ArenaError) -> Self {
        match error {
            ArenaError::Rank(failure) => Self::Target(failure),
            ArenaError::Team(error) => error.into(),
            error => Self::Cell(error.into()),
        }
    }
}

impl From<ArenaError> for Failure {
    fn from(error: ArenaError) -> Self {
        match error {
            ArenaError::Rank(failure) | ArenaError::Loops(failure) => failure,
            ArenaError::Team(error) => error.into(),
            ArenaError::Arrays(error) => error.into(),
            ArenaError::Policy(error) => Self::missing(error),
            ArenaError::Interrupted => Self::missing(error),
        }
    }
}
