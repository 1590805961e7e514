//! Why messages could not be measured.

use nodegauge_measure::Failure;
use nodegauge_toolchain::ToolchainError;
use std::io;
use std::path::Path;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum MessagesError {
    /// No MPI, or parts of two.
    #[error(transparent)]
    Mpi(#[from] Failure),
    /// The probe does not compile, or a launcher does not start.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// What was asked for does not fit together, or is not there.
    #[error("{0}")]
    Request(String),
    /// What is needed to measure is not there, or gave nothing.
    #[error("{0}")]
    Missing(String),
    /// The user ended the run before anything was measured.
    #[error("interrupted")]
    Interrupted,
}

impl MessagesError {
    /// No place for the compiled probe or a rank file.
    pub(crate) fn write(path: &Path, cause: &io::Error) -> Self {
        Self::Missing(format!(
            "cannot write {path:?}: {cause}\nhint: set NODEGAUGE_CACHE_DIR to a folder that you may write"
        ))
    }

    /// Open MPI does not start ranks of root unless it is told to.
    pub(crate) fn root(launcher: &str) -> Self {
        Self::Missing(format!(
            "{launcher} refuses to start OSU's programs as root\nhint: give --allow-run-as-root, as in a container, or be another user"
        ))
    }

    /// A program of the OSU micro-benchmarks that is of no use.
    pub(crate) fn osu(program: &Path, why: &str) -> Self {
        Self::Request(format!(
            "cannot use {}: {why}\nhint: name the folder of a build with this MPI, e.g. --mpicc mpicc.mpich --osu ~/osu-mpich",
            program.display()
        ))
    }

    /// Nothing came within `limit`, seconds; `words` is the end of the error output.
    pub(crate) fn silent(program: &str, limit: f64, words: &str) -> Self {
        Self::Missing(format!(
            "{program} gave no answer within {limit} s: it and its ranks were killed{}",
            said(words)
        ))
    }
}

/// Last words as lines of their own; nothing when there are none.
pub(crate) fn said(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(":\n{words}") }
}

impl From<MessagesError> for Failure {
    fn from(error: MessagesError) -> Self {
        match error {
            MessagesError::Mpi(failure) => failure,
            // What the user named does not fit together, or is not there.
            MessagesError::Request(_) => Self::usage(error),
            _ => Self::missing(error),
        }
    }
}
