//! A placement in the words of other launchers: variables of OpenMP, numactl, the `mpirun` of Open
//! MPI and of MPICH, Slurm's `srun`. Pure.
//!
//! Each launcher binds ranks with its own means; what it cannot do is left to `PerRank`: words in
//! front of a rank's program (numactl, for memory policies that the launcher has no option for) and
//! variables (`OMP_PLACES`, where threads of one rank go to different CPUs). [`script`] puts both
//! together as a shell script.
//!
//! Sources: OpenMP 5.2, "OMP_PLACES"; numactl(8); mpirun(1) of Open MPI 4.1 and prte-map(1) of its
//! version 5; the user's guide of MPICH's Hydra on `-bind-to user:`; srun(1) on `--cpu-bind` and
//! `--mem-bind`. What each launcher really does with it is checked by starting it.

use crate::bind::Bind;
use crate::cpus::{joined, number_ranges, ranges};
use crate::devices::RankDevice;
use crate::numa::MemoryPolicy;
use crate::places::Place;
use crate::ranks::{RankPlace, RankPlan};
use nodegauge_machine::devices::VISIBLE;
use nodegauge_machine::{CpuId, NodeId, Topology};

pub mod script;

/// Who starts the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RankLauncher {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// The `mpirun` of MPICH, Hydra, and those derived from it.
    Mpich,
    /// Slurm's `srun`.
    Slurm,
}

impl RankLauncher {
    /// The variable in which a process finds its rank.
    pub(crate) fn rank_variable(self) -> &'static str {
        match self {
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Mpich => "PMI_RANK",
            Self::Slurm => "SLURM_PROCID",
        }
    }
}

/// What a rank needs in addition to the launcher's own options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PerRank {
    /// Variables, by name.
    environment: Vec<(&'static str, String)>,
    /// Words in front of its program, e.g. `numactl --interleave=0-3`; none when it needs none.
    prefix: Vec<String>,
}

/// What each rank of a plan needs in addition to the options of its launcher, in the order of ranks.
pub(crate) fn per_rank(plan: &RankPlan, launcher: RankLauncher) -> Vec<PerRank> {
    let slurm = launcher == RankLauncher::Slurm;
    let by_srun = slurm && mem_bind(plan).is_some();
    let of = |(rank, place): (usize, &RankPlace)| PerRank {
        // Slurm sets the variables of devices itself.
        environment: match slurm {
            true => threads_within(place),
            false => [threads_within(place), visible(plan, rank)].concat(),
        },
        prefix: match by_srun {
            true => Vec::new(),
            false => numactl_words(None, &place.memory),
        },
    };
    plan.ranks.iter().enumerate().map(of).collect()
}

/// Open MPI's major versions that differ in their words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMpiVersion {
    /// 4 and before: `--rankfile`, CPUs in the system's numbers.
    V4,
    /// 5 and later: `--map-by rankfile`, CPUs in hwloc's logical order.
    V5,
}

/// Ranks for Open MPI's `mpirun`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMpi {
    version: OpenMpiVersion,
    ranks: usize,
    /// The content of the rank file; `None` for ranks that are not bound.
    pub rankfile: Option<String>,
}

impl OpenMpi {
    /// Without it Open MPI does not run programs of root, as in containers.
    pub const AS_ROOT: &str = "--allow-run-as-root";

    /// The options of `mpirun`, with the path of the rank file where there is one.
    pub fn args(&self, rankfile: &str) -> Vec<String> {
        let words = match (self.version, &self.rankfile) {
            (OpenMpiVersion::V4, Some(_)) => {
                "-np RANKS --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile FILE"
            }
            (OpenMpiVersion::V4, None) => "-np RANKS --bind-to none --oversubscribe",
            // Ranks that share the CPUs of a socket are meant to.
            (OpenMpiVersion::V5, Some(_)) => {
                "-np RANKS --map-by rankfile:file=FILE:hwtcpus --bind-to hwthread:overload-allowed"
            }
            (OpenMpiVersion::V5, None) => "-np RANKS --map-by :oversubscribe --bind-to none",
        };
        let ranks = self.ranks.to_string();
        let word = |word: &str| word.replace("RANKS", &ranks).replace("FILE", rankfile);
        words.split(' ').map(word).collect()
    }
}

