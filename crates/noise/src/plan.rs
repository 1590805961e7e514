//! Run of `noise`: turns of the loop on all CPUs simultaneously, and their evaluation.

use crate::config::NoiseConfig;
use crate::lengths::DetourLengths;
use crate::sources::{MeasuredPeriod, SourceReading};
use crate::{GAUGE, TEST, barrier};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_detours::{MIN_DETOUR_RATIO, Recording, record_detours};
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{
    Budget, Predictable, PredictedTime, RunLimits, Turn, TurnFailure, policy,
};
use nodegauge_measure::{Failure, Notice, Observer, Outcome, Unit, clock};
use nodegauge_placement::{Placement, PlacementOptions, plan};
use nodegauge_team::Team;
use std::time::Duration;

/// Duration of a turn.
const TURN: Duration = Duration::from_millis(100);
/// Quantum of computation between two barriers, nanoseconds; it is the same as in the FTQ benchmark.
const QUANTUM: u64 = 1_000_000;

/// Options of `noise`.
#[derive(Debug, Clone, Default)]
pub struct NoiseOptions {
    /// Threads and their places; by default, one thread runs on each core.
    pub placement: PlacementOptions,
    /// Time budget of the whole run, if the user set one. A run that would exceed it is refused.
    pub budget: Option<Duration>,
    /// Exact number of turns after the warm-up, regardless of the time.
    pub samples: Option<usize>,
}

/// Planned run of `noise`.
pub struct NoisePlan {
    placement: Placement,
    options: NoiseOptions,
    notices: Vec<Notice>,
}

impl NoisePlan {
    /// Default time budget of the whole run. It is long because detours may be rare.
    pub const BUDGET: Duration = Duration::from_secs(20);

    /// Plans a run with one thread on each core, or with the requested threads.
    ///
    /// # Errors
    /// Fails if this node does not have the threads.
    pub fn new(site: &MeasuredNode, options: NoiseOptions) -> Result<Self, Failure> {
        let team = options.placement.team_request(&site.topology, "noise")?;
        let placement = plan(&site.topology, &team.request)?;
        let notices = team.gauge_notices(GAUGE);
        Ok(Self { placement, options, notices })
    }
}

/// Duration of a run, predicted before the first turn.
struct PredictedTurns;

impl Predictable for PredictedTurns {
    fn predicted(&self) -> PredictedTime {
        let warm_up = 1;
        let turns = warm_up + policy::NOISE.min_rounds as u32;
        PredictedTime { min: turns * TURN, likely: turns * TURN }
    }

    fn shorten(&mut self) -> bool {
        false
    }

    fn shortening_options(&self) -> &str {
        "no --budget"
    }
}

impl PlannedRun for NoisePlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.options.budget.unwrap_or(Self::BUDGET)), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        vec![PossibleFigures::new(
            GAUGE,
            TEST,
            ["available", "longest"],
            &[Unit::Factor, Unit::Seconds],
        )]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { placement, options, notices } = *self;
        let limits =
            RunLimits::from_budget(Budget::new(options.budget, Self::BUDGET), options.samples);
        limits.admit(&mut PredictedTurns)?;
        let places = placement.thread_cpus();
        observer.begin_phase("starting threads");
        let mut team = Team::start(&places)?;
        let cpus: Vec<u32> = places.iter().flatten().map(|cpu| cpu.0).collect();
        let own = std::process::id();
        let before = SourceReading::take(&site.root, &cpus, own);
        let begun = clock::now();
        let mut run = NoiseRun::default();
        let mut series = Series::new(policy::NOISE, limits, 1);
        let shared = SharedObserver::new(observer);
        (&mut &shared).begin_phase("recording detours on all CPUs");
        series.run(&mut |_: Turn| run.turn(&mut team), &mut &shared, None)?;
        let elapsed = clock::now().saturating_duration_since(begun).as_secs_f64();
        let after = SourceReading::take(&site.root, &cpus, own);
        let mut config = run.config(places.len());
        config.cpus =
            Some(places.iter().map(|place| place.iter().map(|cpu| cpu.0).collect()).collect());
        let measured = MeasuredPeriod {
            seconds: elapsed,
            cpus: &cpus,
            lengths: &run.lengths,
            recorded_seconds: run.elapsed as f64 * 1e-9 / places.len() as f64,
        };
        config.sources = Some(after.since(&before, &measured));
        config.irqbalance = Some(after.has_irqbalance());
        let tickless = site.root.numbers("sys/devices/system/cpu/nohz_full").unwrap_or_default();
        config.tickless_cpus =
            Some(cpus.iter().copied().filter(|cpu| tickless.contains(cpu)).collect());
        config.stopped = Some(series.stop_reason().to_string());
        let mut outcome =
            Outcome { measurements: figures(&series, &config), notices, ..Outcome::default() };
        series.store_end(&mut outcome);
        Ok(outcome)
    }
}

