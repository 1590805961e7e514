//! Why a compiler or a program gave nothing: the whole command, and the last words of its error
//! output.

use nodegauge_measure::Bytes;
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
    /// It printed more than it may, and was killed.
    #[error("{command} printed more than {} and was killed\nhint: run it by hand to see what it prints", Bytes(*limit))]
    TooMuchOutput {
        /// The whole command.
        command: String,
        /// Most bytes of its output.
        limit: u64,
    },
    /// A program of the user's ended with a failure.
    #[error("{command} ended with {status}{}{}", said(last_words), hinted(hint))]
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
    #[error("{command} gave no result ({status}){}{}", said(last_words), hinted(hint))]
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

/// A hint as a line of its own; nothing when there is none.
fn hinted(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") }
}

impl From<ToolchainError> for nodegauge_measure::Failure {
    fn from(error: ToolchainError) -> Self {
        Self::missing(error)
    }
}
