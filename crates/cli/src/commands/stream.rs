//! `nodegauge stream`.

use crate::args::StreamArgs;
use crate::commands::places::{self, Planned};
use crate::commands::{standard, sweep};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::session::{self, Found, Session};
use nodegauge_machine::{SysRoot, Topology};
use nodegauge_measure::record::{Finding, Machine, Measurement};
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::stream::{self, Options};
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(10);

/// The options of a run, for one of `share` runs that divide the budget.
pub(crate) fn options(
    args: &StreamArgs,
    planned: &Planned,
    share: usize,
    budget: Duration,
) -> Options {
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
        budget: args.common.budget.unwrap_or(budget) / share.max(1) as u32,
        samples: args.common.samples.map(|n| n as usize),
    }
}

/// What runs over several thread counts found together.
struct Runs {
    measurements: Vec<Measurement>,
    notices: Vec<String>,
    findings: Vec<Finding>,
    affinity: Vec<String>,
    /// Times by measurement.
    times: Vec<Vec<f64>>,
    complete: bool,
}

fn measure(
    args: &StreamArgs,
    topology: &Topology,
    machine: &Machine,
    planned: &Planned,
    session: &Session,
) -> Result<Runs, Failure> {
    let options = options(args, planned, planned.placements.len(), BUDGET);
    let mut runs = Runs {
        measurements: Vec::new(),
        notices: planned.notices.clone(),
        findings: Vec::new(),
        affinity: Vec::new(),
        times: Vec::new(),
        complete: true,
    };
    let mut progress = Progress::new(args.common.quiet, session.signals.clone());
    for placement in &planned.placements {
        let outcome = stream::run(topology, machine, placement, &options, &mut progress)?;
        runs.measurements.extend(outcome.measurements);
        runs.notices.extend(outcome.notices);
        session::add_findings(&mut runs.findings, outcome.findings);
        runs.affinity.extend(outcome.affinity);
        runs.times.extend(outcome.times);
        if outcome.stop == Stop::Interrupted {
            runs.complete = false;
            break;
        }
    }
    progress.finish();
    Ok(runs)
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
    // Everything that can be refused is refused before the history is touched.
    for placement in &planned.placements {
        stream::plan(&topology, &machine, placement, &options(args, &planned, 1, BUDGET))?;
    }
    let session = Session::begin(&args.common)?;
    let mut findings = nodegauge_machine::examine(&topology, &SysRoot::live(), &machine);
    let runs = measure(args, &topology, &machine, &planned, &session)?;
    session::add_findings(&mut findings, runs.findings);
    let record = session.record(
        &args.common,
        Found {
            machine,
            findings,
            notices: runs.notices,
            measurements: runs.measurements,
            complete: runs.complete,
        },
    );
    let mut text = if args.stream_text {
        classic(&record.measurements, &runs.times)
    } else {
        nodegauge_report::stream::render(&record, output::style())
    };
    if args.common.verbose && !args.stream_text {
        runs.affinity.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    if args.stream_text {
        // Scripts that parse the classic table get nothing else on standard output.
        if !session.stdout_is_taken() {
            output::print(&text);
        }
        let mut common = args.common.clone();
        common.quiet = true;
        return session.end(&common, &record, "");
    }
    session.end(&args.common, &record, &text)
}

/// The classic table of each thread count; nothing for a run whose result is invalid.
fn classic(measurements: &[Measurement], times: &[Vec<f64>]) -> String {
    let threads = |m: &Measurement| m.config.get("threads").cloned();
    let mut out = String::new();
    let mut start = 0;
    while start < measurements.len() {
        let end = (start..measurements.len())
            .find(|i| threads(&measurements[*i]) != threads(&measurements[start]))
            .unwrap_or(measurements.len());
        let block: Vec<&Measurement> = measurements[start..end].iter().collect();
        match nodegauge_report::classic::render(
            &block,
            &times[start..end],
            env!("CARGO_PKG_VERSION"),
        ) {
            Some(table) => out.push_str(&table),
            None => {
                for reason in block.iter().flat_map(|m| &m.validity.reasons).take(1) {
                    output::error(&format!("no valid result: {reason}"));
                }
            }
        }
        start = end;
    }
    out
}
