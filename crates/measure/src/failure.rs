//! Why a gauge or a command ends early, with the exit code that follows from it.

use std::fmt;

/// What a failure means to the caller; each kind has an exit code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A result is invalid, or an expectation is not met: exit code 1.
    Unmet,
    /// Wrong usage or unreadable input: exit code 2.
    Usage,
    /// More than this machine has, such as threads or nodes: exit code 2.
    Beyond,
    /// Something that is needed is missing, such as a compiler, a permission or memory: exit code 3.
    Missing,
}

/// Why something ended early: what went wrong with which value, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it means to the caller.
    pub kind: FailureKind,
    message: String,
}

impl Failure {
    /// A result is invalid.
    pub fn unmet(error: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Unmet, message: error.to_string() }
    }

    /// Wrong usage or unreadable input.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Usage, message: error.to_string() }
    }

    /// More was asked for than this machine has.
    pub fn beyond(error: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Beyond, message: error.to_string() }
    }

    /// Something is missing: a permission, memory, disk.
    pub fn missing(error: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Missing, message: error.to_string() }
    }

    /// Whether something else that is asked of this machine may work where this does not.
    pub fn is_of_machine(&self) -> bool {
        matches!(self.kind, FailureKind::Beyond | FailureKind::Missing)
    }

    /// The message in a line.
    pub fn in_a_line(&self) -> String {
        self.message.replace("\nhint: ", "; ").replace('\n', " ")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
