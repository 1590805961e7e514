//! The native kernels and builds of stream.c by turns, in one run.
//!
//! A native part, a run of one build, a native part, a run of the next, round after round: both
//! see the same machine. The core-to-core latency is taken around each run of a build as around each native
//! pass, so that only figures of one regime are set beside each other. A build that fails leaves
//! the others and the native figures as they are.

use crate::kernels::STREAM;
use crate::point::{Point, Sample};
use crate::result::{self, Evidence};
use crate::samples;
use crate::standard::build::{self, Contender};
use crate::standard::figures::{self, Around, Common};
use crate::standard::output::Output;
use crate::stream::{self, Options, Ready, StreamError};
use crate::target::Target;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::interference::Cause;
use nodegauge_measure::record::{Finding, Machine, Measurement, Status};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{Seconds, Watch, clock, stats};
use nodegauge_placement::Placement;
use nodegauge_toolchain::{CommandLine, Job, ToolchainError};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What both found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The native ones, then those of each build.
    pub measurements: Vec<Measurement>,
    /// What was clamped, assumed or replaced.
    pub notices: Vec<String>,
    /// What the run found out about the machine.
    pub findings: Vec<Finding>,
    /// Why repetition ended.
    pub stop: Stop,
    /// Where each native thread ran.
    pub affinity: Vec<String>,
}

/// Share of the budget for the trial of loops.
const TRIAL_SHARE: f64 = 0.15;
/// A native part takes as long as the run of a build before it, within these bounds.
const PART: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// Passes of a native part at least.
const PASSES: usize = 5;
/// Rounds when the number of native samples is given.
const ROUNDS: usize = 3;
/// A build may be this much slower than the native kernels on one thread, and then has this much
/// time besides, before it counts as hanging.
const SLOWER: f64 = 20.0;
const GRACE: Duration = Duration::from_secs(10);

/// A build under measurement.
struct Stand<'a> {
    contender: &'a Contender,
    runs: Vec<Run>,
    failure: Option<String>,
}

/// One run of a build.
struct Run {
    output: Output,
    round_trips: (f64, f64),
}

/// Measures both.
///
/// # Errors
/// No memory, pages or CPUs as asked.
pub fn run(
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    contenders: &[Contender],
    watch: &mut dyn Watch,
) -> Result<Outcome, StreamError> {
    let started = Instant::now();
    let config = stream::plan(topology, machine, placement, options)?;
    let Ready { mut point, size, notices, tried } =
        stream::ready(config, options, TRIAL_SHARE, started, watch)?;
    watch.phase(&format!("native and {} of stream.c by turns", builds(contenders.len())));
    let mut stands: Vec<Stand<'_>> = contenders
        .iter()
        .map(|contender| Stand { contender, runs: Vec::new(), failure: None })
        .collect();
    let mut native = Vec::new();
    let stop = rounds(&mut point, &mut native, &mut stands, placement, options, started, watch)?;
    point.check()?;

    let sorted = samples::sort(&native);
    let seen = point.seen()?;
    let evidence = Evidence {
        machine,
        topology,
        placement,
        target: &point,
        seen: &seen,
        size: &size,
        samples: &native,
        sorted: &sorted,
        stop,
        loops_tried: tried,
        clock: clock::quality(),
        traffic: None,
    };
    let mut measurements = result::measurements(&evidence);
    let regimes = all_regimes(&native, &stands);
    let cpus: Vec<CpuId> = placement.threads.iter().flat_map(|t| t.cpus.clone()).collect();
    let llc = topology.llc_in_use(&cpus).map(|(bytes, _)| bytes as f64);
    let headline = sorted.headline().map_or(f64::NAN, |group| group.round_trip);
    for stand in stands.iter().filter(|stand| !stand.runs.is_empty() || stand.failure.is_some()) {
        let set = Set { stand, placement, machine, llc, regimes: &regimes, native: headline };
        measurements.extend(set.measurements());
    }
    Ok(Outcome {
        measurements,
        findings: result::findings(&evidence),
        notices,
        stop,
        affinity: seen.affinity.iter().map(ToString::to_string).collect(),
    })
}

