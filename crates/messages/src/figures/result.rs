//! Measurements from the output of a probe, with all reasons why they are suspect.
//!
//! The value is computed as in the OSU micro-benchmarks: it is the mean over all valid operations. The samples are the
//! means of batches, so that the summary shows their variation. If a hypervisor moves the CPUs of the machine, the
//! core-to-core latency changes; samples with different latencies (regimes) are never combined.

use crate::config::{DipConfig, MessageConfig, MpiConfig, PairRank};
use crate::job::launch::RankLocations;
use crate::job::protocol::{MAX_LOST_SHARE, SizeRun};
use crate::pattern::{Participants, Pattern};
use crate::probe::start::{IncompleteStart, MessageTransport, StartReport, Starter};
use crate::{GAUGE, TEST, TRANSPORT_TEST};
use nodegauge_machine::CpuId;
use nodegauge_measure::interference::Cause;
use nodegauge_measure::quantity;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::samples::{
    self, CellSamples, RegimeAssignment, RegimeAssignmentParameters, RegimeGroup, Sample,
};
use nodegauge_measure::stats::{self, BetterDirection};
use nodegauge_measure::{Fraction, Seconds, Unit};
use nodegauge_placement::cpus::format_ranges;
use nodegauge_placement::{Distance, pairs};
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::MpiParts;
use std::collections::BTreeSet;

/// MPI's names of the levels of thread support.
const LEVELS: [&str; 4] =
    ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];

/// Figure whose configuration is not complete yet.
#[derive(Debug, Clone)]
pub(crate) struct MessageFigure {
    pub measurement: Measurement,
    pub config: MessageConfig,
}

impl MessageFigure {
    /// True if the figure is a point of a curve. Message rates are not, because they contain the same information as
    /// the byte rates.
    pub(crate) fn is_curve(&self) -> bool {
        self.measurement.unit != Unit::MessagesPerSecond
    }

    /// Returns the pattern of the curve and the size of the point on it.
    pub(crate) fn pattern_and_size(&self) -> Option<(Pattern, u64)> {
        let pattern = self.measurement.name.parse().ok()?;
        Some((pattern, self.config.message_bytes?)).filter(|_| self.is_curve())
    }
}

impl From<MessageFigure> for Measurement {
    fn from(figure: MessageFigure) -> Self {
        figure.measurement.with_config(&figure.config)
    }
}

/// Returns an empty measurement of a message pattern.
pub(crate) fn blank_measurement(pattern: Pattern, unit: Unit) -> Measurement {
    Measurement::new(GAUGE, TEST, pattern.name(), unit)
}

/// Returns an empty measurement of this transport. Measurements without an MPI have a separate test name in the record,
/// so that they are not mistaken for those of an MPI.
fn empty_measurement(transport: MessageTransport<'_>, pattern: Pattern, unit: Unit) -> Measurement {
    match transport {
        MessageTransport::Mpi(..) => blank_measurement(pattern, unit),
        MessageTransport::BuiltIn(_) => {
            Measurement::new(GAUGE, TRANSPORT_TEST, pattern.name(), unit)
                .with_category(Category::Transport)
        }
    }
}

/// Returns a measurement without a value, with the reason.
pub(crate) fn missing_measurement(
    starter: &Starter<'_>,
    pattern: Pattern,
    config: &MessageConfig,
    reason: &str,
) -> Measurement {
    empty_measurement(starter.transport, pattern, pattern.unit())
        .with_config(config)
        .without_value(reason)
}

/// Returns the measurement without a value for an MPI that the user specified and that cannot be used. `mpicc` is its
/// wrapper.
pub(crate) fn unusable_measurement(
    pattern: Pattern,
    mpicc: &CommandLine,
    reason: &str,
) -> Measurement {
    let mpi = MpiConfig { mpicc: Some(mpicc.to_string()), ..MpiConfig::default() };
    let engine = Some("probe".to_owned());
    let config = MessageConfig { engine, mpi: Some(mpi), ..MessageConfig::default() };
    blank_measurement(pattern, pattern.unit()).with_config(&config).without_value(reason)
}

/// Returns the configuration of a launch without results.
pub(crate) fn unstarted_config(starter: &Starter<'_>, distance: Option<Distance>) -> MessageConfig {
    let engine = match starter.transport {
        MessageTransport::Mpi(..) => "probe",
        MessageTransport::BuiltIn(fabric) => fabric.name(),
    };
    MessageConfig {
        engine: Some(engine.to_owned()),
        distance,
        mpi: mpi_config(starter.transport, None),
        ..MessageConfig::default()
    }
}

