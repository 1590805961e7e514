//! Options of `device`, and of `stream --device`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::ranks::RANK_OPTIONS;
use super::values::{parse_fraction, parse_working_set};
use super::{MeasuringArgs, budgets, examples};
use clap::{Args as ClapArgs, Subcommand};
use nodegauge_devices::ALL_TESTS_BUDGET;
use nodegauge_devices::curves::{DeviceCurveOptions, DeviceMix};
use nodegauge_devices::drivers::DeviceChoice;
use nodegauge_devices::links::{self, LinkPlan};
use nodegauge_devices::peaks::PeakPlan;
use nodegauge_devices::stream::DeviceStreamOptions;
use nodegauge_kernels::size::SizeSpec;
use nodegauge_kernels::{Element, Kernel};
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::read_bytes;
use nodegauge_measure::{Bytes, SyntaxError};
use std::path::PathBuf;

/// Arguments of `device`. Without a subcommand, short versions of all device measurements run.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(ALL_TESTS_BUDGET)))]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    pub(crate) part: Option<DeviceCommand>,
    #[command(flatten)]
    pub(crate) selection: DeviceSelectionArgs,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Commands of `device`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DeviceCommand {
    /// STREAM on devices: Copy, Scale (BabelStream's Mul), Add, Triad, Dot, Nstream
    #[command(after_long_help = examples::section(&[
        "nodegauge device stream",
        "nodegauge device stream --device cuda:0 --size 1GiB",
    ]))]
    Stream(DeviceStreamArgs),
    /// Copies between host and devices: each direction, both at once, by NUMA node, by size
    #[command(after_long_help = examples::section(&[
        "nodegauge device links",
        "nodegauge device links --sizes 8,1MiB,64MiB",
    ]))]
    Links(DeviceLinkArgs),
    /// Peak rates: fused multiply-adds in registers, and DGEMM of the vendor's BLAS
    #[command(after_long_help = examples::section(&[
        "nodegauge device peaks",
        "nodegauge device peaks --element f64",
    ]))]
    Peaks(DevicePeakArgs),
    /// Latency under increasing load, by ratio of reads to writes: memory curves on devices
    #[command(after_long_help = examples::section(&[
        "nodegauge device curves",
        "nodegauge device curves --device cuda:0 --mixes 1:0,1:1",
    ]))]
    Curves(DeviceCurveArgs),
}

/// Selection of devices.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DeviceSelectionArgs {
    /// Devices: all, or driver and number, e.g. cuda:0,opencl:1 [default: all]
    #[arg(long = "device", value_name = "DEVICES", value_delimiter = ',', help_heading = "Where")]
    pub(crate) devices: Vec<DeviceChoice>,
}

/// Option `stream --device`. It conflicts with the options for threads and memory of the node.
#[derive(Debug, Clone, ClapArgs)]
#[group(conflicts_with_all = [
    "threads", "places", "bind", "per_cache", "cores", "numa", "offset", "stores", "pages", "prefetch", "side_by_side",
    "axes", "tune", "untuned", "source", "choices", "stream_text", "show",
], conflicts_with_all = RANK_OPTIONS)]
pub(crate) struct OnDeviceArgs {
    /// Measure GPUs and other accelerators instead of the node's memory: all, or driver and number, e.g.
    /// cuda:0,opencl:1 (see nodegauge device stream)
    #[arg(long = "device", value_name = "DEVICES", value_delimiter = ',', help_heading = "Where")]
    pub(crate) devices: Vec<DeviceChoice>,
}

/// Arguments of `device stream`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(DeviceStreamOptions::BUDGET)))]
pub(crate) struct DeviceStreamArgs {
    #[command(flatten)]
    pub(crate) selection: DeviceSelectionArgs,
    /// Length of each array: auto, 4xLLC, 2GiB, '10M elements', 60%
    ///
    /// For the device's own memory, auto is four times its last-level cache, at least 1 GiB, and limited by the free
    /// memory. 60% is that share of the free memory for all arrays together. Example: --size 2GiB
    #[arg(
        long,
        value_name = "SIZE",
        allow_negative_numbers = true,
        default_value = "auto",
        help_heading = "What"
    )]
    pub(crate) size: SizeSpec,
    /// Maximum share of the device's free memory for the arrays
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = parse_fraction, help_heading = "What")]
    pub(crate) memory_fraction: f64,
    /// Types of the elements: f64, f32 [default: f64]
    #[arg(long, value_name = "TYPES", value_delimiter = ',', help_heading = "What")]
    pub(crate) element: Vec<Element>,
    /// Kernels by name [default: copy,scale,add,triad,dot,nstream]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "What")]
    pub(crate) kernels: Vec<Kernel>,
    /// Also run this BabelStream (any programming model) with arrays of the same length, between native passes
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) babelstream: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Arguments of `device links`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(LinkPlan::BUDGET)))]
pub(crate) struct DeviceLinkArgs {
    #[command(flatten)]
    pub(crate) selection: DeviceSelectionArgs,
    /// Sizes of copies, e.g. 8,1MiB,1GiB [default: 8 B to 1 GiB, limited by the free memory]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = copy_size, help_heading = "What")]
    pub(crate) sizes: Vec<Bytes>,
    /// Also run this nvbandwidth with copies of the largest size, between native passes
    #[arg(long, value_name = "PROGRAM", help_heading = "Reference programs")]
    pub(crate) nvbandwidth: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Arguments of `device peaks`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(PeakPlan::BUDGET)))]
pub(crate) struct DevicePeakArgs {
    #[command(flatten)]
    pub(crate) selection: DeviceSelectionArgs,
    /// Types of the numbers: f64, f32 [default: both]
    #[arg(long, value_name = "TYPES", value_delimiter = ',', help_heading = "What")]
    pub(crate) element: Vec<Element>,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Arguments of `device curves`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::add_default_time(DeviceCurveOptions::BUDGET)))]
pub(crate) struct DeviceCurveArgs {
    #[command(flatten)]
    pub(crate) selection: DeviceSelectionArgs,
    /// Mixes as lines read:lines written
    #[arg(
        long, value_name = "MIXES", value_delimiter = ',', help_heading = "What",
        default_values_t = DeviceMix::ALL.to_vec()
    )]
    pub(crate) mixes: Vec<DeviceMix>,
    /// Size of the pointer chain and of each of the three arrays, e.g. 256MiB [default: 4 x last-level cache, at least
    /// 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_working_set, help_heading = "What")]
    pub(crate) size: Option<Bytes>,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Parses a size for `--sizes`, in bytes or with a unit.
fn copy_size(text: &str) -> Result<Bytes, SyntaxError> {
    let mut cursor = Cursor::new("size", "8,1MiB,1GiB", text);
    let Bytes(bytes) = read_bytes(&mut cursor)?;
    cursor.finish("expected nothing after the unit")?;
    if (1..=links::MAX_SIZE).contains(&bytes) {
        Ok(Bytes(bytes))
    } else {
        Err(cursor.error_at(0, format!("expected 1 B to {}", Bytes(links::MAX_SIZE))))
    }
}
