//! Measurement of a user's program: the bandwidth that it uses, the memory latency during the program, and its slowdown
//! by a known load.
//!
//! The program gets the CPUs of the first half of the threads. The other threads are the reporters: they load the
//! memory, and their readings show how busy it is. Runs of the program and known loads on its CPUs are interleaved. If
//! the counters of the memory controllers can be read, they provide the bandwidth.

use super::drawn::{self, Calibration, CalibrationPoint, ProgramBandwidth};
use super::reaction::{Reaction, ReactionReadings};
use super::{PathRun, block_starts};
use crate::config::CurveConfig;
use crate::loaded::LoaderTimes;
use crate::run::CurveRun;
use crate::{GAUGE, notice};
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_arena::ArenaError;
use nodegauge_chase::{KnownLoad, LoadGenerator, ReporterKind, Reporters};
use nodegauge_gauge::family::{part_count, part_slice};
use nodegauge_gauge::series::Series;
use nodegauge_machine::counters::MemoryCounters;
use nodegauge_machine::{CpuId, SysRoot};
use nodegauge_measure::interference::{Cause, CpuTimeReading};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::samples::{Sample, SamplesByRegime};
use nodegauge_measure::schedule::{RunLimits, Turn, TurnFailure, policy};
use nodegauge_measure::stats;
use nodegauge_measure::{BytesPerSec, Failure, Fraction, NoticeId, Unit, clock};
use nodegauge_os::ChildPlace;
use nodegauge_toolchain::program::{self, ProgramJob};
use nodegauge_toolchain::watchdog::Watchdog;
use nodegauge_toolchain::{ChildEnd, CommandLine, KillReason};
use std::path::Path;
use std::time::Duration;

/// Name of the figure for the bandwidth of the program.
pub(crate) const BANDWIDTH: &str = "program_bandwidth";
/// Name of the figure for the upper bound of the bandwidth if no traffic is found.
pub(crate) const BANDWIDTH_BELOW: &str = "program_bandwidth_below";
/// Name of the figure for the memory latency during the program.
pub(crate) const LATENCY: &str = "program_latency";
/// Name of the figure for the slowdown: the time of the program with full load on the other CPUs divided by its time
/// without load.
pub(crate) const SLOWDOWN: &str = "program_slowdown";
/// Name of the figure for the sensitivity: the relative slowdown of the program divided by the relative rise of the
/// latency.
pub(crate) const SENSITIVITY: &str = "program_sensitivity";
/// Names of all figures of a program.
pub(crate) const NAMES: [&str; 5] = [BANDWIDTH, BANDWIDTH_BELOW, LATENCY, SLOWDOWN, SENSITIVITY];

/// Known loads as shares of the full rate, percent.
const KNOWN_SHARES: [u32; 5] = [0, 25, 50, 75, 100];
/// Share of the full known load, percent.
const FULL_SHARE: u32 = KNOWN_SHARES[KNOWN_SHARES.len() - 1];
/// Duration of a known load. It is several times as long as a time slice of the scheduler.
const KNOWN_TIME: Duration = Duration::from_millis(40);
/// Minimum duration of a turn of the program, seconds, so that the start of its process is a small part of the time. A
/// shorter program runs several times per turn.
const PROGRAM_SECONDS: f64 = 0.3;
/// Time limit of a run of the program if the user sets no budget.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// Maximum share of the node's CPU time that other programs may use during a turn.
const MAX_OTHERS_SHARE: f64 = 0.02;
/// Number of rounds for which the default budget is extended: the warm-up, the minimum number for a median, and one
/// more.
const ROUNDS: u32 = 8;

/// Cell of a run with a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramCell {
    /// Run of the program together with a reporter.
    Program(ReporterKind),
    /// Run of a known load together with a reporter. The number is the load as a share of the full rate, percent.
    Known(ReporterKind, u32),
    /// Chain on a CPU of the program, together with readers on the other CPUs.
    LoadedChain,
}

/// Way in which a run of the program ended.
enum ProgramEnd {
    /// Success; the number is the elapsed time in seconds.
    Succeeded(f64),
    Failed(String),
    Interrupted,
    OutOfTime,
}

