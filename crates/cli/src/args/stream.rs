//! Options of `stream`, one struct per mode.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::budgets::{self, ModeBudget};
use super::device::OnDeviceArgs;
use super::plan::PlanForArgs;
use super::ranks::{RANK_OPTIONS, RankArgs};
use super::{ArrayArgs, HostsArgs, MeasuringArgs, PlacementArgs};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use nodegauge_devices::stream::DeviceStreamOptions;
use nodegauge_measure::BytesPerSec;
use nodegauge_placement::JobPlacementOptions;
use nodegauge_stream::StreamRequest;
use nodegauge_stream::axis::{StreamAxis, StreamCellOptions};
use nodegauge_stream::compiled::{CompiledPlan, CompilerChoice as Compiler};
use nodegauge_stream::standard::StandardPlan;
use nodegauge_stream::stream::StreamPlan;
use nodegauge_stream::sweep::SweepPlan;
use nodegauge_stream::tune::TunePlan;
use nodegauge_stream::view::Statistic;
use std::path::PathBuf;

/// Default budgets of the modes.
const MODES: [ModeBudget; 5] = [
    ("--tune", TunePlan::BUDGET),
    ("--sweep", SweepPlan::BUDGET),
    ("--standard", StandardPlan::BUDGET),
    ("--compiler", CompiledPlan::BUDGET),
    ("--device", DeviceStreamOptions::BUDGET),
];

/// Arguments of `stream`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_times(StreamPlan::BUDGET, &MODES)))]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
    #[command(flatten)]
    pub(crate) arrays: ArrayArgs,
    #[command(flatten)]
    pub(crate) on: OnDeviceArgs,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    #[command(flatten)]
    pub(crate) tune: TuneArgs,
    /// Ignore the saved choice of --tune
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) untuned: bool,
    #[command(flatten)]
    pub(crate) standard: StandardArgs,
    #[command(flatten)]
    pub(crate) compilers: CompilerArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) plan: LengthPlanArgs,
    #[command(flatten)]
    pub(crate) hosts: HostsArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

impl StreamArgs {
    /// Returns the options as the request of the user.
    pub(crate) fn request(&self) -> StreamRequest {
        let job =
            JobPlacementOptions { process: self.placement.options(), ranks: self.ranks.options() };
        StreamRequest {
            cell: StreamCellOptions { job, arrays: self.arrays.options() },
            axes: self.sweep.axes.clone(),
            tune: self.tune.tune,
            untuned: self.untuned,
            standard: self.standard.source.clone(),
            compilers: self.compilers.choices.clone(),
            budget: self.common.budget,
            exceed_budget: self.common.exceed_budget,
            samples: self.common.samples.map(|n| n as usize),
        }
    }
}

/// Option for a sweep over the values of other options.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct SweepArgs {
    /// Compare several values of an option, e.g. threads=1,2-32:2 or stores (at most three axes)
    ///
    /// Axes: ranks=1,2,4, policy=0-5, rank-map, threads=1,2-32:2, per-cache=1,2, cores=fast,all, places=A;B, bind=..,
    /// numa=A;B, stores, pages, size=.., prefetch=.., side-by-side=.., 'compiler=native,gcc -O3'. Values that this node
    /// does not support are left out, with the reason. stores, pages and rank-map without values mean all kinds. A
    /// policy can have its own rank map: policy=5,3,4,4/even.
    #[arg(long = "sweep", value_name = "AXIS=VALUES", help_heading = "What")]
    pub(crate) axes: Vec<StreamAxis>,
}

/// Option for the search for the best configuration.
#[derive(Debug, Clone, ClapArgs)]
#[group(conflicts_with_all = ["axes", "source", "choices", "stream_text"], conflicts_with_all = RANK_OPTIONS)]
pub(crate) struct TuneArgs {
    /// Find the best threads, places, pages, stores and loops, then measure
    ///
    /// The loops differ in prefetch, vector width and unroll.
    ///
    /// The choice is saved in the history. Later runs use it for all options that are not given, until the machine
    /// changes.
    #[arg(long, help_heading = "How")]
    pub(crate) tune: bool,
}

/// Option for an original STREAM source.
#[derive(Debug, Clone, ClapArgs)]
#[group(conflicts_with = "axes")]
pub(crate) struct StandardArgs {
    /// Also compile and run this unmodified stream.c (or stream.f), as a standard result
    ///
    /// It runs interleaved with nodegauge. stream.c is compiled with the array length of the native run; stream.f has
    /// its own. Its threads run on the CPUs of the native threads. stream_mpi.c and stream_mpi.f run alone, with
    /// --ranks, --policy and --rank-map. Example: --standard ~/stream.c --compiler gcc
    #[arg(long = "standard", value_name = "STREAM.C", help_heading = "What")]
    pub(crate) source: Option<PathBuf>,
}

/// Option for compilers that are installed on the node.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CompilerArgs {
    /// Also run the same loops compiled with this compiler (repeatable)
    ///
    /// 'CC FLAGS', or all; with --standard, the compiler of that source. Words are split as in a shell. A compiler
    /// without flags gets -O3 -march=native or its equivalent, with --standard also -fopenmp. all means every supported
    /// compiler that is installed, each with several sets of flags. A named compiler is also measured with -DPAGES=4
    /// and -DPAGES=8, which make the loops traverse several pages at the same time. Default with --standard: gcc and
    /// clang. Example: --compiler 'gcc -O2' --compiler clang
    #[arg(long = "compiler", value_name = "'CC FLAGS'", help_heading = "What")]
    pub(crate) choices: Vec<Compiler>,
}

/// Options for tables in the format of stream.c.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct TableArgs {
    /// Print the table of stream.c, marked as a variant; with --standard, the output of the fastest run of that program
    #[arg(long, conflicts_with = "axes", help_heading = "Output")]
    pub(crate) stream_text: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Options for planning the arrays.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct LengthPlanArgs {
    /// Show array length, placement and time; measure nothing
    ///
    /// The length follows from STREAM's rule, from the memory and from --size. The page also shows commands for
    /// stream.c.
    #[arg(long, help_heading = "Output")]
    pub(crate) plan: bool,
    /// Rate for the predicted time of --plan, e.g. 300GB/s [default: the saved or published rate, else the theoretical
    /// bandwidth]
    #[arg(long, value_name = "RATE", help_heading = "Rarely needed")]
    pub(crate) rate: Option<BytesPerSec>,
    #[command(flatten)]
    pub(crate) machine: PlanForArgs,
}

/// Returns the error for `--show` without a sweep.
pub(crate) fn no_sweep_failure() -> Failure {
    Failure::usage("--show requires a sweep")
        .hint("leave out --show, or print one configuration with --stream-text")
}

/// Option for the columns of a sweep.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ShowArgs {
    /// Show a sweep with the columns of stream.c: best (rate, MB/s), avg, min, max (times, s)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Output")]
    pub(crate) show: Vec<Statistic>,
}
