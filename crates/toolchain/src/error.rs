//! Errors of compilers and programs, with the full command and the last lines of the error output.

use crate::quote::{quoted_lines, time_limit_message};
use nodegauge_measure::{Bytes, Failure};
use std::io;
use std::time::Duration;

/// Error of a compiler or a program.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// The compiler is not installed.
    #[error("there is no compiler {program:?} on this system")]
    NoCompiler {
        /// Name of the program, from the user or by default.
        program: String,
    },
    /// The program exists but cannot be started.
    #[error("cannot start {command}: {cause}")]
    Start {
        /// Full command.
        command: String,
        /// Reason why the program cannot be started.
        cause: io::Error,
        /// Hint for the user.
        hint: &'static str,
    },
    /// The compiler rejects the source.
    #[error("{command} fails ({status}):\n{errors}")]
    Compile {
        /// Full command.
        command: String,
        /// Exit status as text.
        status: String,
        /// First error messages of the compiler.
        errors: String,
        /// Flags of other compilers in the command, and their nearest equivalents.
        flags: Option<String>,
    },
    /// A flag of another compiler would be read as the name of the output file.
    #[error("{program} reads a flag that begins with -o as the name of its output file")]
    ForeignFlag {
        /// Name of the compiler.
        program: String,
        /// Flags of other compilers in the command, and their nearest equivalents.
        flags: String,
    },
    /// The program exceeded its time limit and was killed.
    #[error("{command} {}{}", time_limit_message(*limit), quoted_lines(error_tail))]
    TooLong {
        /// Full command.
        command: String,
        /// Time limit; zero if no time was left to start the program.
        limit: Duration,
        /// Last lines of the program's error output.
        error_tail: String,
    },
    /// The program exceeded its output limit and was killed.
    #[error("{command} printed more than {} and was killed", Bytes(*limit))]
    TooMuchOutput {
        /// Full command.
        command: String,
        /// Output limit in bytes.
        limit: u64,
    },
    /// A program of the user ended with an unsuccessful status.
    #[error("{command} ended with {status}{}", quoted_lines(error_tail))]
    Ended {
        /// Full command.
        command: String,
        /// Exit status as text.
        status: String,
        /// Last lines of the program's error output.
        error_tail: String,
        /// Hint for the user; empty if the error output is sufficient.
        hint: String,
    },
    /// A program of the user ended without a result.
    #[error("{command} returned no result ({status}){}", quoted_lines(error_tail))]
    NoResult {
        /// Full command.
        command: String,
        /// Exit status as text.
        status: String,
        /// Reason that the program printed; without a reason, the end of its error output.
        error_tail: String,
        /// Hint for the user.
        hint: &'static str,
    },
    /// A program failed or cannot be monitored, or the private folder cannot be created.
    #[error("{0}")]
    Failed(String),
    /// A library cannot be used.
    #[error(transparent)]
    Unusable(Failure),
    /// Another prerequisite is missing.
    #[error(transparent)]
    Missing(#[from] Failure),
    /// The user interrupted the run, and the program was killed.
    #[error("interrupted")]
    Interrupted,
}

impl ToolchainError {
    /// Returns the hint for the user, if there is one.
    fn hint(&self) -> Option<&str> {
        match self {
            Self::NoCompiler { .. } => Some(
                "install it, or specify another compiler, e.g. --compiler 'gcc -O3 -march=native -fopenmp'",
            ),
            Self::Start { hint, .. } => Some(hint),
            Self::Compile { flags: Some(flags), .. } | Self::ForeignFlag { flags, .. } => {
                Some(flags)
            }
            Self::Compile { .. } => Some("run that command to see its full output"),
            Self::TooMuchOutput { .. } => Some("run the program manually to see its output"),
            Self::Ended { hint, .. } => Some(hint.as_str()).filter(|hint| !hint.is_empty()),
            Self::NoResult { hint, .. } => Some(*hint).filter(|hint| !hint.is_empty()),
            _ => None,
        }
    }
}

impl From<&ToolchainError> for Failure {
    fn from(error: &ToolchainError) -> Self {
        match error {
            ToolchainError::Unusable(failure) | ToolchainError::Missing(failure) => failure.clone(),
            ToolchainError::ForeignFlag { flags, .. } => Self::usage(error).hint(flags.clone()),
            error => Self::missing(error).hint_if(error.hint().map(str::to_owned)),
        }
    }
}

impl From<ToolchainError> for Failure {
    fn from(error: ToolchainError) -> Self {
        Self::from(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_has_hint_of_error() {
        let hint = |error: ToolchainError| Failure::from(error).hint;
        let command = || "prog --size 1".to_owned();
        let start = |text| ToolchainError::Start {
            command: command(),
            cause: io::Error::from(io::ErrorKind::PermissionDenied),
            hint: text,
        };
        assert_eq!(hint(start("chmod +x it")).as_deref(), Some("chmod +x it"));
        let ended = |text: &str| ToolchainError::Ended {
            command: command(),
            status: "exit status 1".to_owned(),
            error_tail: "no input".to_owned(),
            hint: text.to_owned(),
        };
        assert_eq!(hint(ended("give an input")).as_deref(), Some("give an input"));
        assert_eq!(hint(ended("")), None);
        let missing = Failure::missing("no library").hint("install it");
        assert_eq!(hint(ToolchainError::Missing(missing)).as_deref(), Some("install it"));
        for error in [
            ToolchainError::NoCompiler { program: "cc".to_owned() },
            ToolchainError::TooMuchOutput { command: command(), limit: 1 << 20 },
            ToolchainError::Compile {
                command: command(),
                status: "exit status 1".to_owned(),
                errors: "an error".to_owned(),
                flags: None,
            },
        ] {
            assert!(error.hint().is_some_and(|words| !words.is_empty()), "{error}");
        }
        assert_eq!(hint(ToolchainError::Interrupted), None);
    }
}
