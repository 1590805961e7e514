//! Conversion of a placement into OpenMP variables and into the options of numactl, of the `mpirun` of Open MPI and of
//! MPICH, and of Slurm's `srun`. The module performs no system calls.
//!
//! Each launcher binds ranks with its own options. `RankSettings` adds the settings that launcher options cannot
//! express: a command prefix for the rank's program (numactl, for memory policies without a launcher option), and
//! variables (`OMP_PLACES`, if the threads of a rank are bound to different CPUs). [`script`] combines the options and
//! these settings in a shell script.
//!
//! Sources: OpenMP 5.2, "OMP_PLACES"; numactl(8); mpirun(1) of Open MPI 4.1 and prte-map(1) of its version 5; the
//! user's guide of MPICH's Hydra on `-bind-to user:`; srun(1) on `--cpu-bind` and `--mem-bind`. The end-to-end tests
//! start the installed launchers and check the actual binding.

use crate::bind::Binding;
use crate::cpus::{format_ranges, join_with_commas, number_ranges};
use crate::devices::RankDevice;
use crate::numa::MemoryPolicy;
use crate::places::Place;
use crate::ranks::{RankPlace, RankPlan};
use nodegauge_machine::devices::VISIBILITY_VARIABLES;
use nodegauge_machine::{CpuId, NumaNodeId, Topology};
use nodegauge_os::mpi_abi::LauncherKind;

pub mod script;

pub use script::EmittedRanks;

/// Returns the name of the variable with the rank of a process. Slurm starts ranks on several nodes with the same
/// settings, so its variable has the rank on the node; the others have the rank in the job.
pub(crate) fn rank_variable(launcher: LauncherKind) -> &'static str {
    match launcher {
        LauncherKind::OpenMpi => "OMPI_COMM_WORLD_RANK",
        LauncherKind::Hydra => "PMI_RANK",
        LauncherKind::Slurm => "SLURM_LOCALID",
    }
}

/// Settings of one rank in addition to the launcher's own options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RankSettings {
    /// Environment variables with their values.
    environment: Vec<(&'static str, String)>,
    /// Command prefix of the rank's program, e.g. `numactl --interleave=0-3`; may be empty.
    prefix: Vec<String>,
}

/// Returns the additional settings of each rank of a plan, in rank order.
pub(crate) fn rank_settings(plan: &RankPlan, launcher: LauncherKind) -> Vec<RankSettings> {
    let slurm = launcher == LauncherKind::Slurm;
    let by_srun = slurm && mem_bind(plan).is_some();
    let mut settings = Vec::new();
    for (rank, place) in plan.ranks.iter().enumerate() {
        let mut environment = rank_thread_variables(place);
        // Slurm sets the variables that select devices itself.
        if !slurm {
            environment.extend(device_variables(plan, rank));
        }
        let prefix = if by_srun { Vec::new() } else { numactl_words(None, &place.memory) };
        settings.push(RankSettings { environment, prefix });
    }
    settings
}

/// Major version of Open MPI; the options differ between these versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMpiVersion {
    /// Version 4 and earlier: `--rankfile` with CPU numbers of the operating system.
    V4,
    /// Version 5 and later: `--map-by rankfile` with hwloc's logical CPU numbers.
    V5,
}

/// Options of Open MPI's `mpirun` for the ranks of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMpiOptions {
    version: OpenMpiVersion,
    ranks: usize,
    /// Content of the rank file; `None` if a rank is not bound.
    pub rankfile: Option<String>,
}

impl OpenMpiOptions {
    /// Option that Open MPI requires for running as root, e.g. in containers.
    pub const AS_ROOT: &str = "--allow-run-as-root";

    /// Returns the options of `mpirun`. `rankfile` is the path of the rank file, which is used only if there is one.
    pub fn args(&self, rankfile: &str) -> Vec<String> {
        let words = match (self.version, &self.rankfile) {
            (OpenMpiVersion::V4, Some(_)) => {
                "-np RANKS --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile FILE"
            }
            (OpenMpiVersion::V4, None) => "-np RANKS --bind-to none --oversubscribe",
            // The option allows that several ranks share the CPUs of a socket, which a plan may request.
            (OpenMpiVersion::V5, Some(_)) => {
                "-np RANKS --map-by rankfile:file=FILE:hwtcpus --bind-to hwthread:overload-allowed"
            }
            (OpenMpiVersion::V5, None) => "-np RANKS --map-by :oversubscribe --bind-to none",
        };
        let ranks = self.ranks.to_string();
        words
            .split(' ')
            .map(|word| word.replace("RANKS", &ranks).replace("FILE", rankfile))
            .collect()
    }
}

/// Converts a plan into options of Open MPI. Version 5 numbers the CPUs that this process may use in hwloc's
/// logical order, i.e. the order of the topology.
pub fn openmpi_options(
    plan: &RankPlan,
    topology: &Topology,
    version: OpenMpiVersion,
) -> OpenMpiOptions {
    OpenMpiOptions { version, ranks: plan.ranks.len(), rankfile: rankfile(plan, topology, version) }
}

