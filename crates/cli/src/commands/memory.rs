//! Implementation of the command `nodegauge memory`.

use crate::args::PlacementArgs;
use crate::args::memory::{LatencyArgs, MemoryCommand, OrderArgs};
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::session::{self, HostsRun};
use nodegauge_curves::{Curve, CurveOptions, CurvePlan, Curves};
use nodegauge_measure::Fraction;

pub(crate) fn execute(command: &MemoryCommand) -> Result<Exit, Failure> {
    let MemoryCommand::Latency(args) = command else { return measure(command, None) };
    let exclude_file = args.hosts.exclude_file.as_deref();
    match launched::on_several_hosts() {
        Some(job) => {
            launched::one_process_per_host(&job, exclude_file, |run| measure(command, Some(run)))
        }
        None => {
            launched::refuse_exclude_file(exclude_file)?;
            measure(command, None)
        }
    }
}

fn measure(command: &MemoryCommand, hosts: Option<&HostsRun<'_>>) -> Result<Exit, Failure> {
    let (curve, args, placement, order) = match command {
        MemoryCommand::Ladder(of) => (Curve::Ladder, &of.memory, Some(&of.placement), None),
        MemoryCommand::Latency(LatencyArgs { chase: of, .. }) => {
            (Curve::Latency, &of.memory, Some(&of.placement), Some(of.order))
        }
        MemoryCommand::Matrix(of) => (Curve::Matrix, &of.memory, None, Some(of.order)),
        MemoryCommand::Loaded(of) => {
            (Curve::Loaded, &of.memory, Some(&of.placement), Some(of.order))
        }
        MemoryCommand::Mix(of) => (Curve::Mix, &of.memory, Some(&of.placement), None),
    };
    let site = session::array_site(&args.common)?;
    let placement = placement.map(PlacementArgs::options).unwrap_or_default();
    let options = CurveOptions {
        pages: args.pages.0,
        largest: args.size,
        memory_fraction: Fraction(args.memory_fraction),
        order: order.map(OrderArgs::order).unwrap_or_default(),
        budget: args.common.budget(CurvePlan::BUDGET),
        samples: args.common.samples.map(|n| n as usize),
        ..CurveOptions::default()
    };
    let plan = CurvePlan::of(curve, &site, &placement, options)?;
    session::conduct_plan_on(hosts, &args.common, site, Box::new(plan), &Curves)
}
