//! Why a compiler or a program gave nothing: the whole command, and the last words of its error
//! output.

use nodegauge_measure::{Bytes, Failure};
use std::io;
use std::time::Duration;

/// What went wrong around a compiler or a program.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// There is no such program.
    #[error("there is no compiler {program:?} on this system")]
    NoCompiler {
        /// As it was named.
        program: String,
    },
    /// It is there and cannot be started.
    #[error("cannot start {command}: {cause}")]
    Start {
        /// The whole command.
        command: String,
        /// Why.
        cause: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The compiler refuses the source.
    #[error("{command} fails ({status}):\n{errors}")]
    Compile {
        /// The whole command.
        command: String,
        /// How it ended.
        status: String,
        /// Its first errors.
        errors: String,
    },
    /// It ran longer than it may, and was killed.
    #[error("{command} took longer than {} s and was killed{}", limit.as_secs_f64(), said(last_words))]
    TooLong {
        /// The whole command.
        command: String,
        /// What it had.
        limit: Duration,
        /// The end of its error output.
        last_words: String,
    },
    /// It printed more than it may, and was killed.
    #[error("{command} printed more than {} and was killed", Bytes(*limit))]
    TooMuchOutput {
        /// The whole command.
        command: String,
        /// Most bytes of its output.
        limit: u64,
    },
    /// A program of the user's ended with a failure.
    #[error("{command} ended with {status}{}", said(last_words))]
    Ended {
        /// The whole command.
        command: String,
        /// How it ended.
        status: String,
        /// The end of its error output.
        last_words: String,
        /// What to do, where there is more to say than the words do.
        hint: &'static str,
    },
    /// A program of the user's ended without the result that it was run for.
    #[error("{command} gave no result ({status}){}", said(last_words))]
    NoResult {
        /// The whole command.
        command: String,
        /// How it ended.
        status: String,
        /// Its own reason, or the end of its error output.
        last_words: String,
        /// What to do.
        hint: &'static str,
    },
    /// A program did not end well, or cannot be watched; or there is no private folder.
    #[error("{0}")]
    Failed(String),
    /// A library that cannot be used.
    #[error(transparent)]
    Unusable(Failure),
    /// Something else that is needed is missing.
    #[error(transparent)]
    Missing(#[from] Failure),
    /// The user ended the run; the program was killed.
    #[error("interrupted")]
    Interrupted,
}

/// Last words as lines of their own; nothing when there are none.
pub(crate) fn said(last_words: &str) -> String {
    if last_words.is_empty() { String::new() } else { format!(":\n{last_words}") }
}

impl ToolchainError {
    /// Returns what to do about it, where something is known.
    fn hint(&self) -> Option<&str> {
        match self {
            Self::NoCompiler { .. } => Some(
                "install it, or name another, e.g. --compiler 'gcc -O3 -march=native -fopenmp'",
            ),
            Self::Start { hint, .. } => Some(hint),
            Self::Compile { .. } => Some("run that command to see all it says"),
            Self::TooMuchOutput { .. } => Some("run it by hand to see what it prints"),
            Self::Ended { hint, .. } | Self::NoResult { hint, .. } => {
                Some(*hint).filter(|hint| !hint.is_empty())
            }
            _ => None,
        }
    }
}

impl From<&ToolchainError> for Failure {
    fn from(error: &ToolchainError) -> Self {
        match error {
            ToolchainError::Unusable(failure) | ToolchainError::Missing(failure) => failure.clone(),
            error => Self::missing(error).hint_if(error.hint().map(str::to_owned)),
        }
    }
}

impl From<ToolchainError> for Failure {
    fn from(error: ToolchainError) -> Self {
        Self::from(&error)
    }
}
