//! Runs of a sweep: a warm-up of every combination, then rounds that run each combination once, in random order.

use crate::arrangement::{ProgramArrangement, ProgramOptions};
use crate::figure::FigureSource;
use crate::placed::{PlacedProcesses, START_PLACED_COMMAND};
use crate::result::{self, CellRuns, SweptProgram};
use crate::{GAUGE, RELATIVE, TEST};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::series::{Series, lost_in_words};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_machine::Topology;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::doubt::TYPICAL_RULE;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, TurnFailure, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome, Seconds, Unit};
use nodegauge_placement::{Binding, RankPlan};
use nodegauge_toolchain::mpi::{MpiProgram, RankPlaces};
use nodegauge_toolchain::program::{self, ProgramJob, ProgramOutput};
use nodegauge_toolchain::watchdog::Watchdog;
use nodegauge_toolchain::{ChildEnd, CommandLine, KillReason, ScratchFolder};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Minimum number of rounds for a verdict. With fewer rounds, the medians of the combinations are suspect.
const MIN_ROUNDS: usize = TYPICAL_RULE.min;
/// Default number of rounds. They are run even if they exceed the default time budget.
const ROUNDS: u32 = MIN_ROUNDS as u32;

/// Limits of time and samples of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SweepLimits {
    /// Time budget of the whole sweep, if the user set one.
    pub budget: Option<Duration>,
    /// Exact number of rounds, regardless of the time.
    pub samples: Option<usize>,
    /// Time limit of each run of the program.
    pub run: Duration,
}

impl SweepLimits {
    /// Default time limit of a run.
    pub const RUN_TIME_LIMIT: Duration = Duration::from_secs(600);
}

/// Planned sweep of a program.
pub struct ProgramSweep {
    pub(crate) program: CommandLine,
    pub(crate) figure: FigureSource,
    pub(crate) cells: Vec<ProgramArrangement>,
    pub(crate) launcher: Option<MpiProgram>,
    /// Path of the nodegauge executable, which ranks start to place themselves.
    own: String,
    limits: SweepLimits,
    notices: Vec<Notice>,
}

/// Result of a run of the program.
enum ProgramRun {
    /// The run succeeded.
    Measured { seconds: Seconds, figure: f64 },
    /// The run failed; the text is the reason.
    Failed(String),
    /// The user interrupted the sweep.
    Interrupted,
    /// The budget of the sweep ended during the run.
    OutOfTime,
}

impl ProgramSweep {
    /// Default time budget of a sweep; it is sufficient for short programs.
    pub const BUDGET: Duration = Duration::from_secs(60);

    /// Plans a sweep. `launcher` finds the launcher of the ranks if an arrangement has ranks; it returns `None` if the
    /// ranks are started without a launcher.
    ///
    /// Fails if the node supports no combination, or if the launcher is missing.
    pub fn new(
        site: &MeasuredNode,
        program: CommandLine,
        options: &ProgramOptions,
        figure: FigureSource,
        limits: SweepLimits,
        launcher: impl FnOnce() -> Result<Option<MpiProgram>, Failure>,
    ) -> Result<Self, Failure> {
        let (cells, notices) = options.arrangements(&site.topology, &site.root)?;
        let has_ranks = cells.iter().any(|cell| cell.ranks().is_some());
        let launcher = if has_ranks { launcher()? } else { None };
        // A launcher cannot start this program by a link to its parent process.
        let own = match launcher {
            Some(_) => nodegauge_os::own_program_file(),
            None => nodegauge_os::own_program(),
        };
        let own = own.map_err(|cause| {
            Failure::missing("cannot find the executable of nodegauge").cause(cause)
        })?;
        Ok(Self { program, figure, cells, launcher, own, limits, notices })
    }