/// Returns the figures: the share of the time that the node leaves to a program, and the longest detour of a turn.
fn figures(series: &Series, config: &NoiseConfig) -> Vec<Measurement> {
    let judged = series.samples_by_regime(&[]);
    let available = Measurement::new(GAUGE, TEST, "available", Unit::Factor);
    let available =
        series.figure(&judged, (0, 0), available, QuotedStatistic::Median, &|seconds| seconds);
    let longest = Measurement::new(GAUGE, TEST, "longest", Unit::Seconds);
    let longest =
        series.figure(&judged, (0, 1), longest, QuotedStatistic::Median, &|seconds| seconds);
    let mut all = Vec::new();
    for figure in [available, longest].into_iter().flatten() {
        all.push(
            series.judge_figure(0, figure.with_config(config).with_validity(Validity::valid())),
        );
    }
    all
}

/// Combined recordings of all turns.
#[derive(Debug, Default)]
struct NoiseRun {
    /// Recorded time, summed over all CPUs, nanoseconds.
    elapsed: u64,
    pass: u64,
    lengths: DetourLengths,
    /// Time lost in each quantum on each CPU, nanoseconds.
    lost: Vec<u64>,
}

impl NoiseRun {
    /// Records the detours of all CPUs simultaneously. The parts of the sample are the share of the time that the loop
    /// got, and the length of the longest detour in seconds, which is at least the time of a pass.
    fn turn(&mut self, team: &mut Team) -> Result<Vec<Sample>, TurnFailure> {
        let recordings = team.run_and_collect(|member| {
            member.barrier();
            record_detours(TURN)
        })?;
        let mut elapsed = 0;
        let mut lost = 0;
        let mut longest = 0;
        for recording in &recordings {
            elapsed += recording.elapsed;
            lost += recording.lost_time();
            longest = longest.max(recording.longest_detour()).max(recording.pass);
            self.add(recording);
        }
        let available = (elapsed - lost.min(elapsed)) as f64 / elapsed.max(1) as f64;
        Ok(vec![Sample::from_times(vec![available, longest as f64 * 1e-9])])
    }

    fn add(&mut self, recording: &Recording) {
        self.elapsed += recording.elapsed;
        self.pass = self.pass.max(recording.pass);
        recording.detours.iter().for_each(|detour| self.lengths.add(detour.length));
        self.lost.extend(recording.lost_per_quantum(QUANTUM));
    }

    fn config(&self, threads: usize) -> NoiseConfig {
        let seconds = self.elapsed.max(1) as f64 * 1e-9;
        NoiseConfig {
            threads: Some(threads as u64),
            pass_s: Some(self.pass as f64 * 1e-9),
            detour_s: Some((MIN_DETOUR_RATIO * self.pass) as f64 * 1e-9),
            detours: Some(self.lengths.count()),
            detours_per_s: Some(self.lengths.count() as f64 / seconds),
            histogram: Some(self.lengths.octave_counts()),
            barrier: Some(barrier::curve(&self.lost, QUANTUM, threads)),
            quantum_s: Some(QUANTUM as f64 * 1e-9),
            ..NoiseConfig::default()
        }
    }
}
