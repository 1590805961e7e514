//! An MPI of this system: its compiler wrapper, which library that links, and the launcher that
//! belongs to it; or where there is no wrapper, a launcher and the library itself.
//!
//! The launcher is looked for beside the wrapper, along its symbolic links (Debian's lead from `mpicc` to
//! `mpicc.openmpi`, beside which stands `mpirun.openmpi`), then in `PATH`, and taken only if it says that
//! it is of the same library: another's would start every rank as rank 0 of 1.

use crate::search::{is_program, links, which};
use crate::{CommandLine, CompileLimits, Compiler, Job, ToolchainError, run};
use nodegauge_measure::Failure;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod hosts;
mod linked;
mod placed;
mod runtime;
mod words;

pub use hosts::{HostList, HostRanks};
pub use linked::library_of_program;
pub use nodegauge_os::mpi_abi::{self as abi, MpiAbi};
pub use placed::{MpiLaunch, MpiProgram, RankPlaces, RankWords};
pub use words::{launcher_of, library_of};

/// An MPI library, as its compiler wrapper names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiLibrary {
    /// Whose launcher starts its ranks, besides Slurm's: that of Open MPI, or Hydra of MPICH and what is
    /// made of it (Intel MPI and MVAPICH too).
    pub family: LauncherKind,
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

/// What there is of a library to make programs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MpiParts {
    /// A compiler wrapper.
    Wrapper {
        /// It, with the version of the compiler beneath.
        compiler: Compiler,
        /// Where it is.
        path: PathBuf,
    },
    /// Only the library itself, for programs that were compiled elsewhere.
    Runtime {
        /// The shared library.
        path: PathBuf,
        /// What programs must know of it.
        abi: MpiAbi,
    },
}

impl fmt::Display for MpiParts {
    /// The wrapper's command, or where the library is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrapper { compiler, .. } => compiler.command.fmt(f),
            Self::Runtime { path, .. } => path.display().fmt(f),
        }
    }
}

/// A library with what makes programs for it, and its launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mpi {
    /// What makes programs.
    pub parts: MpiParts,
    /// What they are linked with.
    pub library: MpiLibrary,
    /// Who starts its ranks.
    pub launcher: MpiLauncher,
    /// Why it was taken, in words of who took it.
    pub chosen: String,
}

/// How long a wrapper or a launcher may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// Names of wrappers that are tried when the user gives none.
pub const USUAL: [&str; 3] = ["mpicc", "mpicc.openmpi", "mpicc.mpich"];
/// Names of launchers of a library's own.
const LAUNCHERS: [&str; 5] =
    ["mpirun", "mpiexec", "mpiexec.hydra", "mpirun.openmpi", "mpirun.mpich"];

impl Mpi {
    /// Finds the MPI of a wrapper by what that says of itself (`--showme:version` of Open MPI, `-v` of
    /// MPICH and those derived from it), with the launcher that the user names or the one that belongs to
    /// it.
    ///
    /// # Errors
    /// When one of them is missing, hangs, or is of another kind.
    pub fn find(
        wrapper: &CommandLine,
        launcher: Option<&CommandLine>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let program = wrapper.program();
        let path = which(program).ok_or_else(|| {
            Failure::missing(format!("there is no {program} on this node")).hint(
                "install an MPI (on Debian: openmpi-bin libopenmpi-dev, or mpich \
                     libmpich-dev; on a cluster: module load), or name its compiler with --mpicc",
            )
        })?;
        let ask = |flag: &str| said(&CommandLine::new(program, [flag]), interrupted);
        let library = match library_of(&ask("--showme:version")?) {
            Some(library) => Some(library),
            None => library_of(&ask("-v")?),
        };
        let library = library.ok_or_else(|| {
            Failure::missing(format!("{program} does not say that it is a compiler of MPI"))
                .hint("give the wrapper of an MPI, e.g. --mpicc mpicc")
        })?;
        let limit = CompileLimits::USUAL.version;
        let compiler = Compiler::find(wrapper.clone(), limit, interrupted)?;
        let launcher = find_launcher(&path, program, &library, launcher, interrupted)?;
        let parts = MpiParts::Wrapper { compiler, path };
        Ok(Self { parts, library, launcher, chosen: String::new() })
    }

