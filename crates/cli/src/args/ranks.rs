//! Options of ranks: several processes, each with threads and memory of its own.

// Doc comments here are help texts, in which brackets are grammar and no links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use clap::{Args as ClapArgs, ValueEnum};
use nodegauge_placement::{CpuList, LecturePolicy, RankMap};

/// The options of [`RankArgs`], which options of one process exclude.
pub(super) const RANKS: [&str; 4] = ["ranks", "rank_map", "policy", "cpus"];

/// Options for the places of ranks.
#[derive(Debug, Clone, Default, PartialEq, ClapArgs)]
pub(crate) struct RankArgs {
    /// Processes, each with arrays of its own; --threads is then threads a rank [default: 1]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) ranks: Option<u32>,
    /// Socket or core of each rank: block, cyclic, core, spread [default: block with --policy,
    /// else spread]
    #[arg(long, value_name = "MAP", help_heading = "Where")]
    pub(crate) rank_map: Option<RankMap>,
    /// CPUs and memory of each rank, 0 to 5: 0 nothing said, 1 to 4 CPUs of its socket with memory
    /// 1 interleaved over all nodes, 2 over its own, 3 bound to its own, 4 local; 5 any CPU, local
    #[arg(long, value_name = "0..5", help_heading = "Where")]
    pub(crate) policy: Option<LecturePolicy>,
    /// CPUs, one for each thread of each rank in order, or a group a rank: 0,2,4-7, '{0-3},{4-7}';
    /// memory then goes where --numa says, or --policy
    #[arg(long, value_name = "CPUS", help_heading = "Where")]
    pub(crate) cpus: Option<CpuList>,
    /// Devices of each rank, which `places` asks for.
    #[arg(skip)]
    pub(crate) devices: Option<u32>,
}

impl RankArgs {
    /// The first option that was given, by its name.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--ranks", self.ranks.is_some()),
            ("--policy", self.policy.is_some()),
            ("--rank-map", self.rank_map.is_some()),
            ("--cpus", self.cpus.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
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
}
