//! Options of ranks: several processes, each with its own threads and memory.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use clap::{Args as ClapArgs, ValueEnum};
use nodegauge_placement::{CpuList, LecturePolicy, RankMap, RankPlacementOptions};

/// Options of [`RankArgs`]; options for a single process conflict with them.
pub(super) const RANKS: [&str; 4] = ["ranks", "rank_map", "policy", "cpus"];

/// Options for the placement of ranks.
#[derive(Debug, Clone, Default, PartialEq, ClapArgs)]
pub(crate) struct RankArgs {
    /// Processes, each with its own arrays; --threads is then the number per rank [default: 1]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) ranks: Option<u32>,
    /// Socket or core of each rank: block, cyclic, spread, even, core [default: block with --policy, else spread]
    ///
    /// block fills one socket after another, cyclic goes round the sockets, spread and even put equal numbers on all
    /// (fewer ranks than sockets: even uses the first ones), core gives each thread a core.
    #[arg(long, value_name = "MAP", help_heading = "Where")]
    pub(crate) rank_map: Option<RankMap>,
    /// CPUs and memory of each rank, by the numbers of --help: 0 unrestricted to 5
    ///
    /// 0 unrestricted; 1 to 4 CPUs of its socket, memory 1 interleaved over all nodes, 2 interleaved over its own nodes,
    /// 3 bound to its own nodes, 4 local; 5 any CPU, memory local.
    #[arg(long, value_name = "0..5", help_heading = "Where")]
    pub(crate) policy: Option<LecturePolicy>,
    /// CPUs, one per thread of each rank in order, or one group per rank: 0,2,4-7, '{0-3},{4-7}'
    ///
    /// --numa or --policy places the memory.
    #[arg(long, value_name = "CPUS", help_heading = "Where")]
    pub(crate) cpus: Option<CpuList>,
}

impl RankArgs {
    /// Returns the options.
    pub(crate) fn options(&self) -> RankPlacementOptions {
        RankPlacementOptions {
            ranks: self.ranks,
            map: self.rank_map,
            policy: self.policy,
            cpus: self.cpus.clone(),
            devices: None,
        }
    }
}

/// `places --emit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// Variables of OpenMP programs.
    Omp,
    /// A numactl command for each rank.
    Numactl,
    /// A script to put between any launcher and a program.
    Wrapper,
    /// Open MPI's mpirun, 4 and 5.
    Openmpi,
    /// MPICH's mpirun (Hydra), and those derived from it.
    Mpich,
    /// Slurm's srun.
    Slurm,
    /// A job script of PBS, with the mpirun of Open MPI or MPICH.
    Pbs,
    /// A job script of NQS, to be filled in.
    Nqs,
    /// A job script of Fujitsu's PJM, to be filled in.
    Pjm,
}
