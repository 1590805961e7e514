//! Measurement protocol for native kernels and builds of stream.c, which are measured interleaved.
//!
//! In every round, native passes precede each run of a build, so that both are measured in the same state of the
//! machine. The core-to-core latency is measured before and after each run of a build and each native pass. Only
//! figures of the same regime are compared. A build that fails does not affect the other builds or the native figures.

use crate::GAUGE;
use crate::arrangement::{self, Arrangement, PreparedTarget};
use crate::config::StreamConfig;
use crate::kernels::STREAM;
use crate::point::StreamTarget;
use crate::result::{self, StreamEvidence};
use crate::size::check::SizeCheck;
use crate::standard::build::{self, StandardBuild};
use crate::standard::figures::{self, ExpectedOutput, StandardRuns};
use crate::standard::output::StreamOutput;
use crate::standard::stack;
use crate::target::Target;
use crate::tuner::ChosenLoops;
use nodegauge_arena::ArenaError;
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::series::{Series, lost_in_words};
use nodegauge_measure::interference::Cause;
use nodegauge_measure::keys::shared::CompilerConfig;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::record::{Machine, Measurement};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{RepetitionPolicy, RunLimits, Turn, TurnFailure, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome, Seconds, stats};
use nodegauge_toolchain::program::{self, WorkingFolder};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::path::Path;
use std::time::{Duration, Instant};

/// Minimum and maximum duration of a native part, i.e. of the consecutive native passes between two runs of builds.
/// Within these bounds, the duration equals that of the preceding run of a build.
const PART: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// Minimum number of passes of a native part.
const PASSES: usize = 5;
/// Number of runs of each build if the user sets the number of native samples.
const RUNS: usize = 3;
/// Time budget if the user sets the number of samples; practically unlimited.
const NO_TIME_LIMIT: Duration = Duration::from_secs(1 << 30);
/// Maximum ratio of the time of a build to the estimated time of the native kernels on one thread. With [`GRACE`], it
/// determines the time limit of a run.
const MAX_SLOWDOWN: f64 = 20.0;
/// Time that is added to the time limit of a run.
const GRACE: Duration = Duration::from_secs(10);

/// Build of stream.c, with the state of its measurement.
struct MeasuredBuild<'a> {
    build: &'a StandardBuild,
    /// Environment variables of the program; variables without a value are removed.
    environment: Vec<(String, Option<String>)>,
    runs: Vec<BuildRun>,
    has_failed: bool,
}

/// Result of one run of a build.
struct BuildRun {
    output: StreamOutput,
    round_trips: (f64, f64),
}

/// Native loops, ready to be measured.
pub(super) struct NativeLoops {
    pub(super) ready: PreparedTarget<StreamTarget>,
    /// Choice of the loops; `None` if the user fixed them.
    pub(super) chosen: Option<ChosenLoops>,
}

