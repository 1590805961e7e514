//! `nodegauge watch`: makes the request for a series from the arguments.

use crate::args::{WatchArgs, WhenBusy};
use crate::failure::{Exit, Failure};
use crate::node;
use crate::session;
use nodegauge_gauge::MeasuredNode;
use nodegauge_machine::{DescribeOptions, SysRoot};
use nodegauge_node::watch::WatchRequest;

pub(crate) fn execute(args: &WatchArgs) -> Result<Exit, Failure> {
    let request = WatchRequest {
        every: args.every,
        duration: args.whole,
        budget: args.budget,
        labels: args.label.clone(),
        starts_new_series: args.anew,
        measures_when_busy: args.when_busy == WhenBusy::Measure,
        is_quiet: args.quiet,
        history: session::history(&args.db),
    };
    request.validate_interval()?;
    let (topology, machine) = session::this_machine(&DescribeOptions::default())?;
    session::protected_history(&args.db)?;
    let site = MeasuredNode::new(topology, machine, SysRoot::live());
    Ok(request.run(site, &node::caller())?.into())
}