fn builds(count: usize) -> String {
    if count == 1 { "a build".to_owned() } else { format!("{count} builds") }
}

/// Rounds until the time is spent, the samples are taken, or the user ends it.
fn rounds(
    point: &mut Point,
    native: &mut Vec<Sample>,
    stands: &mut [Stand<'_>],
    placement: &Placement,
    options: &Options,
    started: Instant,
    watch: &mut dyn Watch,
) -> Result<Stop, StreamError> {
    native.push(point.pass()?);
    let environment = build::environment(placement);
    let parts = ROUNDS * stands.len();
    let mut part = 0;
    let mut length = PART.0;
    loop {
        let round = Instant::now();
        for stand in stands.iter_mut() {
            part += 1;
            let until = options.samples.map(|n| (n * part).div_ceil(parts));
            if native_part(point, native, length, until, watch)? {
                return Ok(Stop::Interrupted);
            }
            if stand.failure.is_some() {
                continue;
            }
            let before = point.round_trip()?;
            let begun = Instant::now();
            let outcome = run_once(stand.contender, &environment, limit(point, native), watch);
            let round_trips = (before, point.round_trip()?);
            match outcome {
                Ok(output) => stand.runs.push(Run { output, round_trips }),
                Err(Unusable::Interrupted) => return Ok(Stop::Interrupted),
                Err(Unusable::Because(why)) => stand.failure = Some(why),
            }
            length = begun.elapsed().clamp(PART.0, PART.1);
            let gone = started.elapsed().as_secs_f64() / options.budget.as_secs_f64().max(1e-3);
            let share = options.samples.map_or(gone, |_| part as f64 / parts as f64);
            watch.progress(share.min(1.0), &format!("part {part}"));
        }
        let spent = started.elapsed() + round.elapsed() / 2 >= options.budget;
        let failed = stands.iter().all(|stand| stand.failure.is_some());
        match options.samples {
            Some(_) if part >= parts => return Ok(Stop::Samples),
            None if spent || (failed && native.len() > 4 * PASSES) => {
                // Each run of a build has a native part before it and one behind it.
                let ended = native_part(point, native, length, None, watch)?;
                return Ok(if ended { Stop::Interrupted } else { Stop::Budget });
            }
            _ => {}
        }
    }
}

/// Native passes for `length`, or until there are `until` samples; whether the user ended it.
fn native_part(
    point: &mut Point,
    native: &mut Vec<Sample>,
    length: Duration,
    until: Option<usize>,
    watch: &mut dyn Watch,
) -> Result<bool, StreamError> {
    let begun = Instant::now();
    let first = native.len();
    if first > 1 {
        // Another program has used the caches and the CPUs since: a warm-up that is not kept.
        point.pass()?;
    }
    loop {
        let enough = match until {
            Some(until) => native.len() > until,
            None => begun.elapsed() >= length && native.len() >= first + PASSES,
        };
        if enough || watch.interrupted() {
            return Ok(watch.interrupted());
        }
        native.push(point.pass()?);
    }
}

/// How long a run of a build may take: from what the native kernels took for the same bytes.
fn limit(point: &Point, native: &[Sample]) -> Duration {
    let pass =
        native.iter().map(|sample| sample.seconds.iter().sum::<f64>()).fold(f64::NAN, f64::min);
    let kernels = point.config().kernels.len().max(1);
    let whole = pass * STREAM.len() as f64 / kernels as f64 * (build::NTIMES + 2) as f64;
    let threads = point.config().places.len().max(1);
    GRACE + Duration::try_from_secs_f64(SLOWER * threads as f64 * whole).unwrap_or(GRACE)
}

/// Why a run gave nothing.
enum Unusable {
    Interrupted,
    Because(String),
}

fn run_once(
    contender: &Contender,
    environment: &[(String, Option<String>)],
    limit: Duration,
    watch: &dyn Watch,
) -> Result<Output, Unusable> {
    let path = &contender.program.path;
    let job = Job {
        folder: path.parent().map_or_else(|| PathBuf::from("."), std::path::Path::to_owned),
        environment: environment.to_vec(),
        ..Job::new(CommandLine::new(path.display().to_string(), []), limit)
    };
    let because = |error: ToolchainError| match error {
        ToolchainError::Interrupted => Unusable::Interrupted,
        // The program's private path says nothing to the user; what made it does.
        other => {
            Unusable::Because(other.to_string().replace(&job.command.to_string(), "the program"))
        }
    };
    let text = nodegauge_toolchain::run(&job, &|| watch.interrupted())
        .and_then(|output| job.success(output))
        .map_err(because)?;
    Output::read(&text).map_err(|error| {
        Unusable::Because(format!("the program is not STREAM as it is known: {error}"))
    })
}

/// The regimes that native passes and runs of all builds met together.
fn all_regimes(native: &[Sample], stands: &[Stand<'_>]) -> Vec<Regime> {
    let mut trips: Vec<f64> =
        native.iter().flat_map(|sample| [sample.round_trips.0, sample.round_trips.1]).collect();
    let runs = stands.iter().flat_map(|stand| &stand.runs);
    trips.extend(runs.flat_map(|run| [run.round_trips.0, run.round_trips.1]));
    regime::regimes(&trips)
}

/// All that is known of one build when its figures are made.
struct Set<'a> {
    stand: &'a Stand<'a>,
    placement: &'a Placement,
    machine: &'a Machine,
    llc: Option<f64>,
    regimes: &'a [Regime],
    /// Round trip of the regime of the native headline; NaN for one thread.
    native: f64,
}

impl Set<'_> {
    fn measurements(&self) -> Vec<Measurement> {
        let runs = &self.stand.runs;
        let Some(first) = runs.first() else {
            let why = self.stand.failure.as_deref().unwrap_or("it did not run");
            return figures::missing(&self.config(None, f64::NAN), why);
        };
        let groups = group(runs, self.regimes);
        let chosen = groups
            .iter()
            .find(|group| regime::same(group.round_trip, self.native))
            .or_else(|| groups.iter().max_by_key(|group| group.runs.len()));
        let trip = chosen.map_or(f64::NAN, |group| group.round_trip);
        let counting: Vec<&Output> = match chosen {
            Some(group) => group.runs.iter().map(|run| &run.output).collect(),
            None => runs.iter().map(|run| &run.output).collect(),
        };
        let threads = Some(self.placement.threads.len() as u64);
        let wanted = Some(&self.stand.contender.wanted);
        let around = Around { wanted, threads, llc: self.llc };
        // A run that fails its check spoils the result, whether it was the fastest or not.
        let mut validity = figures::judge(&first.output, &around);
        for run in &runs[1..] {
            let other = figures::judge(&run.output, &around);
            for reason in other.reasons {
                if !validity.reasons.contains(&reason) {
                    validity.add(other.status, reason);
                }
            }
        }
        if let Some(why) = &self.stand.failure {
            validity.add(Status::Suspect, format!("a later run failed: {why}"));
        }
        if chosen.is_none() {
            validity.add(Status::Suspect, "the cpus were moved in every run");
        } else if !regime::same(trip, self.native) {
            validity.add(
                Status::Suspect,
                format!(
                    "no run met the regime of the native figure: round trip {} instead of {}",
                    Seconds(trip),
                    Seconds(self.native)
                ),
            );
        }
        let all: usize = groups.iter().map(|group| group.runs.len()).sum();
        let regimes = groups.iter().filter(|_| groups.len() > 1).map(|group| {
            let share = group.runs.len() as f64 / all as f64;
            (group.round_trip, share, group.runs.iter().map(|run| &run.output).collect())
        });
        let moved = |run: &&Run| {
            let (before, after) = run.round_trips;
            before.is_finite() && regime::assign(self.regimes, before, after).is_none()
        };
        figures::measurements(&Common {
            disturbed: runs
                .iter()
                .filter(|run| chosen.is_some() && moved(run))
                .map(|run| (&run.output, Cause::Moved.to_string()))
                .collect(),
            counting,
            regimes: regimes.collect(),
            config: self.config(Some(&first.output), trip),
            validity,
            theoretical: self.machine.memory.theoretical.as_ref(),
        })
    }

    fn config(&self, output: Option<&Output>, trip: f64) -> Map<String, Value> {
        let contender = self.stand.contender;
        let mut config = match output {
            Some(output) => figures::config(output, self.llc),
            None => {
                Map::from_iter([("engine".to_owned(), json!(contender.source.dialect().engine()))])
            }
        };
        let places: Vec<Vec<u32>> = self
            .placement
            .threads
            .iter()
            .map(|thread| thread.cpus.iter().map(|cpu| cpu.0).collect())
            .collect();
        let environment: Map<String, Value> = build::environment(self.placement)
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name, json!(value))))
            .collect();
        config.insert(
            "compiler".to_owned(),
            json!({
                "command": contender.compiler.command.to_string(),
                "version": contender.compiler.version,
                "flags": contender.wanted.flags(contender.source.dialect()),
            }),
        );
        config.insert("source".to_owned(), json!(contender.source.path().display().to_string()));
        config.insert("places_asked".to_owned(), json!(places));
        config.insert("bind".to_owned(), json!(self.placement.bind.to_string()));
        config.insert("environment".to_owned(), Value::Object(environment));
        config.insert("runs".to_owned(), json!(self.stand.runs.len()));
        config.insert("round_trip_s".to_owned(), json!(Some(trip).filter(|t| t.is_finite())));
        config
    }
}