/// Returns the figures of all sizes of a launch, in the order in which they were measured.
pub(crate) fn figures(starter: &Starter<'_>, report: &StartReport) -> Vec<MessageFigure> {
    let sizes = &report.output.sizes;
    let trips: Vec<f64> = sizes.iter().flat_map(SizeRun::trips).collect();
    let regimes = regime::find_regimes(&trips);
    let common_regime = common_regime(sizes, &regimes);
    let mut figures = Vec::new();
    for run in sizes {
        let batches = Batches::from_run(run, &regimes, common_regime);
        figures.extend(SizeEvidence { starter, report, run, batches }.figures());
    }
    figures
}

/// Returns measurements without values for the patterns that the MPI refused.
pub(crate) fn refused_measurements(
    starter: &Starter<'_>,
    report: &StartReport,
) -> Vec<Measurement> {
    let output = &report.output;
    let reason = format!(
        "{} does not provide MPI_THREAD_MULTIPLE, which concurrent sends by two threads require (it \
         provides {})",
        starter.transport.name(),
        LEVELS.get(output.thread_level as usize).unwrap_or(&LEVELS[0])
    );
    let mut figures = Vec::new();
    for pattern in output.refused_patterns.iter().copied() {
        let config = base(starter, report, pattern);
        figures.push(missing_measurement(starter, pattern, &config, &reason));
    }
    figures
}

/// Returns the index of the regime (core-to-core latency) to which most batches of a launch belong.
fn common_regime(sizes: &[SizeRun], regimes: &[Regime]) -> Option<usize> {
    let mut counts = vec![0usize; regimes.len()];
    for group in sizes.iter().flat_map(|size| &size.groups) {
        if let Some(at) = regime::regime_index(regimes, group.trips.0, group.trips.1) {
            counts[at] += group.seconds.len();
        }
    }
    (0..regimes.len()).max_by_key(|at| counts[*at])
}

/// Returns the configuration that all sizes of a launch share.
fn base(starter: &Starter<'_>, report: &StartReport, pattern: Pattern) -> MessageConfig {
    let Starter { transport, options, .. } = starter;
    let launch = &report.launch;
    let threads = launch.threads;
    MessageConfig {
        places: launch.places(),
        hosts: launch.hosts().map(<[String]>::to_vec),
        window: pattern.is_rate().then(|| options.window.into()),
        buffers: (!pattern.is_collective()).then(|| options.buffers.to_string()),
        threads: (pattern.properties().participants == Participants::Threads)
            .then(|| vec![threads.senders.into(), threads.receivers.into()]),
        timing: Some(options.timing.to_string()),
        mpi: mpi_config(*transport, Some(report)),
        ..unstarted_config(starter, launch.distance)
    }
}

/// Returns the MPI in the form of the record.
pub(crate) fn mpi_config(
    transport: MessageTransport<'_>,
    report: Option<&StartReport>,
) -> Option<MpiConfig> {
    let MessageTransport::Mpi(mpi, _) = transport else { return None };
    let text = report.and_then(|report| report.output.library.as_deref());
    // MPICH's version text contains the device among about twenty lines on its build configuration.
    let device = text
        .and_then(|text| text.split('|').find_map(|line| line.trim().strip_prefix("MPICH Device:")))
        .map(|device| device.trim().to_owned());
    let (probe, compiler) = match &mpi.parts {
        MpiParts::Wrapper { compiler, .. } => ("compiled".to_owned(), Some(compiler)),
        MpiParts::Runtime { abi, .. } => (format!("precompiled for {abi}"), None),
    };
    Some(MpiConfig {
        library: Some(mpi.library.name.clone()),
        version: mpi.library.version.clone(),
        standard: report.and_then(|report| report.output.standard.clone()),
        device,
        transport: report.and_then(|report| report.transport.clone()),
        chosen: Some(mpi.selection_reason.clone()).filter(|why| !why.is_empty()),
        probe: Some(probe),
        mpicc: compiler.map(|compiler| compiler.command.to_string()),
        compiler: compiler.and_then(|compiler| compiler.version.clone()),
        launcher: Some(
            report.map_or_else(|| mpi.launcher.command.to_string(), |r| r.command.clone()),
        ),
        launcher_version: mpi.launcher.version.clone(),
    })
}

/// Batches of one size, divided into those that count and those that are discarded.
struct Batches {
    samples: Vec<Sample>,
    /// Number of operations of each batch.
    operations: Vec<u64>,
    sorted: RegimeAssignment,
    counted: RegimeGroup,
    /// True if no batch belongs to the regime (core-to-core latency) of the other sizes.
    moved: bool,
}

