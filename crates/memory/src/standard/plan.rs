//! `stream --standard`: from the user's source to what was measured.

use super::build::{self, Source, StandardBuild, Wanted};
use super::comparison;
use super::output::Dialect;
use crate::GAUGE;
use crate::compiled::{self, CompilerChoice};
use crate::stream::{self, Options};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_placement::{MemoryPolicy, Placement};
use nodegauge_toolchain::{CommandLine, Scratch, ToolchainError};
use std::path::Path;

/// The native kernels and builds of the user's source by turns.
#[derive(Debug, Clone)]
pub struct StandardPlan {
    placement: Placement,
    options: Options,
    source: Source,
    wanted: Wanted,
    choices: Vec<CompilerChoice>,
    /// What all installed compilers come to.
    presets: Vec<CommandLine>,
    notices: Vec<Notice>,
}

impl StandardPlan {
    /// Plans builds of the source at `path` with the compilers of `choices`, or the usual ones.
    ///
    /// # Errors
    /// When it is no source, the arrays do not fit, or no compiler is installed.
    pub fn new(
        site: &Site,
        placement: Placement,
        mut options: Options,
        path: &Path,
        choices: Vec<CompilerChoice>,
        notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        let source = Source::open(path).map_err(Failure::usage)?;
        let all = choices.contains(&CompilerChoice::All);
        let presets = if all { presets(&source)? } else { Vec::new() };
        if options.policy != MemoryPolicy::Default {
            return Err(Failure::usage(
                "--numa cannot be given to stream.c\nhint: leave out --numa, or start nodegauge under numactl",
            ));
        }
        // The native arrays stay while stream.c has its own: each may take half.
        options.memory_fraction /= 2.0;
        let (size, _) = stream::plan(&site.topology, &site.machine, &placement, &options)?;
        let wanted = Wanted {
            elements: size.elements,
            element: options.element,
            offset: options.offset.unwrap_or(0),
        };
        Ok(Self { placement, options, source, wanted, choices, presets, notices })
    }

    /// The builds: with every compiler that the user names, or those of the usual ones that are there
    /// and can compile the source; and what was left out.
    fn builds(
        &self,
        scratch: &Scratch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(Vec<StandardBuild>, Vec<Notice>), ToolchainError> {
        let build = |command: &CommandLine, i: usize| {
            let name = format!("stream-{i}");
            build::build(&self.source, command, self.wanted, scratch, &name, interrupted)
        };
        let left_out = |text: String| Notice::new(NoticeId::LeftOut, GAUGE, text);
        let mut builds: Vec<StandardBuild> = Vec::new();
        let mut notices = Vec::new();
        for choice in &self.choices {
            match choice {
                // It runs in any case.
                CompilerChoice::Native => {}
                CompilerChoice::Command(command) => builds.push(build(command, builds.len())?),
                CompilerChoice::All => {
                    for command in &self.presets {
                        match build(command, builds.len()) {
                            Ok(built) => builds.push(built),
                            Err(ToolchainError::Compile { .. }) => notices.push(left_out(format!(
                                "{command}: left out, the compiler refuses it"
                            ))),
                            Err(error) => return Err(error),
                        }
                    }
                }
            }
        }
        if !self.choices.is_empty() {
            return Ok((builds, notices));
        }
        let mut first_error = None;
        for (i, name) in self.source.usual_compilers().iter().enumerate() {
            match build(&CommandLine::new(*name, []), i) {
                Ok(built) => builds.push(built),
                Err(ToolchainError::Interrupted) => return Err(ToolchainError::Interrupted),
                Err(error) => {
                    let what = match &error {
                        ToolchainError::NoCompiler { .. } => "is not installed",
                        _ => "does not build it here",
                    };
                    notices.push(left_out(format!("{name} {what}: left out")));
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) if builds.is_empty() => Err(error),
            _ => Ok((builds, notices)),
        }
    }
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

impl Planned for StandardPlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.options.budget), memory: None }
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let mut outcome = Outcome { notices: self.notices.clone(), ..Outcome::default() };
        let scratch = Scratch::new()?;
        let (builds, notices) = match self.builds(&scratch, &|| observer.interrupted()) {
            Err(ToolchainError::Interrupted) => {
                // The record says that nothing was measured.
                outcome.stop = Some(Stop::Interrupted);
                return Ok(outcome);
            }
            built => built?,
        };
        outcome.notices.extend(notices);
        let compared = comparison::run(site, &self.placement, &self.options, &builds, observer)?;
        outcome.extend(compared);
        Ok(outcome)
    }
}
