//! MPI installations of this system. An installation is a compiler wrapper with its library and the matching
//! launcher; or, without a wrapper, a launcher and a library.
//!
//! The launcher is searched for in the folder of the wrapper, along the wrapper's symbolic links, and then in `PATH`.
//! (On Debian, `mpicc` links to `mpicc.openmpi` in the folder of `mpirun.openmpi`.) A launcher is used only if it
//! belongs to the same library: the launcher of another library would start every rank as rank 0 of 1.

use crate::search::{is_program, link_chain, which};
use crate::{CommandLine, CompileLimits, Compiler, Job, ToolchainError, run};
use nodegauge_measure::Failure;
use nodegauge_os::mpi_abi::{MpiImplementation, implementations};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod hosts;
mod job;
mod linked;
mod placed;
mod runtime;
mod words;

pub use hosts::{HostList, HostRanks};
pub use job::{job_has_several_hosts, job_hosts};
pub use linked::required_mpi_library;
pub use nodegauge_os::mpi_abi::{self as abi, LauncherKind, MpiAbi, launcher_abis};
pub use placed::{LauncherArguments, MpiLaunch, MpiProgram, RankPlaces};
pub use words::{
    RecognisedLauncher, library_in_output, recognise_launcher, shorten_launcher_error,
};

/// MPI library, as its compiler wrapper reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiLibrary {
    /// Implementation from which the library is derived, e.g. MPICH for Intel MPI and MVAPICH.
    pub family: &'static MpiImplementation,
    /// Name of the library: `Open MPI`, `MPICH`, `Intel MPI`, `MVAPICH`.
    pub name: String,
    /// Version of the library; `None` if the wrapper does not report it.
    pub version: Option<String>,
}

/// Installed launcher of ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiLauncher {
    /// Program with the user's options.
    pub command: CommandLine,
    /// Kind of the launcher.
    pub kind: LauncherKind,
    /// Name of the launcher in messages.
    pub title: &'static str,
    /// Version of the launcher; `None` if it does not report its version.
    pub version: Option<String>,
    /// True if the launcher can bind ranks. False only for Hydra without a topology library, e.g. the Hydra of Debian
    /// 11.
    pub binds: bool,
}

impl MpiLauncher {
    /// Returns the first number of the launcher's version; `None` if the version is unknown.
    pub fn major_version(&self) -> Option<u32> {
        self.version.as_ref()?.split('.').next()?.parse().ok()
    }

    /// True if this process runs as root and the launcher refuses to start programs as root. An option of the
    /// launcher permits this; so do two environment variables of Open MPI or, since version 5, of its runtime (PRRTE).
    pub fn refuses_root(&self) -> bool {
        let allowed = ["OMPI_", "PRTE_"].iter().any(|prefix| {
            let names = ["ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM"];
            names.iter().all(|name| is_one(&format!("{prefix}{name}")))
        });
        self.kind == LauncherKind::OpenMpi && nodegauge_os::is_root() && !allowed
    }

    /// Checks that the launcher starts programs even if this process runs as root.
    ///
    /// # Errors
    /// Fails if the launcher requires an option, which the user must give.
    pub fn check_root(&self) -> Result<(), Failure> {
        if !self.refuses_root() {
            return Ok(());
        }
        let launcher = self.command.program();
        Err(Failure::missing(format!("{launcher} refuses to start programs as root"))
            .hint("run as another user, or pass --allow-run-as-root (usual in a container)"))
    }
}

/// True if an environment variable has the value 1.
fn is_one(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

/// Installed parts of an MPI library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MpiParts {
    /// A compiler wrapper is installed.
    Wrapper {
        /// Command of the wrapper, with the version of the compiler that it calls.
        compiler: Compiler,
        /// Path of the wrapper.
        path: PathBuf,
    },
    /// Only the library is installed, for programs that were compiled elsewhere.
    Runtime {
        /// Path of the shared library.
        path: PathBuf,
        /// ABI of the library.
        abi: &'static MpiAbi,
    },
}

impl fmt::Display for MpiParts {
    /// Formats the command of the wrapper, or the path of the library.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrapper { compiler, .. } => compiler.command.fmt(f),
            Self::Runtime { path, .. } => path.display().fmt(f),
        }
    }
}

/// MPI installation: library, launcher and, if there is one, compiler wrapper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mpi {
    /// Installed parts: a compiler wrapper, or only the library.
    pub parts: MpiParts,
    /// Name and version of the library.
    pub library: MpiLibrary,
    /// Launcher that starts ranks of this library.
    pub launcher: MpiLauncher,
    /// Reason why this MPI was chosen; empty until the caller sets it.
    pub selection_reason: String,
}