impl Batches {
    /// Divides the batches of `run`. `regimes` are the regimes of the launch, and `common_regime` is the index of the
    /// regime to which most of its batches belong.
    fn from_run(run: &SizeRun, regimes: &[Regime], common_regime: Option<usize>) -> Self {
        let mut samples = Vec::new();
        let mut operations = Vec::new();
        for group in &run.groups {
            for (i, seconds) in group.seconds.iter().enumerate() {
                let share = group.lost.get(i).copied().unwrap_or(0.0);
                let lost = (share > MAX_LOST_SHARE)
                    .then_some(Cause::OtherProgram { share: Fraction(share) });
                samples.push(Sample {
                    round_trips: (known_trip(group.trips.0), known_trip(group.trips.1)),
                    causes: lost.into_iter().collect(),
                    ..Sample::without_end(vec![*seconds])
                });
                operations.push(group.operations);
            }
        }
        // Ranks of collectives share no cache line, even if pairs of the same launch do.
        let regimes = if run.trips().next().is_some() { regimes } else { &[] };
        let known = RegimeAssignmentParameters { warm_up: 0, min: 1, regimes: Some(regimes) };
        let sorted = samples::assign_regimes_with(&samples, known);
        let none = RegimeGroup { parts: vec![Vec::new()], ..RegimeGroup::default() };
        let mut groups = sorted.groups.iter();
        let counted = groups.find(|one| one.regime.is_some() && one.regime == common_regime);
        let largest = sorted.groups.iter().max_by_key(|group| group.all.len());
        let counted = counted.or(largest).cloned().unwrap_or(none);
        let moved = !regimes.is_empty() && counted.regime != common_regime;
        Self { samples, operations, sorted, counted, moved }
    }

    /// Returns the total number of operations of some batches, and the mean time per operation in seconds.
    fn mean(&self, batches: &[usize]) -> (u64, f64) {
        let operations: u64 = batches.iter().map(|i| self.operations[*i]).sum();
        let mut seconds = 0.0;
        for i in batches {
            seconds += self.samples[*i].seconds[0] * self.operations[*i] as f64;
        }
        (operations, seconds / operations as f64)
    }
}

/// Returns the round trip in seconds; NaN if the probe printed 0, because it was not measured.
fn known_trip(trip: f64) -> f64 {
    if trip > 0.0 { trip } else { f64::NAN }
}

/// Batches of one size of a pattern, with the data for its measurement.
struct SizeEvidence<'a> {
    starter: &'a Starter<'a>,
    report: &'a StartReport,
    run: &'a SizeRun,
    batches: Batches,
}