/// Measures the native kernels and the builds. If `named` is false, builds may be omitted for lack of time after one
/// build has run.
pub(super) fn run<'a>(
    site: &MeasuredNode,
    arrangement: Arrangement,
    prepared: NativeLoops,
    builds: &'a [StandardBuild],
    named: bool,
    limits: RunLimits,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let NativeLoops { ready, chosen } = prepared;
    let PreparedTarget { target: point, setup_time: filling, check } = ready;
    let several = if builds.len() == 1 { "a build" } else { &format!("{} builds", builds.len()) };
    observer
        .begin_phase(&format!("measuring native kernels and {several} of stream.c, interleaved"));
    let candidate = |build: &'a StandardBuild| MeasuredBuild {
        build,
        environment: build.environment(&arrangement.placement),
        runs: Vec::new(),
        has_failed: false,
    };
    let mut turns = Turns {
        point,
        candidates: builds.iter().map(candidate).collect(),
        samples: limits.samples,
        parts: RUNS * builds.len(),
        part: 0,
        length: PART.0,
        end: limits
            .samples
            .is_none()
            .then(|| limits.time_at_share(policy::STANDARD_STREAM.measurement_share)),
        optional: !named,
        longest: Duration::ZERO,
        has_native_part: false,
        taken: None,
        fastest: f64::NAN,
    };
    // The reserve is for a last native part and the comparison of every element, which takes about half as long as
    // filling the arrays.
    let limits = RunLimits { reserve: PART.0 + filling / 2, ..limits };
    let series = turns.run(limits, observer)?;
    let Turns { point: mut measured, candidates, .. } = turns;
    let lost = series.cell_failure(0);
    let unchecked = lost.or(series.target_loss());
    if unchecked.is_none() {
        measured.check()?;
    }

    let seen = measured.observe()?;
    let native = &series.schedule.samples[0];
    let stop = series.stop_reason();
    let evidence = StreamEvidence::new(site, &arrangement, &measured, &seen, native, stop);
    let evidence = StreamEvidence { chosen: chosen.as_ref(), check, lost, unchecked, ..evidence };
    let mut outcome = result::outcome(&evidence);
    series.store_end(&mut outcome);
    let regimes = all_regimes(native, &candidates);
    let llc = arrangement::caches_in_use(site, &arrangement.placement).reported;
    let known = FigureInputs {
        arrangement: &arrangement,
        machine: &site.machine,
        llc: llc.map(|bytes| bytes.as_f64()),
        check,
        regimes: &regimes,
        native: evidence.sorted.headline().map_or(f64::NAN, |group| group.round_trip),
    };
    let mut left_out = Vec::new();
    for (number, build) in candidates.iter().enumerate() {
        // The first cell is that of the native loops.
        let cell = number + 1;
        if !build.runs.is_empty() || series.cell_failure(cell).is_some() {
            outcome.measurements.extend(known.measurements(build, series.cell_failure(cell)));
        } else if !outcome.is_interrupted() {
            let command = &build.build.compiler.command;
            let text = format!("{command}: left out, no time left for a run");
            left_out.push(Notice::new(NoticeId::Budget, GAUGE, text));
        }
    }
    outcome.notices = arrangement.notices;
    outcome.notices.extend(left_out);
    Ok(outcome)
}

/// Cells of the schedule: cell 0 contains the native kernels, the following cells one build each.
struct Turns<'a> {
    point: StreamTarget,
    candidates: Vec<MeasuredBuild<'a>>,
    /// Requested number of native samples.
    samples: Option<usize>,
    /// Number of native parts among which the requested samples are divided.
    parts: usize,
    part: usize,
    /// Duration of the next native part.
    length: Duration,
    /// End of the time budget; `None` if the user sets the number of samples.
    end: Option<Instant>,
    /// True if builds may be omitted for lack of time once one build has run.
    optional: bool,
    /// Duration of the longest run of a build.
    longest: Duration,
    /// True if a native part has been measured since the last run of a build.
    has_native_part: bool,
    /// Number of native samples after the warm-up; `None` before the warm-up.
    taken: Option<usize>,
    /// Time of the fastest native pass, seconds.
    fastest: f64,
}

