//! `nodegauge memory`.

use crate::args::memory::{MemoryCommand, OrderArgs};
use crate::failure::{Exit, Failure};
use crate::resolve::{self, TeamRequest};
use crate::session;
use nodegauge_curves::{Curve, CurveOptions, CurvePlan, Curves};
use nodegauge_placement::PlacementRequest;
use std::time::Duration;

/// Default time for the whole command.
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
    let mut team = match placement {
        Some(team_args) => resolve::one_team(team_args, &site.topology, "memory")?,
        // The matrix chooses its reading threads itself.
        None => TeamRequest::default(),
    };
    if curve == Curve::Latency && team.request == PlacementRequest::default() {
        // One thread, unless places are given.
        team.request.threads = Some(1);
    }
    let team_placement = nodegauge_placement::plan(&site.topology, &team.request)?;
    let options = CurveOptions {
        pages: args.pages.0,
        policy: team.policy,
        largest: args.size,
        memory_fraction: args.memory_fraction,
        order: order.map(OrderArgs::order).unwrap_or_default(),
        budget: args.common.budget.unwrap_or(BUDGET),
        samples: args.common.samples.map(|n| n as usize),
        ..CurveOptions::default()
    };
    let plan = CurvePlan::new(curve, &site, team_placement, options, team.notices)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &Curves)
}
