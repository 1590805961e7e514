//! `nodegauge device`, and `nodegauge stream --device`.

use crate::args::Common;
use crate::args::device::{DeviceArgs, DeviceCommand, DeviceStreamArgs, WhichArgs};
use crate::args::stream::StreamArgs;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_devices::drivers::{self, DeviceChoice};
use nodegauge_devices::info::DeviceInfo;
use nodegauge_devices::links::{LinkOptions, LinkPlan};
use nodegauge_devices::peaks::PeakPlan;
use nodegauge_devices::reference::UsersProgram;
use nodegauge_devices::stream::{DeviceStreamOptions, DeviceStreamPlan};
use nodegauge_devices::{Devices, all_parts, roof_parts};
use nodegauge_gauge::Planned;
use nodegauge_kernels::{Element, KERNELS};
use nodegauge_measure::Notice;
use std::path::Path;
use std::time::Duration;

/// Default time for all parts.
const BUDGET: Duration = Duration::from_secs(30);

/// Devices to measure, and notices about devices that are left out.
type Found = (Vec<DeviceInfo>, Vec<Notice>);

/// Prints the devices of a driver. Runs in a child process, because drivers may crash.
pub(crate) fn list(driver: &str) -> Exit {
    output::print(&format!("{}\n", drivers::answer(driver)));
    Exit::Success
}

pub(crate) fn execute(args: &DeviceArgs) -> Result<Exit, Failure> {
    match &args.part {
        Some(DeviceCommand::Stream(of)) => conduct(&of.common, stream_plan(of, find(&of.which)?)?),
        Some(DeviceCommand::Links(of)) => {
            let (devices, notices) = find(&of.which)?;
            let options = LinkOptions {
                sizes: of.sizes.iter().map(|size| size.0).collect(),
                budget: of.common.budget.unwrap_or(LinkPlan::BUDGET),
                samples: samples(&of.common),
            };
            let beside = program(of.nvbandwidth.as_deref(), "an nvbandwidth")?;
            let plan = LinkPlan::new(devices, options, notices).beside(beside);
            conduct(&of.common, Box::new(plan))
        }
        Some(DeviceCommand::Peaks(of)) => {
            let (devices, notices) = find(&of.which)?;
            let budget = of.common.budget.unwrap_or(PeakPlan::BUDGET);
            let samples = samples(&of.common);
            let elements = once(&of.element, Element::ALL.iter().copied());
            let plan = PeakPlan::new(devices, elements, budget, samples, notices);
            conduct(&of.common, Box::new(plan))
        }
        None => {
            let (devices, notices) = find(&args.which)?;
            let budget = args.common.budget.unwrap_or(BUDGET);
            let parts = all_parts(devices, budget, samples(&args.common), notices)?;
            conduct(&args.common, Box::new(parts))
        }
    }
}

/// `stream --device`: the same as `device stream`.
pub(crate) fn stream(args: &StreamArgs) -> Result<Exit, Failure> {
    let of = DeviceStreamArgs {
        which: WhichArgs { devices: args.on.devices.clone() },
        size: args.arrays.size,
        memory_fraction: args.arrays.memory_fraction,
        element: vec![args.arrays.element],
        kernels: args.arrays.kernels.clone(),
        babelstream: None,
        common: args.common.clone(),
    };
    conduct(&of.common, stream_plan(&of, find(&of.which)?)?)
}

/// `roofline --device`: kernels and peaks.
pub(crate) fn roofline(
    devices: &[DeviceChoice],
    common: &Common,
    budget: Duration,
) -> Result<Exit, Failure> {
    let (devices, notices) = find(&WhichArgs { devices: devices.to_vec() })?;
    let budget = common.budget.unwrap_or(budget);
    conduct(common, Box::new(roof_parts(devices, budget, samples(common), notices)?))
}

fn stream_plan(
    args: &DeviceStreamArgs,
    (devices, notices): Found,
) -> Result<Box<dyn Planned>, Failure> {
    let defaults = DeviceStreamOptions::default();
    let options = DeviceStreamOptions {
        size: args.size,
        memory_fraction: args.memory_fraction,
        elements: once(&args.element, Element::ALL.iter().copied()),
        kernels: match once(&args.kernels, KERNELS.iter().map(|spec| spec.kernel)) {
            kernels if kernels.is_empty() => defaults.kernels,
            kernels => kernels,
        },
        budget: args.common.budget.unwrap_or(defaults.budget),
        samples: samples(&args.common),
    };
    let beside = program(args.babelstream.as_deref(), "a BabelStream")?;
    Ok(Box::new(DeviceStreamPlan::new(devices, options, notices)?.beside(beside)))
}

/// Returns the user's program to compare with, if one is given.
fn program(path: Option<&Path>, what: &str) -> Result<Option<UsersProgram>, Failure> {
    path.map(|path| UsersProgram::find(path, what)).transpose()
}

fn samples(common: &Common) -> Option<usize> {
    common.samples.map(|n| n as usize)
}

/// Returns the elements of `all` that are in `asked`, in the order of `all`.
fn once<T: Copy + PartialEq>(asked: &[T], all: impl IntoIterator<Item = T>) -> Vec<T> {
    all.into_iter().filter(|one| asked.contains(one)).collect()
}

/// Returns the selected devices.
fn find(which: &WhichArgs) -> Result<Found, Failure> {
    let listings = drivers::list(&|| false)?;
    let mut notices = Vec::new();
    let all = [DeviceChoice::All];
    let choices = if which.devices.is_empty() { &all[..] } else { &which.devices };
    let devices = drivers::chosen(choices, &listings, &mut notices)?;
    Ok((devices, notices))
}

fn conduct(common: &Common, plan: Box<dyn Planned>) -> Result<Exit, Failure> {
    session::conduct_plan(common, session::site(common)?, plan, &Devices)
}
