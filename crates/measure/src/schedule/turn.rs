//! Turn of a cell, and failure of a turn.

use crate::failure::Failure;
use std::fmt;

/// Turn of a cell: one measurement of the cell in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Index of the cell.
    pub cell: usize,
    /// Number of rounds that were completed before the turn.
    pub round: usize,
    /// Number of samples that the cell still needs, without the warm-up; `None` if no number of
    /// samples was requested.
    pub remaining: Option<usize>,
}

/// Failure of a turn, with its effect on the other cells.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnFailure {
    /// The cell cannot be measured; the other cells can.
    Cell(Failure),
    /// A target that cells share is lost, e.g. a device, a rank or a launcher. No other cell can be
    /// measured.
    Target(Failure),
    /// The time of the run was used up during the turn. The run ends; the cell has not failed.
    OutOfTime,
}

/// A failure of unknown extent counts as a failure of the measured cell.
impl From<Failure> for TurnFailure {
    fn from(failure: Failure) -> Self {
        Self::Cell(failure)
    }
}

impl fmt::Display for TurnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(failure) | Self::Target(failure) => failure.fmt(f),
            Self::OutOfTime => f.write_str("out of time"),
        }
    }
}

impl std::error::Error for TurnFailure {}
