//! `nodegauge memory`.

use crate::args::PlacementArgs;
use crate::args::memory::{MemoryArgs, MemoryCommand, OrderArgs};
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::resolve::{self, Planned};
use crate::session::{self, Shown};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_memory::curves::chase::Order;
use nodegauge_memory::curves::{
    CurveError, Options, Outcome, Site, ladder, latency, loaded, matrix, mix,
};
use nodegauge_placement::{MemoryPolicy, Placement, Request};
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(12);

/// A relative as a function.
type Gauge = fn(&Site<'_>, &Options, &mut Progress) -> Result<Outcome, CurveError>;
/// What can be refused before anything is measured.
type Check = fn(&Site<'_>, &Options) -> Result<(), CurveError>;

pub(crate) fn execute(command: &MemoryCommand) -> Result<Exit, Failure> {
    match command {
        MemoryCommand::Ladder(args) => measure(
            &args.memory,
            Some(&args.placement),
            None,
            &Request::default(),
            |site, options| ladder::plan(site, options, &mut Vec::new()).map(drop),
            |site, options, progress| ladder::run(site, options, progress),
        ),
        MemoryCommand::Latency(args) => measure(
            &args.memory,
            Some(&args.placement),
            Some(args.order),
            // Of one thread, unless the user names places.
            &Request { threads: Some(1), ..Request::default() },
            |site, options| latency::plan(site, options, &mut Vec::new()).map(drop),
            |site, options, progress| latency::run(site, options, progress),
        ),
        MemoryCommand::Matrix(args) => measure(
            &args.memory,
            None,
            Some(args.order),
            &Request::default(),
            |site, options| {
                matrix::fits(site, options, &matrix::plan(site.topology, options.largest))
            },
            |site, options, progress| matrix::run(site, options, progress),
        ),
        MemoryCommand::Loaded(args) => measure(
            &args.memory,
            Some(&args.placement),
            Some(args.order),
            &Request::default(),
            |site, options| loaded::plan(site, options, &mut Vec::new()).map(drop),
            |site, options, progress| loaded::run(site, options, progress),
        ),
        MemoryCommand::Mix(args) => measure(
            &args.memory,
            Some(&args.placement),
            None,
            &Request::default(),
            |site, options| mix::plan(site, options, &mut Vec::new()).map(drop),
            |site, options, progress| mix::run(site, options, progress),
        ),
    }
}

/// Where threads go; the matrix has its own idea of that.
fn placed(
    args: Option<&PlacementArgs>,
    otherwise: &Request,
    node: &nodegauge_gauge::Site,
) -> Result<(Placement, MemoryPolicy, Vec<String>), Failure> {
    let Some(args) = args else {
        let placement = nodegauge_placement::plan(&node.topology, &Request::default())?;
        return Ok((placement, MemoryPolicy::Default, Vec::new()));
    };
    let Planned { placements, policy, notices } =
        resolve::plan_or(args, &node.topology, otherwise)?;
    match <[Placement; 1]>::try_from(placements) {
        Ok([placement]) => Ok((placement, policy, notices)),
        Err(_) => Err(Failure::usage("memory takes one thread count\nhint: e.g. --threads 4")),
    }
}

fn measure(
    args: &MemoryArgs,
    placement: Option<&PlacementArgs>,
    order: Option<OrderArgs>,
    otherwise: &Request,
    check: Check,
    gauge: Gauge,
) -> Result<Exit, Failure> {
    let node = session::site(&args.common)?;
    let (placement, policy, notices) = placed(placement, otherwise, &node)?;
    let options = Options {
        pages: args.pages.0,
        policy,
        largest: args.size,
        memory_fraction: args.memory_fraction,
        order: order.map_or_else(Order::default, |order| Order {
            stride: order.stride as usize,
            locality: order.locality,
        }),
        budget: args.common.budget.unwrap_or(BUDGET),
        samples: args.common.samples.map(|n| n as usize),
    };
    // Everything that can be refused is refused before the history is touched.
    let site = Site { topology: &node.topology, machine: &node.machine, placement: &placement };
    check(&site, &options)?;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let site =
                Site { topology: &node.topology, machine: &node.machine, placement: &placement };
            let outcome = gauge(&site, &options, progress)?;
            let placed = notices.iter().map(|text| (NoticeId::Environment, text));
            let clamped = outcome.notices.iter().map(|text| (NoticeId::Clamped, text));
            let notices = placed.chain(clamped);
            Ok(nodegauge_measure::Outcome {
                measurements: outcome.measurements,
                findings: outcome.findings,
                notices: notices.map(|(id, text)| Notice::new(id, "memory", text)).collect(),
                details: outcome.affinity,
                stop: outcome.interrupted.then_some(Stop::Interrupted),
                failure: None,
            })
        },
        |record, style| Shown::Text(nodegauge_report::memory::render(record, style)),
    )
}
