//! Implementation of the command `nodegauge memory`.

use crate::args::PlacementArgs;
use crate::args::memory::{ChaseOrderArgs, FamilyArgs, LatencyArgs, MatrixArgs, MemoryCommand};
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::output::Sink;
use crate::session::{self, HostsRun, StdoutContent};
use nodegauge_curves::{Curve, CurveGauge, CurveOptions, CurvePlan, hwloc_xml};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_measure::Fraction;
use nodegauge_toolchain::{CommandLine, required_program};
use std::path::Path;

pub(crate) fn execute(command: &MemoryCommand) -> Result<Exit, Failure> {
    let MemoryCommand::Latency(args) = command else { return measure(command, None) };
    let exclude_file = args.hosts.exclude_file.as_deref();
    match launched::job_on_hosts() {
        Some(job) => {
            launched::measure_each_host(&job, exclude_file, |run| measure(command, Some(run)))
        }
        None => {
            launched::refuse_exclude_file(exclude_file)?;
            measure(command, None)
        }
    }
}

/// Returns the program given after `--`; `None` if there is none.
///
/// # Errors
/// Fails if the program does not exist.
fn named_program(words: &[String]) -> Result<Option<CommandLine>, Failure> {
    let Some((name, arguments)) = words.split_first() else { return Ok(None) };
    let hint = "give the program and its arguments after --, e.g. nodegauge memory curves -- ./solver input";
    required_program(Path::new(name), hint)?;
    Ok(Some(CommandLine::new(name.clone(), arguments.to_vec())))
}

fn measure(command: &MemoryCommand, hosts: Option<&HostsRun<'_>>) -> Result<Exit, Failure> {
    let mut options = CurveOptions::default();
    let mut usual = CurvePlan::BUDGET;
    let (curve, args, placement, order) = match command {
        MemoryCommand::Ladder(of) => (Curve::Ladder, &of.memory.untimed, Some(&of.placement), None),
        MemoryCommand::Latency(LatencyArgs { chase: of, .. }) => {
            (Curve::Latency, &of.memory.untimed, Some(&of.placement), Some(of.order))
        }
        MemoryCommand::Matrix(of) => (Curve::Matrix, &of.memory.untimed, None, Some(of.order)),
        MemoryCommand::Loaded(of) => {
            (Curve::Loaded, &of.memory.untimed, Some(&of.placement), Some(of.order))
        }
        MemoryCommand::Mix(of) => (Curve::Mix, &of.memory.untimed, Some(&of.placement), None),
        MemoryCommand::Scaling(of) => {
            (Curve::Scaling, &of.memory.untimed, Some(&of.placement), None)
        }
        MemoryCommand::Curves(FamilyArgs { mixes, from, to, program, chase: of }) => {
            options.program = named_program(program)?;
            options.mixes.clone_from(mixes);
            options.from = from.clone().unwrap_or_default();
            options.to = to.clone().unwrap_or_default();
            usual = CurvePlan::FAMILY_BUDGET;
            (Curve::Family, &of.memory, Some(&of.placement), Some(of.order))
        }
    };
    let site = session::node_with_caches(&args.common)?;
    let placement = placement.map(PlacementArgs::options).unwrap_or_default();
    let options = CurveOptions {
        pages: args.pages.0,
        max_working_set: args.size,
        memory_fraction: Fraction(args.memory_fraction),
        order: order.map(ChaseOrderArgs::order).unwrap_or_default(),
        budget: args.common.budget(usual),
        samples: args.common.samples.map(|n| n as usize),
        ..options
    };
    let plan = CurvePlan::new(curve, &site, &placement, options)?;
    match command {
        MemoryCommand::Matrix(matrix) if matrix.emit.is_some() => emit(matrix, site, plan),
        _ => session::conduct_plan_on(hosts, &args.common, site, Box::new(plan), &CurveGauge),
    }
}

/// Measures the matrix and writes it as memory attributes of hwloc.
fn emit(args: &MatrixArgs, site: MeasuredNode, plan: CurvePlan) -> Result<Exit, Failure> {
    let common = &args.memory.untimed.common;
    let accept_suspect = common.conditions.accept_suspect;
    let sink = Sink::from(args.output.as_deref().unwrap_or("-"));
    let is_taken = [&common.json, &common.csv].into_iter().flatten().any(|path| path == "-");
    if sink == Sink::Stdout && is_taken {
        let text = "--emit and --json or --csv cannot both go to standard output";
        return Err(Failure::usage(text).hint("write the XML to a file, e.g. --output FILE"));
    }
    sink.check()?;
    let figures = plan.possible_figures(&site);
    let mut xml = None;
    let ended = session::conduct(
        common,
        site,
        &figures,
        |node, progress| session::measure(Box::new(plan), node, progress),
        |record, style| {
            let made = xml.insert(hwloc_xml(record, accept_suspect));
            match (&sink, made) {
                (Sink::Stdout, Ok(text)) => StdoutContent::Table(text.clone()),
                (Sink::Stdout, Err(_)) => StdoutContent::Table(String::new()),
                (Sink::File(_), _) => StdoutContent::page_renderer(&CurveGauge)(record, style),
            }
        },
    )?;
    if matches!(ended, Exit::Signal(_)) {
        return Ok(ended);
    }
    let text = xml.unwrap_or_else(|| Err(Failure::unmet("nothing was measured")))?;
    if sink != Sink::Stdout {
        sink.write(&text)?;
    }
    Ok(ended)
}
