//! Options of `memory`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::values::{parse_fraction, parse_working_set};
use super::{HostsArgs, MeasuringArgs, OrAuto, PlacementArgs, budgets, examples, parse_or_auto};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use nodegauge_arena::RequestedPages;
use nodegauge_curves::{ChaseOrder, CurvePlan, Locality, Mix, NodeChoice};
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::{Bytes, SyntaxError};

/// Commands of `memory`.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Bandwidth of read, write, copy and triad by working set, through all cache levels
    #[command(after_long_help = examples::section(&[
        "nodegauge memory ladder",
        "nodegauge memory ladder --threads 1 --size 256MiB",
    ]))]
    Ladder(CurveArgs),
    /// Idle latency by working set, on base pages and huge pages
    #[command(after_long_help = examples::section(&[
        "nodegauge memory latency",
        "nodegauge memory latency --size 256MiB --pages 4k",
    ]))]
    Latency(LatencyArgs),
    /// Bandwidth and latency between NUMA nodes, and latency of a cache line between CPUs
    #[command(after_long_help = examples::section(&[
        "nodegauge memory matrix",
        "nodegauge memory matrix --json matrix.json",
        "nodegauge memory matrix --emit hwloc --output measured.xml --accept-suspect",
    ]))]
    Matrix(MatrixArgs),
    /// Latency of one thread while the other threads read at increasing rates
    #[command(after_long_help = examples::section(&[
        "nodegauge memory loaded",
        "nodegauge memory loaded --csv loaded.csv",
    ]))]
    Loaded(ChaseArgs),
    /// Bandwidth by ratio of reads to writes: 1:0, 3:1, 2:1, 1:1, and with non-temporal stores
    #[command(after_long_help = examples::section(&[
        "nodegauge memory mix",
        "nodegauge memory mix --threads 1",
    ]))]
    Mix(CurveArgs),
    /// Family of curves: latency under increasing load, by ratio of reads to writes
    ///
    /// For each mix, the page shows the latency without load, the bandwidth at the knee of the curve, and the bandwidth
    /// of all threads. A program after `--` is placed on the curves: its bandwidth, and its slowdown under load.
    #[command(after_long_help = examples::section(&[
        "nodegauge memory curves",
        "nodegauge memory curves --mixes 1:0,1:1 --budget 20",
        "nodegauge memory curves --from all --to all --json family.json",
        "nodegauge memory curves --mixes 1:0 -- ./solver input",
    ]))]
    Curves(FamilyArgs),
    /// STREAM's kernels by the number of threads, with the prediction of the execution-cache-memory model
    ///
    /// The prediction has two inputs of the same run: the bandwidths of one core, and those of all threads by mix of
    /// reads and writes. The page names each kernel that differs from its prediction by more than 10 %.
    #[command(after_long_help = examples::section(&[
        "nodegauge memory scaling",
        "nodegauge memory scaling --bind close --csv scaling.csv",
    ]))]
    Scaling(CurveArgs),
}

/// Options for memory and time, with the default budget of one curve.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(CurvePlan::BUDGET)))]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    pub(crate) untimed: UntimedMemoryArgs,
}

/// Options for memory and time, without a default budget.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct UntimedMemoryArgs {
    /// Largest working set, all threads together, e.g. 256MiB [default: 4 x the last-level caches]
    #[arg(long, value_name = "SIZE", value_parser = parse_working_set, help_heading = "What")]
    pub(crate) size: Option<Bytes>,
    /// Maximum share of the available memory to use
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = parse_fraction, help_heading = "What")]
    pub(crate) memory_fraction: f64,
    /// Pages: auto, 4k, thp, 2m, 1g
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = parse_or_auto::<RequestedPages>, help_heading = "How")]
    pub(crate) pages: OrAuto<RequestedPages>,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Arguments of `memory ladder`, `memory mix` and `memory scaling`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CurveArgs {
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Options for the order of a pointer chase.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct ChaseOrderArgs {
    /// Order of a pointer chase: random in the whole set, or in one block after another, e.g. 256KiB
    ///
    /// A chase over the whole working set changes the page at almost every step. A chase that finishes a block before
    /// it begins the next stays within the TLB. Compare only latencies with the same locality.
    #[arg(long, value_name = "RANGE", default_value = "whole", help_heading = "How")]
    pub(crate) locality: Locality,
    /// Distance between elements of a chase in bytes, a multiple of 64
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = stride, help_heading = "How")]
    pub(crate) stride: u32,
}

