//! From what a probe said to measurements, with every reason for doubt. Pure.
//!
//! The value is what the OSU micro-benchmarks print: the mean over all operations that count; the
//! samples are the means of batches, so that the summary tells how far they scatter. Samples of
//! different regimes of a machine whose CPUs are moved are never pooled.

use crate::launch::Where;
use crate::options::Options;
use crate::pattern::Pattern;
use crate::protocol::{Group, SizeRun};
use crate::session::{Broken, Report};
use nodegauge_measure::Seconds;
use nodegauge_measure::Unit;
use nodegauge_measure::interference::Cause;
use nodegauge_measure::record::{
    Category, Disturbed, Measurement, RegimeSamples, Status, Validity,
};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::stats::{self, Better, Summary};
use nodegauge_placement::Distance;
use nodegauge_placement::cpus::ranges;
use nodegauge_toolchain::mpi::Mpi;
use serde_json::{Map, Value, json};

/// A batch of whose time other programs had more than this share does not count; the probe's own
/// bound.
const TRIFLE: f64 = 0.02;

/// The gauge's name in records.
pub const GAUGE: &str = "messages";
/// The test's name in records.
pub const TEST: &str = "mpi";

/// A start with what is known around it.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// What came of it.
    pub report: &'a Report,
    /// The MPI.
    pub mpi: &'a Mpi,
    /// How it was measured.
    pub options: &'a Options,
    /// What two ranks share, by their numbers, where it differs from pair to pair.
    pub distance: &'a dyn Fn(u32, u32) -> Option<Distance>,
}

/// The measurements of all sizes, in order.
pub fn measurements(evidence: &Evidence<'_>) -> Vec<Measurement> {
    let report = evidence.report;
    let trips: Vec<f64> = report
        .heard
        .sizes
        .iter()
        .flat_map(|size| size.groups.iter().flat_map(|group| [group.trips.0, group.trips.1]))
        .filter(|trip| *trip > 0.0)
        .collect();
    let regimes = regime::regimes(&trips);
    let headline = headline(report, &regimes);
    let mut found: Vec<Measurement> = report
        .heard
        .sizes
        .iter()
        .flat_map(|run| Size { evidence, run, regimes: &regimes, headline }.measurements())
        .collect();
    for (what, _) in &report.heard.refused {
        if let Ok(pattern) = what.parse::<Pattern>() {
            let reason = format!(
                "{} does not give MPI_THREAD_MULTIPLE, without which two threads may not send at \
                 once (it gives {})",
                evidence.mpi.library,
                level(report.heard.level)
            );
            let config = base(evidence, pattern);
            found.push(missing(pattern.name(), pattern.unit(), config, reason));
        }
    }
    found
}

/// A measurement without a result.
pub fn missing(
    name: &str,
    unit: Unit,
    config: Map<String, Value>,
    reason: impl Into<String>,
) -> Measurement {
    let mut measurement = blank(name, unit, config);
    measurement.validity.add(Status::Invalid, reason);
    measurement
}

/// A measurement that nothing is known of but its name and configuration.
pub(crate) fn blank(name: &str, unit: Unit, config: Map<String, Value>) -> Measurement {
    Measurement {
        gauge: GAUGE.to_owned(),
        test: TEST.to_owned(),
        name: name.to_owned(),
        unit,
        value: None,
        summary: None,
        samples: Vec::new(),
        disturbed: Vec::new(),
        regimes: Vec::new(),
        config,
        quoted: nodegauge_measure::record::Quoted::Single,
        traffic: None,
        category: Category::Variant,
        limit: None,
        validity: Validity::valid(),
    }
}

