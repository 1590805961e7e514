//! `nodegauge run`: everything that nodegauge measures, on one page.

use crate::args::RunArgs;
use crate::commands::tune;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::session::{self, Shown};
use nodegauge_gauge::{Depth, Glance};
use nodegauge_measure::{Notice, NoticeId, Outcome};
use nodegauge_memory::stream::{self, Options};
use nodegauge_placement::{Environment, Request};
use nodegauge_report::{run, text};
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
    let applied = environment.apply(&mut request).map_err(Failure::usage)?;
    let mut notices: Vec<Notice> = applied
        .into_iter()
        .map(|text| Notice::new(NoticeId::Environment, "memory", text))
        .collect();
    let mut options = Options {
        budget: common.budget.unwrap_or(if args.full { FULL } else { QUICK }),
        samples: common.samples.map(|n| n as usize),
        ..Options::default()
    };
    if let Some(remembered) = tune::remembered(&common.db, &node) {
        notices.push(remembered.notice);
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
            let mut found = Outcome { notices, ..Outcome::default() };
            found.extend(outcome);
            for gauge in GAUGES {
                if found.is_interrupted() {
                    break;
                }
                let ask = Glance {
                    depth: if args.full { Depth::Full } else { Depth::Quick },
                    before: &found.measurements,
                    allow_root: args.root.allow_run_as_root,
                };
                let more = gauges::glance(gauge, node, &ask, progress);
                found.extend(more);
            }
            Ok(found)
        },
        |record, style| Shown::Text(text::page(&run::brief(record, &GAUGES), style)),
    )
}
