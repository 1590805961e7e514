//! A finished program of an MPI, with its ranks placed on this node as a plan says.

use super::{HostRanks, LauncherKind, MpiLauncher, launcher_for, library_of_program};
use crate::{CommandLine, find_program, with_path_hint};
use nodegauge_machine::Topology;
use nodegauge_measure::{Failure, FailureKind};
use nodegauge_os::is_root;
use nodegauge_placement::RankPlan;
use nodegauge_placement::emit::{self, OpenMpi, OpenMpiVersion};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A program that a user has built, with what starts its ranks.
#[derive(Debug, Clone)]
pub struct MpiProgram {
    /// Where it is.
    pub path: PathBuf,
    /// Who starts its ranks.
    pub launcher: MpiLauncher,
    /// Whether the launcher must be told to run as root: inside a container every user is.
    pub as_root: bool,
}

impl MpiProgram {
    /// Finds a program, and the launcher that is named or else of the library that it links. `hint` says
    /// what to give where there is none.
    ///
    /// # Errors
    /// When there is no such program, or no launcher for it.
    pub fn find(
        program: &Path,
        launcher: Option<&CommandLine>,
        allow_root: bool,
        hint: &str,
    ) -> Result<Self, Failure> {
        let path = find_program(program).ok_or_else(|| {
            Failure::missing(format!("there is no program {program:?}"))
                .hint(with_path_hint(program, hint))
        })?;
        let library = library_of_program(&path);
        let launcher = launcher_for(&path, library.as_ref(), launcher, &|| false);
        let launcher = launcher.map_err(|failure| failure.kind(FailureKind::Missing))?;
        Ok(Self { path, launcher, as_root: allow_root && is_root() })
    }

    /// Starts the program's ranks so.
    pub fn launch<'a>(&'a self, ranks: RankPlaces<'a>) -> MpiLaunch<'a> {
        MpiLaunch { launcher: &self.launcher, as_root: self.as_root, options: Vec::new(), ranks }
    }
}

/// Places of ranks.
#[derive(Debug, Clone)]
pub enum RankPlaces<'a> {
    /// On this node, as a plan says.
    Planned {
        /// CPUs and memory of each rank.
        plan: Cow<'a, RankPlan>,
        /// The node.
        topology: &'a Topology,
    },
    /// On these hosts, the same number on each.
    Hosts(HostRanks<'a>),
}

/// A launcher with the ranks that it starts.
#[derive(Debug, Clone)]
pub struct MpiLaunch<'a> {
    /// The launcher.
    pub launcher: &'a MpiLauncher,
    /// True if the launcher must be told to run as root.
    pub as_root: bool,
    /// Options before those that place ranks.
    pub options: Vec<String>,
    /// Places of the ranks.
    pub ranks: RankPlaces<'a>,
}

/// Words of a launcher for its ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankWords {
    /// Its options.
    pub words: Vec<String>,
    /// The content of the rank file that they name, if any.
    pub rankfile: Option<String>,
}

impl MpiLaunch<'_> {
    /// True if all ranks are on this node.
    pub fn is_local(&self) -> bool {
        matches!(self.ranks, RankPlaces::Planned { .. })
    }

    /// True if a batch system has given the node.
    pub fn is_in_job() -> bool {
        std::env::var_os("SLURM_JOB_ID").is_some()
    }

    /// The launcher's words for its ranks, and the content of a rank file that is to lie at `rankfile`.
    pub fn words(&self, rankfile: &str) -> RankWords {
        self.words_in(rankfile, Self::is_in_job())
    }

    /// As [`Self::words`], within a job of a batch system or outside.
    pub fn words_in(&self, rankfile: &str, in_job: bool) -> RankWords {
        let kind = self.launcher.kind;
        let mut words = Vec::new();
        if self.as_root && kind == LauncherKind::OpenMpi {
            words.push(OpenMpi::AS_ROOT.to_owned());
        }
        words.extend(self.options.iter().cloned());
        let mut content = None;
        match &self.ranks {
            RankPlaces::Hosts(hosts) => words.extend(hosts.arguments(kind)),
            RankPlaces::Planned { plan, topology } => match kind {
                LauncherKind::OpenMpi => {
                    let old = self.launcher.major().is_none_or(|major| major < 5);
                    let version = if old { OpenMpiVersion::V4 } else { OpenMpiVersion::V5 };
                    let emitted = emit::openmpi(plan, topology, version);
                    words.extend(emitted.args(rankfile));
                    content = emitted.rankfile;
                }
                LauncherKind::Hydra => words.extend(emit::mpich(plan)),
                LauncherKind::Slurm => words.extend(emit::slurm(plan)),
            },
        }
        if in_job {
            // The node has a name of its own, and is the first of the job.
            content = content.map(|text| text.replace("=localhost ", "=+n0 "));
        }
        RankWords { words, rankfile: content }
    }
}