/// Time limit for the version query of a wrapper or a launcher.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// Name of the wrapper without a suffix.
const WRAPPER: &str = "mpicc";
/// Names of launchers without the suffix of an implementation.
const LAUNCHERS: [&str; 3] = ["mpirun", "mpiexec", "mpiexec.hydra"];

/// Returns the names of wrappers that are searched for if the user specifies none.
pub fn usual_wrappers() -> Vec<String> {
    let suffixed = implementations().map(|own| format!("{WRAPPER}.{}", own.suffix));
    std::iter::once(WRAPPER.to_owned()).chain(suffixed).collect()
}

/// Returns the names of launchers of MPI libraries.
fn usual_launchers() -> impl Iterator<Item = String> {
    let suffixed = implementations().map(|own| format!("mpirun.{}", own.suffix));
    LAUNCHERS.iter().map(|name| (*name).to_owned()).chain(suffixed)
}

impl Mpi {
    /// Determines the MPI of a wrapper from the wrapper's version output (`--showme:version` for Open MPI, `-v` for
    /// MPICH and its derivatives). The launcher is the one that the user specifies, otherwise the matching launcher.
    ///
    /// # Errors
    /// Fails when the wrapper or the launcher is missing, hangs, or is not of the expected kind.
    pub fn find(
        wrapper: &CommandLine,
        launcher: Option<&CommandLine>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let program = wrapper.program();
        let path = which(program).ok_or_else(|| {
            Failure::missing(format!("there is no {program} on this node")).hint(
                "install an MPI (on Debian: openmpi-bin libopenmpi-dev, or mpich \
                     libmpich-dev; on a cluster: module load), or specify its compiler wrapper with --mpicc",
            )
        })?;
        let library = wrapper_library(program, interrupted)?.ok_or_else(|| {
            Failure::missing(format!("{program} is not a known MPI compiler wrapper"))
                .hint("give the wrapper of an MPI, e.g. --mpicc mpicc")
        })?;
        let limit = CompileLimits::DEFAULT.version;
        let compiler = Compiler::find(wrapper.clone(), limit, interrupted)?;
        let launcher = find_launcher(&path, program, &library, launcher, interrupted)?;
        let parts = MpiParts::Wrapper { compiler, path };
        Ok(Self { parts, library, launcher, selection_reason: String::new() })
    }

    /// Finds an MPI without a compiler. The launcher is the one that the user specifies, otherwise the first one in
    /// the search path for which a library is found.
    ///
    /// # Errors
    /// Fails when no launcher with a library is found.
    pub fn find_runtime(
        launcher: Option<&CommandLine>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let commands: Vec<CommandLine> = match launcher {
            Some(command) => vec![command.clone()],
            None => usual_launchers().filter_map(which).map(command_line).collect(),
        };
        let mut without = Vec::new();
        for command in commands {
            let version_query = CommandLine::new(command.program(), ["--version"]);
            let words = command_output(&version_query, interrupted)?;
            let Some(recognised) = recognise_launcher(&words) else { continue };
            let Some(own) = recognised.implementation else { continue };
            let found = recognised.launcher(command, &words);
            let program = which(found.command.program()).unwrap_or_default();
            if let Some((path, abi)) = runtime::compatible_library(&program, own) {
                // The version of the library is assumed to be that of the launcher.
                let library = library_in_output(&words).unwrap_or_else(|| MpiLibrary {
                    version: found.version.clone(),
                    ..MpiLibrary::from_implementation(own)
                });
                let parts = MpiParts::Runtime { path, abi };
                return Ok(Self {
                    parts,
                    library,
                    launcher: found,
                    selection_reason: String::new(),
                });
            }
            without.push(format!("no library for {}", found.command.program()));
        }
        without.dedup();
        let found = if without.is_empty() { "no mpirun".to_owned() } else { without.join(", ") };
        Err(Failure::missing(format!("no MPI for running programs was found: {found}")))
    }
}

