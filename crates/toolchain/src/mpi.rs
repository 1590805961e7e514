//! An MPI of this system: its compiler wrapper, which library that links, and the launcher that
//! belongs to it.
//!
//! The library is what the wrapper says of itself (`--showme:version` of Open MPI, `-v` of MPICH and
//! those derived from it). The launcher is looked for beside the wrapper, along its symbolic links (Debian's
//! alternatives lead from `mpicc` to `mpicc.openmpi`, beside which stands `mpirun.openmpi`), then in
//! `PATH`, and taken only if it says that it is of the same family: a launcher of another one would
//! start every rank as rank 0 of 1.

use crate::search::{is_program, which};
use crate::{CommandLine, Compiler, Job, ToolchainError, run};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod hosts;
mod linked;
mod words;

pub use hosts::HostRanks;
pub use linked::library_of_program;
pub use words::{launcher_of, library_of};

/// Libraries that differ in their launchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiFamily {
    /// Open MPI and what is made of it.
    OpenMpi,
    /// MPICH and what is made of it, Intel MPI and MVAPICH too.
    Mpich,
}

/// An MPI library, as its compiler wrapper names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiLibrary {
    /// Which launchers start its ranks.
    pub family: MpiFamily,
    /// `Open MPI`, `MPICH`, `Intel MPI`, `MVAPICH`.
    pub name: String,
    /// Its version; `None` when the wrapper does not say.
    pub version: Option<String>,
}

/// Who starts ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LauncherKind {
    /// `mpirun` of Open MPI (ORTE to version 4, PRRTE from 5).
    OpenMpi,
    /// `mpiexec` of MPICH and those derived from it.
    Hydra,
    /// Slurm's `srun`.
    Slurm,
}

/// A launcher that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiLauncher {
    /// Program and the words that the user wants with it.
    pub command: CommandLine,
    /// Its kind.
    pub kind: LauncherKind,
    /// Its version; `None` when it does not say.
    pub version: Option<String>,
}

impl MpiLauncher {
    /// The first number of its version.
    pub fn major(&self) -> Option<u32> {
        self.version.as_ref()?.split('.').next()?.parse().ok()
    }
}

/// A library with its compiler and its launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mpi {
    /// The wrapper, with the version of the compiler beneath.
    pub compiler: Compiler,
    /// Where the wrapper is.
    pub path: PathBuf,
    /// What it links.
    pub library: MpiLibrary,
    /// Who starts its ranks.
    pub launcher: MpiLauncher,
}

/// Why there is no MPI.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    /// No wrapper.
    #[error(
        "there is no {program} on this node\nhint: install an MPI (on Debian: openmpi-bin libopenmpi-dev, or mpich libmpich-dev; on a cluster: module load), or name its compiler with --mpicc"
    )]
    NoCompiler {
        /// As it was named.
        program: String,
    },
    /// A compiler, but none of MPI.
    #[error(
        "{program} does not say that it is a compiler of MPI\nhint: give the wrapper of an MPI, e.g. --mpicc mpicc"
    )]
    NotMpi {
        /// As it was named.
        program: String,
    },
    /// No launcher of its family.
    #[error(
        "there is no launcher for {library} of {program}: {found}\nhint: name it, e.g. --launcher mpirun.{suffix}, or install {package}"
    )]
    NoLauncher {
        /// The wrapper.
        program: String,
        /// What it links.
        library: String,
        /// Which launchers there are.
        found: String,
        /// How Debian's names of it end.
        suffix: &'static str,
        /// Debian's package with it.
        package: &'static str,
    },
    /// The launcher that was named is not there.
    #[error(
        "there is no launcher {program:?} on this node\nhint: leave out --launcher, or name an mpirun, mpiexec or srun"
    )]
    NoSuchLauncher {
        /// As it was named.
        program: String,
    },
    /// The launcher that was named is of another family.
    #[error(
        "{launcher} starts programs of {theirs}, not of {library}: every rank would be rank 0 of 1\nhint: leave out --launcher, or name the mpirun that came with {program}"
    )]
    Mismatch {
        /// As it was named.
        launcher: String,
        /// Whose it is.
        theirs: &'static str,
        /// What the wrapper links.
        library: String,
        /// The wrapper.
        program: String,
    },
    /// The launcher that was named is none.
    #[error(
        "{program} is no launcher that is known: it says {said:?} of itself\nhint: name an mpirun, mpiexec or srun"
    )]
    NotALauncher {
        /// As it was named.
        program: String,
        /// Its first line.
        said: String,
    },
    /// A program that cannot be started or asked.
    #[error(transparent)]
    Program(#[from] ToolchainError),
}

/// How long a wrapper or a launcher may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// Links followed from a wrapper's name.
const LINKS: usize = 8;
/// Names of wrappers that are tried when the user gives none.
pub const USUAL: [&str; 3] = ["mpicc", "mpicc.openmpi", "mpicc.mpich"];

impl Mpi {
    /// Finds the MPI of a wrapper, with the launcher that the user names or the one that belongs to
    /// it.
    ///
    /// # Errors
    /// When one of them is missing, hangs, or is of another kind.
    pub fn find(
        wrapper: &CommandLine,
        launcher: Option<&CommandLine>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, MpiError> {
        let program = wrapper.program().to_owned();
        let path = which(&program).ok_or(MpiError::NoCompiler { program: program.clone() })?;
        let ask = |flag: &str| said(&CommandLine::new(program.as_str(), [flag]), interrupted);
        let library = match library_of(&ask("--showme:version")?) {
            Some(library) => Some(library),
            None => library_of(&ask("-v")?),
        };
        let library = library.ok_or(MpiError::NotMpi { program: program.clone() })?;
        let compiler = Compiler::find(wrapper.clone(), interrupted)?;
        let launcher = match launcher {
            Some(named) => named_launcher(named, &library, &program, interrupted)?,
            None => own_launcher(&path, &library, &program, interrupted)?,
        };
        Ok(Self { compiler, path, library, launcher })
    }
}

impl MpiLibrary {
    /// Whether ranks of this library can be started by such a launcher.
    pub fn started_by(&self, kind: LauncherKind) -> bool {
        match kind {
            LauncherKind::OpenMpi => self.family == MpiFamily::OpenMpi,
            LauncherKind::Hydra => self.family == MpiFamily::Mpich,
            LauncherKind::Slurm => true,
        }
    }
}

impl fmt::Display for MpiLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{} {version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for LauncherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::Hydra => "MPICH (Hydra)",
            Self::Slurm => "Slurm",
        })
    }
}

