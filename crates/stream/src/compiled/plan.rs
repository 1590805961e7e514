//! Plan of `stream --compiler`: finds the compilers, builds the kernels and starts the measurement.

use super::build::{CompiledKernels, KernelBuilder};
use super::choice::{ChosenCompiler, CompilerChoice};
use super::{comparison, self_test};
use crate::GAUGE;
use crate::arrangement::{Arrangement, StreamOptions};
use crate::prediction::{self, ArraysCost};
use crate::tuner;
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::schedule::{RunLimits, policy};
use nodegauge_measure::{Failure, Fraction, Notice, NoticeId, Observer, Outcome, clock};
use nodegauge_toolchain::presets::{self, InstalledCompiler};
use nodegauge_toolchain::{CommandLine, CompileLimits, ToolchainError, which};
use std::path::Path;
use std::time::Duration;

/// Environment variable with the time limit of a compiler in seconds, e.g. for a slow licence server; the default is
/// one minute.
const LIMIT: &str = "NODEGAUGE_COMPILE_LIMIT";

/// Returns the installed compilers.
///
/// # Errors
/// Fails if no supported compiler is installed.
pub fn find_installed() -> Result<Vec<InstalledCompiler>, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = presets::find_installed_compilers(&path, Path::new("/"));
    if found.is_empty() {
        let known: Vec<&str> = presets::FAMILIES.iter().map(|family| family.name).collect();
        return Err(Failure::missing(format!(
            "none of the supported compilers is installed: {}",
            known.join(", "),
        ))
        .hint("give a compiler with its flags, e.g. --compiler 'cc -O3'"));
    }
    Ok(found)
}

/// Resolves choices to the compilers of this system.
///
/// # Errors
/// Fails if a command defines a macro of stream.c, and if all installed compilers are requested and there are none.
pub fn resolve(choices: &[CompilerChoice]) -> Result<Vec<ChosenCompiler>, Failure> {
    choices.iter().try_for_each(CompilerChoice::check_macros)?;
    let installed =
        if choices.contains(&CompilerChoice::All) { find_installed()? } else { Vec::new() };
    Ok(CompilerChoice::resolve(choices, &installed, false))
}

/// Checks that the compilers of a sweep are installed.
///
/// # Errors
/// Fails if a compiler is not installed.
pub fn check_installed<'a>(
    choices: impl IntoIterator<Item = &'a CompilerChoice>,
) -> Result<(), Failure> {
    for choice in choices {
        if let CompilerChoice::Command(command) = choice {
            let program = command.program().to_owned();
            if which(&program).is_none() {
                return Err(ToolchainError::NoCompiler { program }.into());
            }
        }
    }
    Ok(())
}

/// Returns the time limits of a compilation.
///
/// # Errors
/// Fails if the environment variable has an invalid value.
pub fn compile_limits() -> Result<CompileLimits, Failure> {
    let Ok(text) = std::env::var(LIMIT) else { return Ok(CompileLimits::DEFAULT) };
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => {
            Ok(CompileLimits::from_compile_time(Duration::from_secs_f64(seconds)))
        }
        _ => Err(Failure::usage(format!("{LIMIT} is {text:?}: expected 0.1 to 86400 seconds"))
            .hint("unset it for the default of 60 seconds")),
    }
}

/// Compiled kernels, each with the command that the user requested.
pub struct CompiledVariants {
    /// Kernels of every compiler, without the omitted presets.
    pub variants: Vec<(String, CompiledKernels)>,
    /// Notices about presets that were omitted because the compiler refused their flags.
    pub notices: Vec<Notice>,
}

/// Share of the user's budget after which no further compiler starts; the rest is for the measurement.
const COMPILE_UNTIL: Fraction = Fraction(0.5);