    /// Returns the job of a cell. `places` is the file with the places of its ranks.
    fn job<'a>(
        &'a self,
        cell: &ProgramArrangement,
        places: Option<&PathBuf>,
        topology: &'a Topology,
    ) -> ProgramJob<'a> {
        let program = match places {
            Some(file) => CommandLine::new(
                self.own.clone(),
                [START_PLACED_COMMAND.to_owned(), file.display().to_string(), "--".to_owned()],
            )
            .with_arguments(self.program.words().iter().cloned()),
            None => self.program.clone(),
        };
        let mut job =
            ProgramJob::new(program, self.limits.run).with_environment(cell.variables.clone());
        job.place = Some(cell.child_place());
        match (&self.launcher, &cell.places) {
            (Some(launcher), crate::arrangement::ProcessPlaces::Ranks(plan)) => {
                let plan = Cow::Owned(unbound(plan));
                job.with_launcher(launcher.launch(RankPlaces::Planned { plan, topology }))
            }
            _ => job,
        }
    }

    /// Runs the program once. If the user set a budget and it is used up, the run is ended.
    fn run_once(
        &self,
        job: &ProgramJob<'_>,
        limits: &RunLimits,
        interrupted: &dyn Fn() -> bool,
    ) -> (ProgramRun, String) {
        let left = (limits.budget + limits.grace()).saturating_sub(limits.elapsed());
        let ends_with_budget =
            limits.is_set_by_user && limits.samples.is_none() && left < job.limit;
        if ends_with_budget && left.is_zero() {
            return (ProgramRun::OutOfTime, String::new());
        }
        let limit = if ends_with_budget { left } else { job.limit };
        let output = match program::run(&ProgramJob { limit, ..job.clone() }, interrupted) {
            Ok(output) => output,
            Err(error) => {
                return (ProgramRun::Failed(error.to_string().replace('\n', " ")), String::new());
            }
        };
        let command = output.command();
        if ends_with_budget && output.end == ChildEnd::Killed(KillReason::TimedOut) {
            return (ProgramRun::OutOfTime, command);
        }
        (self.judged(&output), command)
    }

    fn judged(&self, output: &ProgramOutput) -> ProgramRun {
        if output.end == ChildEnd::Killed(KillReason::Interrupted) {
            return ProgramRun::Interrupted;
        }
        if !matches!(output.end, ChildEnd::Exited(status) if status.success()) {
            let last = output.error_tail().replace('\n', " ");
            let reported = if last.is_empty() { String::new() } else { format!(": {last}") };
            return ProgramRun::Failed(format!("{}{reported}", output.status_text()));
        }
        match self.figure.read(output) {
            Ok(figure) => ProgramRun::Measured { seconds: output.seconds, figure },
            Err(reason) => ProgramRun::Failed(reason),
        }
    }
}

/// Returns the plan with all bindings removed, for a launcher whose ranks place themselves.
fn unbound(plan: &RankPlan) -> RankPlan {
    let mut plan = plan.clone();
    for rank in &mut plan.ranks {
        rank.placement.bind = Binding::None;
        rank.memory = nodegauge_placement::MemoryPolicy::Default;
    }
    plan
}

