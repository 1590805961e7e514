//! `nodegauge stream --compiler`: lets the compilers of this system make the kernels, and runs what
//! they made beside the native ones. Also the hidden `prove-kernel`, as which nodegauge starts
//! itself to try one.

use crate::args::StreamArgs;
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session::{self, Found, Shown};
use nodegauge_measure::Watch;
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::compiled::{
    ChosenCompiler, CompiledKernels, CompilerChoice, KernelBuilder, comparison, self_test,
};
use nodegauge_memory::kernels::{Element, Kernel};
use nodegauge_memory::stream::Options;
use nodegauge_toolchain::presets::{self, Installed};
use nodegauge_toolchain::{CommandLine, CompileLimits, ToolchainError};
use std::path::Path;
use std::time::Duration;

/// Time for everything but compiling unless the user says otherwise: a dozen variants have some ten
/// turns each.
const BUDGET: Duration = Duration::from_secs(30);
/// Seconds that a compiler may take, where a minute is not right: a licence server may be slow.
const LIMIT: &str = "NODEGAUGE_COMPILE_LIMIT";

/// Tries a kernel of a shared object. Ends with a failure, or dies, when it is no good.
pub(crate) fn prove(library: &Path, kernel: Kernel, element: Element) -> Result<Exit, Failure> {
    // SAFETY: this process exists to try the library, and nothing is lost with it.
    match unsafe { self_test::run(library, kernel, element) } {
        Ok(()) => {
            output::print(self_test::PASSED);
            Ok(Exit::Success)
        }
        Err(wrong) => {
            output::error(&wrong);
            Ok(Exit::Unmet)
        }
    }
}

/// The compilers that are installed.
pub(crate) fn installed() -> Result<Vec<Installed>, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = presets::installed(&path, Path::new("/"));
    if found.is_empty() {
        let known: Vec<&str> = presets::families().map(|family| family.name).collect();
        return Err(Failure::missing(format!(
            "none of the compilers that nodegauge knows is installed: {}\nhint: name one with its flags, e.g. --compiler 'cc -O3'",
            known.join(", ")
        )));
    }
    Ok(found)
}

/// What choices come to on this system.
pub(crate) fn resolve(choices: &[CompilerChoice]) -> Result<Vec<ChosenCompiler>, Failure> {
    let installed = if choices.contains(&CompilerChoice::All) { installed()? } else { Vec::new() };
    Ok(CompilerChoice::resolve(choices, &installed, false))
}

/// How long compiling may take.
pub(crate) fn limits() -> Result<CompileLimits, Failure> {
    let Ok(text) = std::env::var(LIMIT) else { return Ok(CompileLimits::USUAL) };
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => {
            Ok(CompileLimits::of(Duration::from_secs_f64(seconds)))
        }
        _ => Err(Failure::usage(format!(
            "{LIMIT} is {text:?}: expected seconds from 0.1 to 86400\nhint: unset it for the usual 60"
        ))),
    }
}

/// Variants that were made, each with the words that chose it.
pub(crate) struct Made {
    pub(crate) variants: Vec<(String, CompiledKernels)>,
    /// Presets that a compiler refuses.
    pub(crate) notices: Vec<String>,
}

/// Makes all variants. What a compiler refuses is in its variant, but for presets, which are left
/// out; `None` when the user ends the run.
pub(crate) fn make(
    chosen: &[ChosenCompiler],
    options: &Options,
    limits: CompileLimits,
    watch: &mut dyn Watch,
) -> Result<Option<Made>, Failure> {
    // This very program, even when its file has been replaced since.
    let self_test = CommandLine::new("/proc/self/exe", ["prove-kernel"]);
    let mut builder = KernelBuilder::open(self_test, limits, &options.kernels, options.element)?;
    let mut made = Made { variants: Vec::new(), notices: Vec::new() };
    for choice in chosen {
        let ChosenCompiler::Command { command, preset } = choice else { continue };
        watch.phase(&format!("compiling with {command}"));
        let variant = match builder.make(command, &|| watch.interrupted()) {
            Err(ToolchainError::Interrupted) => return Ok(None),
            made => made?,
        };
        match variant.refusal() {
            Some(why) if *preset => {
                made.notices.push(format!("{command}: left out, {}", first_line(why)));
            }
            _ => made.variants.push((choice.to_string(), variant)),
        }
    }
    Ok(Some(made))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    if args.stream_text {
        return Err(Failure::usage(
            "--stream-text shows one configuration\nhint: leave out --compiler",
        ));
    }
    let chosen = resolve(&args.compiler)?;
    let limits = limits()?;
    let node = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &node.topology)?;
    // Several thread counts are a sweep, so there is one placement here.
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage("expected one thread count"));
    };
    let options = stream::options(args, &planned, BUDGET);
    nodegauge_memory::stream::plan(&node.topology, &node.machine, placement, &options)?;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let mut found = Found { notices: planned.notices.clone(), ..Found::default() };
            let Some(made) = make(&chosen, &options, limits, progress)? else {
                // The record says that nothing was measured.
                found.interrupted = true;
                return Ok(found);
            };
            found.notices.extend(made.notices);
            let variants: Vec<CompiledKernels> =
                made.variants.into_iter().map(|(_, variant)| variant).collect();
            let (topology, machine) = (&node.topology, &node.machine);
            let outcome =
                comparison::run(topology, machine, placement, &options, &variants, progress)?;
            found.extend(Found {
                measurements: outcome.measurements,
                findings: outcome.findings,
                notices: outcome.notices,
                details: outcome.affinity,
                interrupted: outcome.stop == Stop::Interrupted,
                failure: None,
            });
            Ok(found)
        },
        |record, style| Shown::Text(nodegauge_report::stream::render(record, style)),
    )
}