/// Calls a wrapper with the query options of all implementations. Returns the library that it reports; `None` if it
/// reports none.
fn wrapper_library(
    program: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<MpiLibrary>, ToolchainError> {
    for own in implementations() {
        let query = CommandLine::new(program, [own.wrapper_query]);
        if let Some(library) = library_in_output(&command_output(&query, interrupted)?) {
            return Ok(Some(library));
        }
    }
    Ok(None)
}

fn command_line(program: PathBuf) -> CommandLine {
    CommandLine::new(program.display().to_string(), [])
}

impl MpiLibrary {
    /// Returns the library of an implementation, with an unknown version.
    fn from_implementation(own: &'static MpiImplementation) -> Self {
        Self { family: own, name: own.library.to_owned(), version: None }
    }

    /// True if the launcher of this implementation can start ranks of this library; for srun, the implementation is
    /// `None`.
    fn accepts_launcher(&self, launcher: Option<&MpiImplementation>) -> bool {
        launcher.is_none_or(|own| own == self.family)
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

/// Returns the launcher for a compiled program. If the user specifies no launcher, it is a launcher of the
/// program's MPI library, or of any library if `library` is unknown.
///
/// # Errors
/// Fails when no launcher is found, or when the specified launcher does not start programs of that library.
pub fn launcher_for(
    program: &Path,
    library: Option<&MpiLibrary>,
    named: Option<&CommandLine>,
    interrupted: &dyn Fn() -> bool,
) -> Result<MpiLauncher, Failure> {
    let libraries: Vec<MpiLibrary> = match library {
        Some(known) => vec![known.clone()],
        None => implementations().map(MpiLibrary::from_implementation).collect(),
    };
    let name = program.display().to_string();
    let mut failure = None;
    for wanted in libraries {
        match find_launcher(program, &name, &wanted, named, interrupted) {
            Ok(launcher) => return Ok(launcher),
            Err(cause) => failure = Some(cause),
        }
    }
    Err(failure.unwrap_or_else(|| Failure::missing("no MPI is known")))
}

/// Returns the launcher that the user specifies, otherwise a launcher in the folder of `path` or in `PATH`.
/// `program` is the name of the wrapper or program in messages.
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
        let query = CommandLine::new(candidate.as_str(), ["--version"]);
        let words = command_output(&query, interrupted)?;
        match recognise_launcher(&words) {
            Some(found) if library.accepts_launcher(found.implementation) => {
                return Ok(found.launcher(CommandLine::new(candidate, []), &words));
            }
            Some(found) => others.push(format!("{candidate} belongs to {}", found.title())),
            None => {}
        }
    }
    others.dedup();
    let found = match others.as_slice() {
        [] => "there is no mpirun, mpiexec or srun".to_owned(),
        others => others.join(", "),
    };
    let own = library.family;
    Err(Failure::missing(format!("there is no launcher for {library} of {program}: {found}")).hint(
        format!(
            "specify the launcher, e.g. --launcher mpirun.{}, or install {}",
            own.suffix, own.package
        ),
    ))
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
            .hint("leave out --launcher, or give an mpirun, mpiexec or srun"));
    }
    let words = command_output(&CommandLine::new(program, ["--version"]), interrupted)?;
    let Some(found) = recognise_launcher(&words) else {
        let first = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").trim();
        return Err(Failure::usage(format!(
            "unknown launcher {program}: its --version prints {first:?}"
        ))
        .hint("give an mpirun, mpiexec or srun"));
    };
    if let Some(own) = found.implementation.filter(|own| *own != library.family) {
        let theirs = own.library;
        return Err(Failure::usage(format!(
            "{program} starts programs of {theirs}, not of {library}: every rank would be \
                 rank 0 of 1"
        ))
        .hint(format!("leave out --launcher, or give the mpirun that belongs to {wrapper}")));
    }
    // The launcher starts in a folder of the run, where a relative path of the user does not exist.
    let command = match std::path::absolute(program) {
        Ok(path) if program.contains('/') => {
            CommandLine::new(path.display().to_string(), command.arguments().iter().cloned())
        }
        _ => command.clone(),
    };
    Ok(found.launcher(command, &words))
}

