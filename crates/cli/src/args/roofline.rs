//! Options of `roofline`.

// Doc comments here are help texts, in which brackets are grammar and no links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::{Common, PlacementArgs};
use clap::Args as ClapArgs;
use nodegauge_devices::drivers::DeviceChoice;
use nodegauge_measure::Bytes;
use nodegauge_roofline::GivenPoint;

/// `roofline`.
#[derive(Debug, ClapArgs)]
pub(crate) struct RooflineArgs {
    /// Place a program under the roof (repeatable): NAME,FLOPS,BYTES,SECONDS[,LEVEL]
    ///
    /// Floating-point operations, bytes that moved, and the time, as a profiler or the algorithm tells them;
    /// bytes are main memory's unless LEVEL says L1, L2 or L3. Example: --point spmv,2.4e9,1.9e10,0.8
    #[arg(long, value_name = "POINT", help_heading = "What")]
    pub(crate) point: Vec<GivenPoint>,
    /// Set that is to lie in main memory, all threads together, e.g. 1GiB [default: 4 x the last-level caches]
    #[arg(long, value_name = "SIZE", help_heading = "What")]
    pub(crate) size: Option<Bytes>,
    /// Run the program behind `--` once and place it by what the processor counts of it
    ///
    /// Operations are those of the program and what it starts, bytes those of the node's memory controllers
    /// while it ran. Its output is not shown. Refused where counters cannot be read, as on most guests.
    /// Example: nodegauge roofline --perf -- ./solver input
    #[arg(long, requires = "program", help_heading = "What")]
    pub(crate) perf: bool,
    /// A program with its arguments, for --perf
    #[arg(last = true, requires = "perf", value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
    /// The rooflines of GPUs and other accelerators in place of the node's: all, or a driver's by their numbers,
    /// e.g. cuda:0,opencl:1
    #[arg(long = "device", value_name = "DEVICES", value_delimiter = ',', help_heading = "Where",
        conflicts_with_all = ["point", "size", "perf", "threads", "places", "bind", "per_cache", "numa"])]
    pub(crate) devices: Vec<DeviceChoice>,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}
