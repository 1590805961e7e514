//! Which MPIs, programs and hosts a run is about: those that were named, else what is found.

use crate::MessagesError;
use crate::options::MessageOptions;
use crate::osu::OsuPrograms;
use crate::pattern::Pattern;
use crate::plan::{Between, MessagesPlan};
use crate::start::refuses_root;
use nodegauge_gauge::{Depth, Glance, Site};
use nodegauge_toolchain::mpi::{Mpi, USUAL};
use nodegauge_toolchain::{CommandLine, Job};
use std::path::PathBuf;
use std::time::Duration;

/// Sizes of a quick look.
const QUICK_SIZES: [u64; 5] = [8, 1024, 65_536, 1 << 20, 4 << 20];
/// Time for a size of a quick look.
const QUICK_LIMIT: Duration = Duration::from_millis(150);
/// Time for Slurm to tell its hosts.
const SLURM_LIMIT: Duration = Duration::from_secs(10);

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
    /// The MPIs.
    ///
    /// # Errors
    /// When one is not there, or there are not as many launchers or folders as MPIs.
    pub(crate) fn find(&self) -> Result<Vec<Mpi>, MessagesError> {
        let mpis = if self.mpicc.is_empty() {
            vec![usual(self.launcher.first(), |_| Ok(()))?]
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
        let find = |folder: &PathBuf| {
            let programs = OsuPrograms::find(folder);
            match programs.is_empty() {
                false => Ok(programs),
                true => Err(MessagesError::Request(format!(
                    "there is no osu_latency, osu_bw, ... in {}\nhint: give the folder where the OSU micro-benchmarks were built or installed",
                    folder.display()
                ))),
            }
        };
        self.osu.iter().map(find).collect()
    }
}

/// The first MPI under one of the usual names that is `fit`.
fn usual(
    launcher: Option<&CommandLine>,
    fit: impl Fn(&Mpi) -> Result<(), MessagesError>,
) -> Result<Mpi, MessagesError> {
    let mut first = None;
    for name in USUAL {
        match Mpi::find(&CommandLine::new(name, []), launcher, &|| false) {
            Ok(mpi) => match fit(&mpi) {
                Ok(()) => return Ok(mpi),
                // One that is there tells more than one that is not.
                Err(error) => first = Some(error),
            },
            Err(error) => {
                first.get_or_insert(error.into());
            }
        }
    }
    Err(first.unwrap_or(MessagesError::NoMpi))
}

/// The plan of `run`: a few sizes between the nearest two cores, with the first MPI that can.
pub(crate) fn glance(site: &Site, ask: &Glance<'_>) -> Result<MessagesPlan, MessagesError> {
    let mut options = MessageOptions {
        patterns: vec![Pattern::Latency, Pattern::Bw],
        named: true,
        as_root: ask.allow_root,
        ..MessageOptions::default()
    };
    if ask.depth == Depth::Quick {
        options.sizes = QUICK_SIZES.to_vec();
        options.size_limit = QUICK_LIMIT;
        options.starts = 1;
    }
    let mpi = usual(None, |mpi| refuses_root(mpi, ask.allow_root))?;
    MessagesPlan::with(&site.topology, options, Between::EachDistance, None, vec![mpi])
}

/// The hosts of the Slurm job that this runs in.
///
/// # Errors
/// When it runs in none, or Slurm does not answer.
pub fn job_hosts() -> Result<Vec<String>, MessagesError> {
    let list = std::env::var("SLURM_JOB_NODELIST").map_err(|_| MessagesError::NoJob)?;
    let command = CommandLine::new("scontrol", ["show", "hostnames", list.as_str()]);
    let job = Job::new(command, SLURM_LIMIT);
    let printed = job.success(nodegauge_toolchain::run(&job, &|| false)?)?;
    Ok(printed.split_whitespace().map(str::to_owned).collect())
}