impl SizeEvidence<'_> {
    fn figures(&self) -> Vec<MessageFigure> {
        let SizeRun { pattern, bytes, pairs, .. } = *self.run;
        let window = self.starter.options.window;
        let main = |seconds| pattern.figure(seconds, bytes, window, pairs);
        let mut found = vec![self.figure(pattern.unit(), &main)];
        found[0].config.dip = self.run.dip.map(|seconds| DipConfig { first: main(seconds) });
        if pattern.properties().counts_messages {
            let messages = f64::from(window) * f64::from(pairs);
            found.push(self.figure(Unit::MessagesPerSecond, &|seconds| messages / seconds));
        }
        found
    }

    fn figure(&self, unit: Unit, figure: &dyn Fn(f64) -> f64) -> MessageFigure {
        let Batches { samples, sorted, counted, .. } = &self.batches;
        let value_of = |seconds: f64| six_digits(figure(seconds));
        let timed = CellSamples { samples, sorted, group: counted };
        let mut measurement = empty_measurement(self.starter.transport, self.run.pattern, unit)
            .with_timed_samples(QuotedStatistic::Mean, timed, 0, &value_of);
        let (operations, mean) = self.batches.mean(counted.counted_indices(0));
        let mut config = self.config(operations);
        if operations > 0 {
            let values = &measurement.samples;
            let p99 = if unit.better() == BetterDirection::Lower { 0.99 } else { 0.01 };
            config.min = Some(stats::quantile(values, 0.0));
            config.max = Some(stats::quantile(values, 1.0));
            config.p99 = Some(six_digits(stats::quantile(values, p99)));
            // OSU's programs include disturbed batches. When compared with them, the probe includes disturbed batches,
            // too.
            let mean = if self.starter.options.like_osu {
                self.batches.mean(&(0..self.batches.samples.len()).collect::<Vec<_>>()).1
            } else {
                mean
            };
            measurement = measurement.with_value(QuotedStatistic::Mean, value_of(mean));
        }
        MessageFigure { measurement: measurement.with_validity(self.validity()), config }
    }

    fn config(&self, operations: u64) -> MessageConfig {
        let Self { starter, report, run, batches } = self;
        let launch = &report.launch;
        let mut config = MessageConfig {
            message_bytes: Some(run.bytes),
            pairs: Some(run.pairs.into()),
            starts: Some(report.starts.into()),
            operations: Some(operations),
            batch_operations: run.groups.last().map(|group| group.operations),
            route: (!run.routes.is_empty()).then(|| run.routes.join(" or ")),
            stop: run.end_reason.map(|done| done.to_string()),
            validated: run.wrong_bytes.map(|wrong| wrong == 0),
            round_trip_s: Some(batches.counted.round_trip).filter(|trip| trip.is_finite()),
            fastest_rank: run.spread.map(|(min, _)| min),
            slowest_rank: run.spread.map(|(_, greatest)| greatest),
            ..base(starter, report, run.pattern)
        };
        if let RankLocations::ThisNode(cpus) = &launch.ranks
            && !run.pattern.is_collective()
        {
            let ends = first_cpu(cpus, run.ranks.0).zip(first_cpu(cpus, run.ranks.1));
            let own = ends.and_then(|(a, b)| pairs::distance(starter.topology, a, b));
            config.distance = launch.distance.or(own);
        }
        if launch.steps.is_empty() {
            config.processes = config.places.as_ref().map(|places| places.len() as u64);
            return config;
        }
        // Places and hosts of the ranks of this pair.
        let places = &config.places;
        let hosts = &config.hosts;
        let ranks = [run.ranks.0, run.ranks.1].map(|rank| {
            let first = places.iter().flatten().nth(rank as usize).and_then(|cpus| cpus.first());
            let host = hosts.iter().flatten().nth(rank as usize);
            PairRank { rank, cpus: first.copied().into_iter().collect(), host: host.cloned() }
        });
        config.places = places.as_ref().map(|_| ranks.iter().map(|r| r.cpus.clone()).collect());
        config.hosts = hosts.as_ref().map(|_| ranks.iter().flat_map(|r| r.host.clone()).collect());
        config.ranks = Some(ranks.to_vec());
        config
    }

    fn validity(&self) -> Validity {
        let Self { report, run, batches, .. } = self;
        let mut validity = Validity::valid();
        if let Some(wrong @ 1..) = run.wrong_bytes {
            let what = if run.pattern.properties().size_multiple > 1 { "number" } else { "byte" };
            let amount = quantity::count_in_words(wrong as usize, what);
            validity.add(Status::Invalid, format!("corrupted data: {amount} received incorrectly"));
        }
        if run.end_reason.is_none() {
            let reason = match &report.incomplete_start {
                Some(IncompleteStart::Hung(limit)) => {
                    format!("killed after {} without output", Seconds(limit.as_secs_f64()))
                }
                Some(IncompleteStart::Died(how)) => format!("a rank or the launcher ended: {how}"),
                Some(IncompleteStart::Late) => {
                    "stopped, because the run exceeded --budget".to_owned()
                }
                Some(IncompleteStart::Interrupted) => "interrupted".to_owned(),
                None => "the probe did not finish the measurement of this size".to_owned(),
            };
            // After an interrupt or at the end of the budget, complete batches still give a result.
            let status = match report.incomplete_start {
                Some(IncompleteStart::Interrupted | IncompleteStart::Late)
                    if !run.groups.is_empty() =>
                {
                    Status::Suspect
                }
                _ => Status::Invalid,
            };
            validity.add(status, reason);
        }
        let samples = &batches.samples;
        if !samples.is_empty() && samples.iter().all(|sample| !sample.causes.is_empty()) {
            validity.mark_suspect("other programs used the cores in every batch");
        }
        if batches.moved {
            validity.mark_suspect(
                "in every batch, the core-to-core latency differed from that of the other sizes",
            );
        }
        for reason in misplaced(report) {
            validity.mark_suspect(reason);
        }
        if run.pattern.properties().participants == Participants::Threads
            && let RankLocations::ThisNode(cpus) = &report.launch.ranks
        {
            let threads = report.launch.threads;
            let wanted = threads.senders.max(1) + threads.receivers.max(1);
            let distinct = cpus.iter().flatten().collect::<BTreeSet<_>>().len();
            if distinct < wanted as usize {
                validity.mark_suspect(format!(
                    "{wanted} threads share {distinct} hardware threads, so the figure also \
                     depends on the scheduler"
                ));
            }
        }
        validity
    }
}

/// Returns the first CPU of a rank.
fn first_cpu(cpus: &[Vec<CpuId>], rank: u32) -> Option<CpuId> {
    cpus.get(rank as usize)?.first().copied()
}

