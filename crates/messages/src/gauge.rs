//! The protocol of a run: which pairs and patterns make which starts, every MPI in each, dips
//! measured again, curves judged.

use crate::MessagesError;
use crate::curve::{self, Fit, Point};
use crate::launch::{Launch, Where};
use crate::nodes;
use crate::options::{Options, Threads};
use crate::pattern::Pattern;
use crate::protocol::SizeRun;
use crate::result::{self, Evidence};
use crate::session::{Broken, Report, Stage};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::Watch;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::stats;
use nodegauge_placement::{CpuPair, Distance, pairs};
use serde_json::{Map, Value, json};

/// Between which ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Between {
    /// One pair for each distance of this node.
    #[default]
    EachDistance,
    /// Pairs at these distances only.
    Distances(Vec<Distance>),
    /// Two hardware threads.
    Cpus(CpuId, CpuId),
    /// Every core with every other.
    All,
    /// Hosts, one rank each.
    Hosts(Vec<String>),
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The figures.
    pub measurements: Vec<Measurement>,
    /// What was clamped, left out or measured again.
    pub notices: Vec<String>,
    /// Lines for those who want to know more.
    pub details: Vec<String>,
    /// Whether the user ended it.
    pub interrupted: bool,
}

/// The starts of a run, and what should be said of them.
///
/// # Errors
/// When there are no two ranks, or no such pair.
pub fn plan(
    topology: &Topology,
    options: &Options,
    between: &Between,
    ranks: Option<usize>,
) -> Result<(Vec<Launch>, Vec<String>), MessagesError> {
    if let Between::Hosts(hosts) = between {
        return Ok((nodes::launches(hosts, options), Vec::new()));
    }
    let mut cores = pairs::one_a_core(topology);
    if cores.len() < 2 {
        cores = topology.allowed().map(|thread| thread.cpu).collect();
    }
    if cores.len() < 2 {
        return Err(MessagesError::OneCpu);
    }
    if *between == Between::All {
        return Ok((vec![matrix(&cores, options)], Vec::new()));
    }
    let pairs = chosen(topology, between)?;
    let mut notices = Vec::new();
    let of = |wanted: &dyn Fn(Pattern) -> bool| -> Vec<Pattern> {
        options.patterns.iter().copied().filter(|pattern| wanted(*pattern)).collect()
    };
    let single = Threads { senders: 1, receivers: 1 };
    let launch = |cpus: Vec<Vec<CpuId>>, distance, patterns, threads| Launch {
        ranks: Where::Here(cpus),
        distance,
        patterns,
        threads,
        steps: Vec::new(),
        sizes: None,
    };
    let mut launches = Vec::new();
    let own = of(&|pattern| pattern.is_of_one_pair() && pattern != Pattern::LatencyMt);
    for pair in pairs.iter().filter(|_| !own.is_empty()) {
        let cpus = vec![vec![pair.first], vec![pair.second]];
        launches.push(launch(cpus, Some(pair.distance), own.clone(), single));
    }
    let together = of(&|pattern| !pattern.is_of_one_pair());
    if !together.is_empty() {
        let count = ranks.unwrap_or(cores.len());
        if count > cores.len() {
            notices.push(format!(
                "{count} ranks on {} cores: some share a core, and wait for each other",
                cores.len()
            ));
        }
        let even = together.iter().any(|pattern| !pattern.is_collective()) && count % 2 == 1;
        if even {
            notices.push(format!("{} of {count} ranks take part: pairs need two", count - 1));
        }
        let count = (count - usize::from(even)).max(2);
        let cpus: Vec<Vec<CpuId>> =
            (0..count).map(|rank| vec![cores[rank % cores.len()]]).collect();
        let distance = match cpus.as_slice() {
            [a, b] => pairs::distance(topology, a[0], b[0]),
            _ => None,
        };
        // Two ranks where a pair has been: one start serves both.
        match launches.iter_mut().find(|known| known.ranks == Where::Here(cpus.clone())) {
            Some(known) => known.patterns.extend(together),
            None => launches.push(launch(cpus, distance, together, single)),
        }
    }
    if options.patterns.contains(&Pattern::LatencyMt)
        && let Some(pair) =
            pairs.iter().find(|pair| pair.distance != Distance::Core).or(pairs.first())
    {
        let (cpus, threads) = threaded(topology, options, *pair, &cores, &mut notices);
        launches.push(launch(cpus, Some(pair.distance), vec![Pattern::LatencyMt], threads));
    }
    Ok((launches, notices))
}

