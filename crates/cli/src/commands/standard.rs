//! `nodegauge stream --standard`: builds the user's stream.c and lets it run beside the native
//! kernels.

use crate::args::StreamArgs;
use crate::commands::{compiled, places, ranks, stream};
use crate::failure::{Exit, Failure};
use crate::session::{self, Found, Shown};
use nodegauge_measure::Watch;
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::compiled::CompilerChoice;
use nodegauge_memory::standard::beside;
use nodegauge_memory::standard::build::{self, Contender, Source, Wanted};
use nodegauge_memory::standard::output::Dialect;
use nodegauge_placement::MemoryPolicy;
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
    ranks::refuse(&args.ranks, "--standard")?;
    let source = Source::open(path).map_err(Failure::usage)?;
    let presets =
        if args.compiler.contains(&CompilerChoice::All) { presets(&source)? } else { Vec::new() };
    let node = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &node.topology)?;
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
    let (size, _) =
        nodegauge_memory::stream::plan(&node.topology, &node.machine, placement, &options)?;
    let wanted = Wanted {
        elements: size.elements,
        element: options.element,
        offset: options.offset.unwrap_or(0),
    };
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let mut found = Found { notices: planned.notices.clone(), ..Found::default() };
            let scratch = Scratch::new()?;
            let (contenders, notices) =
                match contenders(args, &source, wanted, &presets, &scratch, &|| {
                    progress.interrupted()
                }) {
                    // The record says that nothing was measured.
                    Err(ToolchainError::Interrupted) => {
                        found.interrupted = true;
                        return Ok(found);
                    }
                    built => built?,
                };
            found.notices.extend(notices);
            let (topology, machine) = (&node.topology, &node.machine);
            let outcome =
                beside::run(topology, machine, placement, &options, &contenders, progress)?;
            found.extend(Found {
                measurements: outcome.measurements,
                findings: outcome.findings,
                notices: outcome.notices,
                interrupted: outcome.stop == Stop::Interrupted,
                ..Found::default()
            });
            Ok(found)
        },
        |record, style| Shown::Text(nodegauge_report::stream::render(record, style)),
    )
}

/// What `--compiler all` means for a source: every C compiler that is installed, with OpenMP.
fn presets(source: &Source) -> Result<Vec<CommandLine>, Failure> {
    if source.dialect() == Dialect::Fortran {
        return Err(Failure::usage(
            "--compiler all is of C compilers, and the source is Fortran\nhint: name one, e.g. --compiler gfortran",
        ));
    }
    let compilers = compiled::installed()?;
    Ok(compilers.iter().flat_map(|compiler| compiler.variants(true)).collect())
}

/// The builds: with every compiler that the user names, or those of the usual ones that are there
/// and can compile the source; and what was left out.
fn contenders(
    args: &StreamArgs,
    source: &Source,
    wanted: Wanted,
    presets: &[CommandLine],
    scratch: &Scratch,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Vec<Contender>, Vec<String>), ToolchainError> {
    let build = |command: &CommandLine, i: usize| {
        build::build(source, command, wanted, scratch, &format!("stream-{i}"), interrupted)
    };
    let mut contenders: Vec<Contender> = Vec::new();
    let mut notices = Vec::new();
    for choice in &args.compiler {
        match choice {
            // It runs in any case.
            CompilerChoice::Native => {}
            CompilerChoice::Command(command) => contenders.push(build(command, contenders.len())?),
            CompilerChoice::All => {
                for command in presets {
                    match build(command, contenders.len()) {
                        Ok(contender) => contenders.push(contender),
                        Err(ToolchainError::Compile { .. }) => {
                            notices.push(format!("{command}: left out, the compiler refuses it"));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
    if !args.compiler.is_empty() {
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
