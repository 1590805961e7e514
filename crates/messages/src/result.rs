//! From what a probe said to measurements, with every reason for doubt. Pure.
//!
//! The value is what the OSU micro-benchmarks print: the mean over all operations that count; the
//! samples are the means of batches, so that the summary tells how far they scatter. Samples of
//! different regimes of a machine whose CPUs are moved are never pooled.

use crate::config::{MessageConfig, MpiConfig, RankConfig};
use crate::launch::Where;
use crate::options::MessageOptions;
use crate::pattern::{Participants, Pattern};
use crate::protocol::{BatchGroup, SizeRun};
use crate::start::{Broken, StartReport};
use crate::{GAUGE, TEST};
use nodegauge_measure::interference::Cause;
use nodegauge_measure::record::{Disturbed, Measurement, Quoted, RegimeSamples, Status, Validity};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::stats::{self, Better, Summary};
use nodegauge_measure::{Seconds, Unit};
use nodegauge_placement::Distance;
use nodegauge_placement::cpus::ranges;
use nodegauge_toolchain::mpi::Mpi;

/// A batch of whose time other programs had more than this share does not count; the probe's own
/// bound.
const MOST_LOST: f64 = 0.02;

/// `config.engine` of the probe's figures.
const PROBE: &str = "probe";

/// A start with what is known around it.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    /// What came of it.
    pub report: &'a StartReport,
    /// The MPI.
    pub mpi: &'a Mpi,
    /// How it was measured.
    pub options: &'a MessageOptions,
    /// What two ranks share, by their numbers, where it differs from pair to pair.
    pub distance: &'a dyn Fn(u32, u32) -> Option<Distance>,
}

/// A figure to whose configuration more is added.
#[derive(Debug, Clone)]
pub(crate) struct MessageFigure {
    /// The figure, without its configuration.
    pub measurement: Measurement,
    /// Its configuration.
    pub config: MessageConfig,
}

impl From<MessageFigure> for Measurement {
    fn from(figure: MessageFigure) -> Self {
        figure.measurement.config(&figure.config)
    }
}

/// A figure of messages of which nothing is known yet.
pub(crate) fn blank(pattern: Pattern, unit: Unit) -> Measurement {
    Measurement::new(GAUGE, TEST, pattern.name(), unit)
}

/// The configuration of a start that gave nothing.
pub(crate) fn unstarted(mpi: &Mpi, distance: Option<Distance>) -> MessageConfig {
    MessageConfig {
        engine: Some(PROBE.to_owned()),
        distance,
        mpi: Some(mpi_config(mpi, None)),
        ..MessageConfig::default()
    }
}

/// The figures of all sizes, in order.
pub(crate) fn figures(evidence: &Evidence<'_>) -> Vec<MessageFigure> {
    let report = evidence.report;
    let sizes = &report.output.sizes;
    let trips: Vec<f64> = sizes.iter().flat_map(SizeRun::trips).collect();
    let regimes = regime::regimes(&trips);
    let headline = headline(report, &regimes);
    sizes
        .iter()
        .flat_map(|run| SizeEvidence { evidence, run, regimes: &regimes, headline }.figures())
        .collect()
}

/// The patterns that the MPI refused, without figures.
pub(crate) fn refused(evidence: &Evidence<'_>) -> Vec<(Pattern, Measurement)> {
    let output = &evidence.report.output;
    let reason = format!(
        "{} does not give MPI_THREAD_MULTIPLE, without which two threads may not send at once (it \
         gives {})",
        evidence.mpi.library,
        level(output.level)
    );
    let missing = |pattern: Pattern| {
        let measurement = blank(pattern, pattern.unit()).config(&base(evidence, pattern));
        (pattern, measurement.missing(reason.clone()))
    };
    output.refused.iter().copied().map(missing).collect()
}

/// The regime in which most batches of a start lie.
fn headline(report: &StartReport, regimes: &[Regime]) -> Option<usize> {
    let mut counts = vec![0usize; regimes.len()];
    for group in report.output.sizes.iter().flat_map(|size| &size.groups) {
        if let Some(at) = regime::assign(regimes, group.trips.0, group.trips.1) {
            counts[at] += group.seconds.len();
        }
    }
    (0..regimes.len()).max_by_key(|at| counts[*at]).filter(|_| regimes.len() > 1)
}

