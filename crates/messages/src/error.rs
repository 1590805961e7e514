//! Errors of message measurements.

use nodegauge_measure::Failure;
use nodegauge_toolchain::{ToolchainError, quoted_lines};
use std::io;
use std::path::Path;

/// Error of a message measurement.
#[derive(Debug, thiserror::Error)]
pub enum MessagesError {
    /// Contradictory options, a missing requirement, or a run without a result.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Error of the compilation of the probe, or of the start of a launcher.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// Interrupt by the user before the first measurement.
    #[error("interrupted")]
    Interrupted,
}

impl MessagesError {
    /// Returns the error for a path to which the compiled probe or a rank file cannot be written.
    pub(crate) fn unwritable_path(path: &Path, cause: &io::Error) -> Self {
        Failure::missing(format!("cannot write {path:?}"))
            .cause(cause.to_string())
            .hint("set NODEGAUGE_CACHE_DIR to a folder that you can write to")
            .into()
    }

    /// Returns the error for a program of the OSU micro-benchmarks that cannot be used.
    pub(crate) fn unusable_osu(program: &Path, why: &str) -> Self {
        Failure::usage(format!("cannot use {}: {why}", program.display()))
            .hint(
                "give the folder of an OSU build for this MPI, e.g. --mpicc mpicc.mpich --osu \
                 ~/osu-mpich",
            )
            .into()
    }

    /// Returns the error for a program that printed nothing for `limit` seconds. `words` is the end of the program's
    /// error output.
    pub(crate) fn no_output(program: &str, limit: f64, words: &str) -> Self {
        let limit = (limit * 10.0).round() / 10.0;
        Failure::missing(format!(
            "{program} printed nothing for {limit} s; the program and its ranks were killed{}",
            quoted_lines(words)
        ))
        .into()
    }
}

impl From<&MessagesError> for Failure {
    fn from(error: &MessagesError) -> Self {
        match error {
            MessagesError::Failed(failure) => failure.clone(),
            MessagesError::Toolchain(error) => error.into(),
            MessagesError::Interrupted => Self::missing(error),
        }
    }
}

impl From<MessagesError> for Failure {
    fn from(error: MessagesError) -> Self {
        Self::from(&error)
    }
}