impl ChaseOrderArgs {
    pub(crate) fn order(self) -> ChaseOrder {
        ChaseOrder { stride: self.stride as usize, locality: self.locality }
    }
}

/// Arguments of `memory latency`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(crate) chase: ChaseArgs,
    #[command(flatten)]
    pub(crate) hosts: HostsArgs,
}

/// Arguments of `memory latency` and `memory loaded`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ChaseArgs {
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) order: ChaseOrderArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Arguments of `memory matrix`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct MatrixArgs {
    #[command(flatten)]
    pub(crate) order: ChaseOrderArgs,
    /// Print the topology with the measured bandwidths and latencies as XML, for HWLOC_XMLFILE, instead of the page
    ///
    /// The XML contains them as memory attributes of hwloc 2, by which hwloc-bind --best-memattr, Open MPI and other
    /// programs choose memory. Values of the firmware keep names that begin with Firmware. If a figure between NUMA
    /// nodes is suspect, no XML is printed and the exit code is 1, unless --accept-suspect is given.
    #[arg(long, value_name = "FOR", value_enum, help_heading = "Output")]
    pub(crate) emit: Option<EmittedTopology>,
    /// Write the XML of --emit to FILE, and print the page
    #[arg(
        long,
        visible_short_alias = 'o',
        value_name = "FILE",
        requires = "emit",
        help_heading = "Output"
    )]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Format that `memory matrix --emit` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmittedTopology {
    /// XML of hwloc 2.
    Hwloc,
}

/// Arguments of `memory curves`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct FamilyArgs {
    /// Mixes as reads:writes in cache lines; -nt: non-temporal stores
    #[arg(
        long, value_name = "MIXES", value_delimiter = ',', help_heading = "What",
        default_values_t = Mix::FAMILY
    )]
    pub(crate) mixes: Vec<Mix>,
    /// NUMA nodes whose cores generate load, one after another: all, or 0,2-3 [default: those of the placed threads]
    #[arg(long, value_name = "NODES", conflicts_with_all = ["threads", "places", "bind", "per_cache", "cores"], help_heading = "Where")]
    pub(crate) from: Option<NodeChoice>,
    /// NUMA nodes whose memory is loaded: all, or 0,2-3
    #[arg(long, value_name = "NODES", conflicts_with = "numa", help_heading = "Where")]
    pub(crate) to: Option<NodeChoice>,
    /// Program to place on the curves, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
    #[command(flatten)]
    pub(crate) chase: FamilyChaseArgs,
}

/// Options that `memory curves` shares with `memory loaded`, with another default budget.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(CurvePlan::FAMILY_BUDGET)))]
pub(crate) struct FamilyChaseArgs {
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) order: ChaseOrderArgs,
    #[command(flatten)]
    pub(crate) memory: UntimedMemoryArgs,
}

/// Unit of strides: the size of a cache line, in bytes.
const LINE: u32 = nodegauge_kernels::CACHE_LINE_BYTES as u32;
/// Maximum stride, in bytes.
const MAX_STRIDE: u32 = 1 << 20;

/// Parses the distance between two loads in bytes.
fn stride(text: &str) -> Result<u32, SyntaxError> {
    let mut cursor = Cursor::new("stride", "--stride 64 or --stride 4096", text);
    let bytes = cursor.number("expected a number of bytes")?;
    cursor.finish("expected nothing after the number of bytes")?;
    let stride = u32::try_from(bytes).ok().filter(|stride| stride % LINE == 0);
    stride.filter(|stride| (LINE..=MAX_STRIDE).contains(stride)).ok_or_else(|| {
        let problem = format!("expected a multiple of {LINE} from {LINE} to {MAX_STRIDE}");
        cursor.error_at(0, problem)
    })
}
