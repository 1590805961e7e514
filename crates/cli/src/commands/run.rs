//! `nodegauge run`: everything that nodegauge measures, on one page.

use crate::args::RunArgs;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::session::{self, Found, Session};
use nodegauge_machine::SysRoot;
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::stream::{self, Options};
use nodegauge_placement::{Environment, Request};
use std::time::Duration;

/// Time for memory in a quick run.
const QUICK: Duration = Duration::from_secs(10);
/// Time for memory in a full run: long enough to meet regimes that last for tens of seconds.
const FULL: Duration = Duration::from_secs(60);

pub(crate) fn execute(args: &RunArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    let describe = session::describe_options(common.dimms, common.processor.as_deref())?;
    let (topology, machine) = session::this_machine(&describe)?;
    let mut request = Request::default();
    let environment = Environment::read(|name| std::env::var(name).ok());
    let mut notices = environment.apply(&mut request).map_err(Failure::usage)?;
    let placement = nodegauge_placement::plan(&topology, &request)?;
    let options = Options {
        budget: common.budget.unwrap_or(if args.full { FULL } else { QUICK }),
        samples: common.samples.map(|n| n as usize),
        ..Options::default()
    };
    stream::plan(&topology, &machine, &placement, &options)?;
    let session = Session::begin(common)?;
    let mut findings = nodegauge_machine::examine(&topology, &SysRoot::live(), &machine);
    let mut progress = Progress::new(common.quiet, session.signals.clone());
    let outcome = stream::run(&topology, &machine, &placement, &options, &mut progress)?;
    progress.finish();
    notices.extend(outcome.notices);
    session::add_findings(&mut findings, outcome.findings);
    let record = session.record(
        common,
        Found {
            machine,
            findings,
            notices,
            measurements: outcome.measurements,
            complete: outcome.stop != Stop::Interrupted,
        },
    );
    let mut text = nodegauge_report::run::render(&record, output::style());
    if common.verbose {
        outcome.affinity.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    session.end(common, &record, &text)
}
