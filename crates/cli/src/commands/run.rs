//! `nodegauge run`: everything that nodegauge measures, on one page.

use crate::args::RunArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::resolve;
use crate::session::{self, Shown};
use nodegauge_gauge::{Depth, Glance, Site};
use nodegauge_measure::Outcome;
use nodegauge_measure::expect::Figures;
use nodegauge_placement::{Environment, Request};
use nodegauge_report::{run, text};

pub(crate) fn execute(args: &RunArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    let site = session::site(common)?;
    // What the environment asks of threads is refused as options are, before anything is measured.
    let environment = resolve::environment();
    let mut asked = Request::default();
    environment.apply(&mut asked).map_err(Failure::usage)?;
    nodegauge_placement::plan(&site.topology, &asked)?;
    let figures =
        if common.conditions.expect.is_empty() { Vec::new() } else { figures(&site, &environment) };
    session::conduct(
        common,
        site,
        &figures,
        |site, progress| {
            let mut found = Outcome::default();
            for gauge in GAUGES {
                if found.is_interrupted() {
                    break;
                }
                let ask = Glance {
                    depth: if args.full { Depth::Full } else { Depth::Quick },
                    before: &found.measurements,
                    budget: common.budget,
                    samples: common.samples.map(|n| n as usize),
                    environment: &environment,
                    newest: &session::newest(&common.db, site),
                };
                let more = gauges::glance(gauge, site, &ask, progress);
                found.extend(more);
            }
            Ok(found)
        },
        |record, style| Shown::Text(text::page(&run::page(record, &GAUGES, common.verbose), style)),
    )
}

/// What the gauges may find, for expectations; nothing where one of them cannot be planned, for then nobody
/// knows what it would have found.
fn figures(site: &Site, environment: &Environment) -> Vec<Figures> {
    let ask = Glance {
        depth: Depth::Quick,
        before: &[],
        budget: None,
        samples: None,
        environment,
        newest: &|_, _| None,
    };
    let plans: Result<Vec<_>, _> = GAUGES.iter().map(|gauge| gauge.glance(site, &ask)).collect();
    let plans = plans.unwrap_or_default();
    plans.iter().flatten().flat_map(|plan| plan.figures(site)).collect()
}
