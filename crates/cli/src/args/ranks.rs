//! Options of ranks: several processes, each with its own threads and memory.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use clap::{Args as ClapArgs, ValueEnum};
use nodegauge_placement::{CpuList, RankMap, RankPlacementOptions, RankPolicy};

/// Options of [`RankArgs`]; options for a single process conflict with them.
pub(super) const RANK_OPTIONS: [&str; 4] = ["ranks", "rank_map", "policy", "cpus"];

/// Options for the placement of ranks.
#[derive(Debug, Clone, Default, PartialEq, ClapArgs)]
pub(crate) struct RankArgs {
    /// Processes, each with its own arrays; --threads is then the number per rank [default: 1]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) ranks: Option<u32>,
    /// Socket or core of each rank: block, cyclic, spread, even, core [default: block with --policy, else spread]
    ///
    /// block fills one socket after another, cyclic uses the sockets in turn, spread and even put equal numbers on all
    /// sockets (with fewer ranks than sockets, even uses the first ones), core gives each thread a core.
    #[arg(long, value_name = "MAP", help_heading = "Where")]
    pub(crate) rank_map: Option<RankMap>,
    /// CPUs and memory of each rank, 0 to 5 (see --help); 0: unrestricted
    ///
    /// 0: unrestricted. 1 to 4: CPUs of the rank's socket, with memory interleaved over all nodes (1), interleaved over
    /// the socket's nodes (2), bound to the socket's nodes (3), or local (4). 5: any CPU, local memory.
    #[arg(long, value_name = "0..5", help_heading = "Where")]
    pub(crate) policy: Option<RankPolicy>,
    /// CPUs, one per thread of each rank in order, or one group per rank: 0,2,4-7, '{0-3},{4-7}'
    ///
    /// The memory policy is that of --numa or --policy.
    #[arg(long, value_name = "CPUS", help_heading = "Where")]
    pub(crate) cpus: Option<CpuList>,
}

impl RankArgs {
    /// Returns the options for the placement of ranks.
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

/// Formats of `places --emit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmitFormat {
    /// Environment variables for OpenMP programs.
    Omp,
    /// A numactl command for each rank.
    Numactl,
    /// Wrapper script, which any launcher starts in front of the program.
    Wrapper,
    /// mpirun of Open MPI 4 and 5.
    Openmpi,
    /// mpirun of MPICH (Hydra) and of MPIs derived from it.
    Mpich,
    /// srun of Slurm.
    Slurm,
    /// Job script for PBS, with the mpirun of Open MPI or MPICH.
    Pbs,
    /// Job script for NQS, to be completed.
    Nqs,
    /// Job script for Fujitsu's PJM, to be completed.
    Pjm,
}
