//! Runs of STREAM's MPI source: compiled by the MPI library's compiler, and started by its launcher with placed ranks.
//!
//! Every rank places itself: the launcher starts a script that binds the rank and sets its memory policy, as printed by
//! `places --emit wrapper`. The policies are therefore the same under every launcher. These runs contain no native
//! loops; `stream --ranks` measures native loops with the same placement.

use super::build::{self, ProgramArrays, StandardBuild, StreamSource};
use super::figures::{self, ExpectedOutput, StandardRuns};
use super::forecast::{Forecast, ProbedRates};
use super::macros::StreamMacros;
use super::output::{OutputFormat, StreamOutput};
use super::stack;
use crate::GAUGE;
use crate::arrangement::{self, Arrangement};
use crate::compiled::CompilerChoice;
use crate::config::StreamConfig;
use crate::kernels::STREAM;
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::series::{Series, lost_in_words};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::keys::shared::CompilerConfig;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{RepetitionPolicy, RunLimits, Turn, TurnFailure, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_placement::emit::{EmittedRanks, script};
use nodegauge_placement::{Binding, MemoryPolicy, RankPlan};
use nodegauge_toolchain::mpi::{MpiProgram, RankPlaces};
use nodegauge_toolchain::program::{self, ProgramJob, WorkingFolder};
use nodegauge_toolchain::{CommandLine, ProgramReach, ScratchFolder, ToolchainError};
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

/// Minimum rate, B/s; a slower run is considered to hang.
const MIN_RATE: f64 = 2e8;
/// Maximum time for the start of the ranks.
const MAX_START_TIME: Duration = Duration::from_secs(60);
/// Time budget if the user sets the number of runs; practically unlimited.
const NO_TIME_LIMIT: Duration = Duration::from_secs(1 << 30);

/// Plan that measures builds of the user's MPI source.
pub struct MpiStandardPlan {
    arrangement: Arrangement,
    ranks: RankPlan,
    source: StreamSource,
    wanted: ProgramArrays,
    commands: Vec<CommandLine>,
}

/// Build with its launcher and the state of its measurement.
struct MpiBuild {
    build: StandardBuild,
    program: MpiProgram,
    outputs: Vec<StreamOutput>,
}

impl MpiStandardPlan {
    /// Default time budget.
    pub const BUDGET: Duration = Duration::from_secs(30);

    /// Plans builds of `source` with the compilers of `choices`, or with the compiler of the MPI library. `arrangement`
    /// contains the arrays of all `ranks`. A macro may define the length of the arrays of all ranks together.
    ///
    /// # Errors
    /// Fails if a choice is not a command.
    pub fn new(
        arrangement: Arrangement,
        ranks: RankPlan,
        source: StreamSource,
        choices: &[CompilerChoice],
        macros: &StreamMacros,
    ) -> Result<Self, Failure> {
        let mut commands = Vec::new();
        for choice in choices {
            let CompilerChoice::Command(command) = choice else {
                return Err(Failure::usage(format!(
                    "--compiler {choice} does not apply to STREAM's MPI source"
                ))
                .hint("give the compiler of an MPI library, e.g. --compiler 'mpicc -O3'"));
            };
            commands.push(command.clone());
        }
        if commands.is_empty() {
            commands.push(CommandLine::new(source.usual_compilers()[0], []));
        }
        let options = &arrangement.options;
        let all = arrangement.elements() * ranks.ranks.len() as u64;
        let wanted = ProgramArrays {
            elements: macros.elements.unwrap_or(all),
            element: options.arrays.element,
            offset: options.arrays.offset.unwrap_or(0),
            ntimes: macros.ntimes.unwrap_or(build::NTIMES),
        };
        Ok(Self { arrangement, ranks, source, wanted, commands })
    }

    /// Compiles the source with each command, and finds the launcher of each program.
    fn builds(
        &self,
        scratch: &ScratchFolder,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<MpiBuild>, Failure> {
        let mut builds = Vec::new();
        for (i, command) in self.commands.iter().enumerate() {
            let name = format!("stream-mpi-{i}");
            let build =
                build::build(&self.source, command, self.wanted, scratch, &name, interrupted)?;
            let hint = "give the compiler of an MPI library, e.g. --compiler mpicc";
            let program = MpiProgram::find(&build.program.path, None, true, hint)?;
            builds.push(MpiBuild { build, program, outputs: Vec::new() });
        }
        Ok(builds)
    }

    /// Refuses a run that would exceed its budget; otherwise returns a remark for the message that announces the run.
    /// The array length of the Fortran source is unknown.
    fn forecast(&self, limits: &RunLimits, observer: &mut dyn Observer) -> Result<String, Failure> {
        if limits.samples.is_some() || self.source.output_format() == OutputFormat::Fortran {
            return Ok(String::new());
        }
        observer.begin_phase("predicting the time of a run");
        let rates = ProbedRates::measure(&self.arrangement)?;
        Forecast::new(rates, &self.wanted, self.commands.len(), false).check(limits)
    }

    /// Returns the time limit of a run, after which it is considered to hang.
    fn limit(&self) -> Duration {
        let words: u64 =
            STREAM.iter().map(|kernel| kernel.counted_bytes(self.wanted.element)).sum();
        let bytes = (words * self.wanted.elements * (self.wanted.ntimes + 2)) as f64;
        MAX_START_TIME + Duration::try_from_secs_f64(bytes / MIN_RATE).unwrap_or(MAX_START_TIME)
    }

    /// Runs a build once. Returns the best time of each kernel as a sample, or no sample if the user ends the run.
    fn run_once(
        &self,
        build: &mut MpiBuild,
        wrapper: &Path,
        site: &MeasuredNode,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Sample>, TurnFailure> {
        let path = &build.program.path;
        let words = [path.display().to_string()];
        let plan = Cow::Owned(unbound(&self.ranks));
        let places = RankPlaces::Planned { plan, topology: &site.topology };
        let job =
            ProgramJob::new(CommandLine::new(wrapper.display().to_string(), words), self.limit())
                .with_launcher(build.program.launch(places))
                .with_folder(WorkingFolder::Private(Vec::new()))
                .with_stack(self.source.raised_stack());
        let read = program::run(&job, interrupted)
            .and_then(|output| output.require_success(""))
            .map(|output| StreamOutput::read(&output.stdout));
        let problem = match read {
            Ok(Ok(output)) => {
                let seconds = output.lines.iter().map(|line| line.times[1].0).collect();
                build.outputs.push(output);
                return Ok(vec![Sample::from_times(seconds)]);
            }
            Err(ToolchainError::Interrupted) => return Ok(Vec::new()),
            Ok(Err(error)) => format!("the output is not that of STREAM: {error}"),
            Err(error) => build::failure_reason(error, path),
        };
        Err(TurnFailure::Cell(Failure::unmet(problem)))
    }

    fn config(&self, build: &MpiBuild, output: Option<&StreamOutput>) -> StreamConfig {
        let StandardBuild { compiler, .. } = &build.build;
        StreamConfig {
            engine: Some(self.source.engine().to_owned()),
            processes: Some(self.ranks.ranks.len() as u64),
            places_asked: Some(self.ranks.canonical_text.clone()),
            compiler: Some(CompilerConfig {
                command: compiler.command.to_string(),
                version: compiler.version.clone(),
                flags: Some(self.wanted.flags(self.source.output_format(), &compiler.command)),
            }),
            source: Some(self.source.path().display().to_string()),
            stack_limit: self.source.raised_stack().map(stack::in_words),
            runs: Some(build.outputs.len() as u64),
            ..output.map(|output| figures::config(output, None)).unwrap_or_default()
        }
    }

    /// Returns the figures of a build; `lost` is the failure that ended its runs.
    fn measurements(
        &self,
        build: &MpiBuild,
        lost: Option<&Failure>,
        site: &MeasuredNode,
    ) -> Vec<Measurement> {
        let Some(first) = build.outputs.first() else {
            let why = lost.map_or_else(|| "the program did not run".to_owned(), Failure::problem);
            return figures::missing_measurements(&self.config(build, None), &why);
        };
        let llc = arrangement::caches_in_use(site, &self.arrangement.placement).reported;
        let llc = llc.map(|bytes| bytes.as_f64());
        // The Fortran source fixes its sizes.
        let is_fixed = self.source.output_format() == OutputFormat::Fortran;
        let wanted = (!is_fixed).then_some(&self.wanted);
        let expected = ExpectedOutput { wanted, llc, ..ExpectedOutput::default() };
        let mut validity = figures::output_validity(first, &expected);
        for output in &build.outputs[1..] {
            let other = figures::output_validity(output, &expected);
            for reason in other.reasons {
                if !validity.reasons.contains(&reason) {
                    validity.add(other.status, reason);
                }
            }
        }
        let count = self.ranks.ranks.len() as u64;
        if let Some(ranks) = first.ranks.filter(|ranks| *ranks != count) {
            validity.mark_invalid(format!(
                "{} requested, but the program ran with {ranks}",
                count_in_words(count as usize, "rank")
            ));
        }
        if let Some(failure) = lost {
            validity.mark_invalid(lost_in_words(failure));
        }
        let config = self.config(build, Some(first));
        let config = StreamConfig { array_times_llc: figures::times_llc(first, llc), ..config };
        figures::measurements(&StandardRuns {
            counted_outputs: build.outputs.iter().collect(),
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config,
            validity,
            machine: Some(&site.machine),
            keeps_text: true,
        })
    }
}

/// Returns the plan without binding, for a launcher whose ranks place themselves.
fn unbound(plan: &RankPlan) -> RankPlan {
    let mut plan = plan.clone();
    for rank in &mut plan.ranks {
        rank.placement.bind = Binding::None;
        rank.memory = MemoryPolicy::Default;
    }
    plan
}

impl PlannedRun for MpiStandardPlan {
    fn expected_cost(&self) -> ExpectedCost {
        self.arrangement.expected_cost(1)
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        arrangement::stream_figures(&STREAM, site)
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let limits = self.arrangement.limits();
        let reported = self.forecast(&limits, observer)?;
        let scratch = ScratchFolder::for_programs(None, ProgramReach::ThisHost)?;
        let shared = SharedObserver::new(observer);
        (&mut &shared).begin_phase(&format!("compiling STREAM's MPI source{reported}"));
        let mut builds = match self.builds(&scratch, &|| shared.is_interrupted()) {
            Ok(builds) => builds,
            Err(_) if shared.is_interrupted() => return Ok(Outcome::interrupted()),
            Err(failure) => return Err(failure),
        };
        let placed = EmittedRanks::single_numa_node(&self.ranks, &site.topology);
        let wrapper = scratch.write_script("placed.sh", &script::wrapper(&placed))?;
        let ranks = count_in_words(self.ranks.ranks.len(), "rank");
        (&mut &shared).begin_phase(&format!("running STREAM's MPI source with {ranks}"));
        let asked = limits.samples;
        let budget = if asked.is_some() { NO_TIME_LIMIT } else { limits.budget };
        let limits = RunLimits { budget, samples: None, ..limits };
        let rules = RepetitionPolicy {
            max_rounds: asked.or(policy::PROGRAMS.max_rounds),
            ..policy::PROGRAMS
        };
        let mut series = Series::new(rules, limits, builds.len());
        let mut turn = |turn: Turn| {
            self.run_once(&mut builds[turn.cell], &wrapper, site, &|| shared.is_interrupted())
        };
        // If all builds fail, the page shows the reason for each.
        let _ = series.run(&mut turn, &mut &shared, None);
        if asked.is_some() {
            series.set_stop_reason(StopReason::Samples);
        }
        let mut notices = self.arrangement.notices.clone();
        notices.extend(scratch.notice(GAUGE));
        let mut outcome = Outcome::default();
        for (number, build) in builds.iter().enumerate() {
            let lost = series.cell_failure(number);
            if let Some(failure) = lost.filter(|_| build.outputs.is_empty()) {
                let text = format!("{}: {}", build.build.compiler.command, failure.problem());
                notices.push(Notice::new(NoticeId::Failed, GAUGE, text));
            }
            outcome.measurements.extend(self.measurements(build, lost, site));
        }
        outcome.notices = notices;
        series.store_end(&mut outcome);
        Ok(outcome)
    }
}