/// Program that has completed its first run, with what is needed for further runs.
pub(super) struct ProgramRuns {
    command: CommandLine,
    /// CPUs of the program.
    cpus: Vec<u32>,
    /// Number of threads that yield their CPUs to the program.
    workers: usize,
    /// Elapsed time of the first run, seconds.
    seconds: f64,
    _watchdog: Option<Watchdog>,
}

impl ProgramRuns {
    /// Runs the program for the first time. Extends the default budget if it would allow too few runs.
    ///
    /// Fails if the program fails or exceeds its time, or if the user interrupts the run.
    pub(super) fn start(
        run: &mut CurveRun<'_>,
        command: &CommandLine,
        places: &[Vec<CpuId>],
    ) -> Result<Self, ArenaError> {
        run.observer.begin_phase("first run of the program");
        let workers = (places.len() / 2).max(1);
        let cpus = places[..workers].iter().flatten().map(|cpu| cpu.0).collect();
        let own = nodegauge_os::own_program().ok();
        let mut runs = Self {
            command: command.clone(),
            cpus,
            workers,
            seconds: 0.0,
            _watchdog: own.map(|own| Watchdog::start(Path::new(&own))),
        };
        runs.seconds = match runs.run_once(&run.limits) {
            ProgramEnd::Succeeded(seconds) => seconds,
            ProgramEnd::Interrupted => return Err(ArenaError::Interrupted),
            ProgramEnd::Failed(reason) => {
                let text = format!("cannot place the program {command}: {reason}");
                return Err(ArenaError::Loops(Failure::unmet(text)));
            }
            ProgramEnd::OutOfTime => {
                let budget = run.limits.budget.as_secs_f64();
                let text = format!("the program did not end within --budget {budget}");
                let hint = format!(
                    "use a --budget long enough for {} runs of the program, or a shorter run of it",
                    2 * ROUNDS
                );
                return Err(ArenaError::Loops(Failure::usage(text).hint(hint)));
            }
        };
        if !run.limits.is_set_by_user {
            let turns = 2 * ROUNDS * Duration::from_secs_f64(runs.turn_seconds());
            run.limits.budget = run.limits.budget.max(2 * turns);
        }
        Ok(runs)
    }

    /// Returns the expected duration of a turn, seconds.
    fn turn_seconds(&self) -> f64 {
        self.seconds * f64::from(self.repeats())
    }

    /// Returns the number of runs of the program per turn.
    fn repeats(&self) -> u32 {
        (PROGRAM_SECONDS / self.seconds.max(1e-3)).ceil().max(1.0) as u32
    }

    /// Runs the program once, within the budget of the user.
    fn run_once(&self, limits: &RunLimits) -> ProgramEnd {
        let left = (limits.budget + limits.grace()).saturating_sub(limits.elapsed());
        let is_kept = limits.must_be_kept();
        if is_kept && left.is_zero() {
            return ProgramEnd::OutOfTime;
        }
        let limit = if is_kept { left } else { TIME_LIMIT };
        let mut job = ProgramJob::new(self.command.clone(), limit);
        job.place = Some(ChildPlace { cpus: Some(self.cpus.clone()), ..ChildPlace::default() });
        let output = match program::run(&job, &nodegauge_os::is_end_requested) {
            Ok(output) => output,
            Err(error) => return ProgramEnd::Failed(error.to_string().replace('\n', " ")),
        };
        match output.end {
            ChildEnd::Exited(status) if status.success() => ProgramEnd::Succeeded(output.seconds.0),
            ChildEnd::Killed(KillReason::Interrupted) => ProgramEnd::Interrupted,
            ChildEnd::Killed(KillReason::TimedOut) if is_kept => ProgramEnd::OutOfTime,
            _ => {
                let last = output.error_tail().replace('\n', " ");
                let reported = if last.is_empty() { last } else { format!(": {last}") };
                ProgramEnd::Failed(format!("{}{reported}", output.status_text()))
            }
        }
    }

