//! Processes that an MPI launcher or srun started as ranks of one job. Only rank 0 prints, including errors. With
//! several hosts, the first rank of each host controls the measurement on its host.

use crate::failure::{Exit, Failure};
use crate::output;
use crate::session::{self, HostsRun};
use nodegauge_os::{Wait, is_end_requested, wait_whole_time};
use nodegauge_placement::LauncherJob;
use nodegauge_team::hosts::{Hosts, SlurmNodes};
use nodegauge_toolchain::mpi::HostList;
use std::time::Duration;

/// Maximum time for which the other ranks wait before they exit because of an error. Launchers end all ranks when one
/// exits with an error, and rank 0 must print the error first.
const PRINT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the job if a launcher started ranks on several hosts.
pub(crate) fn job_on_hosts() -> Option<JobOnHosts> {
    if Hosts::is_started_by_rank_0() {
        return Some(JobOnHosts::Step);
    }
    LauncherJob::current().filter(LauncherJob::spans_hosts).map(JobOnHosts::Launched)
}

/// Job on several hosts that includes this process.
pub(crate) enum JobOnHosts {
    /// A launcher started the ranks.
    Launched(LauncherJob),
    /// Rank 0 started this process with srun.
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
                output::print_failure(&refusal);
            } else {
                let_rank_0_print();
            }
            nodegauge_os::end_process(Exit::Missing.code())
        })
    }

    /// Returns the error on the rank that prints errors, and only the exit code on the others.
    fn fail_once(&self, refusal: Failure) -> Result<Exit, Failure> {
        match self {
            Self::Launched(started) => fail_once(started, refusal),
            Self::Step => Err(refusal),
        }
    }
}

/// Returns the nodes of the Slurm step; `None` if another launcher started the ranks, or if there is no srun.
fn slurm_nodes(started: &LauncherJob) -> Option<SlurmNodes> {
    let tasks = started.slurm_tasks_per_node()?;
    let HostList(names) = std::env::var("SLURM_STEP_NODELIST").ok()?.parse().ok()?;
    let srun = nodegauge_toolchain::which("srun")?;
    (names.len() == tasks.len()).then_some(SlurmNodes { srun, names, tasks })
}

/// Joins the ranks of several hosts. On the leader of each host, `lead` measures the host. On the other ranks, `serve`
/// runs until the leader no longer needs them.
pub(crate) fn join_hosts(
    job: &JobOnHosts,
    exclude_file: Option<&str>,
    lead: impl FnOnce(&HostsRun<'_>) -> Result<Exit, Failure>,
    serve: impl FnOnce(&Hosts) -> Result<u8, Failure>,
) -> Result<Exit, Failure> {
    let hosts = match job.join() {
        Ok(Some(hosts)) => hosts,
        Ok(None) => return Ok(Exit::Success),
        Err(refusal) => return job.fail_once(refusal),
    };
    lead_or_serve(&hosts, exclude_file, lead, serve)
}

/// Runs `lead` on the leader of each host, and `serve` on the other ranks until the leader no longer needs them.
pub(crate) fn lead_or_serve(
    hosts: &Hosts,
    exclude_file: Option<&str>,
    lead: impl FnOnce(&HostsRun<'_>) -> Result<Exit, Failure>,
    serve: impl FnOnce(&Hosts) -> Result<u8, Failure>,
) -> Result<Exit, Failure> {
    if !hosts.is_leader() {
        // The exit code is that of rank 0.
        let served = serve(hosts).unwrap_or_else(exit_code_after_loss);
        let code = hosts.await_end(served).unwrap_or_else(exit_code_after_loss);
        hosts.leave(code);
        return Ok(Exit::FromRank0(code));
    }
    let result = lead(&HostsRun { hosts, exclude_file });
    if !hosts.is_first() {
        let code = match result {
            Ok(exit) => Ok(exit.code()),
            // Rank 0 prints the host with the reason.
            Err(why) => hosts.report(Err::<(), Failure>(why)),
        };
        let code = code.unwrap_or_else(exit_code_after_loss);
        hosts.leave(code);
        return Ok(Exit::FromRank0(code));
    }
    let code = match &result {
        Ok(exit) => exit.code(),
        Err(failure) => {
            output::print_failure(failure);
            Exit::from(failure).code()
        }
    };
    hosts.end(code);
    Ok(Exit::FromRank0(code))
}

/// Returns the exit code of a rank that has lost its connection to rank 0. Rank 0 reports the loss.
fn exit_code_after_loss(lost: Failure) -> u8 {
    Exit::from(&lost).code()
}

/// Measures every host with the threads of one process, the leader, on the CPUs of all ranks of that host. The other
/// ranks sleep.
pub(crate) fn measure_each_host(
    job: &JobOnHosts,
    exclude_file: Option<&str>,
    measure: impl FnOnce(&HostsRun<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let lead = |run: &HostsRun<'_>| {
        run.hosts.use_all_ranks_cpus()?;
        measure(run)
    };
    join_hosts(job, exclude_file, lead, |hosts| hosts.offer_cpus().map(|()| 0))
}

/// Returns an error if an option for several hosts is given on one host.
pub(crate) fn refuse_exclude_file(exclude_file: Option<&str>) -> Result<(), Failure> {
    match exclude_file {
        Some(_) => Err(Failure::usage("--exclude-file requires several hosts").hint(
            "start nodegauge with srun or mpirun on several hosts, e.g. srun -N4 --ntasks-per-node=1 nodegauge stream",
        )),
        None => Ok(()),
    }
}

/// Returns the error on rank 0 and only its exit code on the other ranks, so that it is printed once.
pub(crate) fn fail_once(started: &LauncherJob, refusal: Failure) -> Result<Exit, Failure> {
    if started.rank == 0 {
        return Err(refusal);
    }
    let_rank_0_print();
    Ok(Exit::FromRank0(Exit::from(&refusal).code()))
}

/// Waits while rank 0 prints an error, unless the user ends the job.
fn let_rank_0_print() {
    wait_whole_time(&Wait::within(PRINT_TIMEOUT).unless(&is_end_requested));
}
