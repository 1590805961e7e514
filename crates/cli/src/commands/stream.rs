//! `nodegauge stream`.

use crate::args::{Common, StreamArgs};
use crate::commands::places::{self, Planned};
use crate::commands::{standard, sweep};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::session::{self, Found, Session};
use nodegauge_machine::SysRoot;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::kernels::STREAM;
use nodegauge_memory::stream::{self, Options};
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(10);

/// The options of a run, with `budget` unless the user gives another.
pub(crate) fn options(args: &StreamArgs, planned: &Planned, budget: Duration) -> Options {
    let mut kernels = Vec::new();
    for kernel in &args.kernels {
        if !kernels.contains(kernel) {
            kernels.push(*kernel);
        }
    }
    // A pass runs kernels in STREAM's order, whatever the order of the option.
    kernels.sort();
    Options {
        size: args.size,
        memory_fraction: args.memory_fraction,
        element: args.element,
        offset: args.offset,
        kernels,
        stores: args.stores.0,
        pages: args.pages.0,
        prefetch: args.prefetch.0,
        policy: planned.policy.clone(),
        budget: args.common.budget.unwrap_or(budget),
        samples: args.common.samples.map(|n| n as usize),
    }
}

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    if let Some(path) = &args.standard {
        return standard::execute(args, path);
    }
    let axes = sweep::axes(args)?;
    if !axes.is_empty() {
        return sweep::execute(args, &axes);
    }
    let describe = session::describe_options(args.common.dimms, args.common.processor.as_deref())?;
    let (topology, machine) = session::this_machine(&describe)?;
    let planned = places::plan(&args.placement, &topology)?;
    // Several thread counts are a sweep, so there is one placement here.
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage("expected one thread count"));
    };
    let options = options(args, &planned, BUDGET);
    if args.stream_text && !options.kernels.iter().any(|kernel| STREAM.contains(kernel)) {
        return Err(Failure::usage(
            "--stream-text shows copy, scale, add and triad, none of which is in --kernels\nhint: leave out --stream-text",
        ));
    }
    // Everything that can be refused is refused before the history is touched.
    stream::plan(&topology, &machine, placement, &options)?;
    let session = Session::begin(&args.common)?;
    let mut findings = nodegauge_machine::examine(&topology, &SysRoot::live(), &machine);
    let mut progress = Progress::new(args.common.quiet, session.signals.clone());
    let outcome = stream::run(&topology, &machine, placement, &options, &mut progress)?;
    progress.finish();
    session::add_findings(&mut findings, outcome.findings);
    let mut notices = planned.notices.clone();
    notices.extend(outcome.notices);
    let record = session.record(
        &args.common,
        Found {
            machine,
            findings,
            notices,
            measurements: outcome.measurements,
            complete: outcome.stop != Stop::Interrupted,
        },
    );
    if args.stream_text {
        // Scripts that parse the classic table get nothing else on standard output.
        if !session.stdout_is_taken() {
            classic(&record.measurements, &outcome.times);
        }
        let quiet = Common { quiet: true, ..args.common.clone() };
        return session.end(&quiet, &record, "");
    }
    let mut text = nodegauge_report::stream::render(&record, output::style());
    if args.common.verbose {
        outcome.affinity.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    session.end(&args.common, &record, &text)
}

/// Prints the classic table; without a valid result the reason, and no table.
fn classic(measurements: &[Measurement], times: &[Vec<f64>]) {
    let all: Vec<&Measurement> = measurements.iter().collect();
    match nodegauge_report::classic::render(&all, times, env!("CARGO_PKG_VERSION")) {
        Some(table) => output::print(&table),
        None => {
            let reason = all.iter().flat_map(|m| &m.validity.reasons).next();
            let reason = reason.map_or("nothing was measured", String::as_str);
            output::error(&format!("no valid result: {reason}"));
        }
    }
}