    /// Runs the program as often as a turn requires. Returns the mean time of a run.
    fn run_turn(&self, limits: &RunLimits) -> ProgramEnd {
        let mut seconds = 0.0;
        for _ in 0..self.repeats() {
            match self.run_once(limits) {
                ProgramEnd::Succeeded(of_run) => seconds += of_run,
                other => return other,
            }
        }
        ProgramEnd::Succeeded(seconds / f64::from(self.repeats()))
    }
}

/// Returns the cells of a run with a program.
fn cells() -> Vec<ProgramCell> {
    let mut cells = vec![ProgramCell::LoadedChain];
    for reporter in [ReporterKind::Chain, ReporterKind::Readers] {
        cells.push(ProgramCell::Program(reporter));
        cells.extend(KNOWN_SHARES.map(|share| ProgramCell::Known(reporter, share)));
    }
    cells
}

/// Returns a description of the method by which a reporter estimates the bandwidth of a program.
fn method_in_words(reporter: ReporterKind) -> &'static str {
    match reporter {
        ReporterKind::Chain => "latency of a chain during the program, calibrated by known loads",
        ReporterKind::Readers => {
            "time per byte of readers during the program, calibrated by known loads"
        }
    }
}

/// Measurement of a program on a path.
pub(super) struct PlacedProgram<'p, 'm> {
    pub runs: &'p ProgramRuns,
    pub path: &'p mut PathRun<'m>,
    /// Counters of the memory controllers; `None` if they cannot be read.
    pub counters: Option<MemoryCounters>,
    /// Bandwidths according to the counters, one per turn with the chain, bytes per second.
    pub counter_rates: Vec<f64>,
}

impl<'p, 'm> PlacedProgram<'p, 'm> {
    pub(super) fn new(runs: &'p ProgramRuns, path: &'p mut PathRun<'m>) -> Self {
        let counters = MemoryCounters::open(&SysRoot::live()).ok();
        Self { runs, path, counters, counter_rates: Vec::new() }
    }

    /// Runs a turn of the program together with a reporter.
    fn turn(
        &mut self,
        reporters: &Reporters<'_>,
        reporter: ReporterKind,
        limits: &RunLimits,
    ) -> Result<Vec<Sample>, TurnFailure> {
        let Some(chase) = &mut self.path.chase else { return Ok(Vec::new()) };
        let runs = self.runs;
        let all: Vec<u32> = self
            .path
            .pool
            .observed_affinities()
            .iter()
            .flat_map(|one| &one.cpus)
            .map(|cpu| cpu.0)
            .collect();
        let before = CpuTimeReading::now(&all);
        let reading = self.counters.as_ref().and_then(|counters| counters.read().ok());
        let begun = clock::now();
        let (ended, mut sample) =
            reporters.measure(self.path.pool, chase, reporter, || runs.run_turn(limits))?;
        let elapsed = (clock::now() - begun).as_secs_f64();
        let seconds = match ended {
            Some(ProgramEnd::Succeeded(seconds)) => seconds,
            Some(ProgramEnd::Failed(reason)) => {
                let text = format!("the program {} failed in a later run: {reason}", runs.command);
                return Err(TurnFailure::Cell(Failure::unmet(text)));
            }
            Some(ProgramEnd::OutOfTime) => return Err(TurnFailure::OutOfTime),
            Some(ProgramEnd::Interrupted) | None => return Ok(Vec::new()),
        };
        sample.seconds.push(seconds);
        let others = CpuTimeReading::now(&all)
            .zip(before)
            .map(|(now, then)| now.other_programs_time_since(then));
        let share = others.map_or(0.0, |others| others.0 / (elapsed * all.len() as f64));
        if share > MAX_OTHERS_SHARE {
            sample.causes.push(Cause::OtherProgram { share: Fraction(share) });
        }
        if let (ReporterKind::Chain, Some(counters), Some(start)) =
            (reporter, &self.counters, reading)
        {
            let moved = counters.read().ok().and_then(|end| counters.traffic(&[(start, end)]));
            self.counter_rates.extend(moved.map(|moved| moved.total / elapsed));
        }
        Ok(vec![sample])
    }

