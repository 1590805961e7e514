//! `nodegauge memory`.

use crate::args::memory::{MemoryCommand, OrderArgs};
use crate::commands::places::{self, Planned};
use crate::commands::stream::{one_placement, shown};
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_gauge::Planned as _;
use nodegauge_memory::curves::{Curve, CurveOptions, CurvePlan};
use nodegauge_placement::{MemoryPolicy, Request};
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(12);

pub(crate) fn execute(command: &MemoryCommand) -> Result<Exit, Failure> {
    let (curve, args, placement, order) = match command {
        MemoryCommand::Ladder(of) => (Curve::Ladder, &of.memory, Some(&of.placement), None),
        MemoryCommand::Latency(of) => {
            (Curve::Latency, &of.memory, Some(&of.placement), Some(of.order))
        }
        MemoryCommand::Matrix(of) => (Curve::Matrix, &of.memory, None, Some(of.order)),
        MemoryCommand::Loaded(of) => {
            (Curve::Loaded, &of.memory, Some(&of.placement), Some(of.order))
        }
        MemoryCommand::Mix(of) => (Curve::Mix, &of.memory, Some(&of.placement), None),
    };
    let site = session::site(&args.common)?;
    // Latency is of one thread, unless the user names places.
    let threads = (curve == Curve::Latency).then_some(1);
    let otherwise = Request { threads, ..Request::default() };
    let planned = match placement {
        Some(args) => places::plan_or(args, &site.topology, &otherwise)?,
        // The matrix has its own idea of who reads.
        None => Planned {
            placements: vec![nodegauge_placement::plan(&site.topology, &otherwise)?],
            policy: MemoryPolicy::Default,
            notices: Vec::new(),
        },
    };
    let options = CurveOptions {
        pages: args.pages.0,
        policy: planned.policy.clone(),
        largest: args.size,
        memory_fraction: args.memory_fraction,
        order: order.map(OrderArgs::order).unwrap_or_default(),
        budget: args.common.budget.unwrap_or(BUDGET),
        samples: args.common.samples.map(|n| n as usize),
    };
    let (placement, notices) = one_placement(planned, "memory")?;
    let plan = CurvePlan::new(curve, &site, placement, options, notices)?;
    session::conduct(&args.common, site, |site, progress| Box::new(plan).run(site, progress), shown)
}