/// A plan in the words of Open MPI. Version 5 counts CPUs in hwloc's order, which the topology
/// knows, of those that this process may use.
pub fn openmpi(plan: &RankPlan, topology: &Topology, version: OpenMpiVersion) -> OpenMpi {
    let logical = |cpus: &[CpuId]| {
        let position = |cpu: &CpuId| topology.allowed().position(|thread| thread.cpu == *cpu);
        number_ranges(cpus.iter().filter_map(position).map(|index| index as u32))
    };
    let line = |(rank, place): (usize, &RankPlace)| {
        let cpus = place.bound_cpus()?;
        let slots = match version {
            OpenMpiVersion::V4 => ranges(&cpus),
            OpenMpiVersion::V5 => logical(&cpus),
        };
        Some(format!("rank {rank}=localhost slot={slots}\n"))
    };
    OpenMpi {
        version,
        ranks: plan.ranks.len(),
        rankfile: plan.ranks.iter().enumerate().map(line).collect(),
    }
}

/// The options of MPICH's `mpirun` (Hydra), whose `-bind-to user:` takes the system's numbers, CPUs
/// of a rank joined by `+`.
pub fn mpich(plan: &RankPlan) -> Vec<String> {
    let rank = |place: &RankPlace| Some(joined(place.bound_cpus()?).replace(',', "+"));
    let bound: Option<Vec<String>> = plan.ranks.iter().map(rank).collect();
    let bind = bound.map_or("none".to_owned(), |ranks| format!("user:{}", joined(ranks)));
    ["-np", &plan.ranks.len().to_string(), "-bind-to", &bind].map(str::to_owned).to_vec()
}

/// The options of Slurm's `srun` on a node that the job has to itself: only there are CPUs and nodes
/// taken by number.
pub fn slurm(plan: &RankPlan) -> Vec<String> {
    let threads = plan.ranks.iter().map(|place| place.placement.threads.len()).max().unwrap_or(1);
    let mut words = vec![
        "--nodes=1".to_owned(),
        format!("--ntasks={}", plan.ranks.len()),
        format!("--cpus-per-task={threads}"),
        format!("--cpu-bind={}", cpu_bind(plan)),
    ];
    words.extend(mem_bind(plan).map(|bind| format!("--mem-bind={bind}")));
    words.extend(gpu_bind(plan));
    words
}

/// The value of `--cpu-bind`: numbers for one CPU a rank, masks for several.
fn cpu_bind(plan: &RankPlan) -> String {
    let bound: Option<Vec<Vec<CpuId>>> = plan.ranks.iter().map(RankPlace::bound_cpus).collect();
    match bound {
        None => "none".to_owned(),
        Some(ranks) if ranks.iter().all(|cpus| cpus.len() == 1) => {
            format!("map_cpu:{}", joined(ranks.iter().flatten()))
        }
        Some(ranks) => {
            let mask = |cpus: &Vec<CpuId>| hex_mask(cpus.iter().map(|cpu| cpu.0));
            format!("mask_cpu:{}", joined(ranks.iter().map(mask)))
        }
    }
}

/// The value of `--mem-bind`; `None` where nothing is said, for interleaved memory, for which `srun`
/// has no word, and for local allocation: its `local` binds, so that a full node ends the program.
fn mem_bind(plan: &RankPlan) -> Option<String> {
    let nodes: Option<Vec<Vec<NodeId>>> = plan.ranks.iter().map(|p| p.memory.nodes()).collect();
    let masks = |nodes: &[Vec<NodeId>]| {
        let mask = |nodes: &Vec<NodeId>| hex_mask(nodes.iter().map(|node| node.0));
        format!("mask_mem:{}", joined(nodes.iter().map(mask)))
    };
    match plan.ranks.first()?.memory {
        MemoryPolicy::Default | MemoryPolicy::Local | MemoryPolicy::Interleave(_) => None,
        MemoryPolicy::Preferred(_) => Some(format!("prefer,{}", masks(&nodes?))),
        MemoryPolicy::Bind(_) => {
            let nodes = nodes?;
            Some(match nodes.iter().all(|nodes| nodes.len() == 1) {
                true => format!("map_mem:{}", joined(nodes.iter().flatten())),
                false => masks(&nodes),
            })
        }
    }
}