/// Returns the text of a rank file; `None` if a rank is not bound.
fn rankfile(plan: &RankPlan, topology: &Topology, version: OpenMpiVersion) -> Option<String> {
    let mut text = String::new();
    for (rank, place) in plan.ranks.iter().enumerate() {
        let cpus = place.bound_cpus()?;
        let slots = match version {
            OpenMpiVersion::V4 => format_ranges(&cpus),
            OpenMpiVersion::V5 => logical_ranges(topology, &cpus),
        };
        text.push_str(&format!("rank {rank}=localhost slot={slots}\n"));
    }
    Some(text)
}

/// Formats CPUs by their positions among the CPUs that this process may use.
fn logical_ranges(topology: &Topology, cpus: &[CpuId]) -> String {
    let positions = cpus
        .iter()
        .filter_map(|cpu| topology.allowed_threads().position(|thread| thread.cpu == *cpu));
    number_ranges(positions.map(|position| position as u32))
}

/// Returns the options of MPICH's `mpirun` (Hydra). `-bind-to user:` requires the CPU numbers of the operating system,
/// with `+` between the CPUs of a rank.
pub fn mpich_options(plan: &RankPlan) -> Vec<String> {
    let bound: Option<Vec<Vec<CpuId>>> = plan.ranks.iter().map(RankPlace::bound_cpus).collect();
    let bind = match bound {
        Some(ranks) => {
            let ranks = ranks.into_iter().map(|cpus| join_with_commas(cpus).replace(',', "+"));
            format!("user:{}", join_with_commas(ranks))
        }
        None => "none".to_owned(),
    };
    ["-np", &plan.ranks.len().to_string(), "-bind-to", &bind].map(str::to_owned).to_vec()
}

/// Returns the options of Slurm's `srun` on exclusively allocated nodes. Slurm accepts CPUs and NUMA nodes by number
/// only on such nodes.
pub fn slurm_options(plan: &RankPlan, nodes: usize) -> Vec<String> {
    let ranks = plan.ranks.len();
    let mut words = vec![format!("--nodes={nodes}"), format!("--ntasks={}", nodes * ranks)];
    if nodes > 1 {
        words.push(format!("--ntasks-per-node={ranks}"));
    }
    words.push(format!("--cpus-per-task={}", plan.max_threads_per_rank()));
    words.push(format!("--cpu-bind={}", cpu_bind(plan)));
    words.extend(mem_bind(plan).map(|bind| format!("--mem-bind={bind}")));
    words.extend(gpu_bind(plan));
    words
}

/// Returns the value of `--cpu-bind`: CPU numbers if each rank has one CPU, otherwise masks.
fn cpu_bind(plan: &RankPlan) -> String {
    let bound: Option<Vec<Vec<CpuId>>> = plan.ranks.iter().map(RankPlace::bound_cpus).collect();
    match bound {
        None => "none".to_owned(),
        Some(ranks) if ranks.iter().all(|cpus| cpus.len() == 1) => {
            format!("map_cpu:{}", join_with_commas(ranks.iter().flatten()))
        }
        Some(ranks) => {
            let masks = ranks.iter().map(|cpus| hex_mask(cpus.iter().map(|cpu| cpu.0)));
            format!("mask_cpu:{}", join_with_commas(masks))
        }
    }
}

/// Returns the value of `--mem-bind`; `None` for the default policy, and for interleaved memory, for which `srun`
/// has no option. It is also `None` for local allocation: `srun` would bind the memory, and the program would be
/// killed when the NUMA node is full.
fn mem_bind(plan: &RankPlan) -> Option<String> {
    let nodes: Option<Vec<Vec<NumaNodeId>>> =
        plan.ranks.iter().map(|p| p.memory.numa_nodes()).collect();

    match plan.ranks.first()?.memory {
        MemoryPolicy::Default | MemoryPolicy::Local | MemoryPolicy::Interleave(_) => None,
        MemoryPolicy::Preferred(_) => Some(format!("prefer,{}", mem_masks(&nodes?))),
        MemoryPolicy::Bind(_) => {
            let nodes = nodes?;
            if nodes.iter().any(|own| own.len() != 1) {
                return Some(mem_masks(&nodes));
            }
            Some(format!("map_mem:{}", join_with_commas(nodes.iter().flatten())))
        }
    }
}

/// Returns the value of `--mem-bind` with a mask of the NUMA nodes of each rank.
fn mem_masks(nodes: &[Vec<NumaNodeId>]) -> String {
    let masks = nodes.iter().map(|own| hex_mask(own.iter().map(|node| node.0)));
    format!("mask_mem:{}", join_with_commas(masks))
}

