//! Choice of the MPIs, programs and hosts of a run: those that the user specifies, otherwise those found on the system.

use crate::MessagesError;
use crate::osu::OsuPrograms;
use crate::transport::Fabric;
use nodegauge_measure::Failure;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_toolchain::mpi::{Mpi, usual_wrappers};
use nodegauge_toolchain::{CommandLine, link_chain, which};
use std::path::{Path, PathBuf};

/// Requested MPIs, with the launcher and the OSU programs of each MPI.
#[derive(Debug, Clone, Default)]
pub struct MpiRequest {
    /// Compiler wrappers. If empty, the first usable wrapper among the usual names is used.
    pub mpicc: Vec<CommandLine>,
    /// Launchers, one per wrapper. If empty, each wrapper's own launcher is used.
    pub launcher: Vec<CommandLine>,
    /// Folders with builds of the OSU micro-benchmarks to run interleaved with the probe, one per wrapper.
    pub osu: Vec<PathBuf>,
    /// Fabrics of the built-in transport to use instead of an MPI. If empty, an MPI is used if one is found.
    pub transport: Vec<Fabric>,
    /// True to also measure the built-in transport, interleaved with the MPIs, as the lower bound.
    pub lower_bound: bool,
}

impl MpiRequest {
    /// Checks that the numbers of launchers and of OSU folders, if given, equal the number of MPIs.
    ///
    /// Fails if the numbers differ.
    pub(crate) fn check(&self) -> Result<(), MessagesError> {
        let mpis = self.mpicc.len().max(1);
        let given = [("--launcher", self.launcher.len()), ("--osu", self.osu.len())];
        match given.into_iter().find(|(_, count)| *count > 0 && *count != mpis) {
            Some((option, count)) => {
                let times = count_in_words(count, "time");
                let mpis = count_in_words(mpis, "MPI");
                Err(Failure::usage(format!("{option} is given {times} for {mpis}"))
                    .hint("give the option once per --mpicc, in the same order")
                    .into())
            }
            None => Ok(()),
        }
    }

    /// Searches for each MPI that the user specified. Returns each wrapper with its MPI, or with the reason why the MPI
    /// cannot be used.
    pub(crate) fn find_specified_mpis(
        &self,
    ) -> impl Iterator<Item = (&CommandLine, Result<Mpi, Failure>)> {
        self.mpicc.iter().enumerate().map(|(at, mpicc)| {
            let found = Mpi::find(mpicc, self.launcher.get(at), &|| false);
            let chosen = format!("by {mpicc} (--mpicc)");
            (mpicc, found.map(|mpi| Mpi { selection_reason: chosen, ..mpi }))
        })
    }

    /// Returns the OSU programs in each folder.
    ///
    /// Fails if a folder contains no OSU program.
    pub(crate) fn programs(&self) -> Result<Vec<OsuPrograms>, MessagesError> {
        self.osu.iter().map(|at| OsuPrograms::find(at).ok_or_else(|| no_programs(at))).collect()
    }
}

/// Returns the error for a folder without OSU programs.
fn no_programs(folder: &Path) -> MessagesError {
    Failure::usage(format!(
        "no OSU program (osu_latency, osu_bw, ...) found in {}",
        folder.display()
    ))
    .hint("give the folder where the OSU micro-benchmarks were built or installed")
    .into()
}

/// Finds the MPI of a wrapper.
fn find(name: &str, launcher: Option<&CommandLine>) -> Result<Mpi, Failure> {
    Mpi::find(&CommandLine::new(name, []), launcher, &|| false)
}

/// Returns the first usable MPI among the wrappers with usual names.
///
/// Fails if no MPI is usable. The error contains the reason for each wrapper that exists.
pub(crate) fn find_first_usable_mpi(launcher: Option<&CommandLine>) -> Result<Mpi, Failure> {
    let wrappers = usual_wrappers();
    let mut there: Vec<(&str, PathBuf)> = Vec::new();
    for (name, path) in wrappers.iter().filter_map(|name| Some((name.as_str(), which(name)?))) {
        // A name may be a link to another name: Debian's mpicc links to mpicc.openmpi.
        if !there.iter().any(|(_, known)| link_chain(known).any(|known| known == path)) {
            there.push((name, path));
        }
    }
    let mut reports: Vec<String> = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    for (name, path) in &there {
        match find(name, launcher) {
            Ok(mpi) => {
                let of = match (there.len(), *name) {
                    (1, _) => "the only MPI found".to_owned(),
                    (all, "mpicc") => format!("the default of {all} MPIs found"),
                    (all, _) => format!("the first usable one of {all} MPIs found"),
                };
                let why: String = reports.iter().map(|one| format!("; unusable: {one}")).collect();
                return Ok(Mpi {
                    selection_reason: format!("by {}, {of}{why}", path.display()),
                    ..mpi
                });
            }
            Err(failure) => {
                reports.push(format!("{name}: {}", failure.reason()));
                failures.push(failure);
            }
        }
    }
    let mut failures = failures.into_iter();
    match failures.next() {
        None => find(&wrappers[0], launcher),
        // A reason that applies to all wrappers, e.g. a missing launcher, is reported once.
        Some(first) if failures.all(|other| other.reason() == first.reason()) => Err(first),
        Some(_) => Err(Failure::missing(reports.join("; "))
            .hint("specify a usable MPI, e.g. --mpicc /opt/mpi/bin/mpicc")),
    }
}