fn chosen(topology: &Topology, between: &Between) -> Result<Vec<CpuPair>, MessagesError> {
    let all = pairs::by_distance(topology);
    match between {
        Between::Distances(wanted) => wanted
            .iter()
            .map(|distance| {
                let found = all.iter().find(|pair| pair.distance == *distance).copied();
                found.ok_or_else(|| {
                    let known: Vec<&str> = all.iter().map(|pair| pair.distance.name()).collect();
                    MessagesError::NoPair(format!(
                        "no two hardware threads here are at the distance {distance}\nhint: there are {}",
                        known.join(", ")
                    ))
                })
            })
            .collect(),
        Between::Cpus(a, b) => {
            let usable =
                |cpu: &CpuId| topology.thread(*cpu).is_some_and(|thread| thread.allowed);
            if let Some(cpu) = [a, b].into_iter().find(|cpu| !usable(cpu)) {
                return Err(MessagesError::NoPair(format!(
                    "cpu {cpu} is not one that this process may use\nhint: nodegauge places --mpi-pairs shows pairs"
                )));
            }
            let distance = pairs::distance(topology, *a, *b).unwrap_or(Distance::OtherSocket);
            Ok(vec![CpuPair { distance, first: *a, second: *b }])
        }
        _ => Ok(all),
    }
}

/// CPUs and threads of `latency_mt`: by custom one thread sends and two receive, where each has a
/// core of its own.
fn threaded(
    topology: &Topology,
    options: &Options,
    pair: CpuPair,
    cores: &[CpuId],
    notices: &mut Vec<String>,
) -> (Vec<Vec<CpuId>>, Threads) {
    let custom = Threads { senders: 1, receivers: 2 };
    let threads = options.threads.unwrap_or_else(|| {
        if cores.len() >= 3 {
            return custom;
        }
        notices.push(
            "latency_mt with 1:1 threads instead of 1:2: three threads on two cores measure the \
             scheduler (-t 1:2 does so all the same)"
                .to_owned(),
        );
        Threads { senders: 1, receivers: 1 }
    });
    let mut free: Vec<CpuId> =
        cores.iter().copied().filter(|cpu| *cpu != pair.first && *cpu != pair.second).collect();
    let mut take = |first: CpuId, count: u32| {
        let mut cpus = vec![first];
        // The nearest to the first thread of the rank.
        free.sort_by_key(|cpu| pairs::distance(topology, first, *cpu));
        let more = (count as usize).saturating_sub(1).min(free.len());
        cpus.extend(free.drain(..more));
        cpus
    };
    let receivers = take(pair.second, threads.receivers);
    let mut senders = take(pair.first, threads.senders);
    let mut receivers = receivers;
    if senders.len() + receivers.len() < (threads.senders + threads.receivers) as usize {
        // Too few for all: the threads of both may use them all.
        let mut all = [senders, receivers].concat();
        all.sort_unstable();
        senders = all.clone();
        receivers = all;
    }
    senders.sort_unstable();
    receivers.sort_unstable();
    (vec![senders, receivers], threads)
}

/// Every core with every other: in each step one pair, so that none disturbs another.
fn matrix(cores: &[CpuId], options: &Options) -> Launch {
    let steps =
        (0..cores.len()).flat_map(|a| (a + 1..cores.len()).map(move |b| vec![(a, b)])).collect();
    let wanted = [Pattern::Latency, Pattern::Bw, Pattern::Bibw];
    let patterns: Vec<Pattern> =
        options.patterns.iter().copied().filter(|pattern| wanted.contains(pattern)).collect();
    Launch {
        ranks: Where::Here(cores.iter().map(|cpu| vec![*cpu]).collect()),
        distance: None,
        patterns: if patterns.is_empty() { vec![Pattern::Latency] } else { patterns },
        threads: Threads { senders: 1, receivers: 1 },
        steps,
        sizes: None,
    }
}