    /// Measures runs of the program and known loads interleaved, and adds the figures.
    ///
    /// # Errors
    /// Fails if a thread fails or the user ends the run, and if the program fails in every turn.
    pub(super) fn measure(
        &mut self,
        run: &mut CurveRun<'_>,
        config: CurveConfig,
        validity: Validity,
    ) -> Result<(), ArenaError> {
        run.observer.begin_phase("calibrating the reporters");
        let load = LoadGenerator::new(self.path.buffers, self.path.blocks);
        let workers = self.runs.workers;
        let reporters = Reporters { load, other_workers: workers };
        let full = KnownLoad { spins: Some(0), time: KNOWN_TIME, start: 0 };
        let Some(chain) = &mut self.path.chase else { return Ok(()) };
        let mut starts = block_starts(self.path.blocks);
        let times = LoaderTimes::calibrate(&load, workers as u64, || {
            let known = KnownLoad { start: starts.next().unwrap_or(0), ..full };
            reporters.calibrate(self.path.pool, chain, ReporterKind::Chain, known)
        })?;
        let cells = cells();
        let limits = run.limits;
        run.observer.begin_phase("running the program and known loads, interleaved");
        let mut series = Series::new(policy::CURVES_WITH_PROGRAM, limits, cells.len());
        series.run(
            &mut |turn: Turn| match cells[turn.cell] {
                ProgramCell::Program(reporter) => self.turn(&reporters, reporter, &limits),
                ProgramCell::Known(reporter, share) => {
                    let start = self.path.next_block();
                    let known = KnownLoad { spins: times.spins(share), start, ..full };
                    let Some(chase) = &mut self.path.chase else { return Ok(Vec::new()) };
                    let taken = reporters.calibrate(self.path.pool, chase, reporter, known);
                    Ok(vec![taken.map_err(TurnFailure::from)?])
                }
                ProgramCell::LoadedChain => {
                    let Some(chase) = &mut self.path.chase else { return Ok(Vec::new()) };
                    let taken = reporters.measure_chase(self.path.pool, chase, KNOWN_TIME);
                    Ok(vec![taken.map_err(TurnFailure::from)?])
                }
            },
            run.observer,
            None,
        )?;
        series.store_end(&mut run.outcome);
        let regime = series.samples_by_regime(&run.known_trips());
        let config = CurveConfig {
            program: Some(self.runs.command.to_string()),
            cpus: Some(vec![self.runs.cpus.clone()]),
            engine: Some("native".to_owned()),
            stopped: run.outcome.stop.map(|stop| stop.to_string()),
            ..config
        };
        let figures = ProgramFigures { series, regime, cells, config, validity };
        figures.add(run, &self.counter_rates);
        Ok(())
    }
}

/// Samples of a run with a program, from which the figures are computed.
struct ProgramFigures {
    series: Series,
    regime: SamplesByRegime,
    cells: Vec<ProgramCell>,
    config: CurveConfig,
    validity: Validity,
}

impl ProgramFigures {
    fn number(&self, cell: ProgramCell) -> usize {
        self.cells.iter().position(|known| *known == cell).unwrap_or(0)
    }

    /// Returns the times of one part of a cell's samples, without the samples that do not count.
    fn seconds(&self, cell: ProgramCell, part: usize) -> Vec<f64> {
        let number = self.number(cell);
        if part >= self.regime.part_count(number) {
            return Vec::new();
        }
        self.regime.seconds(number, part)
    }

    /// Returns the readings of a reporter during known loads and during the program. Each rate of a load is measured
    /// while this reporter runs. For readers, which slow the program down, the calibration also contains the slowdowns.
    fn calibration(&self, reporter: ReporterKind) -> Calibration {
        let mut points = Vec::new();
        for share in KNOWN_SHARES {
            let rates = self.seconds(ProgramCell::Known(reporter, share), 1);
            let rates = rates.into_iter().map(|seconds| 1.0 / seconds).collect();
            let readings = self.seconds(ProgramCell::Known(reporter, share), 0);
            points.push(CalibrationPoint { rates, readings });
        }
        let program = self.seconds(ProgramCell::Program(reporter), 0);
        let slowdowns = match reporter {
            ReporterKind::Chain => Vec::new(),
            ReporterKind::Readers => self.slowdowns(),
        };
        Calibration { points, program, slowdowns }
    }

