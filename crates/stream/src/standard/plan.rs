//! Plan of `stream --standard`: builds the user's source and starts the measurement.

use super::build::{self, ProgramArrays, StandardBuild, StreamSource};
use super::comparison;
use super::comparison::NativeLoops;
use super::forecast::{Forecast, ProbedRates};
use super::output::OutputFormat;
use crate::GAUGE;
use crate::arrangement::{self, Arrangement, TargetSetup};
use crate::compiled::{self, CompilerChoice};
use crate::kernels::STREAM;
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::schedule::{RunLimits, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_placement::MemoryPolicy;
use nodegauge_toolchain::{CommandLine, ProgramReach, ScratchFolder, ToolchainError};
use std::path::Path;
use std::time::Duration;

/// Plan that measures native kernels and builds of the user's source interleaved.
pub struct StandardPlan {
    arrangement: Arrangement,
    source: StreamSource,
    wanted: ProgramArrays,
    choices: Vec<CompilerChoice>,
    /// Commands of all installed compilers, for `--compiler all`.
    presets: Vec<CommandLine>,
}

impl StandardPlan {
    /// Default time budget. It is sufficient for a few rounds of native passes and runs of stream.c, which take a few
    /// seconds each.
    pub const BUDGET: Duration = Duration::from_secs(30);
    /// Share of the memory for the native arrays, which exist simultaneously with the arrays of stream.c.
    pub const MEMORY_SHARE: f64 = 0.5;

    /// Plans builds of the source at `path` with the compilers of `choices` or, if `choices` is empty, with default
    /// compilers. Each kernel runs `ntimes` times in a run of a build.
    ///
    /// # Errors
    /// Fails if the source cannot be used, if `--numa` is given, and if all installed compilers are requested and there
    /// are none.
    pub fn new(
        arrangement: Arrangement,
        path: &Path,
        choices: &[CompilerChoice],
        ntimes: u64,
    ) -> Result<Self, Failure> {
        let source = StreamSource::open(path)?;
        let all = choices.contains(&CompilerChoice::All);
        let presets = if all { presets(&source)? } else { Vec::new() };
        let options = &arrangement.options;
        let policy = &options.policy;
        if *policy != MemoryPolicy::Default && MemoryPolicy::inherited().as_ref() != Some(policy) {
            return Err(Failure::usage("--numa does not apply to stream.c")
                .hint("leave out --numa, or start nodegauge under numactl"));
        }
        let wanted = ProgramArrays {
            elements: arrangement.elements(),
            element: options.arrays.element,
            offset: options.arrays.offset.unwrap_or(0),
            ntimes,
        };
        Ok(Self { arrangement, source, wanted, choices: choices.to_vec(), presets })
    }

    /// Predicts the time of one run of each build that cannot be omitted, and refuses a run that would exceed its
    /// budget. Returns `None` if the user set the number of samples, or if the source fixes the array length.
    fn forecast(
        &self,
        limits: &RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<Option<Forecast>, Failure> {
        if limits.samples.is_some() || self.source.output_format() == OutputFormat::Fortran {
            return Ok(None);
        }
        observer.begin_phase("predicting the time of a run");
        let named =
            self.choices.iter().filter(|choice| matches!(choice, CompilerChoice::Command(_)));
        let builds = (named.count() + self.presets.len()).max(1);
        let rates = ProbedRates::measure(&self.arrangement)?;
        let forecast = Forecast::new(rates, &self.wanted, builds, true);
        let reported = forecast.check(limits)?;
        observer.begin_phase(&format!("compiling {}{reported}", self.source.engine()));
        Ok(Some(forecast))
    }

    /// Returns the builds, and notices about omitted compilers; `None` if the user interrupts the run.
    fn built(
        &self,
        scratch: &ScratchFolder,
        observer: &dyn Observer,
    ) -> Result<Option<Built>, Failure> {
        match self.builds(scratch, &|| observer.is_interrupted()) {
            Err(ToolchainError::Interrupted) => Ok(None),
            built => Ok(Some(built?)),
        }
    }

    /// Builds the source with every compiler that the user gave. Without such compilers, uses the default compilers
    /// that are installed and can compile the source. Also returns notices about omitted compilers.
    fn builds(
        &self,
        scratch: &ScratchFolder,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Built, ToolchainError> {
        let build = |command: &CommandLine, i: usize| {
            let name = format!("stream-{i}");
            build::build(&self.source, command, self.wanted, scratch, &name, interrupted)
        };
        let left_out = |text: String| Notice::new(NoticeId::LeftOut, GAUGE, text);
        let mut builds: Vec<StandardBuild> = Vec::new();
        let mut notices = Vec::new();
        for choice in &self.choices {
            match choice {
                // The native kernels run in any case.
                CompilerChoice::Native => {}
                CompilerChoice::Command(command) => builds.push(build(command, builds.len())?),
                CompilerChoice::All => {
                    for command in &self.presets {
                        match build(command, builds.len()) {
                            Ok(built) => builds.push(built),
                            Err(ToolchainError::Compile { .. }) => notices
                                .push(left_out(format!("{command}: left out, compilation failed"))),
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
                        _ => "cannot compile the source",
                    };
                    notices.push(left_out(format!("{name} is left out: it {what}")));
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

/// Builds, and notices about omitted compilers.
type Built = (Vec<StandardBuild>, Vec<Notice>);

/// Returns the commands that `--compiler all` selects for a source: every installed C compiler, with flags for OpenMP.
fn presets(source: &StreamSource) -> Result<Vec<CommandLine>, Failure> {
    if source.output_format() == OutputFormat::Fortran {
        return Err(Failure::usage(
            "--compiler all selects C compilers, but the source is Fortran",
        )
        .hint("give a Fortran compiler, e.g. --compiler gfortran"));
    }
    let compilers = compiled::find_installed()?;
    Ok(compilers.iter().flat_map(|compiler| compiler.variants(true)).collect())
}

impl PlannedRun for StandardPlan {
    fn expected_cost(&self) -> ExpectedCost {
        // There are two sets of arrays: stream.c has arrays of the same length as the native kernels.
        self.arrangement.expected_cost(2)
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        let own = &self.arrangement.options.arrays.kernels;
        arrangement::stream_figures(&[own, &STREAM[..]].concat(), site)
    }

    fn run(
        mut self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let limits = self.arrangement.limits();
        let forecast = self.forecast(&limits, observer)?;
        let scratch = ScratchFolder::for_programs(None, ProgramReach::ThisHost)?;
        self.arrangement.notices.extend(scratch.notice(GAUGE));
        let Some((mut builds, left_out)) = self.built(&scratch, observer)? else {
            // The outcome without measurements is saved, so that the record shows that nothing was measured.
            return Ok(Outcome {
                notices: self.arrangement.notices,
                stop: Some(StopReason::Interrupted),
                ..Outcome::default()
            });
        };
        self.arrangement.notices.extend(left_out);
        let make = &mut |arrangement: &Arrangement| arrangement.prepare_stream_target();
        // Runs with arrays of twice the length take twice as long.
        let runs = forecast.map_or(Duration::ZERO, |forecast| forecast.likely);
        let may_grow = limits.samples.is_some() || limits.elapsed() + 2 * runs <= limits.budget;
        let mut set_up = TargetSetup { make, target: |it| it, count: 1, may_grow };
        let mut ready = set_up.run(&self.arrangement, &limits, observer)?;
        let latest = limits.started + limits.budget.saturating_sub(runs);
        let until = limits.time_at_share(policy::STANDARD_STREAM.choice_share).min(latest);
        let chosen = self.arrangement.choose(&mut ready.target, until, observer)?;
        let ready = self.arrangement.check_size(site, ready, &mut set_up, limits, observer)?;
        if self.wanted.elements != self.arrangement.elements() {
            self.wanted.elements = self.arrangement.elements();
            builds = self.built(&scratch, observer)?.map_or(builds, |(longer, _)| longer);
        }
        let named = !self.choices.is_empty();
        let native = NativeLoops { ready, chosen };
        comparison::run(site, self.arrangement, native, &builds, named, limits, observer)
    }
}