/// The launcher for a finished program: the one that the user names, else one of the program's own
/// library, or of any when `library` is not known.
///
/// # Errors
/// When there is none, or the named one does not start programs of that library.
pub fn launcher_for(
    program: &Path,
    library: Option<&MpiLibrary>,
    named: Option<&CommandLine>,
    interrupted: &dyn Fn() -> bool,
) -> Result<MpiLauncher, MpiError> {
    let name = program.display().to_string();
    let families = match library {
        Some(library) => vec![library.clone()],
        None => [(MpiFamily::OpenMpi, "Open MPI"), (MpiFamily::Mpich, "MPICH")]
            .map(|(family, name)| MpiLibrary { family, name: name.to_owned(), version: None })
            .to_vec(),
    };
    let mut last = None;
    for library in &families {
        let found = match named {
            Some(command) => named_launcher(command, library, &name, interrupted),
            None => own_launcher(program, library, &name, interrupted),
        };
        match found {
            Ok(launcher) => return Ok(launcher),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or(MpiError::NoSuchLauncher { program: name }))
}

/// The launcher that the user names.
fn named_launcher(
    command: &CommandLine,
    library: &MpiLibrary,
    wrapper: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<MpiLauncher, MpiError> {
    let program = command.program().to_owned();
    if which(&program).is_none() {
        return Err(MpiError::NoSuchLauncher { program });
    }
    let words = said(&CommandLine::new(program.as_str(), ["--version"]), interrupted)?;
    let Some((kind, version)) = launcher_of(&words) else {
        let said = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        return Err(MpiError::NotALauncher { program, said: said.trim().to_owned() });
    };
    if !library.started_by(kind) {
        return Err(MpiError::Mismatch {
            launcher: program,
            theirs: if kind == LauncherKind::OpenMpi { "Open MPI" } else { "MPICH" },
            library: library.to_string(),
            program: wrapper.to_owned(),
        });
    }
    Ok(MpiLauncher { command: command.clone(), kind, version })
}

/// The launcher that stands beside the wrapper, or in `PATH`.
fn own_launcher(
    wrapper: &Path,
    library: &MpiLibrary,
    program: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<MpiLauncher, MpiError> {
    let mut others = Vec::new();
    for candidate in candidates(wrapper) {
        let words =
            said(&CommandLine::new(candidate.clone(), ["--version".to_owned()]), interrupted)?;
        match launcher_of(&words) {
            Some((kind, version)) if library.started_by(kind) => {
                let command = CommandLine::new(candidate, []);
                return Ok(MpiLauncher { command, kind, version });
            }
            Some((kind, _)) => others.push(format!("{candidate} is {kind}'s")),
            None => {}
        }
    }
    others.dedup();
    let open = library.family == MpiFamily::OpenMpi;
    Err(MpiError::NoLauncher {
        program: program.to_owned(),
        library: library.to_string(),
        found: if others.is_empty() {
            "there is no mpirun, mpiexec or srun".to_owned()
        } else {
            others.join(", ")
        },
        suffix: if open { "openmpi" } else { "mpich" },
        package: if open { "openmpi-bin" } else { "mpich" },
    })
}

/// Launchers that may belong to a wrapper, likeliest first; only those that are there.
fn candidates(wrapper: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |path: PathBuf| {
        let text = path.display().to_string();
        if is_program(&path) && !found.contains(&text) {
            found.push(text);
        }
    };
    let mut here = wrapper.to_owned();
    for _ in 0..LINKS {
        let name = here.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // mpicc.openmpi -> mpirun.openmpi; mpicc -> mpirun.
        let ending = name.find('.').map_or("", |at| &name[at..]);
        if let Some(folder) = here.parent().filter(|_| name.starts_with("mpi")) {
            add(folder.join(format!("mpirun{ending}")));
            add(folder.join(format!("mpiexec{ending}")));
        }
        let Ok(next) = std::fs::read_link(&here) else { break };
        here = here.parent().map_or_else(|| next.clone(), |folder| folder.join(&next));
    }
    for name in ["mpirun", "mpiexec", "mpiexec.hydra", "mpirun.openmpi", "mpirun.mpich", "srun"] {
        if let Some(path) = which(name) {
            add(path);
        }
    }
    found
}

/// All that a program says when it is asked with these words, whatever its exit status.
fn said(command: &CommandLine, interrupted: &dyn Fn() -> bool) -> Result<String, ToolchainError> {
    let job = Job::new(command.clone(), VERSION_LIMIT);
    let output = run(&job, interrupted)?;
    job.status(&output)?;
    Ok(output.stdout + "\n" + &output.stderr)
}
impl From<MpiError> for nodegauge_measure::Failure {
    fn from(error: MpiError) -> Self {
        match error {
            // What the user named does not fit together, or is not there.
            MpiError::Mismatch { .. } | MpiError::NotALauncher { .. } => Self::usage(error),
            _ => Self::missing(error),
        }
    }
}
