//! Implementation of the command `nodegauge roofline`.

use crate::args::roofline::RooflineArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::GAUGES;
use crate::progress::Progress;
use crate::session::{self, StdoutContent};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_roofline::{RooflineGauge, RooflineOptions, RooflinePlan};
use nodegauge_toolchain::CommandLine;

pub(crate) fn execute(args: &RooflineArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    if common.against.is_some() {
        return Err(
            Failure::usage("no published rooflines exist").hint("use --against with stream")
        );
    }
    if !args.devices.is_empty() {
        return super::device::roofline(&args.devices, common, RooflinePlan::BUDGET);
    }
    let program = args.program.split_first();
    let program = program.map(|(name, rest)| CommandLine::new(name.clone(), rest.to_vec()));
    let site = session::node_with_caches(common)?;
    let plan = {
        let newest = session::newest_run(&common.db, &site);
        let options = RooflineOptions {
            placement: args.placement.options(),
            largest: args.size,
            budget: common.budget(RooflinePlan::BUDGET),
            samples: common.samples.map(|n| n as usize),
            given_points: &args.point,
            program,
            newest: &newest,
        };
        RooflinePlan::new(&GAUGES, &site, options)?
    };
    let figures = plan.possible_figures(&site);
    let measure = |node: &MeasuredNode, progress: &mut Progress| {
        session::measure(Box::new(plan), node, progress)
    };
    session::conduct(common, site, &figures, measure, StdoutContent::page_renderer(&RooflineGauge))
}