    /// Finds an MPI without a compiler: a launcher, the one that the user names or the first of the search path,
    /// and the library that belongs to it.
    ///
    /// # Errors
    /// When there is no launcher, or no library for it.
    pub fn find_runtime(
        launcher: Option<&CommandLine>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let commands: Vec<CommandLine> = match launcher {
            Some(command) => vec![command.clone()],
            None => LAUNCHERS.iter().filter_map(which).map(command_of).collect(),
        };
        let mut without = Vec::new();
        for command in commands {
            let words = said(&CommandLine::new(command.program(), ["--version"]), interrupted)?;
            let known = launcher_of(&words).filter(|(kind, _)| *kind != LauncherKind::Slurm);
            let Some((kind, version)) = known else { continue };
            let launcher = MpiLauncher { command, kind, version };
            let program = which(launcher.command.program()).unwrap_or_default();
            if let Some((path, abi)) = runtime::library_of_launcher(&program, kind) {
                let library = library_of(&words).unwrap_or_else(|| MpiLibrary::of(&launcher));
                let parts = MpiParts::Runtime { path, abi };
                return Ok(Self { parts, library, launcher, chosen: String::new() });
            }
            without.push(format!("no library for {}", launcher.command.program()));
        }
        without.dedup();
        let found = if without.is_empty() { "no mpirun".to_owned() } else { without.join(", ") };
        Err(Failure::missing(format!("there is no MPI to run programs with: {found}")))
    }
}

fn command_of(program: PathBuf) -> CommandLine {
    CommandLine::new(program.display().to_string(), [])
}

impl MpiLibrary {
    /// The library that a launcher usually comes with: both are of one version.
    fn of(launcher: &MpiLauncher) -> Self {
        let open = launcher.kind == LauncherKind::OpenMpi;
        let name = if open { "Open MPI" } else { "MPICH" }.to_owned();
        Self { family: launcher.kind, name, version: launcher.version.clone() }
    }

    /// Whether ranks of this library can be started by such a launcher.
    pub fn started_by(&self, kind: LauncherKind) -> bool {
        kind == self.family || kind == LauncherKind::Slurm
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
) -> Result<MpiLauncher, Failure> {
    let name = program.display().to_string();
    let find = |library: &MpiLibrary| find_launcher(program, &name, library, named, interrupted);
    match library {
        Some(library) => find(library),
        None => {
            let any =
                |family, name: &str| MpiLibrary { family, name: name.to_owned(), version: None };
            find(&any(LauncherKind::OpenMpi, "Open MPI"))
                .or_else(|_| find(&any(LauncherKind::Hydra, "MPICH")))
        }
    }
}

/// The launcher that the user names, else the one that stands beside `path`, or in `PATH`. `program` is what
/// is to be started, in words.
fn find_launcher(
    path: &Path,
    program: &str,
    library: &MpiLibrary,
    named: Option<&CommandLine>,
    interrupted: &dyn Fn() -> bool,
) -> Result<MpiLauncher, Failure> {
    if let Some(command) = named {
        return named_launcher(command, library, program, interrupted);
    }
    let mut others = Vec::new();
    for candidate in candidates(path) {
        let words = said(&CommandLine::new(candidate.as_str(), ["--version"]), interrupted)?;
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
    let found = match others.as_slice() {
        [] => "there is no mpirun, mpiexec or srun".to_owned(),
        others => others.join(", "),
    };
    let open = library.family == LauncherKind::OpenMpi;
    let (suffix, package) = if open { ("openmpi", "openmpi-bin") } else { ("mpich", "mpich") };
    Err(Failure::missing(format!("there is no launcher for {library} of {program}: {found}"))
        .hint(format!("name it, e.g. --launcher mpirun.{suffix}, or install {package}")))
}

fn named_launcher(
    command: &CommandLine,
    library: &MpiLibrary,
    wrapper: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<MpiLauncher, Failure> {
    let program = command.program();
    if which(program).is_none() {
        return Err(Failure::missing(format!("there is no launcher {program:?} on this node"))
            .hint("leave out --launcher, or name an mpirun, mpiexec or srun"));
    }
    let words = said(&CommandLine::new(program, ["--version"]), interrupted)?;
    let Some((kind, version)) = launcher_of(&words) else {
        let said = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").trim();
        return Err(Failure::usage(format!(
            "{program} is no launcher that is known: it says {said:?} of itself"
        ))
        .hint("name an mpirun, mpiexec or srun"));
    };
    if !library.started_by(kind) {
        let theirs = if kind == LauncherKind::OpenMpi { "Open MPI" } else { "MPICH" };
        return Err(Failure::usage(format!(
            "{program} starts programs of {theirs}, not of {library}: every rank would be \
                 rank 0 of 1"
        ))
        .hint(format!("leave out --launcher, or name the mpirun that came with {wrapper}")));
    }
    Ok(MpiLauncher { command: command.clone(), kind, version })
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
    for here in links(wrapper) {
        let name = here.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // mpicc.openmpi -> mpirun.openmpi; mpicc -> mpirun.
        let ending = name.find('.').map_or("", |at| &name[at..]);
        if name.starts_with("mpi") {
            add(here.with_file_name(format!("mpirun{ending}")));
            add(here.with_file_name(format!("mpiexec{ending}")));
        }
    }
    for name in LAUNCHERS.iter().chain(&["srun"]) {
        which(name).into_iter().for_each(&mut add);
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
