//! `nodegauge run`: everything that nodegauge measures, on one page.

use crate::args::RunArgs;
use crate::failure::{Exit, Failure};
use crate::session::{self, Node, Shown};
use nodegauge_memory::stream::{self, Options};
use nodegauge_placement::{Environment, Request};
use std::time::Duration;

/// Time for memory in a quick run.
const QUICK: Duration = Duration::from_secs(10);
/// Time for memory in a full run: long enough to meet regimes that last for tens of seconds.
const FULL: Duration = Duration::from_secs(60);

pub(crate) fn execute(args: &RunArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    let node = Node::live(common)?;
    let mut request = Request::default();
    let environment = Environment::read(|name| std::env::var(name).ok());
    let notices = environment.apply(&mut request).map_err(Failure::usage)?;
    let placement = nodegauge_placement::plan(&node.topology, &request)?;
    let options = Options {
        budget: common.budget.unwrap_or(if args.full { FULL } else { QUICK }),
        samples: common.samples.map(|n| n as usize),
        ..Options::default()
    };
    stream::plan(&node.topology, &node.machine, &placement, &options)?;
    session::conduct(
        common,
        node,
        |node, progress| {
            let outcome =
                stream::run(&node.topology, &node.machine, &placement, &options, progress)?;
            Ok(super::stream::found(notices, outcome))
        },
        |record, style| Shown::Text(nodegauge_report::run::render(record, style)),
    )
}