impl Turns<'_> {
    /// Measures rounds until the time is used up, the samples are complete, or the user interrupts the run. The first
    /// cell is that of the native loops.
    fn run(&mut self, limits: RunLimits, observer: &mut dyn Observer) -> Result<Series, Failure> {
        let observer = SharedObserver::new(observer);
        let (most, budget) = match limits.samples {
            Some(_) => (Some(RUNS), NO_TIME_LIMIT),
            None => (None, limits.budget),
        };
        let limits = RunLimits { budget, samples: None, ..limits };
        let policy = RepetitionPolicy { max_rounds: most, ..policy::STANDARD_STREAM };
        let mut series = Series::new(policy, limits, 1 + self.candidates.len());
        let mut turn = |turn: Turn| match turn.cell {
            0 => self.native_part(&&observer).map_err(TurnFailure::from),
            cell => self.run_build(cell - 1, &&observer),
        };
        series.run(&mut turn, &mut &observer, None)?;
        // Each run of a build has a native part before and after it.
        self.part = self.parts;
        if !series.has_ended() && (self.samples.is_some() || !self.has_native_part) {
            let mut native = |_: Turn| self.native_part(&&observer);
            series.remeasure(&[0], 1, &mut native, &&observer);
        }
        series.set_stop_reason(if self.samples.is_some() {
            StopReason::Samples
        } else {
            StopReason::Budget
        });
        Ok(series)
    }

    /// Runs native passes for as long as the preceding run of a build took, or the number of passes that is due.
    /// Returns no samples if all requested samples were taken, or if all builds have failed and enough passes were
    /// measured.
    fn native_part(&mut self, observer: &dyn Observer) -> Result<Vec<Sample>, ArenaError> {
        let begun = Instant::now();
        let left = self.end.map(|end| end.saturating_duration_since(begun));
        let length = left.map_or(self.length, |left| left.min(self.length));
        self.part += 1;
        let until = self.samples.map(|n| n.min(n.div_ceil(self.parts.max(1)) * self.part));
        let before = self.taken.unwrap_or(0);
        let failed = self.candidates.iter().all(|candidate| candidate.has_failed);
        let idle = failed && self.samples.is_none() && before > 4 * PASSES;
        if idle || until.is_some_and(|until| before >= until) {
            return Ok(Vec::new());
        }
        // A build has used the caches and the CPUs since the last native pass, so that a warm-up is necessary. It is
        // kept only the first time.
        let mut passes = vec![self.point.run_pass()?];
        loop {
            let taken = before + passes.len() - 1;
            let enough = match until {
                Some(until) => taken >= until,
                None => begun.elapsed() >= length && taken >= before + PASSES,
            };
            if enough || observer.is_interrupted() {
                break;
            }
            passes.push(self.point.run_pass()?);
        }
        let seconds = passes.iter().map(|pass| pass.seconds.iter().sum::<f64>());
        self.fastest = seconds.fold(self.fastest, f64::min);
        if self.taken.is_some() {
            passes.remove(0);
        }
        self.taken = Some(before + passes.len() - usize::from(self.taken.is_none()));
        self.has_native_part = true;
        Ok(passes)
    }

    /// Runs a build. Returns the best time of each kernel as a sample; no sample if the user interrupts the run, or if
    /// there is no time for it. Fails if the run fails.
    fn run_build(&mut self, i: usize, observer: &dyn Observer) -> Result<Vec<Sample>, TurnFailure> {
        let first = self.candidates[i].runs.is_empty() && !self.longest.is_zero();
        let late = self.end.is_some_and(|end| Instant::now() + self.longest > end);
        if first && late && self.optional {
            return Ok(Vec::new());
        }
        self.has_native_part = false;
        let before = self.point.measure_round_trip()?;
        let begun = Instant::now();
        let limit = self.limit();
        let candidate = &mut self.candidates[i];
        let outcome = run_once(candidate, limit, observer);
        let round_trips = (before, self.point.measure_round_trip()?);
        self.longest = self.longest.max(begun.elapsed());
        self.length = begun.elapsed().clamp(PART.0, PART.1);
        match outcome {
            Ok(output) => {
                let seconds = output.lines.iter().map(|line| line.times[1].0).collect();
                let sample = Sample { round_trips, ..Sample::from_times(seconds) };
                candidate.runs.push(BuildRun { output, round_trips });
                // A run of stream.c includes a warm-up. The warm-up sample that the schedule requires is therefore a
                // copy of the first sample.
                let warm_up = usize::from(candidate.runs.len() == 1);
                Ok(vec![sample; 1 + warm_up])
            }
            Err(Unusable::Interrupted) => Ok(Vec::new()),
            Err(Unusable::Because(why)) => {
                candidate.has_failed = true;
                Err(TurnFailure::Cell(Failure::unmet(why)))
            }
        }
    }

    /// Returns the number of runs of each kernel, which is the same for all builds.
    fn ntimes(&self) -> u64 {
        self.candidates.first().map_or(build::NTIMES, |candidate| candidate.build.wanted.ntimes)
    }

    /// Returns the time limit for a run of a build, which depends on the time of the native kernels for the same bytes.
    fn limit(&self) -> Duration {
        let config = self.point.config();
        let kernels = config.kernels.len().max(1);
        let whole =
            self.fastest * STREAM.len() as f64 / kernels as f64 * (self.ntimes() + 2) as f64;
        let threads = config.places.len().max(1);
        GRACE + Duration::try_from_secs_f64(MAX_SLOWDOWN * threads as f64 * whole).unwrap_or(GRACE)
    }
}

