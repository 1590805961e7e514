//! Runs xhpl, or the HPL inside hpcc, with its input written, its ranks bound, its output read.
//! Everything happens in a private folder.

use crate::dat::{self, HplInput};
use crate::output::{self, HplOutput};
use nodegauge_machine::Topology;
use nodegauge_os::describe_launched;
use nodegauge_placement::RankPlan;
use nodegauge_placement::emit::{self, OpenMpi, OpenMpiVersion};
use nodegauge_toolchain::mpi::{self, HostRanks, LauncherKind, MpiError, MpiLauncher, MpiLibrary};
use nodegauge_toolchain::{CommandLine, Job, Scratch, ToolchainError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceKind {
    /// HPL alone: HPL.dat, results on standard output.
    Xhpl,
    /// The HPC Challenge: hpccinf.txt, results in hpccoutf.txt.
    Hpcc,
}

impl ReferenceKind {
    /// By the program's name.
    pub fn of(program: &Path) -> Self {
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("hpcc") { Self::Hpcc } else { Self::Xhpl }
    }

    /// In records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xhpl => "xhpl",
            Self::Hpcc => "hpcc",
        }
    }

    fn input(self) -> &'static str {
        match self {
            Self::Xhpl => "HPL.dat",
            Self::Hpcc => "hpccinf.txt",
        }
    }
}

/// Why the reference program gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// There is no such program.
    #[error(
        "there is no program {0:?}\nhint: give the path of an xhpl or hpcc, e.g. --xhpl /usr/bin/hpcc of Debian's package hpcc"
    )]
    NoProgram(PathBuf),
    /// No launcher for it.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// It could not be run, or was stopped.
    #[error(transparent)]
    Program(#[from] ToolchainError),
    /// A file of its folder.
    #[error("cannot use {file} in the private folder: {cause}")]
    File {
        /// Which.
        file: &'static str,
        /// Why.
        cause: std::io::Error,
    },
    /// It ended without a result.
    #[error("{command} gave no result ({how}){said}\nhint: {hint}")]
    Nothing {
        /// The whole command.
        command: String,
        /// Exit status or signal.
        how: String,
        /// What it said, on lines of its own.
        said: String,
        /// What may help.
        hint: &'static str,
    },
}

/// A reference program that can be run.
#[derive(Debug)]
pub struct ReferenceProgram {
    program: PathBuf,
    kind: ReferenceKind,
    /// The MPI that it names.
    pub library: Option<MpiLibrary>,
    /// Who starts its ranks.
    pub launcher: MpiLauncher,
    /// Hosts; empty for this node, or the hosts of a job.
    hosts: Vec<String>,
    as_root: bool,
}

