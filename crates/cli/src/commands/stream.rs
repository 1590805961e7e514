//! Implementation of the command `nodegauge stream`. Each mode has its own plan.

mod ranks;

use super::device;
use crate::args::plan::refuse_with_plan;
use crate::args::stream::{StreamArgs, no_sweep_failure};
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::output;
use crate::session::{self, HostsRun, StdoutContent};
use nodegauge_kernels::STREAM;
use nodegauge_measure::record::Record;
use nodegauge_placement::LauncherJob;
use nodegauge_stream::ranks::LaunchedRanks;
use nodegauge_stream::view;
use nodegauge_stream::{LengthPlan, LengthPlanDocument, LengthRequest, StreamGauge, StreamMode};

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    if args.plan.plan {
        return plan_lengths(args);
    }
    args.plan.machine.refuse_without_plan(args.plan.rate.is_some(), "--plan")?;
    if !args.on.devices.is_empty() {
        return device::stream(args);
    }
    let exclude_file = args.hosts.exclude_file.as_deref();
    if let Some(job) = launched::job_on_hosts() {
        return launched::join_hosts(
            &job,
            exclude_file,
            |run| lead(args, run),
            |hosts| ranks::serve(hosts.host_job()),
        );
    }
    launched::refuse_exclude_file(exclude_file)?;
    match LauncherJob::current() {
        Some(started) => ranks::join(started, |joined| measure(args, Some(joined), None)),
        None => measure(args, None, None),
    }
}

/// Measures as the leader of a host, alone or with the other ranks of that host.
fn lead(args: &StreamArgs, run: &HostsRun<'_>) -> Result<Exit, Failure> {
    match run.hosts.host_job() {
        alone if alone.ranks == 1 => measure(args, None, Some(run)),
        here => ranks::join(here.clone(), |joined| measure(args, Some(joined), Some(run))),
    }
}

/// Shows the plan of the arrays.
fn plan_lengths(args: &StreamArgs) -> Result<Exit, Failure> {
    let others = [
        ("--device", !args.on.devices.is_empty()),
        ("--sweep", !args.sweep.axes.is_empty()),
        ("--show", !args.table.show.show.is_empty()),
        ("--stream-text", args.table.stream_text),
        ("--exclude-file", args.hosts.exclude_file.is_some()),
        ("--budget", args.common.budget.is_some()),
        ("--samples", args.common.samples.is_some()),
    ];
    refuse_with_plan(&args.common, &others)?;
    let options = args.request();
    options.standard.iter().for_each(|source| output::protect_input(source));
    let site = session::node_to_plan_for(&args.common, &args.plan.machine)?;
    let request = LengthRequest {
        rate: args.plan.rate,
        is_memory_given: args.plan.machine.memory.is_some(),
        newest: &session::newest_run(&args.common.db, &site),
    };
    let plan = LengthPlan::new(&options, &site, &request)?;
    let file = args.common.json.as_deref();
    if !output::write_documents(&[(file, &|| {
        output::json(&LengthPlanDocument::new(&plan, &site))
    })])? {
        output::show_section(&view::length_plan::section(&plan));
        output::print(&format!("\n{}", plan.commands()));
    }
    Ok(Exit::Success)
}

fn measure(
    args: &StreamArgs,
    joined: Option<&LaunchedRanks>,
    hosts: Option<&HostsRun<'_>>,
) -> Result<Exit, Failure> {
    let request = args.request();
    if let Some(source) = &request.standard {
        output::protect_input(source);
    }
    let mode = request.mode(joined)?;
    if hosts.is_some() && !matches!(mode, StreamMode::Plain) {
        return Err(Failure::usage("several hosts can measure only one configuration").hint(
            "leave out --sweep, --tune, --compiler and --standard, or start nodegauge on one host",
        ));
    }
    let stream = StreamGauge { show: args.table.show.show.clone() };
    if !stream.show.is_empty() && !matches!(mode, StreamMode::Sweep(_)) {
        return Err(no_sweep_failure());
    }
    let table = stream_text(args, &mode)?;
    if matches!(mode, StreamMode::Plain)
        && table.is_some()
        && !request.cell.arrays.pass_kernels().iter().any(|kernel| STREAM.contains(kernel))
    {
        return Err(Failure::usage(
            "--stream-text requires copy, scale, add or triad in --kernels",
        )
        .hint("leave out --stream-text"));
    }
    // stream.c and its table follow STREAM's rule with the reported cache sizes.
    let by_reported = request.standard.is_some() || args.table.stream_text;
    let site = if by_reported {
        session::this_node(&args.common)?
    } else {
        session::node_with_caches(&args.common)?
    };
    let plan = request.plan(mode, &site, joined, &session::newest_run(&args.common.db, &site))?;
    let figures = plan.possible_figures(&site);
    session::conduct_on(
        hosts,
        &args.common,
        site,
        &figures,
        |site, progress| session::measure(plan, site, progress),
        |record, style| match table {
            Some(text) => classic(record, text(record)),
            None => StdoutContent::page_renderer(&stream)(record, style),
        },
    )
}

/// Function that makes the text of `--stream-text` from a record.
type StreamText = fn(&Record) -> Option<String>;

/// Returns the function that makes the text of `--stream-text` in this mode; `None` without the option.
fn stream_text(args: &StreamArgs, mode: &StreamMode) -> Result<Option<StreamText>, Failure> {
    match mode {
        _ if !args.table.stream_text => Ok(None),
        StreamMode::Plain => Ok(Some(view::classic::render)),
        StreamMode::Standard(_) => Ok(Some(view::standard::printed_output)),
        StreamMode::Tune | StreamMode::Sweep(_) | StreamMode::Compilers => {
            Err(Failure::usage("--stream-text requires a single configuration or --standard")
                .hint("leave out --stream-text"))
        }
    }
}

/// Returns the table for other programs. Without a valid result, prints the reason as an error and returns no table.
fn classic(record: &Record, text: Option<String>) -> StdoutContent {
    StdoutContent::Table(text.unwrap_or_else(|| {
        let worst = record.measurements.iter().map(|m| &m.validity).max_by_key(|v| v.status);
        let reason = worst.and_then(|validity| validity.reasons.first());
        let reason = reason.map_or("nothing was measured", String::as_str);
        output::print_error_line(&format!("no valid result: {reason}"));
        String::new()
    }))
}
