//! Implementation of the command `nodegauge explain`.

use crate::args::ExplainArgs;
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_placement::JobPlacementOptions;
use nodegauge_stream::axis::StreamCellOptions;
use nodegauge_stream::{StreamGauge, StreamRequest};

pub(crate) fn execute(args: &ExplainArgs) -> Result<Exit, Failure> {
    if args.common.against.is_some() {
        return Err(Failure::usage("no published figures exist for the measurements of explain")
            .hint("use --against with stream"));
    }
    let site = session::node_with_caches(&args.common)?;
    let job =
        JobPlacementOptions { process: args.placement.options(), ..JobPlacementOptions::default() };
    let request = StreamRequest {
        cell: StreamCellOptions { job, arrays: args.arrays.options() },
        budget: args.common.budget,
        samples: args.common.samples.map(|n| n as usize),
        ..StreamRequest::default()
    };
    let plan = Box::new(request.plan_ablation(&site)?);
    session::conduct_plan(&args.common, site, plan, &StreamGauge::WITH_DEFAULT_VIEW)
}