impl PlannedRun for ProgramSweep {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: self.limits.budget, memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        const UNITS: &[Unit] = &Unit::ALL;
        vec![PossibleFigures::new(GAUGE, TEST, ["elapsed", "figure", RELATIVE], UNITS)]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let _watchdog = Watchdog::start(Path::new(&self.own));
        let scratch = ScratchFolder::new()?;
        let mut jobs = Vec::new();
        for (number, cell) in self.cells.iter().enumerate() {
            let mut file = None;
            if let Some(placed) = PlacedProcesses::from_arrangement(cell, self.launcher.is_some()) {
                let path = scratch.write(&format!("places-{number}.json"), &placed.text())?;
                file = Some(path);
            }
            jobs.push(self.job(cell, file.as_ref(), &site.topology));
        }
        let shared = SharedObserver::new(observer);
        let mut limits = RunLimits::from_budget(
            Budget::new(self.limits.budget, Self::BUDGET),
            self.limits.samples,
        );
        let mut runs = vec![CellRuns::default(); jobs.len()];
        let count = count_in_words(jobs.len(), "combination");
        (&mut &shared).begin_phase(&format!("warm-up of {count}"));
        for (number, job) in jobs.iter().enumerate() {
            let (ended, command) = self.run_once(job, &limits, &|| shared.is_interrupted());
            runs[number].command = command;
            match ended {
                ProgramRun::Measured { seconds, figure } => {
                    runs[number].warm_up = Some((seconds.0, figure));
                }
                ProgramRun::Failed(reason) => runs[number].failure = Some(reason),
                ProgramRun::Interrupted => return Ok(Outcome::interrupted()),
                // The duration of a program is unknown before its first run. If the run does not end in time, its
                // figure is invalid.
                ProgramRun::OutOfTime if runs.iter().all(|cell| cell.warm_up.is_none()) => {
                    let reason = self.too_short(&limits);
                    runs.iter_mut().for_each(|cell| {
                        cell.failure.get_or_insert_with(|| reason.clone());
                    });
                    break;
                }
                ProgramRun::OutOfTime => break,
            }
            (&mut &shared).report_progress((number + 1) as f64 / jobs.len() as f64, "");
        }
        let warm_up = limits.elapsed();
        if self.limits.budget.is_none() {
            limits.budget = limits.budget.max(warm_up * (ROUNDS + 1));
        }
        // A combination that fails gets an invalid figure with the reason; the others are compared.
        let mut series = Series::new(policy::PROGRAMS, limits, jobs.len());
        for (number, cell) in runs.iter().enumerate() {
            if let Some(reason) = &cell.failure {
                series.mark_lost(number, Failure::unmet(reason));
            }
        }
        (&mut &shared).begin_phase(&format!("{count}, interleaved"));
        let mut turn = |turn: Turn| -> Result<Vec<Sample>, TurnFailure> {
            let (ended, _) = self.run_once(&jobs[turn.cell], &limits, &|| shared.is_interrupted());
            let cell = &mut runs[turn.cell];
            Ok(match ended {
                ProgramRun::Measured { seconds, figure } => {
                    cell.seconds.push(seconds.0);
                    cell.figures.push(figure);
                    vec![Sample::from_times(vec![self.figure.cost(figure)])]
                }
                ProgramRun::Failed(reason) => {
                    return Err(TurnFailure::Cell(Failure::unmet(reason)));
                }
                ProgramRun::Interrupted => Vec::new(),
                ProgramRun::OutOfTime => return Err(TurnFailure::OutOfTime),
            })
        };
        // If all combinations fail, the page shows the reason for each.
        let _ = series.run(&mut turn, &mut &shared, None);
        let stop = Some(series.stop_reason());
        drop(jobs);
        for (number, cell) in runs.iter_mut().enumerate() {
            // The reason of a failed warm-up is already known.
            cell.failure = cell.failure.take().or(series.cell_failure(number).map(lost_in_words));
        }
        let mut outcome = Outcome { notices: self.notices.clone(), ..Outcome::default() };
        if stop == Some(StopReason::Budget) {
            outcome.notices.extend(count_warm_ups(&mut runs));
        }
        series.store_end(&mut outcome);
        let swept =
            SweptProgram { program: &self.program, figure: &self.figure, cells: &self.cells };
        outcome.measurements = result::figures(&swept, &runs, stop);
        outcome.notices.extend(self.too_few(&runs, warm_up));
        Ok(outcome)
    }
}

/// Uses the warm-up as the result of each combination that had no time for another run. Returns a notice if there are
/// such combinations.
fn count_warm_ups(runs: &mut [CellRuns]) -> Option<Notice> {
    let mut count = 0;
    for cell in runs.iter_mut().filter(|cell| cell.figures.is_empty() && cell.failure.is_none()) {
        if let Some((seconds, figure)) = cell.warm_up {
            cell.seconds.push(seconds);
            cell.figures.push(figure);
            count += 1;
        }
    }
    let text = format!(
        "{}: only the warm-up was run, no time left for another run",
        count_in_words(count, "combination")
    );
    (count > 0).then(|| Notice::new(NoticeId::Budget, GAUGE, text))
}

impl ProgramSweep {
    /// Returns the reason why a sweep has no figure: its budget ended during its first run.
    fn too_short(&self, limits: &RunLimits) -> String {
        let runs = count_in_words(2 * self.cells.len(), "run");
        format!(
            "the program did not end within --budget {}: use a --budget long enough for {runs}, a \
             shorter run of the program, or fewer combinations",
            limits.budget.as_secs_f64()
        )
    }

    /// Returns a notice if the number of rounds is too small for a verdict.
    fn too_few(&self, runs: &[CellRuns], warm_up: Duration) -> Option<Notice> {
        let measured = runs.iter().filter(|cell| cell.failure.is_none());
        let rounds = measured.map(|cell| cell.figures.len()).min()?;
        if rounds >= MIN_ROUNDS || runs.len() < 2 {
            return None;
        }
        if self.limits.samples.is_some() {
            let text = format!("{}: too few for a verdict", count_in_words(rounds, "round"));
            let notice = Notice::new(NoticeId::Budget, GAUGE, text);
            return Some(notice.hint(format!("--samples {ROUNDS}, or leave out --samples")));
        }
        let enough = warm_up.as_secs_f64() * f64::from(ROUNDS + 1) * 1.1;
        let text = format!(
            "only {} within the budget: too few for a verdict",
            count_in_words(rounds, "round")
        );
        Some(
            Notice::new(NoticeId::Budget, GAUGE, text)
                .hint(format!("--budget {:.0} is enough for {ROUNDS} rounds", enough.ceil())),
        )
    }
}
