//! `stream --compiler`: from what the user asks for to what was measured.

use super::build::{CompiledKernels, KernelBuilder};
use super::choice::{ChosenCompiler, CompilerChoice};
use super::{comparison, self_test};
use crate::GAUGE;
use crate::stream::{self, Options};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_placement::Placement;
use nodegauge_toolchain::presets::{self, Installed};
use nodegauge_toolchain::{CommandLine, CompileLimits, ToolchainError};
use std::path::Path;
use std::time::Duration;

/// Seconds that a compiler may take, where a minute is not right: a licence server may be slow.
const LIMIT: &str = "NODEGAUGE_COMPILE_LIMIT";

/// The compilers that are installed.
///
/// # Errors
/// When there are none.
pub fn installed() -> Result<Vec<Installed>, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = presets::installed(&path, Path::new("/"));
    if found.is_empty() {
        let known: Vec<&str> = presets::FAMILIES.iter().map(|family| family.name).collect();
        return Err(Failure::missing(format!(
            "none of the compilers that nodegauge knows is installed: {}\nhint: name one with its flags, e.g. --compiler 'cc -O3'",
            known.join(", ")
        )));
    }
    Ok(found)
}

/// What choices come to on this system.
///
/// # Errors
/// When all installed compilers are asked for, and there are none.
pub fn resolve(choices: &[CompilerChoice]) -> Result<Vec<ChosenCompiler>, Failure> {
    let installed = if choices.contains(&CompilerChoice::All) { installed()? } else { Vec::new() };
    Ok(CompilerChoice::resolve(choices, &installed, false))
}

/// How long compiling may take.
///
/// # Errors
/// When the variable that says so holds no such time.
pub fn limits() -> Result<CompileLimits, Failure> {
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

/// Kernels that were made, each with the words that chose their compiler.
pub struct Made {
    /// Of every compiler; what it refuses is in its kernels.
    pub variants: Vec<(String, CompiledKernels)>,
    /// Presets that a compiler refuses: they are left out.
    pub notices: Vec<Notice>,
}

/// Lets all compilers make the kernels; `None` when the user ends the run.
///
/// # Errors
/// When there is no such compiler, or no place to work.
pub fn make(
    chosen: &[ChosenCompiler],
    options: &Options,
    limits: CompileLimits,
    observer: &mut dyn Observer,
) -> Result<Option<Made>, Failure> {
    // This very program, even when its file has been replaced since.
    let self_test = CommandLine::new("/proc/self/exe", [self_test::COMMAND]);
    let mut builder = KernelBuilder::open(self_test, limits, &options.kernels, options.element)?;
    let mut made = Made { variants: Vec::new(), notices: Vec::new() };
    for choice in chosen {
        let ChosenCompiler::Command { command, preset } = choice else { continue };
        observer.phase(&format!("compiling with {command}"));
        let variant = match builder.make(command, &|| observer.interrupted()) {
            Err(ToolchainError::Interrupted) => return Ok(None),
            made => made?,
        };
        match variant.refusal() {
            Some(why) if *preset => {
                let why = why.lines().next().unwrap_or_default();
                let text = format!("{command}: left out, {why}");
                made.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
            }
            _ => made.variants.push((choice.to_string(), variant)),
        }
    }
    Ok(Some(made))
}

/// The native kernels and those of compilers by turns.
#[derive(Debug, Clone)]
pub struct CompiledPlan {
    placement: Placement,
    options: Options,
    chosen: Vec<ChosenCompiler>,
    limits: CompileLimits,
    notices: Vec<Notice>,
}

impl CompiledPlan {
    /// Plans a comparison with the compilers of `choices`.
    ///
    /// # Errors
    /// When the arrays do not fit, or no compiler is installed.
    pub fn new(
        site: &Site,
        placement: Placement,
        options: Options,
        choices: &[CompilerChoice],
        notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        let (chosen, limits) = (resolve(choices)?, limits()?);
        stream::plan(&site.topology, &site.machine, &placement, &options)?;
        Ok(Self { placement, options, chosen, limits, notices })
    }
}

impl Planned for CompiledPlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.options.budget), memory: None }
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let mut outcome = Outcome { notices: self.notices, ..Outcome::default() };
        let Some(made) = make(&self.chosen, &self.options, self.limits, observer)? else {
            // The record says that nothing was measured.
            outcome.stop = Some(Stop::Interrupted);
            return Ok(outcome);
        };
        outcome.notices.extend(made.notices);
        let variants: Vec<CompiledKernels> =
            made.variants.into_iter().map(|(_, variant)| variant).collect();
        let compared = comparison::run(site, &self.placement, &self.options, &variants, observer)?;
        outcome.extend(compared);
        Ok(outcome)
    }
}
