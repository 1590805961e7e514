//! A finished program of an MPI, with its ranks placed on this node as a plan says.

use super::{LauncherKind, MpiLauncher, launcher_for, library_of_program};
use crate::{CommandLine, find_program, with_path_hint};
use nodegauge_machine::Topology;
use nodegauge_measure::{Failure, FailureKind};
use nodegauge_os::is_root;
use nodegauge_placement::RankPlan;
use nodegauge_placement::emit::{self, OpenMpi, OpenMpiVersion};
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

    /// The word by which Open MPI is told to run as root, where it must be.
    pub fn root_word(&self) -> Option<String> {
        let told = self.as_root && self.launcher.kind == LauncherKind::OpenMpi;
        told.then(|| OpenMpi::AS_ROOT.to_owned())
    }

    /// The launcher's words for ranks placed so, and the content of a rank file that is to lie at `rankfile`.
    pub fn words(
        &self,
        plan: &RankPlan,
        topology: &Topology,
        rankfile: &str,
    ) -> (Vec<String>, Option<String>) {
        match self.launcher.kind {
            LauncherKind::OpenMpi => {
                let old = self.launcher.major().is_none_or(|major| major < 5);
                let version = if old { OpenMpiVersion::V4 } else { OpenMpiVersion::V5 };
                let emitted = emit::openmpi(plan, topology, version);
                let words = emitted.args(rankfile).into_iter().chain(self.root_word()).collect();
                (words, emitted.rankfile)
            }
            LauncherKind::Hydra => (emit::mpich(plan), None),
            LauncherKind::Slurm => (emit::slurm(plan), None),
        }
    }
}