    /// Returns the time of the program with readers divided by its time with the chain, one ratio per round.
    fn slowdowns(&self) -> Vec<f64> {
        let without = self.seconds(ProgramCell::Program(ReporterKind::Chain), 1);
        let with_readers = self.seconds(ProgramCell::Program(ReporterKind::Readers), 1);
        with_readers.iter().zip(&without).map(|(time, base)| time / base).collect()
    }

    /// Returns a figure without a value, with its configuration. `basis` describes the method.
    fn figure(&self, run: &CurveRun<'_>, name: &str, unit: Unit, basis: &str) -> Measurement {
        let config = CurveConfig { basis: Some(basis.to_owned()), ..self.config.clone() };
        Measurement::new(GAUGE, run.curve.test_name(), name, unit).with_config(&config)
    }

    /// Returns the validity of a figure that is derived from runs of the program together with these reporters.
    fn judged(&self, run: &CurveRun<'_>, reporters: &[ReporterKind]) -> Validity {
        let mut validity = self.validity.clone();
        for reporter in reporters {
            let cell = self.number(ProgramCell::Program(*reporter));
            if let Some(failure) = self.series.cell_failure(cell) {
                let reason = nodegauge_gauge::series::lost_in_words(failure);
                if !validity.reasons.contains(&reason) {
                    validity.mark_invalid(reason);
                }
            }
            for doubt in self.regime.doubts(cell, 0, run.setup.is_guest()) {
                // The runs with both kinds of reporters may have the same doubt.
                if !validity.reasons.contains(&doubt) {
                    validity.add(Status::Suspect, doubt);
                }
            }
        }
        validity
    }

    fn add(&self, run: &mut CurveRun<'_>, counted: &[f64]) {
        self.add_bandwidth(run, counted);
        let cell = self.number(ProgramCell::Program(ReporterKind::Chain));
        let basis = "latency of a chain during the program";
        let m = self.figure(run, LATENCY, Unit::Seconds, basis);
        let m =
            self.series
                .figure(&self.regime, (cell, 0), m, QuotedStatistic::Median, &|seconds| seconds);
        run.outcome.measurements.extend(m);
        self.add_reaction(run);
    }

    /// Adds the figure for the bandwidth of the program, or a notice that it is unknown.
    fn add_bandwidth(&self, run: &mut CurveRun<'_>, counted: &[f64]) {
        let unit = Unit::BytesPerSecond;
        if !counted.is_empty() {
            let m = self.figure(run, BANDWIDTH, unit, "counters of the memory controllers");
            let m = m.with_samples(QuotedStatistic::Median, counted.to_vec());
            let m = m.with_validity(self.judged(run, &[ReporterKind::Chain]));
            run.outcome.measurements.push(m);
            return;
        }
        let reporters = [ReporterKind::Chain, ReporterKind::Readers];
        let calibrations = reporters.map(|reporter| self.calibration(reporter));
        for (reporter, calibration) in reporters.iter().zip(&calibrations) {
            let text = format!("{}: {}", method_in_words(*reporter), calibration.in_words());
            run.outcome.details.push(text);
        }
        let mut estimates = calibrations.map(|calibration| calibration.program_bandwidth());
        // The limit is the rate of the full known load with the chain, which does not disturb the load.
        let alone = self.seconds(ProgramCell::Known(ReporterKind::Chain, FULL_SHARE), 1);
        if !alone.is_empty() {
            let full_load = 1.0 / stats::median(&alone);
            estimates.iter_mut().flatten().for_each(|drawn| drawn.full_load = full_load);
        }
        let (number, drawn) = match drawn::best_estimate(&estimates) {
            Ok(best) => best,
            Err(why) => {
                self.add_unknown(run, "which bandwidth the program uses", why.obstacle());
                return;
            }
        };
        let reporter = reporters[number];
        let basis = method_in_words(reporter);
        let validity = self.judged(run, &[reporter]);
        if let Some(bound) = drawn.bound_without_traffic() {
            let text = format!(
                "no memory traffic of the program was detected: less than {}",
                BytesPerSec(bound)
            );
            run.outcome.notices.push(notice(NoticeId::Method, text));
            let m = self
                .figure(run, BANDWIDTH_BELOW, unit, basis)
                .with_value(QuotedStatistic::Single, bound);
            run.outcome.measurements.push(m.with_validity(validity));
            return;
        }
        let ProgramBandwidth { rates, full_load } = drawn;
        let m = self
            .figure(run, BANDWIDTH, unit, basis)
            .with_samples(QuotedStatistic::Median, rates.clone());
        let m = m.with_limit(*full_load, "reads at full rate on the CPUs of the program");
        run.outcome.measurements.push(m.with_validity(validity));
    }

