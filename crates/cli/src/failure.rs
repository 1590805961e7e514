//! What ends a command early: an exit code with a fixed meaning, and a message that says what went
//! wrong with which value and what to do.

use nodegauge_machine::TopologyError;
use nodegauge_memory::point::PointError;
use nodegauge_memory::relatives::RelativeError;
use nodegauge_memory::stream::StreamError;
use nodegauge_messages::MessagesError;
use nodegauge_placement::PlacementError;
use nodegauge_toolchain::ToolchainError;
use nodegauge_toolchain::mpi::MpiError;
use std::fmt;
use std::process::ExitCode;

/// The meanings of exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All measured and valid.
    Success,
    /// A result is invalid, or an expectation is not met.
    Unmet,
    /// Wrong usage or unreadable input.
    Usage,
    /// Something that the command needs is missing.
    Missing,
    /// Ended by this signal.
    Signal(u8),
    /// As the process that coordinates ranks says.
    Told(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

impl Exit {
    /// The exit code.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Unmet => 1,
            Self::Usage => 2,
            Self::Missing => 3,
            Self::Signal(number) => 128 + number,
            Self::Told(code) => code,
        }
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What the caller is told by number.
    pub(crate) code: Exit,
    message: String,
}

impl Failure {
    /// Wrong usage or unreadable input.
    pub(crate) fn usage(error: impl fmt::Display) -> Self {
        Self { code: Exit::Usage, message: error.to_string() }
    }

    /// A result is invalid.
    pub(crate) fn unmet(error: impl fmt::Display) -> Self {
        Self { code: Exit::Unmet, message: error.to_string() }
    }

    /// Something is missing: a permission, memory, disk.
    pub(crate) fn missing(error: impl fmt::Display) -> Self {
        Self { code: Exit::Missing, message: error.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<TopologyError> for Failure {
    fn from(error: TopologyError) -> Self {
        match error {
            TopologyError::Live(_) => Self::missing(error),
            _ => Self::usage(error),
        }
    }
}

impl From<PlacementError> for Failure {
    fn from(error: PlacementError) -> Self {
        Self::usage(error)
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Placement(_) => Self::usage(error),
            StreamError::Size(_) | StreamError::Point(_) | StreamError::NoSuchStores(_) => {
                Self::missing(error)
            }
        }
    }
}

impl From<RelativeError> for Failure {
    fn from(error: RelativeError) -> Self {
        match error {
            RelativeError::Point(_) | RelativeError::TooLarge { .. } => Self::missing(error),
            RelativeError::TooSmall { .. }
            | RelativeError::NoLoaders(_)
            | RelativeError::OneThread(_) => Self::usage(error),
        }
    }
}

impl From<PointError> for Failure {
    fn from(error: PointError) -> Self {
        Self::missing(error)
    }
}

impl From<nodegauge_compute::hpl::HplError> for Failure {
    fn from(error: nodegauge_compute::hpl::HplError) -> Self {
        use nodegauge_compute::hpl::HplError;
        match error {
            // A matrix that has no solution is input that cannot be used.
            HplError::Singular(_) => Self::usage(error),
            _ => Self::missing(error),
        }
    }
}

impl From<nodegauge_compute::choose::ChoiceError> for Failure {
    fn from(error: nodegauge_compute::choose::ChoiceError) -> Self {
        Self::missing(error)
    }
}

impl From<nodegauge_compute::real::RealError> for Failure {
    fn from(error: nodegauge_compute::real::RealError) -> Self {
        Self::missing(error)
    }
}

impl From<ToolchainError> for Failure {
    fn from(error: ToolchainError) -> Self {
        Self::missing(error)
    }
}

impl From<MessagesError> for Failure {
    fn from(error: MessagesError) -> Self {
        match error {
            // What the user named does not fit together, or is not there.
            MessagesError::NoPair(_)
            | MessagesError::Osu { .. }
            | MessagesError::Mpi(MpiError::Mismatch { .. } | MpiError::NotALauncher { .. }) => {
                Self::usage(error)
            }
            _ => Self::missing(error),
        }
    }
}

impl From<MpiError> for Failure {
    fn from(error: MpiError) -> Self {
        MessagesError::from(error).into()
    }
}

impl From<nodegauge_history::HistoryError> for Failure {
    fn from(error: nodegauge_history::HistoryError) -> Self {
        if error.is_environment() { Self::missing(error) } else { Self::usage(error) }
    }
}
