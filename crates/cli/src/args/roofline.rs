//! Options of `roofline`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::values::parse_working_set;
use super::{MeasuringArgs, PlacementArgs, budgets};
use clap::Args as ClapArgs;
use nodegauge_devices::drivers::DeviceChoice;
use nodegauge_measure::Bytes;
use nodegauge_roofline::{GivenPoint, RooflinePlan};

/// Arguments of `roofline`.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(RooflinePlan::BUDGET)))]
pub(crate) struct RooflineArgs {
    /// Place a program in the roofline (repeatable): NAME,FLOPS,BYTES,SECONDS[,LEVEL]
    ///
    /// Floating-point operations, bytes moved and elapsed seconds, from a profiler or from the algorithm. The bytes are
    /// those of main memory, or of LEVEL (L1, L2 or L3). Example: --point spmv,2.4e9,1.9e10,0.8
    #[arg(long, value_name = "POINT", help_heading = "What")]
    pub(crate) point: Vec<GivenPoint>,
    /// Working set for main memory, all threads together, e.g. 1GiB [default: 4 x the last-level caches]
    #[arg(long, value_name = "SIZE", value_parser = parse_working_set, help_heading = "What")]
    pub(crate) size: Option<Bytes>,
    /// Run the program after `--` once, and place it by the processor's counters
    ///
    /// Operations are counted in the program and its child processes; bytes are counted at all memory controllers of
    /// the node while it runs. Its output is not shown. Fails if the counters cannot be read, as on most virtual
    /// machines. Example: nodegauge roofline --perf -- ./solver input
    #[arg(long, requires = "program", help_heading = "What")]
    pub(crate) perf: bool,
    /// Program with its arguments, for --perf
    #[arg(last = true, requires = "perf", value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
    /// Measure rooflines of GPUs and other accelerators instead of the node: all, or driver and number, e.g.
    /// cuda:0,opencl:1
    #[arg(long = "device", value_name = "DEVICES", value_delimiter = ',', help_heading = "Where",
        conflicts_with_all = ["point", "size", "perf", "threads", "places", "bind", "per_cache", "cores", "numa"])]
    pub(crate) devices: Vec<DeviceChoice>,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}
