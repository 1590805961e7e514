//! `nodegauge stream`.

use crate::args::StreamArgs;
use crate::commands::places::{self, Planned};
use crate::commands::ranks::{self, measure};
use crate::commands::{compiled, standard, sweep, tune};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session::{self, Found, Shown};
use nodegauge_gauge::Site;
use nodegauge_measure::record::Record;
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::kernels::STREAM;
use nodegauge_memory::size::SizeSpec;
use nodegauge_memory::stream::{self, Options};
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(10);

/// The options of a run, with `budget` unless the user gives another.
pub(crate) fn options(args: &StreamArgs, planned: &Planned, budget: Duration) -> Options {
    options_of(args, planned.policy.clone(), budget)
}

/// The same, with the memory policy of one process, or none for ranks, which have their own.
pub(crate) fn options_of(args: &StreamArgs, policy: MemoryPolicy, budget: Duration) -> Options {
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
        policy,
        budget: args.common.budget.unwrap_or(budget),
        loops: Vec::new(),
        samples: args.common.samples.map(|n| n as usize),
    }
}

/// What `--tune` chose before, unless the user says otherwise or wants arrays and memory of a kind
/// for which it was not chosen.
fn remembered(args: &StreamArgs, node: &Site) -> Option<tune::Remembered> {
    let alike =
        args.size == SizeSpec::Auto && args.offset.is_none() && args.placement.numa.is_none();
    (alike && !args.untuned).then(|| tune::remembered(&args.common.db, node))?
}

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    if let Some(started) = measure::started() {
        return measure::join(args, started);
    }
    if let Some(path) = &args.standard {
        return standard::execute(args, path);
    }
    if args.tune {
        ranks::refuse(&args.ranks, "--tune")?;
        return tune::execute(args);
    }
    let axes = sweep::axes(args)?;
    if !axes.is_empty() {
        return sweep::execute(args, axes, None);
    }
    if args.ranks.given().is_some() {
        return measure::execute(args, None);
    }
    if !args.compiler.is_empty() {
        return compiled::execute(args);
    }
    let node = session::site(&args.common)?;
    let remembered = remembered(args, &node);
    let choice = remembered.as_ref().and_then(|remembered| remembered.choice.as_ref());
    let mut planned = match choice {
        Some(choice) => places::plan_or(&args.placement, &node.topology, &choice.request)?,
        None => places::plan(&args.placement, &node.topology)?,
    };
    planned.notices.extend(remembered.as_ref().map(|remembered| remembered.notice.clone()));
    // Several thread counts are a sweep, so there is one placement here.
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage("expected one thread count"));
    };
    let mut options = options(args, &planned, BUDGET);
    if let Some(choice) = choice {
        choice.fill(&mut options);
    }
    refuse_empty_table(args, &options)?;
    // Everything that can be refused is refused before the history is touched.
    stream::plan(&node.topology, &node.machine, placement, &options)?;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let outcome =
                stream::run(&node.topology, &node.machine, placement, &options, progress)?;
            Ok(found(planned.notices.clone(), outcome))
        },
        |record, style| match args.stream_text {
            true => classic(record),
            false => Shown::Text(nodegauge_report::stream::render(record, style)),
        },
    )
}

/// Refuses a classic table without any of its kernels.
pub(crate) fn refuse_empty_table(args: &StreamArgs, options: &Options) -> Result<(), Failure> {
    if args.stream_text && !options.kernels.iter().any(|kernel| STREAM.contains(kernel)) {
        return Err(Failure::usage(
            "--stream-text shows copy, scale, add and triad, none of which is in --kernels\nhint: leave out --stream-text",
        ));
    }
    Ok(())
}

/// What a run found, with what was noticed before it.
pub(crate) fn found(mut notices: Vec<String>, outcome: stream::Outcome) -> Found {
    notices.extend(outcome.notices);
    Found {
        measurements: outcome.measurements,
        findings: outcome.findings,
        notices,
        details: outcome.affinity,
        interrupted: outcome.stop == Stop::Interrupted,
        failure: None,
    }
}

/// The classic table; without a valid result the reason on standard error, and no table.
pub(crate) fn classic(record: &Record) -> Shown {
    Shown::Table(nodegauge_report::classic::render(record).unwrap_or_else(|| {
        let reason = record.measurements.iter().flat_map(|m| &m.validity.reasons).next();
        let reason = reason.map_or("nothing was measured", String::as_str);
        output::error(&format!("no valid result: {reason}"));
        String::new()
    }))
}