/// MPI's names for what threads may do.
fn level(level: u32) -> &'static str {
    match level {
        1 => "MPI_THREAD_FUNNELED",
        2 => "MPI_THREAD_SERIALIZED",
        3 => "MPI_THREAD_MULTIPLE",
        _ => "MPI_THREAD_SINGLE",
    }
}

/// What is the same for all sizes of a start.
fn base(evidence: &Evidence<'_>, pattern: Pattern) -> MessageConfig {
    let Evidence { report, mpi, options, .. } = evidence;
    let launch = &report.launch;
    let threads = launch.threads;
    MessageConfig {
        places: launch.places(),
        hosts: launch.hosts().map(<[String]>::to_vec),
        window: pattern.is_rate().then(|| options.window.into()),
        buffers: (!pattern.is_collective()).then(|| options.buffers.name().to_owned()),
        threads: (pattern.participants() == Participants::Threads)
            .then(|| vec![threads.senders.into(), threads.receivers.into()]),
        timing: Some(options.timing.name().to_owned()),
        mpi: Some(mpi_config(mpi, Some(report))),
        ..unstarted(mpi, launch.distance)
    }
}

/// The MPI, in the form of the record.
fn mpi_config(mpi: &Mpi, report: Option<&StartReport>) -> MpiConfig {
    let text = report.and_then(|report| report.output.library.as_deref());
    // MPICH names its device among some twenty lines about how it was built.
    let device = text
        .and_then(|text| text.split('|').find_map(|line| line.trim().strip_prefix("MPICH Device:")))
        .map(|device| device.trim().to_owned());
    MpiConfig {
        library: Some(mpi.library.name.clone()),
        version: mpi.library.version.clone(),
        standard: report.and_then(|report| report.output.standard.clone()),
        device,
        transport: report.and_then(|report| report.transport.clone()),
        mpicc: Some(mpi.compiler.command.to_string()),
        compiler: mpi.compiler.version.clone(),
        launcher: Some(
            report.map_or_else(|| mpi.launcher.command.to_string(), |r| r.command.clone()),
        ),
        launcher_version: mpi.launcher.version.clone(),
    }
}

/// One size of one pattern.
struct SizeEvidence<'a> {
    evidence: &'a Evidence<'a>,
    run: &'a SizeRun,
    regimes: &'a [Regime],
    headline: Option<usize>,
}

/// Batches of one regime: seconds of an operation and operations of each.
struct SortedBatches {
    counting: Vec<(f64, u64)>,
    /// Seconds of batches that do not count, and why.
    disturbed: Vec<(f64, String)>,
    /// Whether others used the cores in every batch.
    never_alone: bool,
    /// All regimes met, when there are several: index and seconds.
    regimes: Vec<(usize, Vec<f64>)>,
    /// Whether batches of the headline's regime count.
    in_headline: bool,
    trip: f64,
}

