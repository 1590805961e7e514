//! Exit codes and their meanings.

pub(crate) use nodegauge_measure::Failure;
use nodegauge_measure::FailureKind;
use nodegauge_node::Ended;

/// Exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All measurements are valid.
    Success,
    /// A result is invalid, or an expectation is not met.
    Unmet,
    /// Wrong usage or unreadable input.
    Usage,
    /// Something that the command needs is missing.
    Missing,
    /// The command was ended by this signal.
    Signal(u8),
    /// Exit code for the verdict on a node.
    Checked(u8),
    /// Exit code received from the process that coordinates the ranks.
    Told(u8),
}

impl Exit {
    /// Returns the exit code.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Unmet => 1,
            Self::Usage => 2,
            Self::Missing => 3,
            Self::Signal(number) => 128 + number,
            Self::Told(code) | Self::Checked(code) => code,
        }
    }
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Met => Self::Success,
            Ended::Unmet => Self::Unmet,
            Ended::Signal(number) => Self::Signal(number),
        }
    }
}

impl From<&Failure> for Exit {
    fn from(failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::Unmet => Self::Unmet,
            FailureKind::Usage | FailureKind::Insufficient => Self::Usage,
            FailureKind::Missing => Self::Missing,
        }
    }
}