impl ReferenceProgram {
    /// Looks at the program and finds its launcher.
    ///
    /// # Errors
    /// No such program, or none that starts its ranks.
    pub fn find(
        program: &Path,
        launcher: Option<&CommandLine>,
        hosts: &[String],
        as_root: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, ReferenceError> {
        let found = program
            .to_str()
            .and_then(nodegauge_toolchain::which)
            .and_then(|path| path.canonicalize().ok());
        let Some(path) = found else { return Err(ReferenceError::NoProgram(program.to_owned())) };
        let library = mpi::library_of_program(&path);
        let launcher = mpi::launcher_for(&path, library.as_ref(), launcher, interrupted)?;
        Ok(Self {
            kind: ReferenceKind::of(program),
            program: path,
            library,
            launcher,
            hosts: hosts.to_vec(),
            as_root,
        })
    }

    /// Which program it is.
    pub fn kind(&self) -> ReferenceKind {
        self.kind
    }

    /// Runs it once with `input` on the ranks of `plan`.
    ///
    /// # Errors
    /// When it cannot be started, was killed, or prints no result.
    pub fn run(
        &self,
        input: &HplInput,
        plan: &RankPlan,
        topology: &Topology,
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(HplOutput, String), ReferenceError> {
        let folder = Scratch::new()?;
        let write = |file: &'static str, text: &str| {
            std::fs::write(folder.path().join(file), text)
                .map_err(|cause| ReferenceError::File { file, cause })
        };
        write(self.kind.input(), &dat::write(input))?;
        let rankfile = folder.path().join("ranks");
        let (words, ranks) = self.words(plan, topology, &rankfile.display().to_string());
        if let Some(ranks) = ranks {
            write("ranks", &ranks)?;
        }
        let program = self.program.display().to_string();
        let command = self.launcher.command.with(words).with([program]);
        let threads = plan.ranks.first().map_or(1, |rank| rank.placement.threads.len()).to_string();
        let environment =
            ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"]
                .map(|name| (name.to_owned(), Some(threads.clone())))
                .to_vec();
        let job =
            Job { command: command.clone(), folder: folder.path().to_owned(), environment, limit };
        let output = nodegauge_toolchain::run(&job, interrupted)?;
        let text = match self.kind {
            ReferenceKind::Xhpl => output.stdout.clone(),
            // Appended to as it goes on; what is there counts.
            ReferenceKind::Hpcc => {
                std::fs::read_to_string(folder.path().join("hpccoutf.txt")).unwrap_or_default()
            }
        };
        let read = output::read(&text);
        let status = job.status(&output)?;
        if read.rows.is_empty() || !status.success() {
            let errors = if read.errors.is_empty() {
                output::read(&output.stderr).errors
            } else {
                read.errors.clone()
            };
            let last = output
                .stderr
                .lines()
                .rev()
                .filter(|line| !line.trim().is_empty() && !line.starts_with("---"));
            let said = match errors.first() {
                Some(error) => format!(":\n{error}"),
                None => last.take(1).map(|line| format!(":\n{line}")).collect(),
            };
            let alone =
                read.errors.iter().chain(&errors).any(|error| error.starts_with("Need at least"));
            let hint = if alone {
                "each rank was started alone, as by the launcher of another MPI than the program's: give its own with --launcher"
            } else {
                "run it by hand in a folder with the input that --hpl-dat-only writes"
            };
            return Err(ReferenceError::Nothing {
                command: command.to_string(),
                how: describe_launched(status),
                said,
                hint,
            });
        }
        Ok((read, command.to_string()))
    }

    /// The launcher's words and the content of a rank file.
    fn words(
        &self,
        plan: &RankPlan,
        topology: &Topology,
        rankfile: &str,
    ) -> (Vec<String>, Option<String>) {
        let ranks = plan.ranks.len();
        let as_root = || (self.as_root).then(|| OpenMpi::AS_ROOT.to_owned());
        if !self.hosts.is_empty() {
            // The plan is for one host; every host gets the like.
            let threads = plan.ranks.first().map_or(1, |rank| rank.placement.threads.len());
            let ranks = HostRanks { hosts: &self.hosts, each: ranks, threads: Some(threads) };
            let words = ranks.arguments(self.launcher.kind);
            let root = (self.launcher.kind == LauncherKind::OpenMpi).then(as_root).flatten();
            return (words.into_iter().chain(root).collect(), None);
        }
        match self.launcher.kind {
            LauncherKind::OpenMpi => {
                let old = self.launcher.major().is_none_or(|major| major < 5);
                let version = if old { OpenMpiVersion::V4 } else { OpenMpiVersion::V5 };
                let emitted = emit::openmpi(plan, topology, version);
                let words = emitted.args(rankfile).into_iter().chain(as_root()).collect();
                (words, emitted.rankfile)
            }
            LauncherKind::Hydra => (emit::mpich(plan), None),
            LauncherKind::Slurm => (emit::slurm(plan), None),
        }
    }
}

impl From<ReferenceError> for nodegauge_measure::Failure {
    fn from(error: ReferenceError) -> Self {
        Self::missing(error)
    }
}
