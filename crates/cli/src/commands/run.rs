//! `nodegauge run`: everything that nodegauge measures, on one page.

use crate::args::RunArgs;
use crate::commands::tune;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::session::{self, Shown};
use nodegauge_memory::stream::{self, Options};
use nodegauge_placement::{Environment, Request};
use std::time::Duration;

/// Time for memory in a quick run.
const QUICK: Duration = Duration::from_secs(10);
/// Time for memory in a full run: long enough to meet regimes that last for tens of seconds.
const FULL: Duration = Duration::from_secs(60);

pub(crate) fn execute(args: &RunArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    let node = session::site(common)?;
    let mut request = Request::default();
    let environment = Environment::read(|name| std::env::var(name).ok());
    let mut notices = environment.apply(&mut request).map_err(Failure::usage)?;
    let mut options = Options {
        budget: common.budget.unwrap_or(if args.full { FULL } else { QUICK }),
        samples: common.samples.map(|n| n as usize),
        ..Options::default()
    };
    if let Some(remembered) = tune::remembered(&common.db, &node) {
        notices.push(remembered.notice.text);
        if let Some(choice) = remembered.choice {
            choice.fill(&mut options);
            if request == Request::default() {
                request = choice.request;
            }
        }
    }
    let placement = nodegauge_placement::plan(&node.topology, &request)?;
    stream::plan(&node.topology, &node.machine, &placement, &options)?;
    session::conduct(
        common,
        node,
        |node, progress| {
            let outcome = stream::run(node, &placement, &options, progress)?;
            let mut found = super::stream::found(notices, outcome);
            if !found.interrupted {
                found.extend(super::hpl::glance(node, args.full, &found.measurements, progress));
            }
            if !found.interrupted {
                let as_root = args.root.allow_run_as_root;
                found.extend(super::mpi::quick(&node.topology, args.full, as_root, progress));
            }
            if !found.interrupted {
                found.extend(super::io::glance(progress));
            }
            Ok(found)
        },
        |record, style| Shown::Text(nodegauge_report::run::render(record, gauges::ALL, style)),
    )
}