/// The options that give each task its devices. Their numbers are of the node's devices where all of them are
/// asked for: as many a task as there are for each, or all of the node.
fn gpu_bind(plan: &RankPlan) -> Vec<String> {
    let all: Vec<&RankDevice> = plan.devices.iter().flatten().collect();
    let Some(last) = all.iter().map(|device| device.number).max() else { return Vec::new() };
    let each = plan.devices[0].len();
    let amount = match all.len() == last as usize + 1 {
        true => format!("--gpus-per-task={each}"),
        false => format!("--gpus-per-node={}", plan.device_count),
    };
    let numbers = |devices: &Vec<RankDevice>| devices.iter().map(|device| device.number).collect();
    let tasks: Vec<Vec<u32>> = plan.devices.iter().map(numbers).collect();
    let bind = match each {
        1 => format!("map_gpu:{}", joined(tasks.iter().flatten())),
        _ => format!("mask_gpu:{}", joined(tasks.into_iter().map(hex_mask))),
    };
    vec![amount, format!("--gpu-bind={bind}")]
}

/// The variables that leave a rank only its devices visible, by the numbers that drivers give them.
pub(crate) fn visible(plan: &RankPlan, rank: usize) -> Vec<(&'static str, String)> {
    let devices = plan.devices.get(rank).map(Vec::as_slice).unwrap_or_default();
    let mut variables = Vec::new();
    for (vendor, names, order) in VISIBLE {
        let own = devices.iter().filter(|device| device.vendor == vendor);
        let numbers: Vec<u32> = own.map(|device| device.number).collect();
        if numbers.is_empty() {
            continue;
        }
        let order = order.and_then(|order| order.split_once('='));
        variables.extend(order.map(|(name, value)| (name, value.to_owned())));
        variables.push((names[0], joined(numbers)));
    }
    variables
}

/// A mask in hexadecimal, the lowest number last: `0x5` for 0 and 2.
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

/// The command that starts one rank's program bound as planned; no words where there is nothing to
/// say.
pub fn numactl(place: &RankPlace) -> Vec<String> {
    numactl_words(place.bound_cpus().as_deref(), &place.memory)
}

fn numactl_words(cpus: Option<&[CpuId]>, memory: &MemoryPolicy) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(cpus.map(|cpus| format!("--physcpubind={}", ranges(cpus))));
    let nodes = memory.nodes().unwrap_or_default();
    let nodes = number_ranges(nodes.iter().map(|node| node.0));
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

/// The variables that give one process and its threads their CPUs.
pub fn omp(place: &RankPlace) -> Vec<(&'static str, String)> {
    let number = ("OMP_NUM_THREADS", place.placement.threads.len().to_string());
    if place.placement.bind == Bind::None {
        return vec![number, ("OMP_PROC_BIND", "false".to_owned())];
    }
    vec![number, ("OMP_PLACES", omp_places(place)), ("OMP_PROC_BIND", "close".to_owned())]
}

/// One place a thread, in order, so that `close` puts thread t on place t; of threads that share
/// their places in turn, each place once, where `close` gives them the same.
fn omp_places(place: &RankPlace) -> String {
    let threads: Vec<&Vec<CpuId>> = place.placement.threads.iter().map(|t| &t.cpus).collect();
    let mut once = threads.clone();
    once.dedup();
    let count = u32::try_from(threads.len()).unwrap_or(u32::MAX);
    let close = Bind::Close.assign(count, once.len());
    let same = close.iter().zip(&threads).all(|(at, cpus)| at.is_some_and(|at| once[at] == *cpus));
    let list = if same { once } else { threads };
    joined(list.into_iter().filter_map(|cpus| Place::new(cpus.iter().copied())))
}

/// The variables for a process that its launcher has bound: its threads where they differ, else no
/// binding of their own.
fn threads_within(place: &RankPlace) -> Vec<(&'static str, String)> {
    let threads = &place.placement.threads;
    let differ = threads.windows(2).any(|two| two[0].cpus != two[1].cpus);
    match differ {
        true => omp(place),
        false => vec![
            ("OMP_NUM_THREADS", threads.len().to_string()),
            ("OMP_PROC_BIND", "false".to_owned()),
        ],
    }
}

#[cfg(test)]
mod tests;
