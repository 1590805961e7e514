//! `nodegauge stream --standard`: builds the user's stream.c and lets it run beside the native
//! kernels.

use crate::args::StreamArgs;
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::session::{self, Found, Session};
use nodegauge_machine::{SysRoot, Topology};
use nodegauge_measure::record::Machine;
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::standard::beside;
use nodegauge_memory::standard::build::{self, Contender, Source, Wanted};
use nodegauge_memory::stream::Options;
use nodegauge_placement::{MemoryPolicy, Placement};
use nodegauge_toolchain::{CommandLine, Scratch, ToolchainError};
use std::path::Path;
use std::time::Duration;

/// Time for everything unless the user says otherwise: some rounds of native parts and runs of
/// stream.c, each a few seconds.
const BUDGET: Duration = Duration::from_secs(30);

/// Options that do not go together with `--standard`.
fn refuse(args: &StreamArgs) -> Result<(), Failure> {
    let hint = "hint: leave one of them out";
    if !args.sweep.is_empty() {
        return Err(Failure::usage(format!(
            "--standard shows one configuration, no --sweep\n{hint}"
        )));
    }
    if args.stream_text {
        return Err(Failure::usage(format!(
            "--stream-text is nodegauge's own table; stream.c prints its own\n{hint}"
        )));
    }
    Ok(())
}

pub(crate) fn execute(args: &StreamArgs, path: &Path) -> Result<Exit, Failure> {
    refuse(args)?;
    let source = Source::open(path).map_err(Failure::usage)?;
    let describe = session::describe_options(args.common.dimms, args.common.processor.as_deref())?;
    let (topology, machine) = session::this_machine(&describe)?;
    let planned = places::plan(&args.placement, &topology)?;
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage("--standard takes one thread count\nhint: e.g. --threads 4"));
    };
    if planned.policy != MemoryPolicy::Default {
        return Err(Failure::usage(
            "--numa cannot be given to stream.c\nhint: leave out --numa, or start nodegauge under numactl",
        ));
    }
    // The native arrays stay while stream.c has its own: each may take half.
    let mut options = stream::options(args, &planned, BUDGET);
    options.memory_fraction /= 2.0;
    let (size, _) = nodegauge_memory::stream::plan(&topology, &machine, placement, &options)?;
    let wanted = Wanted {
        elements: size.elements,
        element: options.element,
        offset: options.offset.unwrap_or(0),
    };
    let session = Session::begin(&args.common)?;
    let findings = nodegauge_machine::examine(&topology, &SysRoot::live(), &machine);
    let scratch = Scratch::new()?;
    let mut progress = Progress::new(args.common.quiet, session.signals.clone());
    let mut found = Found {
        machine,
        findings,
        notices: planned.notices,
        measurements: Vec::new(),
        complete: false,
    };
    match contenders(args, &source, wanted, &scratch, &session) {
        Ok((contenders, notices)) => {
            found.notices.extend(notices);
            let machine = found.machine.clone();
            let how = Run { topology: &topology, machine: &machine, placement, options: &options };
            measure(&how, &contenders, &mut found, &mut progress)?;
        }
        // The record says that nothing was measured.
        Err(ToolchainError::Interrupted) => {}
        Err(error) => return Err(error.into()),
    }
    progress.finish();
    drop(scratch);
    let record = session.record(&args.common, found);
    let text = nodegauge_report::stream::render(&record, output::style());
    session.end(&args.common, &record, &text)
}

/// What is run, and where.
struct Run<'a> {
    topology: &'a Topology,
    machine: &'a Machine,
    placement: &'a Placement,
    options: &'a Options,
}

fn measure(
    run: &Run<'_>,
    contenders: &[Contender],
    found: &mut Found,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let outcome =
        beside::run(run.topology, run.machine, run.placement, run.options, contenders, progress)?;
    found.notices.extend(outcome.notices);
    session::add_findings(&mut found.findings, outcome.findings);
    found.measurements = outcome.measurements;
    found.complete = outcome.stop != Stop::Interrupted;
    Ok(())
}

/// The builds: with every compiler that the user names, or those of the usual ones that are there
/// and can compile the source; and what was left out.
fn contenders(
    args: &StreamArgs,
    source: &Source,
    wanted: Wanted,
    scratch: &Scratch,
    session: &Session,
) -> Result<(Vec<Contender>, Vec<String>), ToolchainError> {
    let interrupted = || session.signals.received().is_some();
    let build = |command: &CommandLine, i: usize| {
        build::build(source, command, wanted, scratch, &format!("stream-{i}"), &interrupted)
    };
    let mut contenders: Vec<Contender> = Vec::new();
    let mut notices = Vec::new();
    if !args.compiler.is_empty() {
        for (i, command) in args.compiler.iter().enumerate() {
            contenders.push(build(command, i)?);
        }
        return Ok((contenders, notices));
    }
    let mut first_error = None;
    for (i, name) in source.usual_compilers().iter().enumerate() {
        match build(&CommandLine::new(*name, []), i) {
            Ok(contender) => contenders.push(contender),
            Err(ToolchainError::Interrupted) => return Err(ToolchainError::Interrupted),
            Err(error) => {
                let what = match &error {
                    ToolchainError::NoCompiler { .. } => "is not installed",
                    _ => "does not build it here",
                };
                notices.push(format!("{name} {what}: left out"));
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error {
        Some(error) if contenders.is_empty() => Err(error),
        _ => Ok((contenders, notices)),
    }
}
