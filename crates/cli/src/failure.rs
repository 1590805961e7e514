//! Exit codes and their meanings.

pub(crate) use nodegauge_measure::Failure;
use nodegauge_measure::FailureKind;
use nodegauge_node::CommandEnd;

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
    /// A signal ended the command.
    Signal(u8),
    /// Exit code for the verdict on a node.
    Checked(u8),
    /// Exit code that rank 0 has sent.
    FromRank0(u8),
}

impl Exit {
    /// Returns the exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Unmet => 1,
            Self::Usage => 2,
            Self::Missing => 3,
            Self::Signal(number) => 128 + number,
            Self::FromRank0(code) | Self::Checked(code) => code,
        }
    }
}

impl From<CommandEnd> for Exit {
    fn from(ended: CommandEnd) -> Self {
        match ended {
            CommandEnd::Met => Self::Success,
            CommandEnd::Unmet => Self::Unmet,
            CommandEnd::Signal(number) => Self::Signal(number),
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