    /// Adds the slowdown by full load on the other CPUs, and the sensitivity of the program to latency.
    fn add_reaction(&self, run: &mut CurveRun<'_>) {
        let without = self.seconds(ProgramCell::Program(ReporterKind::Chain), 1);
        let with_readers = self.seconds(ProgramCell::Program(ReporterKind::Readers), 1);
        let count = without.len().min(with_readers.len());
        if count == 0 {
            return;
        }
        let parts = part_count(count);
        let mut slowdowns = Vec::new();
        for part in 0..parts {
            let [time, base] =
                [&with_readers, &without].map(|of| stats::median(part_slice(of, part, parts)));
            slowdowns.push(time / base);
        }
        let load = stats::median(&self.seconds(ProgramCell::Program(ReporterKind::Readers), 0));
        let basis = format!(
            "time during reads of {}, divided by the time without",
            BytesPerSec(1.0 / load)
        );
        let reporters = [ReporterKind::Chain, ReporterKind::Readers];
        let validity = self.judged(run, &reporters);
        let m = self.figure(run, SLOWDOWN, Unit::Factor, &basis);
        let m = m
            .with_samples(QuotedStatistic::Median, slowdowns.clone())
            .with_validity(validity.clone());
        run.outcome.measurements.push(m);
        let readings = ReactionReadings {
            slowdowns,
            idle: self.seconds(ProgramCell::Known(ReporterKind::Chain, 0), 0),
            loaded: self.seconds(ProgramCell::LoadedChain, 0),
        };
        let Reaction { rise, sensitivities } = match readings.reaction() {
            Ok(reaction) => reaction,
            Err(why) => {
                let what = "how the program reacts to a higher latency";
                self.add_unknown(run, what, why.obstacle());
                return;
            }
        };
        let ratio = format!("(slowdown - 1) / (rise of latency - 1), rise of latency {rise:.2} x");
        let sensitivity = self.figure(run, SENSITIVITY, Unit::Factor, &ratio);
        let sensitivity = sensitivity
            .with_samples(QuotedStatistic::Median, sensitivities)
            .with_validity(validity);
        run.outcome.measurements.push(sensitivity);
    }

    /// Adds the notice that `what` is unknown. If the program failed or the run was interrupted, this is the reason,
    /// otherwise `obstacle`.
    fn add_unknown(&self, run: &mut CurveRun<'_>, what: &str, obstacle: Obstacle) {
        let is_interrupted = run.outcome.is_interrupted();
        let obstacle = self.lost_runs(is_interrupted).unwrap_or(obstacle);
        run.outcome.notices.push(notice(NoticeId::Method, obstacle.cannot_tell(what)));
    }

    /// Returns the reason why runs of the program are missing; `None` if the time determined their number.
    fn lost_runs(&self, is_interrupted: bool) -> Option<Obstacle> {
        if is_interrupted {
            return Some(Obstacle::new("the run was interrupted"));
        }
        let reporters = [ReporterKind::Chain, ReporterKind::Readers];
        let mut cells = reporters.map(|kind| self.number(ProgramCell::Program(kind))).into_iter();
        let failure = cells.find_map(|cell| self.series.cell_failure(cell))?;
        Some(Obstacle::new(failure.reason()))
    }
}
