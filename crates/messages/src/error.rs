//! Why messages could not be measured.

use nodegauge_measure::Failure;
use nodegauge_toolchain::ToolchainError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum MessagesError {
    /// No MPI, or parts of two.
    #[error(transparent)]
    Mpi(#[from] Failure),
    /// The probe does not compile, or a launcher does not start.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// Open MPI does not start ranks of root unless it is told to.
    #[error(
        "{launcher} refuses to start programs of root\nhint: give --allow-run-as-root, as in a container, or be another user"
    )]
    Root {
        /// The launcher.
        launcher: String,
    },
    /// Fewer slots than ranks.
    #[error(
        "{launcher} has too few slots for {ranks} ranks: {words}\nhint: ask for fewer with --ranks, or for more tasks of the job{more}"
    )]
    Slots {
        /// The launcher.
        launcher: String,
        /// Ranks that were asked for.
        ranks: usize,
        /// Its words.
        words: String,
        /// What else may be done, for a node that is short of CPUs.
        more: &'static str,
    },
    /// Launcher and library do not know each other.
    #[error(
        "{launcher} does not know {library}: asked for {asked} ranks, and each believes that there is {found}\nhint: name the launcher that came with {wrapper}, with --launcher"
    )]
    Mismatch {
        /// The launcher.
        launcher: String,
        /// The library.
        library: String,
        /// Ranks asked for.
        asked: usize,
        /// Ranks that a rank knows of.
        found: u32,
        /// The compiler wrapper.
        wrapper: String,
    },
    /// Nothing came in time.
    #[error("{launcher} gave no answer within {} s: it and its ranks were killed{}", limit.as_secs_f64(), said(words))]
    Silent {
        /// The launcher.
        launcher: String,
        /// How long it was waited for.
        limit: Duration,
        /// The end of its error output.
        words: String,
    },
    /// It ended without a figure.
    #[error("{launcher} {ended} before anything was measured{}", said(words))]
    Died {
        /// The launcher.
        launcher: String,
        /// How it ended.
        ended: String,
        /// The end of its error output.
        words: String,
    },
    /// No place for the compiled probe or a rank file.
    #[error(
        "cannot write {path:?}: {cause}\nhint: set NODEGAUGE_CACHE_DIR to a folder that you may write"
    )]
    Cache {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A program of the OSU micro-benchmarks.
    #[error(
        "cannot use {program}: {why}\nhint: name the folder of a build with this MPI, e.g. --mpicc mpicc.mpich --osu ~/osu-mpich"
    )]
    Osu {
        /// Where it is.
        program: String,
        /// What is wrong with it.
        why: String,
    },
    /// One CPU, or one rank.
    #[error(
        "messages need two ranks, and this process may use one hardware thread\nhint: ask for more CPUs (taskset, cpuset, --cpus-per-task)"
    )]
    OneCpu,
    /// What was asked for does not fit together, or is not there.
    #[error("{0}")]
    Request(String),
    /// None of the usual compiler wrappers.
    #[error("there is no MPI\nhint: name its compiler with --mpicc")]
    NoMpi,
    /// Hosts of a job without a job.
    #[error(
        "this is no Slurm job: SLURM_JOB_NODELIST is not set\nhint: run it under salloc or sbatch, or name the hosts"
    )]
    NoJob,
    /// Fewer than two hosts.
    #[error(
        "{answering} of {} hosts answer; none from {}\nhint: messages need two; see that {launcher} can start programs there",
        answering + silent.len(),
        silent.join(", ")
    )]
    Hosts {
        /// Hosts that answer.
        answering: usize,
        /// Those that do not.
        silent: Vec<String>,
        /// The launcher.
        launcher: String,
    },
    /// The user ended the run before anything was measured.
    #[error("interrupted")]
    Interrupted,
}

/// Last words as lines of their own; nothing when there are none.
fn said(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(":\n{words}") }
}

impl From<MessagesError> for Failure {
    fn from(error: MessagesError) -> Self {
        match error {
            MessagesError::Mpi(failure) => failure,
            // What the user named does not fit together, or is not there.
            MessagesError::Request(_) | MessagesError::Osu { .. } => Self::usage(error),
            _ => Self::missing(error),
        }
    }
}
