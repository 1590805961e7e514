//! Processes that an MPI launcher or srun has started as ranks of one job. Only rank 0 prints, errors too. On several
//! hosts, the first rank of each host leads the measurement of its host.

use crate::failure::{Exit, Failure};
use crate::output;
use crate::session::{self, HostsRun};
use nodegauge_os::{Wait, is_end_requested, wait_whole_time};
use nodegauge_placement::LauncherJob;
use nodegauge_team::hosts::{Hosts, SlurmNodes};
use nodegauge_toolchain::mpi::HostList;
use std::time::Duration;

/// Maximum time that other ranks wait before they exit because of an error. Launchers end all ranks as soon as one
/// exits with an error, and rank 0 prints the error before.
const PRINTING: Duration = Duration::from_secs(10);

/// Returns the launcher if it has started ranks on several hosts.
pub(crate) fn on_several_hosts() -> Option<JobOnHosts> {
    if Hosts::is_started_by_rank_0() {
        return Some(JobOnHosts::Step);
    }
    LauncherJob::own().filter(LauncherJob::spans_hosts).map(JobOnHosts::Launched)
}

/// Job on several hosts, to which this process belongs.
pub(crate) enum JobOnHosts {
    /// A launcher has started the ranks.
    Launched(LauncherJob),
    /// Rank 0 has started this process with srun.
    Step,
}

impl JobOnHosts {
    /// Joins the ranks of the job; returns `None` in a process that is not needed.
    fn join(&self) -> Result<Option<Hosts>, Failure> {
        let Self::Launched(started) = self else { return Hosts::from_rank_0().map(Some) };
        let is_rank_0 = started.rank == 0;
        let nodes = slurm_nodes(started);
        Hosts::join(started, &session::version(), nodes.as_ref(), move |refusal: Failure| {
            if is_rank_0 {
                output::failure(&refusal);
            } else {
                let_rank_0_print();
            }
            nodegauge_os::leave(Exit::Missing.number())
        })
    }

    /// Returns the error where the errors of the job are printed, and only its exit code elsewhere.
    fn once(&self, refusal: Failure) -> Result<Exit, Failure> {
        match self {
            Self::Launched(started) => once(started, refusal),
            Self::Step => Err(refusal),
        }
    }
}

/// Returns the nodes of the step of Slurm that srun has started; `None` if another launcher has started the ranks, or if
/// there is no srun.
fn slurm_nodes(started: &LauncherJob) -> Option<SlurmNodes> {
    let tasks = started.slurm_tasks()?;
    let HostList(names) = std::env::var("SLURM_STEP_NODELIST").ok()?.parse().ok()?;
    let srun = nodegauge_toolchain::which("srun")?;
    (names.len() == tasks.len()).then_some(SlurmNodes { srun, names, tasks })
}

/// Joins the ranks of several hosts. On the leader of each host, `lead` measures the host; on the other ranks, `serve`
/// runs until the leader needs them no more.
pub(crate) fn on_hosts(
    job: &JobOnHosts,
    exclude_file: Option<&str>,
    lead: impl FnOnce(&HostsRun<'_>) -> Result<Exit, Failure>,
    serve: impl FnOnce(&Hosts) -> Result<u8, Failure>,
) -> Result<Exit, Failure> {
    let hosts = match job.join() {
        Ok(Some(hosts)) => hosts,
        Ok(None) => return Ok(Exit::Success),
        Err(refusal) => return job.once(refusal),
    };
    with_hosts(&hosts, exclude_file, lead, serve)
}

/// Runs `lead` on the leader of each host, and `serve` on the other ranks until the leader needs them no more.
pub(crate) fn with_hosts(
    hosts: &Hosts,
    exclude_file: Option<&str>,
    lead: impl FnOnce(&HostsRun<'_>) -> Result<Exit, Failure>,
    serve: impl FnOnce(&Hosts) -> Result<u8, Failure>,
) -> Result<Exit, Failure> {
    if !hosts.is_leader() {
        // The exit code is that of rank 0.
        let served = serve(hosts).unwrap_or_else(silently);
        let code = hosts.await_end(served).unwrap_or_else(silently);
        hosts.leave(code);
        return Ok(Exit::Told(code));
    }
    let result = lead(&HostsRun { hosts, exclude_file });
    if !hosts.is_first() {
        let code = match result {
            Ok(exit) => Ok(exit.number()),
            // Rank 0 names the host with the reason.
            Err(why) => hosts.report(Err::<(), Failure>(why)),
        };
        let code = code.unwrap_or_else(silently);
        hosts.leave(code);
        return Ok(Exit::Told(code));
    }
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => {
            output::failure(failure);
            Exit::from(failure).number()
        }
    };
    hosts.end(code);
    Ok(Exit::Told(code))
}

/// Returns the exit code of a rank that has lost rank 0, which reports the loss.
fn silently(lost: Failure) -> u8 {
    Exit::from(&lost).number()
}

/// Measures every host with the threads of one process, the leader, on the CPUs of all ranks of the host. The other
/// ranks sleep.
pub(crate) fn one_process_per_host(
    job: &JobOnHosts,
    exclude_file: Option<&str>,
    measure: impl FnOnce(&HostsRun<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let lead = |run: &HostsRun<'_>| {
        run.hosts.use_all_ranks_cpus()?;
        measure(run)
    };
    on_hosts(job, exclude_file, lead, |hosts| hosts.offer_cpus().map(|()| 0))
}

/// Returns the error for an option about several hosts in a run on one host.
pub(crate) fn refuse_exclude_file(exclude_file: Option<&str>) -> Result<(), Failure> {
    match exclude_file {
        Some(_) => Err(Failure::usage("--exclude-file requires several hosts").hint(
            "start it with srun or mpirun on several hosts, e.g. srun -N4 --ntasks-per-node=1 nodegauge stream",
        )),
        None => Ok(()),
    }
}

/// Returns the error on rank 0, and the exit code of the error on the other ranks, so that the error is printed once.
pub(crate) fn once(started: &LauncherJob, refusal: Failure) -> Result<Exit, Failure> {
    if started.rank == 0 {
        return Err(refusal);
    }
    let_rank_0_print();
    Ok(Exit::Told(Exit::from(&refusal).number()))
}

/// Waits while rank 0 prints an error, unless the user ends the job.
fn let_rank_0_print() {
    wait_whole_time(&Wait::within(PRINTING).unless(&is_end_requested));
}
