//! The arguments of `hpl`.

use super::plan::PlanForArgs;
use super::values::parse_fraction_up_to;
use super::{HostsArgs, MeasuringArgs, PlacementArgs, budgets};
use clap::Args as ClapArgs;
use nodegauge_measure::{FlopsPerSec, SyntaxError};
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::blas::BlasRequest;
use nodegauge_toolchain::mpi::HostList;
use std::path::PathBuf;

/// Arguments of `hpl`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(nodegauge_compute::options::BUDGET)))]
pub(crate) struct HplArgs {
    /// Order of the system [default: the largest whose predicted time is within the budget]
    #[arg(long, short = 'N', visible_alias = "size", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What")]
    pub(crate) order: Option<u32>,
    /// Fill memory: N = sqrt(fraction x available / 8), rounded down to a multiple of NB
    #[arg(long, conflicts_with = "order", help_heading = "What")]
    pub(crate) full: bool,
    /// Share of the available memory for --full
    #[arg(long, value_name = "F", value_parser = parse_fraction, default_value = "0.8", help_heading = "What")]
    pub(crate) memory_fraction: f64,
    /// Panel width NB: one value, or candidates to choose from [default: a search]
    #[arg(long, value_name = "NB", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "What")]
    pub(crate) nb: Vec<u32>,
    /// Round N down to a multiple of NB x LCM(P, Q) instead of NB, for the grid P x Q of the original HPL
    #[arg(long, conflicts_with = "order", help_heading = "Rarely needed")]
    pub(crate) grid_multiple: bool,
    /// Seed of the random matrix
    #[arg(long, value_name = "SEED", default_value = "1", help_heading = "Rarely needed")]
    pub(crate) seed: u64,
    /// BLAS library: a name or path, with @kernel for one of its kernels (repeatable) [default: the fastest]
    ///
    /// openblas, blis, mkl, aocl, armpl, builtin, or the path of a library with 32- or 64-bit integers. By default, the
    /// fastest kernel of the library is used. Several libraries are compared. Example: --blas openblas --blas blis@skx
    #[arg(long, value_name = "LIBRARY", help_heading = "What")]
    pub(crate) blas: Vec<BlasRequest>,
    /// Show N, NB, the grid, time and memory with their formulas; measure nothing
    #[arg(long, help_heading = "Output")]
    pub(crate) plan: bool,
    /// Rate for the predicted time, e.g. 2.5TFLOP/s [default: the saved DGEMM rate, else 0.9 of the peak]
    #[arg(long, value_name = "RATE", help_heading = "What")]
    pub(crate) rate: Option<FlopsPerSec>,
    #[command(flatten)]
    pub(crate) plan_for: PlanForArgs,
    /// Print the result in the format of HPL 2.3
    #[arg(long, help_heading = "Output")]
    pub(crate) hpl_text: bool,
    #[command(flatten)]
    pub(crate) real: XhplArgs,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) on_hosts: HostsArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Options that run the original HPL program for comparison, or write its input file.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct XhplArgs {
    /// Also run this xhpl or hpcc under MPI for comparison
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) xhpl: Option<PathBuf>,
    /// Write HPL.dat for the plan to this file, '-' for standard output; run nothing
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "plan", help_heading = "Rarely needed")]
    pub(crate) hpl_dat_only: Option<String>,
    /// MPI ranks [default: one per last-level cache, else per NUMA node, else per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Reference programs")]
    pub(crate) ranks: Option<u32>,
    /// Launcher of the ranks, e.g. 'mpirun.openmpi' or 'srun --mpi=pmix' [default: detected]
    #[arg(long, value_name = "COMMAND", help_heading = "Reference programs")]
    pub(crate) launcher: Option<CommandLine>,
    /// Hosts of the ranks, e.g. node[01-04],b, with --ranks ranks on each [default: the hosts of the Slurm job, else
    /// this node]
    #[arg(long, value_name = "HOSTS", help_heading = "Reference programs")]
    pub(crate) hosts: Vec<HostList>,
    /// Also start ranks as root (in containers)
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) allow_run_as_root: bool,
}

/// Parses a share above 0 and at most 0.95; the operating system needs the rest.
fn parse_fraction(text: &str) -> Result<f64, SyntaxError> {
    parse_fraction_up_to(0.95, text)
}
