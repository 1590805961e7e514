//! Why a compiler or a program gave nothing: the whole command, and the last words of its error
//! output.

use std::io;
use std::time::Duration;

/// What went wrong around a compiler or a program.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// There is no such program.
    #[error(
        "there is no compiler {program:?} on this system\nhint: install it, or name another, e.g. --compiler 'gcc -O3 -march=native -fopenmp'"
    )]
    NoCompiler {
        /// As it was named.
        program: String,
    },
    /// It is there and cannot be started.
    #[error("cannot start {command}: {cause}\nhint: {hint}")]
    Start {
        /// The whole command.
        command: String,
        /// Why.
        cause: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The compiler refuses the source.
    #[error("{command} fails ({status}):\n{errors}\nhint: run that command to see all it says")]
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
    /// A program did not end well, or cannot be watched; or there is no private folder.
    #[error("{0}")]
    Failed(String),
    /// A library that cannot be used: why, and what to do.
    #[error("{0}")]
    Unusable(String),
    /// The user ended the run; the program was killed.
    #[error("interrupted")]
    Interrupted,
}

/// Last words as lines of their own; nothing when there are none.
pub(crate) fn said(last_words: &str) -> String {
    if last_words.is_empty() { String::new() } else { format!(":\n{last_words}") }
}

impl From<ToolchainError> for nodegauge_measure::Failure {
    fn from(error: ToolchainError) -> Self {
        Self::missing(error)
    }
}
