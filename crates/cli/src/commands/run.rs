//! `nodegauge run`: everything that nodegauge measures, on one page.

use crate::args::RunArgs;
use crate::commands::tune;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::session::{self, Shown};
use nodegauge_gauge::{Depth, Gauge, Glance, Site};
use nodegauge_measure::{Notice, NoticeId, Observer, Outcome};
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
            let outcome =
                stream::run(&node.topology, &node.machine, &placement, &options, progress)?;
            let mut found: Outcome = super::stream::found(notices, outcome).into();
            let allow_root = args.root.allow_run_as_root;
            let depth = if args.full { Depth::Full } else { Depth::Quick };
            for gauge in gauges::ALL {
                if !found.is_interrupted() {
                    let ask = Glance { depth, before: &found.measurements, allow_root };
                    let more = glance(*gauge, node, &ask, progress);
                    found.extend(more);
                }
            }
            if !found.is_interrupted() {
                let quick = super::mpi::quick(&node.topology, args.full, allow_root, progress);
                found.extend(quick.into());
            }
            if !found.is_interrupted() {
                found.extend(super::io::glance(progress).into());
            }
            Ok(found)
        },
        |record, style| Shown::Text(nodegauge_report::run::render(record, gauges::ALL, style)),
    )
}

/// A gauge's part of `run`: what it lacks must not cost the other gauges' figures.
fn glance(
    gauge: &dyn Gauge,
    node: &Site,
    ask: &Glance<'_>,
    progress: &mut dyn Observer,
) -> Outcome {
    let outcome = gauge.glance(node, ask).and_then(|planned| match planned {
        Some(planned) => planned.run(node, progress),
        None => Ok(Outcome::default()),
    });
    outcome.unwrap_or_else(|failure| {
        let text = format!("{}: {failure}", gauge.name());
        let notices = vec![Notice::new(NoticeId::Failed, gauge.name(), text)];
        Outcome { notices, ..Outcome::default() }
    })
}