/// Compiles the kernels with all chosen compilers; returns `None` if the user interrupts the run. Compilers that cannot
/// start within the user's budget are left out, with a notice; at least one compiler always runs.
///
/// # Errors
/// Fails if a compiler does not exist, and if no directory can be created.
pub fn compile_kernels(
    chosen: &[ChosenCompiler],
    options: &StreamOptions,
    limits: CompileLimits,
    time: Option<&RunLimits>,
    observer: &mut dyn Observer,
) -> Result<Option<CompiledVariants>, Failure> {
    let program = nodegauge_os::own_program().map_err(Failure::missing)?;
    let self_test = CommandLine::new(program, [self_test::COMMAND.to_owned()]);
    let mut builder =
        KernelBuilder::open(self_test, limits, &options.arrays.kernels, options.arrays.element)?;
    let mut made =
        CompiledVariants { variants: Vec::new(), notices: builder.notice().into_iter().collect() };
    for ChosenCompiler { choice, is_preset } in chosen {
        let CompilerChoice::Command(command) = choice else { continue };
        if !made.variants.is_empty() && time.is_some_and(is_over) {
            let text = format!("{command}: left out, no time left to compile");
            made.notices.push(Notice::new(NoticeId::Budget, GAUGE, text));
            continue;
        }
        observer.begin_phase(&format!("compiling with {command}"));
        let variant = match builder.build(command, &|| observer.is_interrupted()) {
            Err(ToolchainError::Interrupted) => return Ok(None),
            other => other?,
        };
        match variant.refusal() {
            Some(why) if *is_preset => {
                let why = why.lines().next().unwrap_or_default();
                let text = format!("{command}: left out, {why}");
                made.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
            }
            _ => made.variants.push((choice.to_string(), variant)),
        }
    }
    Ok(Some(made))
}

/// True if the user set a budget and the time for compilers is used up.
fn is_over(limits: &RunLimits) -> bool {
    limits.must_be_kept() && clock::now() > limits.time_at_share(COMPILE_UNTIL)
}

/// Plan that measures native kernels and the kernels of compilers interleaved.
pub struct CompiledPlan {
    arrangement: Arrangement,
    chosen: Vec<ChosenCompiler>,
    compile_limits: CompileLimits,
}

impl CompiledPlan {
    /// Default time budget: about ten turns for each of a dozen variants.
    pub const BUDGET: Duration = Duration::from_secs(30);

    /// Plans a comparison with the compilers of `choices`.
    ///
    /// # Errors
    /// Fails if the choices cannot be resolved, and if the environment variable of the time limit has an invalid value.
    pub fn new(arrangement: Arrangement, choices: &[CompilerChoice]) -> Result<Self, Failure> {
        let options = &arrangement.options;
        let pages = tuner::side_by_side_candidates(options.arrays.constraints());
        let chosen = resolve(choices)?.into_iter().flat_map(|one| one.with_pages(&pages));
        Ok(Self { chosen: chosen.collect(), compile_limits: compile_limits()?, arrangement })
    }
}

impl PlannedRun for CompiledPlan {
    fn expected_cost(&self) -> ExpectedCost {
        self.arrangement.expected_cost(1)
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        self.arrangement.possible_figures(site)
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { mut arrangement, chosen, compile_limits } = *self;
        let limits = arrangement.limits();
        let count = chosen.len() as u32;
        let fixed = prediction::compile_time(chosen.len());
        let cost = ArraysCost {
            sets: 1,
            // The arrays are filled and checked for each compiler, and checked again at the end.
            refills: 2 * count + 1,
            passes_before_rounds: count,
            // Each compiler's loops are measured after the native loops, and each turn begins with a pass that is
            // discarded.
            passes_per_round: 4 * count,
        };
        let policy = policy::COMPILED_LOOPS;
        prediction::admit(site, &mut arrangement, cost, policy, fixed, &limits, observer)?;
        let time = Some(&limits);
        let made = compile_kernels(&chosen, &arrangement.options, compile_limits, time, observer)?;
        let Some(made) = made else {
            // The outcome without measurements is saved, so that the record shows that nothing was measured.
            return Ok(Outcome {
                notices: arrangement.notices,
                stop: Some(StopReason::Interrupted),
                ..Outcome::default()
            });
        };
        arrangement.notices.extend(made.notices);
        let variants: Vec<CompiledKernels> =
            made.variants.into_iter().map(|(_, variant)| variant).collect();
        comparison::run(site, arrangement, &variants, limits, observer)
    }
}
