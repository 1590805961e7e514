//! Which MPIs, programs and hosts a run is about: those that were named, else what is found.

use crate::MessagesError;
use crate::osu::OsuPrograms;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::{HostList, Mpi, USUAL};
use std::path::{Path, PathBuf};

const NO_MPI: &str = "there is no MPI\nhint: name its compiler with --mpicc";
const NO_JOB: &str = "this is no Slurm job: SLURM_JOB_NODELIST is not set\nhint: run it under salloc or \
                      sbatch, or name the hosts";

/// The MPIs that were asked for, and what is measured with each.
#[derive(Debug, Clone, Default)]
pub struct MpiRequest {
    /// Compiler wrappers; none for the first of the usual names that is one.
    pub mpicc: Vec<CommandLine>,
    /// Launchers, one for each wrapper; none for those that belong to them.
    pub launcher: Vec<CommandLine>,
    /// Folders with a build of the OSU micro-benchmarks, one for each wrapper.
    pub osu: Vec<PathBuf>,
}

impl MpiRequest {
    /// Whether one was named, so that no other means will do.
    pub(crate) fn names_one(&self) -> bool {
        !(self.mpicc.is_empty() && self.launcher.is_empty() && self.osu.is_empty())
    }

    /// The MPIs.
    ///
    /// # Errors
    /// When one is not there, or there are not as many launchers or folders as MPIs.
    pub(crate) fn find(&self) -> Result<Vec<Mpi>, MessagesError> {
        let mpis = if self.mpicc.is_empty() {
            vec![usual(self.launcher.first())?]
        } else {
            let paired = self.launcher.len() == self.mpicc.len();
            let launcher = |at: usize| self.launcher.get(at).filter(|_| paired);
            let find = |(at, mpicc)| Mpi::find(mpicc, launcher(at), &|| false);
            self.mpicc.iter().enumerate().map(find).collect::<Result<_, _>>()?
        };
        for (option, count) in [("--launcher", self.launcher.len()), ("--osu", self.osu.len())] {
            if count > 0 && count != mpis.len() {
                return Err(MessagesError::Request(format!(
                    "{option} is given {count} times for {} MPIs\nhint: give one for each --mpicc, in the same order",
                    mpis.len()
                )));
            }
        }
        Ok(mpis)
    }

    /// The programs of each folder.
    ///
    /// # Errors
    /// When a folder has none.
    pub(crate) fn programs(&self) -> Result<Vec<OsuPrograms>, MessagesError> {
        let none = |folder: &Path| {
            MessagesError::Request(format!(
                "there is no osu_latency, osu_bw, ... in {}\nhint: give the folder where the OSU micro-benchmarks were built or installed",
                folder.display()
            ))
        };
        self.osu.iter().map(|at| OsuPrograms::find(at).ok_or_else(|| none(at))).collect()
    }
}

/// The first MPI under one of the usual names.
fn usual(launcher: Option<&CommandLine>) -> Result<Mpi, MessagesError> {
    let mut first = None;
    for name in USUAL {
        match Mpi::find(&CommandLine::new(name, []), launcher, &|| false) {
            Ok(mpi) => return Ok(mpi),
            Err(error) => first = first.or(Some(error.into())),
        }
    }
    Err(first.unwrap_or_else(|| MessagesError::Missing(NO_MPI.to_owned())))
}

/// The hosts of the Slurm job that this runs in.
///
/// # Errors
/// When it runs in none, or the environment names what no host can be called.
pub fn job_hosts() -> Result<Vec<String>, MessagesError> {
    let list = std::env::var("SLURM_JOB_NODELIST")
        .map_err(|_| MessagesError::Missing(NO_JOB.to_owned()))?;
    match list.parse::<HostList>() {
        Ok(HostList(hosts)) => Ok(hosts),
        Err(error) => Err(MessagesError::Request(format!("SLURM_JOB_NODELIST: {error}"))),
    }
}
