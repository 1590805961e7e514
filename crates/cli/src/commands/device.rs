//! `nodegauge device`, and `nodegauge stream --device`.

use crate::args::MeasuringArgs;
use crate::args::device::{DeviceArgs, DeviceCommand, DeviceSelectionArgs, DeviceStreamArgs};
use crate::args::stream::StreamArgs;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_devices::curves::{DeviceCurveOptions, DeviceCurvePlan};
use nodegauge_devices::drivers::{self, DeviceChoice, SelectedDevices};
use nodegauge_devices::links::{LinkOptions, LinkPlan};
use nodegauge_devices::peaks::PeakPlan;
use nodegauge_devices::reference::UsersProgram;
use nodegauge_devices::stream::{DeviceStreamOptions, DeviceStreamPlan, distinct_element_types};
use nodegauge_devices::{ALL_TESTS_BUDGET, DeviceGauge, plan_all_tests, plan_roofline_tests};
use nodegauge_gauge::PlannedRun;
use nodegauge_measure::Fraction;
use nodegauge_measure::schedule::RunLimits;
use std::path::Path;
use std::time::Duration;

/// Prints the devices of a driver. Runs in a child process, because drivers may crash.
pub(crate) fn print_devices(driver: &str) -> Exit {
    output::print(&format!("{}\n", drivers::listing_json(driver)));
    Exit::Success
}

pub(crate) fn execute(args: &DeviceArgs) -> Result<Exit, Failure> {
    match &args.part {
        Some(DeviceCommand::Stream(of)) => conduct(&of.common, stream_plan(of)?),
        Some(DeviceCommand::Links(of)) => {
            let SelectedDevices { devices, notices } =
                drivers::find_devices(&of.selection.devices)?;
            let options = LinkOptions {
                sizes: of.sizes.iter().map(|size| size.0).collect(),
                budget: of.common.budget(LinkPlan::BUDGET),
                samples: samples(&of.common),
            };
            let reference = program(of.nvbandwidth.as_deref(), "an nvbandwidth")?;
            let plan = LinkPlan::new(devices, options, notices).with_reference_program(reference);
            conduct(&of.common, Box::new(plan))
        }
        Some(DeviceCommand::Peaks(of)) => {
            let SelectedDevices { devices, notices } =
                drivers::find_devices(&of.selection.devices)?;
            let budget = of.common.budget(PeakPlan::BUDGET);
            let samples = samples(&of.common);
            let elements = distinct_element_types(&of.element);
            let plan = PeakPlan::new(devices, elements, budget, samples, notices);
            conduct(&of.common, Box::new(plan))
        }
        Some(DeviceCommand::Curves(of)) => {
            let SelectedDevices { devices, notices } =
                drivers::find_devices(&of.selection.devices)?;
            let options = DeviceCurveOptions {
                mixes: of.mixes.clone(),
                size: of.size,
                budget: of.common.budget(DeviceCurveOptions::BUDGET),
                samples: samples(&of.common),
            };
            conduct(&of.common, Box::new(DeviceCurvePlan::new(devices, options, notices)?))
        }
        None => {
            let SelectedDevices { devices, notices } =
                drivers::find_devices(&args.selection.devices)?;
            let common = &args.common;
            let left = time_left(common, ALL_TESTS_BUDGET);
            let mut parts = plan_all_tests(devices, left, samples(common), notices)?;
            parts.time = common.budget.and(Some(left));
            conduct(common, Box::new(parts))
        }
    }
}

/// Runs `stream --device`, which is the same as `device stream`.
pub(crate) fn stream(args: &StreamArgs) -> Result<Exit, Failure> {
    let of = DeviceStreamArgs {
        selection: DeviceSelectionArgs { devices: args.on.devices.clone() },
        size: args.arrays.size,
        memory_fraction: args.arrays.memory_fraction,
        element: vec![args.arrays.element],
        kernels: args.arrays.kernels.clone(),
        babelstream: None,
        common: args.common.clone(),
    };
    conduct(&of.common, stream_plan(&of)?)
}

/// Runs `roofline --device`: kernels and peaks.
pub(crate) fn roofline(
    devices: &[DeviceChoice],
    common: &MeasuringArgs,
    budget: Duration,
) -> Result<Exit, Failure> {
    let SelectedDevices { devices, notices } = drivers::find_devices(devices)?;
    let left = time_left(common, budget);
    let mut parts = plan_roofline_tests(devices, left, samples(common), notices)?;
    parts.time = common.budget.and(Some(left));
    conduct(common, Box::new(parts))
}

/// Returns the time that remains of the user's budget after the devices were listed; without a budget, `usual`.
fn time_left(common: &MeasuringArgs, usual: Duration) -> Duration {
    let limits = RunLimits::from_budget(common.budget(usual), samples(common));
    limits.budget.saturating_sub(limits.elapsed())
}

fn stream_plan(args: &DeviceStreamArgs) -> Result<Box<dyn PlannedRun>, Failure> {
    let SelectedDevices { devices, notices } = drivers::find_devices(&args.selection.devices)?;
    let defaults = DeviceStreamOptions::default();
    let options = DeviceStreamOptions {
        size: args.size,
        memory_fraction: Fraction(args.memory_fraction),
        elements: distinct_element_types(&args.element),
        budget: args.common.budget(DeviceStreamOptions::BUDGET),
        samples: samples(&args.common),
        ..defaults
    }
    .with_kernels(&args.kernels);
    let reference = program(args.babelstream.as_deref(), "a BabelStream")?;
    Ok(Box::new(
        DeviceStreamPlan::new(devices, options, notices)?.with_reference_program(reference),
    ))
}

/// Returns the reference program that the user gave, if any.
fn program(path: Option<&Path>, what: &str) -> Result<Option<UsersProgram>, Failure> {
    path.map(|path| UsersProgram::find(path, what)).transpose()
}

fn samples(common: &MeasuringArgs) -> Option<usize> {
    common.samples.map(|n| n as usize)
}

fn conduct(common: &MeasuringArgs, plan: Box<dyn PlannedRun>) -> Result<Exit, Failure> {
    session::conduct_plan(common, session::this_node(common)?, plan, &DeviceGauge)
}