/// Returns a message for each of the first three ranks whose CPUs differ from the requested CPUs.
fn misplaced(report: &StartReport) -> Vec<String> {
    let RankLocations::ThisNode(asked) = &report.launch.ranks else { return Vec::new() };
    let ranks = asked.iter().zip(&report.output.ranks).enumerate();
    let elsewhere = ranks.filter_map(|(rank, (wanted, got))| {
        let wanted_cpus = format_ranges(wanted);
        let allowed = got.cpus.as_ref().filter(|cpus| **cpus != wanted_cpus)?;
        Some(format!(
            "rank {rank} should run on cpu {wanted_cpus}, but the kernel allows {allowed}"
        ))
    });
    elsewhere.take(3).collect()
}

/// Rounds to six digits. This exceeds the precision of any clock and keeps records small.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::protocol::BatchGroup;

    const NEAR: f64 = 50e-9;
    const FAR: f64 = 190e-9;

    fn run(groups: &[((f64, f64), f64, f64)]) -> SizeRun {
        let group = |((before, after), seconds, lost): &((f64, f64), f64, f64)| BatchGroup {
            operations: 10,
            trips: (*before, *after),
            seconds: vec![*seconds; 3],
            lost: vec![*lost; 3],
        };
        SizeRun {
            pattern: Pattern::Latency,
            bytes: 8,
            ranks: (0, 1),
            pairs: 1,
            routes: Vec::new(),
            groups: groups.iter().map(group).collect(),
            spread: None,
            wrong_bytes: None,
            end_reason: None,
            dip: None,
        }
    }

    fn of(run: &SizeRun) -> Batches {
        let regimes = [Regime { from: NEAR, to: NEAR * 1.1 }, Regime { from: FAR, to: FAR * 1.1 }];
        Batches::from_run(run, &regimes, Some(1))
    }

    #[test]
    fn only_batches_in_the_common_regime_count() {
        let both = run(&[
            ((NEAR, NEAR), 1.0, 0.0),
            ((FAR, FAR), 3.0, 0.0),
            ((NEAR, FAR), 2.0, 0.0),
            ((FAR, FAR), 9.0, 0.5),
        ]);
        let batches = of(&both);
        assert_eq!((batches.counted.counted_indices(0), batches.moved), (&[3, 4, 5][..], false));
        let moved: Vec<usize> = batches.sorted.excluded.iter().map(|(i, _)| *i).collect();
        assert_eq!((moved.as_slice(), batches.sorted.groups.len()), (&[6, 7, 8][..], 2));
        assert_eq!(batches.counted.all, [3, 4, 5, 9, 10, 11]);
        let other = of(&run(&[((NEAR, NEAR), 1.0, 0.0)]));
        assert_eq!((other.counted.counted_indices(0).len(), other.moved), (3, true));
        let moved_after = of(&run(&[((NEAR, FAR), 1.0, 0.0)]));
        assert_eq!((moved_after.counted.counted_indices(0).len(), moved_after.moved), (3, true));
    }

    /// A start prints all batches at its end. The reading times would therefore not be the times of the batches.
    #[test]
    fn batches_have_no_end_times() {
        let batches = of(&run(&[((NEAR, NEAR), 1.0, 0.0)]));
        assert!(batches.samples.iter().all(|sample| sample.at.is_none()));
    }

    #[test]
    fn ranks_without_round_trips_have_no_regime() {
        let batches = of(&run(&[((0.0, 0.0), 1.0, 0.0), ((0.0, 0.0), 5.0, 0.5)]));
        assert_eq!((batches.counted.counted_indices(0), batches.moved), (&[0, 1, 2][..], false));
        assert!(batches.counted.round_trip.is_nan());
        assert!(!of(&run(&[])).moved && of(&run(&[])).counted.counted_indices(0).is_empty());
    }

    #[test]
    fn disturbed_batches_count_if_all_are_disturbed() {
        let batches = of(&run(&[((FAR, FAR), 1.0, 0.5)]));
        assert_eq!((batches.counted.counted_indices(0).len(), batches.moved), (3, false));
    }

    #[test]
    fn mean_is_weighted_by_operations() {
        let mut both = run(&[((FAR, FAR), 1.0, 0.0), ((FAR, FAR), 4.0, 0.5)]);
        both.groups[0].operations = 20;
        let batches = of(&both);
        assert_eq!(batches.mean(batches.counted.counted_indices(0)), (60, 1.0));
        assert_eq!(batches.mean(&[0, 1, 2, 3, 4, 5]), (90, 2.0));
    }
}
