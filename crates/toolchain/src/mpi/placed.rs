//! Compiled MPI programs whose ranks are placed on this node according to a plan, or on several hosts.

use super::{HostRanks, LauncherKind, MpiLauncher, launcher_for, required_mpi_library};
use crate::{CommandLine, required_program};
use nodegauge_machine::Topology;
use nodegauge_measure::{Failure, FailureKind};
use nodegauge_os::is_root;
use nodegauge_placement::RankPlan;
use nodegauge_placement::emit::{self, OpenMpiOptions, OpenMpiVersion};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// MPI program of the user, with the launcher that starts its ranks.
#[derive(Debug, Clone)]
pub struct MpiProgram {
    /// Path of the program.
    pub path: PathBuf,
    /// Launcher that starts the ranks.
    pub launcher: MpiLauncher,
    /// True if the launcher requires an option to run as root, e.g. in a container.
    pub needs_root_option: bool,
}

impl MpiProgram {
    /// Finds a program and its launcher. If the user specifies no launcher, the launcher of the program's MPI
    /// library is used. With `allow_root`, the launcher may start programs as root. `hint` is the hint if the
    /// program is missing.
    ///
    /// # Errors
    /// Fails when the program or a launcher for it is missing, or the launcher refuses to start programs as root.
    pub fn find(
        program: &Path,
        launcher: Option<&CommandLine>,
        allow_root: bool,
        hint: &str,
    ) -> Result<Self, Failure> {
        let path = required_program(program, hint)?;
        let library = required_mpi_library(&path);
        let launcher = launcher_for(&path, library.as_ref(), launcher, &|| false)
            .map_err(|failure| failure.kind(FailureKind::Missing))?;
        if !allow_root {
            launcher.check_root()?;
        }
        Ok(Self { path, launcher, needs_root_option: allow_root && is_root() })
    }

    /// Returns the launcher of the program, with these places of the ranks.
    pub fn launch<'a>(&'a self, ranks: RankPlaces<'a>) -> MpiLaunch<'a> {
        MpiLaunch {
            launcher: &self.launcher,
            needs_root_option: self.needs_root_option,
            options: Vec::new(),
            ranks,
        }
    }
}

/// Places of the ranks of a program.
#[derive(Debug, Clone)]
pub enum RankPlaces<'a> {
    /// Ranks on this node, according to a plan.
    Planned {
        /// CPUs and memory of each rank.
        plan: Cow<'a, RankPlan>,
        /// Topology of the node.
        topology: &'a Topology,
    },
    /// Ranks on these hosts, with the same number per host.
    Hosts(HostRanks<'a>),
}

/// Launcher with the ranks that it starts.
#[derive(Debug, Clone)]
pub struct MpiLaunch<'a> {
    /// Launcher that starts the ranks.
    pub launcher: &'a MpiLauncher,
    /// True if the launcher requires an option to run as root.
    pub needs_root_option: bool,
    /// Options that precede the options for the places of ranks.
    pub options: Vec<String>,
    /// Places of the ranks.
    pub ranks: RankPlaces<'a>,
}

/// Arguments of a launcher that place the ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherArguments {
    /// Words of the options.
    pub words: Vec<String>,
    /// Content of the rank file; `None` if the options do not use a rank file.
    pub rankfile: Option<String>,
}

impl MpiLaunch<'_> {
    /// True if all ranks are on this node.
    pub fn is_local(&self) -> bool {
        matches!(self.ranks, RankPlaces::Planned { .. })
    }

    /// True if this process runs in a Slurm job.
    pub fn is_in_job() -> bool {
        std::env::var_os("SLURM_JOB_ID").is_some()
    }

    /// Returns the launcher's options for the ranks, with the content of the rank file. The caller must write this
    /// content to the file named `rankfile`.
    pub fn arguments(&self, rankfile: &str) -> LauncherArguments {
        self.arguments_in(rankfile, Self::is_in_job())
    }

    /// Returns the options as [`Self::arguments`] does; `in_job` is true if the process runs in a Slurm job.
    pub fn arguments_in(&self, rankfile: &str, in_job: bool) -> LauncherArguments {
        let kind = self.launcher.kind;
        let mut words = Vec::new();
        if self.needs_root_option && kind == LauncherKind::OpenMpi {
            words.push(OpenMpiOptions::AS_ROOT.to_owned());
        }
        words.extend(self.options.iter().cloned());
        let mut content = None;
        match &self.ranks {
            RankPlaces::Hosts(hosts) => words.extend(hosts.arguments(kind)),
            RankPlaces::Planned { plan, topology } => match kind {
                LauncherKind::OpenMpi => {
                    let old =
                        self.launcher.major_version().is_none_or(|major_version| major_version < 5);
                    let version = if old { OpenMpiVersion::V4 } else { OpenMpiVersion::V5 };
                    let emitted = emit::openmpi_options(plan, topology, version);
                    words.extend(emitted.args(rankfile));
                    content = emitted.rankfile;
                }
                LauncherKind::Hydra if !self.launcher.binds => {
                    words.extend(["-np".to_owned(), plan.ranks.len().to_string()]);
                }
                LauncherKind::Hydra => words.extend(emit::mpich_options(plan)),
                LauncherKind::Slurm => words.extend(emit::slurm_options(plan, 1)),
            },
        }
        if in_job {
            // In a job, Open MPI does not know the node as localhost, but as the first node of the job (+n0).
            content = content.map(|text| text.replace("=localhost ", "=+n0 "));
        }
        LauncherArguments { words, rankfile: content }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_mpi_gets_an_option_to_run_as_root() {
        let hosts = ["a".to_owned()];
        let words = |kind, needs_root_option| {
            let command = CommandLine::new("mpirun", []);
            let launcher = MpiLauncher { command, kind, title: "", version: None, binds: true };
            let ranks = RankPlaces::Hosts(HostRanks { hosts: &hosts, per_host: 2, threads: None });
            let options = vec!["--quiet".to_owned()];
            let launch = MpiLaunch { launcher: &launcher, needs_root_option, options, ranks };
            launch.arguments_in("file", false).words
        };
        let open = words(LauncherKind::OpenMpi, true);
        assert_eq!(open[..3], [OpenMpiOptions::AS_ROOT, "--quiet", "-np"]);
        assert_eq!(words(LauncherKind::OpenMpi, false), open[1..]);
        for kind in [LauncherKind::Hydra, LauncherKind::Slurm] {
            assert_eq!(words(kind, true)[0], "--quiet");
            assert_eq!(words(kind, true), words(kind, false));
        }
    }
}