/// Carries out the starts, each with every MPI before the next, so that they see the same machine.
///
/// # Errors
/// When nothing could be measured at all.
pub fn run(
    stages: &[Stage<'_>],
    launches: &[Launch],
    watch: &mut dyn Watch,
) -> Result<Outcome, MessagesError> {
    let mut outcome = Outcome::default();
    let mut first_error = None;
    for (number, launch) in launches.iter().enumerate() {
        for stage in stages {
            if outcome.interrupted || watch.interrupted() {
                outcome.interrupted = true;
                break;
            }
            watch.phase(&format!(
                "{} {}, {} of {}",
                stage.mpi.library,
                in_words(launch),
                number + 1,
                launches.len()
            ));
            match start(stage, launch, watch) {
                Ok(started) => started.add_to(&mut outcome),
                Err(MessagesError::Interrupted) => outcome.interrupted = true,
                Err(error) => {
                    outcome.measurements.extend(failed(stage, launch, &error));
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    let nothing = outcome.measurements.iter().all(|m| m.summary.is_none());
    match first_error {
        Some(error) if nothing && !outcome.interrupted => Err(error),
        _ => Ok(outcome),
    }
}

/// What one start gave.
struct Started {
    measurements: Vec<Measurement>,
    notices: Vec<String>,
    details: Vec<String>,
    interrupted: bool,
}

impl Started {
    fn add_to(self, outcome: &mut Outcome) {
        outcome.measurements.extend(self.measurements);
        for notice in self.notices {
            if !outcome.notices.contains(&notice) {
                outcome.notices.push(notice);
            }
        }
        outcome.details.extend(self.details);
        outcome.interrupted |= self.interrupted;
    }
}

fn in_words(launch: &Launch) -> String {
    match (launch.distance, &launch.ranks) {
        (Some(distance), _) => distance.name().to_owned(),
        (None, Where::Here(cpus)) => format!("{} ranks", cpus.len()),
        (None, Where::Hosts(hosts)) => format!("{} nodes", hosts.len()),
    }
}

fn start(
    stage: &Stage<'_>,
    launch: &Launch,
    watch: &mut dyn Watch,
) -> Result<Started, MessagesError> {
    let mut report = stage.run_often(launch, watch)?;
    let mut again: Vec<(Pattern, u64, f64)> = Vec::new();
    if report.broken.is_none() && launch.steps.is_empty() {
        let dips = dips(&report.heard.sizes);
        if !dips.is_empty() && !watch.interrupted() {
            again = measure_again(stage, launch, &mut report, &dips, watch)?;
        }
    }
    let distance = |a: u32, b: u32| match &launch.ranks {
        Where::Hosts(_) => Some(Distance::OtherHost),
        Where::Here(cpus) => {
            let cpu = |rank: u32| cpus.get(rank as usize)?.first().copied();
            pairs::distance(stage.topology, cpu(a)?, cpu(b)?)
        }
    };
    let evidence =
        Evidence { report: &report, mpi: stage.mpi, options: stage.options, distance: &distance };
    let mut measurements = result::measurements(&evidence);
    for m in &mut measurements {
        let found = again.iter().find(|(pattern, bytes, _)| {
            pattern.name() == m.name && m.config.get("message_bytes") == Some(&json!(bytes))
        });
        if let (Some((pattern, _, seconds)), true) =
            (found, m.unit != nodegauge_measure::Unit::MessagesPerSecond)
        {
            let bytes = m.config.get("message_bytes").and_then(Value::as_u64).unwrap_or(0);
            let pairs = m.config.get("pairs").and_then(Value::as_u64).unwrap_or(1) as u32;
            let first = pattern.figure(*seconds, bytes, stage.options.window, pairs);
            m.config.insert("dip".to_owned(), json!({ "first": first }));
        }
    }
    judge_curves(&mut measurements);
    let interrupted = report.broken == Some(Broken::Interrupted);
    Ok(Started {
        notices: notices(stage, &report, &again),
        details: details(&report),
        measurements,
        interrupted,
    })
}

/// Sizes that take far longer than their neighbours, by pattern.
fn dips(sizes: &[SizeRun]) -> Vec<(Pattern, u64)> {
    let mut found = Vec::new();
    for pattern in Pattern::ALL {
        let points: Vec<Point> = sizes
            .iter()
            .filter(|run| run.pattern == pattern)
            .map(|run| (run.bytes, median(run)))
            .filter(|(_, seconds)| seconds.is_finite())
            .collect();
        found.extend(curve::dips(&points).into_iter().map(|bytes| (pattern, bytes)));
    }
    found
}

fn median(run: &SizeRun) -> f64 {
    let all: Vec<f64> = run.groups.iter().flat_map(|group| group.seconds.clone()).collect();
    stats::median(&all)
}

/// Measures sizes that dip a second time and puts the new samples in the place of the old ones;
/// returns the old medians, seconds.
fn measure_again(
    stage: &Stage<'_>,
    launch: &Launch,
    report: &mut Report,
    dips: &[(Pattern, u64)],
    watch: &mut dyn Watch,
) -> Result<Vec<(Pattern, u64, f64)>, MessagesError> {
    watch.phase(&format!("{} again: {} sizes that dip", stage.mpi.library, dips.len()));
    let mut patterns: Vec<Pattern> = dips.iter().map(|(pattern, _)| *pattern).collect();
    patterns.sort_unstable();
    patterns.dedup();
    let mut sizes: Vec<u64> = dips.iter().map(|(_, bytes)| *bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let second = Launch { patterns, sizes: Some(sizes), ..launch.clone() };
    let second = match stage.run(&second, watch) {
        Ok(second) => second,
        // The first measurement stands.
        Err(MessagesError::Toolchain(error)) => return Err(error.into()),
        Err(_) => return Ok(Vec::new()),
    };
    let mut old = Vec::new();
    for run in second.heard.sizes {
        let same = |known: &&mut SizeRun| known.pattern == run.pattern && known.bytes == run.bytes;
        let flagged = dips.contains(&(run.pattern, run.bytes)) && run.done.is_some();
        if let Some(known) = report.heard.sizes.iter_mut().find(same).filter(|_| flagged) {
            old.push((run.pattern, run.bytes, median(known)));
            *known = run;
        }
    }
    Ok(old)
}

/// Puts what a whole curve tells into the measurement of its first size.
fn judge_curves(measurements: &mut [Measurement]) {
    let key = |m: &Measurement| {
        let of = |name: &str| m.config.get(name).map(Value::to_string).unwrap_or_default();
        (m.name.clone(), m.unit.to_string(), of("distance"), of("ranks"))
    };
    let mut done: Vec<(String, String, String, String)> = Vec::new();
    for i in 0..measurements.len() {
        let curve = key(&measurements[i]);
        if done.contains(&curve)
            || measurements[i].unit == nodegauge_measure::Unit::MessagesPerSecond
        {
            continue;
        }
        let points: Vec<Point> = measurements
            .iter()
            .filter(|m| key(m) == curve)
            .filter_map(|m| {
                let bytes = m.config.get("message_bytes")?.as_u64()?;
                let median = m.summary.as_ref()?.median;
                // The time that a message takes of the stream.
                let time = if m.unit == nodegauge_measure::Unit::Seconds {
                    median
                } else {
                    bytes as f64 / median
                };
                Some((bytes, time))
            })
            .collect();
        done.push(curve);
        if points.len() > 1 {
            let judged = describe(&points);
            measurements[i].config.insert("curve".to_owned(), judged);
        }
    }
}

fn describe(points: &[Point]) -> Value {
    let switches = curve::switches(points);
    let fit = |fit: &Fit| {
        json!({
            "from_bytes": fit.range.0,
            "to_bytes": fit.range.1,
            "latency_s": fit.latency,
            "bytes_per_s": fit.rate,
            "half_bytes": fit.half(),
            "error": fit.error,
        })
    };
    let mut judged = Map::new();
    let leap = |switch: &curve::Switch| json!({ "bytes": switch.bytes, "leap": switch.leap });
    judged.insert("switches".to_owned(), switches.iter().map(leap).collect());
    let rendezvous = curve::rendezvous(&switches).map(|switch| switch.bytes);
    judged.insert("rendezvous_bytes".to_owned(), json!(rendezvous));
    judged.insert("dips".to_owned(), json!(curve::dips(points)));
    judged.insert("hockney".to_owned(), curve::fits(points).iter().map(fit).collect());
    Value::Object(judged)
}

fn notices(stage: &Stage<'_>, report: &Report, again: &[(Pattern, u64, f64)]) -> Vec<String> {
    let library = &stage.mpi.library;
    let mut notices: Vec<String> = again
        .iter()
        .map(|(pattern, bytes, _)| {
            format!(
                "{library}: {pattern} of {bytes} B fell out of its curve and was measured again"
            )
        })
        .collect();
    let place = report.heard.unfinished().map_or_else(
        || "between two sizes".to_owned(),
        |size| format!("in {} of {} B", size.pattern, size.bytes),
    );
    match &report.broken {
        Some(Broken::Hung(limit)) => notices.push(format!(
            "{library}: no answer within {} s {place}: {} and its ranks were killed; what was \
             measured before is kept",
            limit.as_secs_f64(),
            stage.mpi.launcher.command.program(),
        )),
        Some(Broken::Died(how)) => notices.push(format!(
            "{library}: a rank or the launcher ended {place}: {how}; what was measured before is kept"
        )),
        _ => {}
    }
    notices.extend(
        nodes::silent(report)
            .map(|hosts| format!("{library}: no answer from {}", hosts.join(", "))),
    );
    notices
}

/// Where each rank was, in the kernel's words.
fn details(report: &Report) -> Vec<String> {
    let mut lines = vec![format!("started by: {}", report.command)];
    let rank = |(rank, found): (usize, &crate::protocol::Rank)| {
        let cpus = found.cpus.as_deref().unwrap_or("unknown");
        format!("rank {rank} on {} may run on cpus {cpus}", found.host)
    };
    lines.extend(report.heard.ranks.iter().enumerate().map(rank));
    lines
}

/// A start that gave nothing, in the record.
fn failed(stage: &Stage<'_>, launch: &Launch, error: &MessagesError) -> Vec<Measurement> {
    let reason = error.to_string();
    let reason = reason.split("\nhint:").next().unwrap_or_default().replace('\n', " ");
    launch
        .patterns
        .iter()
        .map(|pattern| {
            let mut config = Map::new();
            config.insert("engine".to_owned(), json!("probe"));
            config.insert("distance".to_owned(), json!(launch.distance));
            config.insert("mpi".to_owned(), result::mpi_config(stage.mpi, None));
            result::missing(pattern.name(), pattern.unit(), config, reason.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests;