/// The regime in which most batches of a start lie.
fn headline(report: &Report, regimes: &[Regime]) -> Option<usize> {
    let mut counts = vec![0usize; regimes.len()];
    for group in report.heard.sizes.iter().flat_map(|size| &size.groups) {
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
fn base(evidence: &Evidence<'_>, pattern: Pattern) -> Map<String, Value> {
    let Evidence { report, mpi, options, .. } = evidence;
    let launch = &report.launch;
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| config.insert(key.to_owned(), value);
    put("engine", json!("probe"));
    put("distance", json!(launch.distance));
    match &launch.ranks {
        Where::Here(ranks) => {
            let cpus = |rank: &Vec<nodegauge_machine::CpuId>| {
                rank.iter().map(|cpu| cpu.0).collect::<Vec<_>>()
            };
            put("places", json!(ranks.iter().map(cpus).collect::<Vec<_>>()));
        }
        Where::Hosts(hosts) => {
            put("hosts", json!(hosts));
        }
    }
    if pattern.is_rate() {
        put("window", json!(options.window));
    }
    if !pattern.is_collective() {
        put("buffers", json!(options.buffers.name()));
    }
    if pattern == Pattern::LatencyMt {
        put("threads", json!(launch.threads.to_string()));
    }
    put("timing", json!(options.timing.name()));
    put("mpi", mpi_config(mpi, Some(report)));
    config
}

/// The MPI, in the form of the record.
pub fn mpi_config(mpi: &Mpi, report: Option<&Report>) -> Value {
    let text = report.and_then(|report| report.heard.library.as_deref());
    // MPICH names its device among some twenty lines about how it was built.
    let device = text
        .and_then(|text| text.split('|').find_map(|line| line.trim().strip_prefix("MPICH Device:")))
        .map(|device| device.trim().to_owned());
    json!({
        "library": mpi.library.name,
        "version": mpi.library.version,
        "standard": report.and_then(|report| report.heard.standard.clone()),
        "device": device,
        "transport": report.and_then(|report| report.transport.clone()),
        "mpicc": mpi.compiler.command.to_string(),
        "compiler": mpi.compiler.version,
        "launcher": report.map_or_else(|| mpi.launcher.command.to_string(), |r| r.command.clone()),
        "launcher_version": mpi.launcher.version,
    })
}

/// One size of one pattern.
struct Size<'a> {
    evidence: &'a Evidence<'a>,
    run: &'a SizeRun,
    regimes: &'a [Regime],
    headline: Option<usize>,
}

/// Batches of one regime: seconds of an operation and operations of each.
struct Sorted {
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

impl Size<'_> {
    fn measurements(&self) -> Vec<Measurement> {
        let pattern = self.run.pattern;
        let sorted = self.sort();
        let one = |unit: Unit, figure: &dyn Fn(f64) -> f64| self.measurement(unit, &sorted, figure);
        let bytes = self.run.bytes;
        let window = self.evidence.options.window;
        let mut found = vec![one(pattern.unit(), &|seconds| {
            pattern.figure(seconds, bytes, window, self.run.pairs)
        })];
        if pattern == Pattern::MbwMr {
            let messages = f64::from(window) * f64::from(self.run.pairs);
            found.push(one(Unit::MessagesPerSecond, &|seconds| messages / seconds));
        }
        found
    }

    fn sort(&self) -> Sorted {
        let mut by_regime: Vec<Vec<(f64, u64)>> = vec![Vec::new(); self.regimes.len()];
        let (mut disturbed, mut homeless) = (Vec::new(), Vec::new());
        let alone = |group: &Group, i: usize| group.lost.get(i).is_none_or(|lost| *lost <= TRIFLE);
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
                Sorted {
                    counting: std::mem::take(&mut by_regime[at]),
                    disturbed,
                    never_alone,
                    regimes,
                    in_headline: self.headline.is_none_or(|headline| headline == at),
                    trip: stats::median(&trips),
                }
            }
            // Ranks without a shared line, or moved all the time.
            None => Sorted {
                counting: homeless,
                disturbed,
                never_alone,
                regimes,
                in_headline: self.regimes.is_empty(),
                trip: f64::NAN,
            },
        }
    }

    fn measurement(&self, unit: Unit, sorted: &Sorted, figure: &dyn Fn(f64) -> f64) -> Measurement {
        let pattern = self.run.pattern;
        let better = unit.better();
        let samples: Vec<f64> = sorted.counting.iter().map(|(s, _)| digits(figure(*s))).collect();
        let operations: u64 = sorted.counting.iter().map(|(_, n)| n).sum();
        let total: f64 = sorted.counting.iter().map(|(s, n)| s * *n as f64).sum();
        let mean = (operations > 0).then(|| figure(total / operations as f64));
        let validity = self.validity(sorted);
        let sound = validity.status != Status::Invalid;
        let mut config = base(self.evidence, pattern);
        self.describe(&mut config, sorted, operations);
        if !samples.is_empty() {
            // 99 of 100 are at least as good.
            let p99 = if better == Better::Lower { 0.99 } else { 0.01 };
            let (least, greatest) =
                (stats::quantile(&samples, 0.0), stats::quantile(&samples, 1.0));
            config.insert("min".to_owned(), json!(least));
            config.insert("max".to_owned(), json!(greatest));
            config.insert("p99".to_owned(), json!(digits(stats::quantile(&samples, p99))));
        }
        let regime = |(at, seconds): &(usize, Vec<f64>)| {
            let samples: Vec<f64> = seconds.iter().map(|s| digits(figure(*s))).collect();
            let all: usize = sorted.regimes.iter().map(|(_, s)| s.len()).sum();
            Some(RegimeSamples {
                round_trip_s: (self.regimes[*at].from * self.regimes[*at].to).sqrt(),
                share: samples.len() as f64 / all as f64,
                summary: Summary::of(&samples, better)?,
                samples,
            })
        };
        Measurement {
            value: mean.map(digits).filter(|_| sound),
            quoted: nodegauge_measure::record::Quoted::Mean,
            summary: Summary::of(&samples, better),
            samples,
            disturbed: sorted
                .disturbed
                .iter()
                .map(|(seconds, reason)| Disturbed {
                    value: digits(figure(*seconds)),
                    reason: reason.clone(),
                })
                .collect(),
            regimes: sorted.regimes.iter().filter_map(regime).collect(),
            validity,
            ..blank(pattern.name(), unit, config)
        }
    }

    fn describe(&self, config: &mut Map<String, Value>, sorted: &Sorted, operations: u64) {
        let (run, evidence) = (self.run, self.evidence);
        let mut put = |key: &str, value: Value| config.insert(key.to_owned(), value);
        put("message_bytes", json!(run.bytes));
        put("pairs", json!(run.pairs));
        if evidence.report.launch.distance.is_none() && !run.pattern.is_collective() {
            let (a, b) = run.ranks;
            put("distance", json!((evidence.distance)(a, b)));
        }
        if !evidence.report.launch.steps.is_empty() {
            put("ranks", json!([run.ranks.0, run.ranks.1]));
            if let Where::Here(cpus) = &evidence.report.launch.ranks {
                let of = |rank: u32| cpus.get(rank as usize).and_then(|c| c.first()).map(|c| c.0);
                put("places", json!([[of(run.ranks.0)], [of(run.ranks.1)]]));
            }
            if let Where::Hosts(hosts) = &evidence.report.launch.ranks {
                let of = |rank: u32| hosts.get(rank as usize);
                put("hosts", json!([of(run.ranks.0), of(run.ranks.1)]));
            }
        } else if let Where::Here(cpus) = &evidence.report.launch.ranks {
            put("processes", json!(cpus.len()));
        }
        put("starts", json!(evidence.report.starts));
        put("operations", json!(operations));
        put("batch_operations", json!(run.groups.last().map(|group| group.operations)));
        put("stop", json!(run.done.map(crate::protocol::Done::name)));
        put("validated", json!(run.wrong.map(|wrong| wrong == 0)));
        if sorted.trip.is_finite() {
            put("round_trip_s", json!(sorted.trip));
        }
        if let Some((least, greatest)) = run.spread {
            put("fastest_rank", json!(least));
            put("slowest_rank", json!(greatest));
        }
    }

    fn validity(&self, sorted: &Sorted) -> Validity {
        let (run, report) = (self.run, self.evidence.report);
        let mut validity = Validity::valid();
        if let Some(wrong @ 1..) = run.wrong {
            let what = if run.pattern == Pattern::Allreduce { "numbers" } else { "bytes" };
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
        if run.pattern == Pattern::LatencyMt
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
fn misplaced(report: &Report) -> Vec<String> {
    let Where::Here(asked) = &report.launch.ranks else { return Vec::new() };
    asked
        .iter()
        .zip(&report.heard.ranks)
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