/// Reason why a run of a build has no result.
enum Unusable {
    Interrupted,
    Because(String),
}

fn run_once(
    MeasuredBuild { build, environment, .. }: &MeasuredBuild<'_>,
    limit: Duration,
    observer: &dyn Observer,
) -> Result<StreamOutput, Unusable> {
    let path = &build.program.path;
    let folder = path.parent().unwrap_or(Path::new("."));
    let run = program::ProgramJob::new(CommandLine::new(path.display().to_string(), []), limit)
        .with_folder(WorkingFolder::Existing(folder))
        .with_environment(environment.clone())
        .with_stack(build.source.raised_stack());
    let because = |error: ToolchainError| match error {
        ToolchainError::Interrupted => Unusable::Interrupted,
        other => Unusable::Because(build::failure_reason(other, path)),
    };
    let text = program::run(&run, &|| observer.is_interrupted())
        .and_then(|output| output.require_success(""))
        .map_err(because)?
        .stdout;
    StreamOutput::read(&text)
        .map_err(|error| Unusable::Because(format!("the output is not that of STREAM: {error}")))
}

/// Returns the regimes of all measurements: native passes and runs of all builds.
fn all_regimes(native: &[Sample], candidates: &[MeasuredBuild<'_>]) -> Vec<Regime> {
    let of_native = native.iter().map(|sample| sample.round_trips);
    let runs = candidates.iter().flat_map(|candidate| &candidate.runs);
    let all = of_native.chain(runs.map(|run| run.round_trips));
    regime::find_regimes(&all.flat_map(|(before, after)| [before, after]).collect::<Vec<_>>())
}

/// Inputs from which the figures of builds are computed.
struct FigureInputs<'a> {
    arrangement: &'a Arrangement,
    machine: &'a Machine,
    llc: Option<f64>,
    check: Option<SizeCheck>,
    regimes: &'a [Regime],
    /// Core-to-core round trip of the native figures; NaN for a single thread.
    native: f64,
}

