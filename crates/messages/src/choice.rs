//! Which MPIs, programs and hosts a run is about: those that were named, else what is found.

use crate::MessagesError;
use crate::osu::OsuPrograms;
use crate::transport::Fabric;
use nodegauge_measure::Failure;
use nodegauge_toolchain::mpi::{Mpi, USUAL};
use nodegauge_toolchain::{CommandLine, links, which};
use std::path::{Path, PathBuf};

/// The MPIs that were asked for, and what is measured with each.
#[derive(Debug, Clone, Default)]
pub struct MpiRequest {
    /// Compiler wrappers; none for the first of the usual names that is one.
    pub mpicc: Vec<CommandLine>,
    /// Launchers, one for each wrapper; none for those that belong to them.
    pub launcher: Vec<CommandLine>,
    /// Folders with a build of the OSU micro-benchmarks, one for each wrapper.
    pub osu: Vec<PathBuf>,
    /// This program's own transport, over these, instead of an MPI; none for an MPI if there is one.
    pub transport: Vec<Fabric>,
    /// True if the own transport runs by turns with an MPI, as the floor.
    pub floor: bool,
}

impl MpiRequest {
    /// Refuses other than one launcher or folder for each MPI, where any are given.
    ///
    /// # Errors
    /// When there are more or fewer.
    pub(crate) fn check(&self) -> Result<(), MessagesError> {
        let mpis = self.mpicc.len().max(1);
        let given = [("--launcher", self.launcher.len()), ("--osu", self.osu.len())];
        match given.into_iter().find(|(_, count)| *count > 0 && *count != mpis) {
            Some((option, count)) => {
                Err(Failure::usage(format!("{option} is given {count} times for {mpis} MPIs"))
                    .hint("give one for each --mpicc, in the same order")
                    .into())
            }
            None => Ok(()),
        }
    }

    /// The MPIs that were named, each looked for: found, or why not.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&CommandLine, Result<Mpi, Failure>)> {
        let find = |(at, mpicc)| {
            let found = Mpi::find(mpicc, self.launcher.get(at), &|| false);
            let chosen = format!("by {mpicc} (--mpicc)");
            (mpicc, found.map(|mpi| Mpi { chosen, ..mpi }))
        };
        self.mpicc.iter().enumerate().map(find)
    }

    /// The programs of each folder.
    ///
    /// # Errors
    /// When a folder has none.
    pub(crate) fn programs(&self) -> Result<Vec<OsuPrograms>, MessagesError> {
        let none = |folder: &Path| -> MessagesError {
            Failure::usage(format!("there is no osu_latency, osu_bw, ... in {}", folder.display()))
                .hint("give the folder where the OSU micro-benchmarks were built or installed")
                .into()
        };
        self.osu.iter().map(|at| OsuPrograms::find(at).ok_or_else(|| none(at))).collect()
    }
}

/// The first MPI under one of the usual names that can be used.
///
/// # Errors
/// Why none can, of each that is there.
pub(crate) fn usual(launcher: Option<&CommandLine>) -> Result<Mpi, Failure> {
    let find = |name: &str| Mpi::find(&CommandLine::new(name, []), launcher, &|| false);
    let mut there: Vec<(&str, PathBuf)> = Vec::new();
    for (name, path) in USUAL.iter().filter_map(|name| Some((*name, which(name)?))) {
        // Of two names one may be a link to the other: Debian's mpicc leads to mpicc.openmpi.
        if !there.iter().any(|(_, known)| links(known).any(|known| known == path)) {
            there.push((name, path));
        }
    }
    let mut unusable: Vec<(&str, Failure)> = Vec::new();
    let said = |(name, why): &(&str, Failure)| format!("{name}: {}", why.reason());
    for (name, path) in &there {
        match find(name) {
            Ok(mpi) => {
                let of = match (there.len(), *name) {
                    (1, _) => "the only MPI found".to_owned(),
                    (all, "mpicc") => format!("the default of {all} MPIs found"),
                    (all, _) => format!("the first usable one of {all} MPIs found"),
                };
                let why: String =
                    unusable.iter().map(|one| format!("; unusable: {}", said(one))).collect();
                return Ok(Mpi { chosen: format!("by {}, {of}{why}", path.display()), ..mpi });
            }
            Err(failure) => unusable.push((name, failure)),
        }
    }
    let all: Vec<String> = unusable.iter().map(said).collect();
    let mut failures = unusable.into_iter().map(|(_, failure)| failure);
    match failures.next() {
        None => find(USUAL[0]),
        // One reason for all, e.g. a launcher that is not there, is said once.
        Some(first) if failures.all(|other| other.reason() == first.reason()) => Err(first),
        Some(_) => Err(Failure::missing(all.join("; "))
            .hint("name one that can be used, e.g. --mpicc /opt/mpi/bin/mpicc")),
    }
}