/// Returns the installed launchers that may belong to a wrapper, most likely first.
fn candidates(wrapper: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for here in link_chain(wrapper) {
        let name = here.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The launcher has the suffix of the wrapper: mpicc.openmpi gives mpirun.openmpi, and mpicc gives mpirun.
        let ending = name.find('.').map_or("", |at| &name[at..]);
        if name.starts_with("mpi") {
            paths.push(here.with_file_name(format!("mpirun{ending}")));
            paths.push(here.with_file_name(format!("mpiexec{ending}")));
        }
    }
    paths.extend(usual_launchers().chain(["srun".to_owned()]).filter_map(which));
    let mut found = Vec::new();
    for path in paths {
        let text = path.display().to_string();
        if is_program(&path) && !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// Returns the standard output and the error output of a command, regardless of its exit status.
fn command_output(
    command: &CommandLine,
    interrupted: &dyn Fn() -> bool,
) -> Result<String, ToolchainError> {
    let job = Job::new(command.clone(), VERSION_LIMIT);
    let output = run(&job, interrupted)?;
    job.status(&output)?;
    Ok(output.stdout + "\n" + &output.stderr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const OPEN_MPI: &str = "mpirun (Open MPI) 4.1.4";
    const HYDRA: &str = "HYDRA build details:\n    Version: 4.0.2";

    /// Creates a launcher that prints `words` for `--version`, and returns its path. A child process writes the file.
    /// If this process wrote it, a child of another test could inherit the open file, and the launcher could not be
    /// executed.
    fn launcher(folder: &Path, name: &str, words: &str) -> String {
        let path = folder.join(name).display().to_string();
        let text = format!("#!/bin/sh\necho '{words}'\n");
        let write = r#"printf %s "$2" >"$1" && chmod 755 "$1""#;
        let command = CommandLine::new("/bin/sh", ["-c", write, "sh", &path, &text]);
        let job = Job::new(command, VERSION_LIMIT);
        job.successful_stdout(run(&job, &|| false).unwrap()).unwrap();
        path
    }

    fn implementation(launcher: LauncherKind) -> &'static MpiImplementation {
        implementations().find(|own| own.launcher == launcher).unwrap()
    }

    fn library(launcher: LauncherKind) -> MpiLibrary {
        let family = implementation(launcher);
        MpiLibrary { family, name: "MPI".to_owned(), version: None }
    }

    #[test]
    fn library_accepts_only_its_own_launcher_and_srun() {
        let mpich = library(LauncherKind::Hydra);
        assert!(mpich.accepts_launcher(Some(implementation(LauncherKind::Hydra))));
        assert!(mpich.accepts_launcher(None));
        assert!(!mpich.accepts_launcher(Some(implementation(LauncherKind::OpenMpi))));
    }

    #[test]
    fn launcher_is_found_along_links_of_wrapper() {
        let root = tempfile::tempdir().unwrap();
        let expected =
            ["mpirun.openmpi", "mpiexec.openmpi"].map(|name| launcher(root.path(), name, ""));
        launcher(root.path(), "mpirun.mpich", "");
        std::fs::write(root.path().join("mpirun"), "not a program").unwrap();
        launcher(root.path(), "mpicc.openmpi", "");
        let wrapper = root.path().join("mpicc");
        symlink("mpicc.openmpi", &wrapper).unwrap();
        let found = candidates(&wrapper);
        let is_below_root = |path: &&String| Path::new(path.as_str()).starts_with(root.path());
        assert_eq!(found.iter().filter(is_below_root).cloned().collect::<Vec<_>>(), expected);
        assert_eq!(found[..2], expected);
    }

    #[test]
    fn launcher_of_other_library_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let open = launcher(root.path(), "mpirun", OPEN_MPI);
        let hydra = launcher(root.path(), "mpiexec", HYDRA);
        let wrapper = root.path().join("mpicc");
        let find = |family, named: Option<&str>| {
            let named = named.map(|program| CommandLine::new(program, ["-v"]));
            launcher_for(&wrapper, Some(&library(family)), named.as_ref(), &|| false)
        };
        // The wrapper is missing, but launchers are found by the folder in its name.
        let found = find(LauncherKind::Hydra, None).unwrap();
        assert_eq!((found.command.program(), found.major_version()), (hydra.as_str(), Some(4)));
        let named = find(LauncherKind::OpenMpi, Some(&open)).unwrap();
        assert_eq!(
            (named.kind, named.command.arguments()),
            (LauncherKind::OpenMpi, &["-v".into()][..])
        );
        let refused = find(LauncherKind::OpenMpi, Some(&hydra)).unwrap_err().to_string();
        assert!(refused.contains("mpiexec starts programs of MPICH, not of MPI"), "{refused}");
        let unknown = launcher(root.path(), "other", "other 1.0");
        let not_known = find(LauncherKind::Hydra, Some(&unknown)).unwrap_err().to_string();
        assert!(not_known.contains("its --version prints \"other 1.0\""), "{not_known}");
        let none = root.path().join("none").display().to_string();
        let missing = find(LauncherKind::Hydra, Some(&none)).unwrap_err().to_string();
        assert!(missing.starts_with("there is no launcher "), "{missing}");
    }
}