impl SizeEvidence<'_> {
    fn figures(&self) -> Vec<MessageFigure> {
        let pattern = self.run.pattern;
        let sorted = self.sort();
        let (bytes, pairs) = (self.run.bytes, self.run.pairs);
        let window = self.evidence.options.window;
        let one = |unit, figure: &dyn Fn(f64) -> f64| self.figure(unit, &sorted, figure);
        let main = one(pattern.unit(), &|seconds| pattern.figure(seconds, bytes, window, pairs));
        let mut found = vec![main];
        if pattern.counts_messages() {
            let messages = f64::from(window) * f64::from(pairs);
            found.push(one(Unit::MessagesPerSecond, &|seconds| messages / seconds));
        }
        found
    }

    fn sort(&self) -> SortedBatches {
        let mut by_regime: Vec<Vec<(f64, u64)>> = vec![Vec::new(); self.regimes.len()];
        let (mut disturbed, mut homeless) = (Vec::new(), Vec::new());
        let alone =
            |group: &BatchGroup, i: usize| group.lost.get(i).is_none_or(|lost| *lost <= MOST_LOST);
        let never_alone =
            !self.run.groups.iter().any(|group| (0..group.seconds.len()).any(|i| alone(group, i)));
        for group in &self.run.groups {
            let at = regime::assign(self.regimes, group.trips.0, group.trips.1);
            for (i, seconds) in group.seconds.iter().enumerate() {
                match at {
                    _ if !alone(group, i) && !never_alone => {
                        let share = group.lost.get(i).copied().unwrap_or(0.0) * 100.0;
                        let why =
                            format!("another program had a core for {share:.0} % of the time");
                        disturbed.push((*seconds, why));
                    }
                    Some(at) => by_regime[at].push((*seconds, group.operations)),
                    None => homeless.push((*seconds, group.operations)),
                }
            }
        }
        let met: Vec<usize> =
            (0..by_regime.len()).filter(|at| !by_regime[*at].is_empty()).collect();
        let chosen = match self.headline {
            Some(headline) if met.contains(&headline) => Some(headline),
            _ => met.iter().copied().max_by_key(|at| by_regime[*at].len()),
        };
        let regimes = match met.len() {
            0 | 1 => Vec::new(),
            _ => met
                .iter()
                .map(|at| (*at, by_regime[*at].iter().map(|(seconds, _)| *seconds).collect()))
                .collect(),
        };
        let trips: Vec<f64> =
            self.run.groups.iter().map(|group| group.trips.0).filter(|trip| *trip > 0.0).collect();
        match chosen {
            Some(at) => {
                let moved = homeless.iter().map(|(s, _)| (*s, Cause::Moved.to_string()));
                disturbed.extend(moved);
                SortedBatches {
                    counting: std::mem::take(&mut by_regime[at]),
                    disturbed,
                    never_alone,
                    regimes,
                    in_headline: self.headline.is_none_or(|headline| headline == at),
                    trip: stats::median(&trips),
                }
            }
            // Ranks without a shared line, or moved all the time.
            None => SortedBatches {
                counting: homeless,
                disturbed,
                never_alone,
                regimes,
                in_headline: self.regimes.is_empty(),
                trip: f64::NAN,
            },
        }
    }

    fn figure(
        &self,
        unit: Unit,
        sorted: &SortedBatches,
        figure: &dyn Fn(f64) -> f64,
    ) -> MessageFigure {
        let better = unit.better();
        let value_of = |seconds: f64| digits(figure(seconds));
        let samples: Vec<f64> = sorted.counting.iter().map(|(s, _)| value_of(*s)).collect();
        let operations: u64 = sorted.counting.iter().map(|(_, n)| n).sum();
        let total: f64 = sorted.counting.iter().map(|(s, n)| s * *n as f64).sum();
        let mut config = self.config(sorted, operations);
        if !samples.is_empty() {
            let p99 = if better == Better::Lower { 0.99 } else { 0.01 };
            config.min = Some(stats::quantile(&samples, 0.0));
            config.max = Some(stats::quantile(&samples, 1.0));
            config.p99 = Some(digits(stats::quantile(&samples, p99)));
        }
        let all: usize = sorted.regimes.iter().map(|(_, seconds)| seconds.len()).sum();
        let regime = |(at, seconds): &(usize, Vec<f64>)| {
            let samples: Vec<f64> = seconds.iter().map(|s| value_of(*s)).collect();
            Some(RegimeSamples {
                round_trip_s: (self.regimes[*at].from * self.regimes[*at].to).sqrt(),
                share: samples.len() as f64 / all as f64,
                summary: Summary::of(&samples, better)?,
                samples,
            })
        };
        let mut measurement = blank(self.run.pattern, unit).sampled(Quoted::Mean, samples);
        if operations > 0 {
            // Of all operations, whatever batch they were in.
            measurement = measurement.value(Quoted::Mean, value_of(total / operations as f64));
        }
        measurement.disturbed = sorted
            .disturbed
            .iter()
            .map(|(seconds, reason)| Disturbed {
                value: value_of(*seconds),
                reason: reason.clone(),
            })
            .collect();
        measurement.regimes = sorted.regimes.iter().filter_map(regime).collect();
        MessageFigure { measurement: measurement.judged(self.validity(sorted)), config }
    }

    fn config(&self, sorted: &SortedBatches, operations: u64) -> MessageConfig {
        let (run, Evidence { report, distance, .. }) = (self.run, self.evidence);
        let mut config = MessageConfig {
            message_bytes: Some(run.bytes),
            pairs: Some(run.pairs.into()),
            starts: Some(report.starts.into()),
            operations: Some(operations),
            batch_operations: run.groups.last().map(|group| group.operations),
            stop: run.done.map(|done| done.name().to_owned()),
            validated: run.wrong.map(|wrong| wrong == 0),
            round_trip_s: Some(sorted.trip).filter(|trip| trip.is_finite()),
            fastest_rank: run.spread.map(|(least, _)| least),
            slowest_rank: run.spread.map(|(_, greatest)| greatest),
            ..base(self.evidence, run.pattern)
        };
        if report.launch.distance.is_none() && !run.pattern.is_collective() {
            config.distance = distance(run.ranks.0, run.ranks.1);
        }
        if report.launch.steps.is_empty() {
            config.processes = config.places.as_ref().map(|places| places.len() as u64);
            return config;
        }
        // Of all ranks, those of this pair.
        let of = |rank: u32| RankConfig {
            rank,
            cpus: config
                .places
                .iter()
                .flatten()
                .nth(rank as usize)
                .map(|cpus| cpus[..cpus.len().min(1)].to_vec())
                .unwrap_or_default(),
            host: config.hosts.iter().flatten().nth(rank as usize).cloned(),
        };
        let ranks = vec![of(run.ranks.0), of(run.ranks.1)];
        if config.places.is_some() {
            config.places = Some(ranks.iter().map(|rank| rank.cpus.clone()).collect());
        }
        if config.hosts.is_some() {
            config.hosts = Some(ranks.iter().filter_map(|rank| rank.host.clone()).collect());
        }
        config.ranks = Some(ranks);
        config
    }

    fn validity(&self, sorted: &SortedBatches) -> Validity {
        let (run, report) = (self.run, self.evidence.report);
        let mut validity = Validity::valid();
        if let Some(wrong @ 1..) = run.wrong {
            let what = if run.pattern.is_of_numbers() { "numbers" } else { "bytes" };
            validity.add(
                Status::Invalid,
                format!("the data arrived corrupted: {wrong} {what} are not what was sent"),
            );
        }
        if run.done.is_none() {
            let reason = match &report.broken {
                Some(Broken::Hung(limit)) => {
                    format!("no answer within {}: killed", Seconds(limit.as_secs_f64()))
                }
                Some(Broken::Died(how)) => format!("a rank or the launcher ended: {how}"),
                Some(Broken::Interrupted) => "interrupted".to_owned(),
                None => "the probe did not finish this size".to_owned(),
            };
            // Batches that were taken are a result, if an unfinished one.
            let status = if run.groups.is_empty() || report.broken != Some(Broken::Interrupted) {
                Status::Invalid
            } else {
                Status::Suspect
            };
            validity.add(status, reason);
        }
        if sorted.never_alone && !run.groups.is_empty() {
            validity.add(Status::Suspect, "other programs used the cores in every batch");
        }
        if !sorted.in_headline {
            validity.add(
                Status::Suspect,
                "the cpus were moved: no batch met the regime of the other sizes",
            );
        }
        for reason in misplaced(report) {
            validity.add(Status::Suspect, reason);
        }
        let threads = report.launch.threads;
        if run.pattern.participants() == Participants::Threads
            && let Where::Here(cpus) = &report.launch.ranks
        {
            let wanted = threads.senders.max(1) + threads.receivers.max(1);
            let mut distinct: Vec<_> = cpus.iter().flatten().collect();
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() < wanted as usize {
                validity.add(
                    Status::Suspect,
                    format!(
                        "{wanted} threads share {} hardware threads: the figure tells of the \
                         scheduler, too",
                        distinct.len()
                    ),
                );
            }
        }
        validity
    }
}

/// Ranks that the kernel lets run elsewhere than was asked.
fn misplaced(report: &StartReport) -> Vec<String> {
    let Where::Here(asked) = &report.launch.ranks else { return Vec::new() };
    asked
        .iter()
        .zip(&report.output.ranks)
        .enumerate()
        .filter_map(|(rank, (asked, got))| {
            let (asked, got) = (ranges(asked), got.cpus.as_ref()?);
            (asked != *got).then(|| {
                format!("rank {rank} was to run on cpu {asked}, the kernel lets it run on {got}")
            })
        })
        .take(3)
        .collect()
}

/// Six digits are more than any clock gives, and keep records small.
fn digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.5e}").parse().unwrap_or(value)
}