/// Runs of one regime.
struct Group<'a> {
    round_trip: f64,
    runs: Vec<&'a Run>,
}

/// Runs by regime; those in which the CPUs were moved are in none. One group without round trips
/// for a single thread.
fn group<'a>(runs: &'a [Run], regimes: &[Regime]) -> Vec<Group<'a>> {
    if regimes.is_empty() {
        return vec![Group { round_trip: f64::NAN, runs: runs.iter().collect() }];
    }
    (0..regimes.len())
        .filter_map(|i| {
            let of = |run: &&Run| {
                regime::assign(regimes, run.round_trips.0, run.round_trips.1) == Some(i)
            };
            let runs: Vec<&Run> = runs.iter().filter(of).collect();
            let trips: Vec<f64> =
                runs.iter().flat_map(|run| [run.round_trips.0, run.round_trips.1]).collect();
            (!runs.is_empty()).then(|| Group { round_trip: stats::median(&trips), runs })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(before: f64, after: f64) -> Run {
        let text = include_str!("../../tests/data/stream-gcc-2t.txt");
        Run { output: Output::read(text).unwrap(), round_trips: (before, after) }
    }

    #[test]
    fn runs_are_set_apart_by_regime_and_moved_ones_are_in_none() {
        let (near, far) = (115e-9, 390e-9);
        let runs = [run(near, near), run(far, far), run(near, far), run(near, near)];
        let regimes = regime::regimes(&[near, near, far, far, near, far, near, near]);
        let groups = group(&runs, &regimes);
        let sizes: Vec<usize> = groups.iter().map(|group| group.runs.len()).collect();
        assert_eq!(sizes, [2, 1]);
        assert!((groups[1].round_trip - far).abs() < 1e-12);
        assert_eq!(group(&runs, &[]).len(), 1);
    }
}
