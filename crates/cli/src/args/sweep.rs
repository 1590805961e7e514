//! Options of `sweep`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::ranks::RankArgs;
use super::values::parse_seconds;
use super::{MeasuringArgs, PlacementArgs, budgets};
use clap::Args as ClapArgs;
use nodegauge_measure::SyntaxError;
use nodegauge_programs::axis::ProgramAxis;
use nodegauge_programs::{FigureUnit, ProgramSweep};
use nodegauge_toolchain::CommandLine;
use std::time::Duration;

/// Arguments of `sweep`.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(ProgramSweep::BUDGET)))]
pub(crate) struct SweepArgs {
    /// Settings to compare, at most three: policy=0-5, policy=4,4/even, ranks=1,2,4, threads=1,2-8:2, hybrid=8x16,16x8,
    /// rank-map=block,cyclic, bind=close,spread, per-cache=1,2, cores=fast,all, places='cores;{0:4}:2:4',
    /// numa='local;bind:0', pages=4k,thp, env:NAME=a,b
    #[arg(value_name = "AXIS=VALUES")]
    pub(crate) axes: Vec<ProgramAxis>,
    /// The program with its arguments, after `--`
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
    /// Regular expression with one group for the figure in the program's output, e.g. '^Triad: +([0-9.]+)' [default:
    /// elapsed time]
    #[arg(long, value_name = "REGEX", help_heading = "What")]
    pub(crate) figure: Option<String>,
    /// Unit of the figure, e.g. GB/s, GFLOP/s, ms; for times, lower is better [default: x, higher is better]
    #[arg(long, value_name = "UNIT", requires = "figure", help_heading = "What")]
    pub(crate) unit: Option<FigureUnit>,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
    /// Launcher of the ranks, or 'none' for copies of a program without MPI [default: the launcher of the program's MPI
    /// library]
    #[arg(long, value_name = "COMMAND", value_parser = launcher, help_heading = "Where")]
    pub(crate) launcher: Option<CommandLine>,
    /// Pass --allow-run-as-root to Open MPI's mpirun, e.g. in a container
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) allow_run_as_root: bool,
    /// Time limit for a run of the program, e.g. 90 (seconds) or 10m [default: 10m]
    #[arg(long = "time-limit", alias = "limit", value_name = "TIME", value_parser = parse_seconds, help_heading = "How long")]
    pub(crate) limit: Option<Duration>,
    /// Print only the command line (for ranks, a shell script) of the fastest combination
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub(crate) emit: bool,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

fn launcher(text: &str) -> Result<CommandLine, SyntaxError> {
    CommandLine::parse("launcher", "--launcher 'mpirun --mca btl self,vader'", text)
}
