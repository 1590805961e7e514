//! Hosts of the Slurm job in which this process runs, from the environment variables of the job.

use super::HostList;
use nodegauge_measure::Failure;

/// True if this process runs in a Slurm job on several hosts.
pub fn job_has_several_hosts() -> bool {
    let nodes = std::env::var("SLURM_JOB_NUM_NODES").ok();
    nodes.and_then(|text| text.trim().parse::<u32>().ok()).is_some_and(|nodes| nodes > 1)
}

/// Returns the hosts of the Slurm job.
///
/// # Errors
/// Fails if this process does not run in a Slurm job, or if the variable contains an invalid host name.
pub fn job_hosts() -> Result<Vec<String>, Failure> {
    let list = std::env::var("SLURM_JOB_NODELIST").map_err(|_| {
        Failure::missing("not in a Slurm job: SLURM_JOB_NODELIST is not set")
            .hint("run the command under salloc or sbatch, or list the hosts")
    })?;
    match list.parse::<HostList>() {
        Ok(HostList(hosts)) => Ok(hosts),
        Err(error) => Err(Failure::from(error).with_context("SLURM_JOB_NODELIST")),
    }
}

impl HostList {
    /// Returns the hosts of several lists, in order; the name `slurm` means all hosts of the Slurm job.
    ///
    /// # Errors
    /// Fails if a list contains `slurm` and this process does not run in a Slurm job.
    pub fn resolve_all(lists: &[Self]) -> Result<Vec<String>, Failure> {
        let mut hosts = Vec::new();
        for name in lists.iter().flat_map(|Self(names)| names) {
            match name.as_str() {
                "slurm" => hosts.extend(job_hosts()?),
                name => hosts.push(name.to_owned()),
            }
        }
        Ok(hosts)
    }
}