impl FigureInputs<'_> {
    /// Returns the figures of a build; `lost` is the failure that ended the runs.
    fn measurements(
        &self,
        candidate: &MeasuredBuild<'_>,
        lost: Option<&Failure>,
    ) -> Vec<Measurement> {
        let runs = &candidate.runs;
        let Some(first) = runs.first() else {
            let why = lost.map_or_else(|| "the program did not run".to_owned(), Failure::problem);
            return figures::missing_measurements(&self.config(candidate, None, f64::NAN), &why);
        };
        let groups = group(runs, self.regimes);
        let chosen = groups
            .iter()
            .find(|group| regime::may_share_regime(group.round_trip, self.native))
            .or_else(|| groups.iter().max_by_key(|group| group.runs.len()));
        let trip = chosen.map_or(f64::NAN, |group| group.round_trip);
        let counted_outputs: Vec<&StreamOutput> = match chosen {
            Some(group) => group.runs.iter().map(|run| &run.output).collect(),
            None => runs.iter().map(|run| &run.output).collect(),
        };
        let threads = Some(self.arrangement.placement.threads.len() as u64);
        let wanted = Some(&candidate.build.wanted);
        let expected = ExpectedOutput { wanted, threads, llc: self.llc, is_saved: false };
        // A failed check of any run makes the result invalid, even if another run was the fastest.
        let mut validity = figures::output_validity(&first.output, &expected);
        for run in &runs[1..] {
            let other = figures::output_validity(&run.output, &expected);
            for reason in other.reasons {
                if !validity.reasons.contains(&reason) {
                    validity.add(other.status, reason);
                }
            }
        }
        // The builds use arrays of the same length as the native kernels, so the size check applies to them.
        if let Some(doubt) = self.check.and_then(|check| check.cache_doubt()) {
            validity.mark_suspect(doubt);
        }
        if let Some(failure) = lost {
            validity.mark_invalid(lost_in_words(failure));
        }
        if chosen.is_none() {
            validity.mark_suspect("core-to-core latency changed in every run");
        } else if !regime::may_share_regime(trip, self.native) {
            validity.mark_suspect(format!(
                "no run has the core-to-core round trip of the native figure ({} instead of {})",
                Seconds(trip),
                Seconds(self.native)
            ));
        }
        let all: usize = groups.iter().map(|group| group.runs.len()).sum();
        let regimes = groups.iter().filter(|_| groups.len() > 1).map(|group| {
            let share = group.runs.len() as f64 / all as f64;
            (group.round_trip, share, group.runs.iter().map(|run| &run.output).collect())
        });
        let moved = |run: &&BuildRun| {
            let (before, after) = run.round_trips;
            before.is_finite() && regime::regime_index(self.regimes, before, after).is_none()
        };
        figures::measurements(&StandardRuns {
            disturbed: runs
                .iter()
                .filter(|run| chosen.is_some() && moved(run))
                .map(|run| (&run.output, Cause::Moved.to_string()))
                .collect(),
            counted_outputs,
            regimes: regimes.collect(),
            config: self.config(candidate, Some(&first.output), trip),
            validity,
            machine: Some(self.machine),
            keeps_text: true,
        })
    }

    fn config(
        &self,
        MeasuredBuild { build, environment, runs, .. }: &MeasuredBuild<'_>,
        output: Option<&StreamOutput>,
        trip: f64,
    ) -> StreamConfig {
        let placement = &self.arrangement.placement;
        let environment =
            environment.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        StreamConfig {
            engine: Some(build.source.output_format().engine().to_owned()),
            compiler: Some(CompilerConfig {
                command: build.compiler.command.to_string(),
                version: build.compiler.version.clone(),
                flags: Some(
                    build.wanted.flags(build.source.output_format(), &build.compiler.command),
                ),
            }),
            source: Some(build.source.path().display().to_string()),
            places_asked: Some(build::places(placement)),
            bind: Some(placement.bind.to_string()),
            environment: Some(environment.collect()),
            stack_limit: build.source.raised_stack().map(stack::in_words),
            runs: Some(runs.len() as u64),
            round_trip_s: Some(trip).filter(|trip| trip.is_finite()),
            ..output.map(|output| figures::config(output, self.llc)).unwrap_or_default()
        }
    }
}

/// Runs of a build in one regime.
struct RunGroup<'a> {
    round_trip: f64,
    runs: Vec<&'a BuildRun>,
}

/// Groups the runs by regime. Runs during which the hypervisor moved CPUs are left out. Returns a single group if there
/// are no regimes, e.g. because a single thread has no round trip.
fn group<'a>(runs: &'a [BuildRun], regimes: &[Regime]) -> Vec<RunGroup<'a>> {
    if regimes.is_empty() {
        return vec![RunGroup { round_trip: f64::NAN, runs: runs.iter().collect() }];
    }
    (0..regimes.len())
        .filter_map(|i| {
            let of = |run: &&BuildRun| {
                regime::regime_index(regimes, run.round_trips.0, run.round_trips.1) == Some(i)
            };
            let runs: Vec<&BuildRun> = runs.iter().filter(of).collect();
            let trips: Vec<f64> =
                runs.iter().flat_map(|run| [run.round_trips.0, run.round_trips.1]).collect();
            (!runs.is_empty()).then(|| RunGroup { round_trip: stats::median(&trips), runs })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(before: f64, after: f64) -> BuildRun {
        let text = include_str!("../../tests/outputs/stream-gcc-2t.txt");
        BuildRun { output: StreamOutput::read(text).unwrap(), round_trips: (before, after) }
    }

    #[test]
    fn runs_are_grouped_by_regime_and_runs_with_moved_cpus_are_left_out() {
        let (near, far) = (115e-9, 390e-9);
        let runs = [run(near, near), run(far, far), run(near, far), run(near, near)];
        let regimes = regime::find_regimes(&[near, near, far, far, near, far, near, near]);
        let groups = group(&runs, &regimes);
        let sizes: Vec<usize> = groups.iter().map(|group| group.runs.len()).collect();
        assert_eq!(sizes, [2, 1]);
        assert!((groups[1].round_trip - far).abs() < 1e-12);
        assert_eq!(group(&runs, &[]).len(), 1);
    }
}
