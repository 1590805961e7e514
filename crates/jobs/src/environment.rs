//! Environment variables with which a process was started. Only variables of OpenMP, BLAS libraries, launchers and
//! devices are kept, because others may contain secrets. `/proc` does not show changes that the process made after its
//! start.

use nodegauge_machine::devices::{VISIBILITY_VARIABLES, local_rank_variables};
use nodegauge_machine::{SysRoot, is_runtime_variable};
use nodegauge_placement::LauncherJob;
use nodegauge_placement::launchers::rank_variables;
use std::collections::BTreeMap;

use crate::process::{UnreadableReason, file_text};

/// Variables of Slurm for task placement, and variables of libraries for the choice of a network adapter.
const PLACEMENT_VARIABLES: [&str; 14] = [
    "SLURM_JOB_ID",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_CPU_BIND_TYPE",
    "SLURM_DISTRIBUTION",
    "SLURM_MEM_BIND",
    "SLURM_STEP_GPUS",
    "GPU_DEVICE_ORDINAL",
    "CUDA_DEVICE_ORDER",
    "UCX_NET_DEVICES",
    "NCCL_IB_HCA",
    "MPICH_OFI_NIC_POLICY",
    "FI_PROVIDER",
    "HSA_XNACK",
];

/// Variables that request a number of threads, in the order in which they are checked.
const THREAD_VARIABLES: [&str; 2] = ["OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"];

/// Variables of a process that affect its placement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessVariables {
    pub(crate) shown_variables: BTreeMap<String, String>,
    /// Rank, number of ranks and launcher; `None` without a launcher.
    pub(crate) job: Option<LauncherJob>,
}

impl ProcessVariables {
    pub(crate) fn read(root: &SysRoot, pid: u32) -> Result<Self, UnreadableReason> {
        Ok(Self::parse(&file_text(root, &format!("proc/{pid}/environ"))?))
    }

    fn parse(text: &str) -> Self {
        let mut all = BTreeMap::new();
        for (name, value) in text.split('\0').filter_map(|pair| pair.split_once('=')) {
            all.insert(name, value);
        }
        let job =
            LauncherJob::from_variables(|name| all.get(name).map(|value| (*value).to_owned()));
        let kept = all.iter().filter(|(name, _)| is_kept(name));
        let shown_variables =
            kept.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { shown_variables, job }
    }

    /// Returns the number of threads that the variables request for the first level of parallelism.
    pub(crate) fn requested_threads(&self) -> Option<u32> {
        let value = THREAD_VARIABLES.iter().find_map(|name| self.shown_variables.get(*name))?;
        value.split(',').next()?.trim().parse().ok().filter(|count| *count > 0)
    }
}

fn is_kept(name: &str) -> bool {
    let of_devices = VISIBILITY_VARIABLES.iter().flat_map(|(_, names, _)| names.iter());
    is_runtime_variable(name)
        || PLACEMENT_VARIABLES.contains(&name)
        || rank_variables().chain(local_rank_variables()).any(|known| known == name)
        || of_devices.into_iter().any(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_placement_variables_are_kept() {
        let text = "OMP_NUM_THREADS=4,2\0TOKEN=secret\0SLURM_PROCID=3\0SLURM_STEP_NUM_TASKS=8\0\
                    CUDA_VISIBLE_DEVICES=1\0broken\0";
        let variables = ProcessVariables::parse(text);
        let names: Vec<&str> = variables.shown_variables.keys().map(String::as_str).collect();
        let kept =
            ["CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"];
        assert_eq!(names, kept);
        assert_eq!(variables.requested_threads(), Some(4));
        let job = variables.job.unwrap();
        assert_eq!((job.rank, job.ranks, job.launcher), (3, 8, "Slurm"));
        assert_eq!(ProcessVariables::parse("").requested_threads(), None);
    }
}