/// Returns the options that assign devices to each task. Slurm's device numbers equal the numbers on the node
/// only if the job requests all devices of the node. Therefore the options request either an equal number of
/// devices per task, or all devices.
fn gpu_bind(plan: &RankPlan) -> Vec<String> {
    let all: Vec<&RankDevice> = plan.devices.iter().flatten().collect();
    let Some(last) = all.iter().map(|device| device.number).max() else { return Vec::new() };
    let each = plan.devices[0].len();
    let amount = if all.len() == last as usize + 1 {
        format!("--gpus-per-task={each}")
    } else {
        format!("--gpus-per-node={}", plan.device_count)
    };
    let bind = if each == 1 {
        format!("map_gpu:{}", join_with_commas(all.iter().map(|device| device.number)))
    } else {
        let tasks = plan.devices.iter();
        let masks = tasks.map(|devices| hex_mask(devices.iter().map(|device| device.number)));
        format!("mask_gpu:{}", join_with_commas(masks))
    };
    vec![amount, format!("--gpu-bind={bind}")]
}

/// Returns the variables that restrict a rank to its devices, with the device numbers of the driver.
pub(crate) fn device_variables(plan: &RankPlan, rank: usize) -> Vec<(&'static str, String)> {
    let devices = plan.devices.get(rank).map(Vec::as_slice).unwrap_or_default();
    let mut variables = Vec::new();
    for (vendor, names, order) in VISIBILITY_VARIABLES {
        let own = devices.iter().filter(|device| device.vendor == vendor);
        let numbers: Vec<u32> = own.map(|device| device.number).collect();
        if numbers.is_empty() {
            continue;
        }
        if let Some((name, value)) = order.and_then(|order| order.split_once('=')) {
            variables.push((name, value.to_owned()));
        }
        variables.push((names[0], join_with_commas(numbers)));
    }
    variables
}

/// Formats a bit mask in hexadecimal, e.g. `0x5` for the numbers 0 and 2.
fn hex_mask(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut digits = vec![0u32];
    for number in numbers {
        let digit = number as usize / 4;
        digits.resize(digits.len().max(digit + 1), 0);
        digits[digit] |= 1 << (number % 4);
    }
    let text: String = digits.iter().rev().filter_map(|d| char::from_digit(*d, 16)).collect();
    format!("0x{text}")
}

/// Returns the command prefix that binds the program of a rank as planned; empty if the plan neither binds the rank nor
/// sets its memory policy.
pub fn numactl_prefix(place: &RankPlace) -> Vec<String> {
    numactl_words(place.bound_cpus().as_deref(), &place.memory)
}

fn numactl_words(cpus: Option<&[CpuId]>, memory: &MemoryPolicy) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(cpus.map(|cpus| format!("--physcpubind={}", format_ranges(cpus))));
    let numbers = memory.numa_nodes().unwrap_or_default();
    let nodes = number_ranges(numbers.iter().map(|node| node.0));
    words.extend(match memory {
        MemoryPolicy::Default => None,
        MemoryPolicy::Local => Some("--localalloc".to_owned()),
        MemoryPolicy::Interleave(_) => Some(format!("--interleave={nodes}")),
        MemoryPolicy::Bind(_) => Some(format!("--membind={nodes}")),
        MemoryPolicy::Preferred(_) => Some(format!("--preferred={nodes}")),
    });
    if !words.is_empty() {
        words.insert(0, "numactl".to_owned());
    }
    words
}

/// Returns the OpenMP variables that bind one process and its threads.
pub fn omp_variables(place: &RankPlace) -> Vec<(&'static str, String)> {
    let number = ("OMP_NUM_THREADS", place.placement.threads.len().to_string());
    if place.placement.bind == Binding::None {
        return vec![number, ("OMP_PROC_BIND", "false".to_owned())];
    }
    vec![number, ("OMP_PLACES", omp_places(place)), ("OMP_PROC_BIND", "close".to_owned())]
}

/// Returns one place per thread in thread order, so that `close` binds thread t to place t. If consecutive threads
/// share a place and `close` would assign them in the same way, the place is listed only once.
fn omp_places(place: &RankPlace) -> String {
    let threads: Vec<&Vec<CpuId>> = place.placement.threads.iter().map(|t| &t.cpus).collect();
    let mut once = threads.clone();
    once.dedup();
    let count = u32::try_from(threads.len()).unwrap_or(u32::MAX);
    let close = Binding::Close.assign(count, once.len());
    let same = close.iter().zip(&threads).all(|(at, cpus)| at.is_some_and(|at| once[at] == *cpus));
    let list = if same { once } else { threads };
    join_with_commas(list.into_iter().filter_map(|cpus| Place::new(cpus.iter().copied())))
}

/// Returns the OpenMP variables of a process that its launcher binds. If the CPUs of the process's threads differ, the
/// variables contain places; otherwise they disable thread binding.
pub fn rank_thread_variables(place: &RankPlace) -> Vec<(&'static str, String)> {
    let threads = &place.placement.threads;
    let differ = threads.windows(2).any(|two| two[0].cpus != two[1].cpus);
    if differ {
        omp_variables(place)
    } else {
        vec![("OMP_NUM_THREADS", threads.len().to_string()), ("OMP_PROC_BIND", "false".to_owned())]
    }
}

#[cfg(test)]
mod tests;
