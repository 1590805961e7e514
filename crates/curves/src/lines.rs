//! Core-to-core latency: the time to transfer a cache line from one CPU to another, i.e. half of a round trip.
//!
//! On a small machine all pairs of CPUs are measured. On a larger machine, random pairs of each class of distance are
//! measured: hardware threads of a core, cores that share a last-level cache, cores of a NUMA node, cores of a socket,
//! and cores of different sockets.
//!
//! Each pair has several cache lines, which no other thread touches. Each line is reused in all turns of the pair, so
//! the medians of the lines show how the latency depends on the home of a line.

use crate::config::CurveConfig;
use crate::run::{CurveRun, FigureOutline, TimeConversion};
use nodegauge_arena::ArenaError;
use nodegauge_machine::Topology;
use nodegauge_machine::topology::HardwareThread;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::regime::MAX_ROUND_TRIP;
use nodegauge_measure::samples::{Sample, SamplesByRegime};
use nodegauge_measure::schedule::policy;
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_measure::{Seconds, stats};
use nodegauge_placement::{CpuPair, Distance};
use nodegauge_team::Team;
use nodegauge_team::core_to_core::PairCacheLines;

/// Maximum number of pairs for which all pairs are measured; sufficient for 48 CPUs.
const ALL_PAIRS: usize = 1200;
/// Maximum number of measured pairs per class of distance on larger machines.
pub(crate) const MAX_PAIRS_PER_CLASS: usize = 48;

/// Returns the pairs of CPUs to measure, and true if these are all pairs of the allowed CPUs.
pub(crate) fn cpu_pairs(topology: &Topology) -> (Vec<CpuPair>, bool) {
    let threads: Vec<&HardwareThread> = topology.allowed_threads().collect();
    let mut all = Vec::new();
    for (i, x) in threads.iter().enumerate() {
        for y in &threads[i + 1..] {
            all.push(CpuPair { first: x.cpu, second: y.cpu, distance: Distance::between(x, y) });
        }
    }
    if all.len() <= ALL_PAIRS {
        return (all, true);
    }
    // The seed is fixed, so that the same pairs are always selected on the same machine.
    Shuffler::new(0x7061_6972).shuffle(&mut all);
    all.sort_by_key(|pair| pair.distance);
    let mut chosen: Vec<CpuPair> = all
        .chunk_by(|x, y| x.distance == y.distance)
        .flat_map(|class| class.iter().take(MAX_PAIRS_PER_CLASS).copied())
        .collect();
    chosen.sort_by_key(|pair| (pair.distance, pair.first, pair.second));
    (chosen, false)
}

/// Measures the pairs interleaved. A sample contains the median of the lines, followed by the value of each line; all
/// are half of a round trip, in seconds.
pub(crate) fn measure(run: &mut CurveRun<'_>, pairs: &[CpuPair]) -> Result<(), ArenaError> {
    let phase = format!("core-to-core latency of {} of CPUs", count_in_words(pairs.len(), "pair"));
    let mut lines: Vec<Option<PairCacheLines>> = pairs.iter().map(|_| None).collect();
    let judged = run.take_samples(policy::CURVES, pairs.len(), &phase, |i| {
        let mut team = Team::start(&[vec![pairs[i].first], vec![pairs[i].second]])?;
        let own = match &mut lines[i] {
            Some(own) => own,
            none => none.insert(PairCacheLines::map()?),
        };
        let trips = own.measure_round_trips(&mut team)?;
        // The sample gets no regime, because the pairs of a run have different distances.
        Ok(Sample::from_times(with_median(&trips)))
    })?;
    let mut left_out = 0;
    for (i, pair) in pairs.iter().enumerate() {
        let config = CurveConfig {
            threads: Some(2),
            places: Some(vec![vec![pair.first.0], vec![pair.second.0]]),
            distance: Some(pair.distance),
            what: Some("half of a cache line's round trip".to_owned()),
            lines: Some(PairCacheLines::COUNT as u64),
            line_spread: spread(&judged, i),
            ..CurveConfig::default()
        };
        let figure = FigureOutline {
            name: format!("cpu{}->cpu{}", pair.first.0, pair.second.0),
            quoted: QuotedStatistic::Median,
            value: TimeConversion::Seconds,
            config,
            validity: Validity::valid(),
        };
        if !run.add_figure(&judged, i, 0, figure) {
            left_out += 1;
        } else if let Some(m) = run.outcome.measurements.last_mut() {
            doubt_long_trip(m);
        }
    }
    if left_out > 0 {
        run.add_left_out_notice(format!(
            "core-to-core latency of {left_out} of {} pairs of CPUs was not measured: their \
             threads did not run at the same time",
            pairs.len()
        ));
    }
    Ok(())
}

/// Returns half of each line's round trip, preceded by the median of these values.
fn with_median(trips: &[f64]) -> Vec<f64> {
    let halves = trips.iter().map(|trip| trip / 2.0);
    std::iter::once(stats::median(trips) / 2.0).chain(halves).collect()
}

/// Returns the difference between the slowest and the fastest line of a pair, divided by the fastest. The value of a
/// line is the median of its samples.
fn spread(judged: &SamplesByRegime, cell: usize) -> Option<f64> {
    let lines = 1..judged.part_count(cell);
    let medians: Vec<f64> = lines.map(|line| stats::median(&judged.seconds(cell, line))).collect();
    let fastest = medians.iter().copied().reduce(f64::min)?;
    let slowest = medians.iter().copied().reduce(f64::max)?;
    Some(slowest / fastest - 1.0).filter(|spread| spread.is_finite())
}

/// Marks a latency as suspect if it is longer than on any known processor.
fn doubt_long_trip(m: &mut Measurement) {
    if m.value.is_some_and(|half| 2.0 * half > MAX_ROUND_TRIP) {
        let longest = Seconds(MAX_ROUND_TRIP);
        let reason = format!(
            "a round trip of more than {longest} includes a time slice of another task on one of \
             the CPUs"
        );
        m.doubt(Status::Suspect, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GAUGE;
    use nodegauge_arena::names::MATRIX;
    use nodegauge_machine::TopologySource;
    use nodegauge_measure::Unit;

    #[test]
    fn implausibly_long_latency_is_suspect() {
        let judged = |half: f64| {
            let m = Measurement::new(GAUGE, MATRIX, "cpu0->cpu1", Unit::Seconds);
            let mut m = m.with_value(QuotedStatistic::Median, half);
            doubt_long_trip(&mut m);
            m.validity.status
        };
        assert_eq!(judged(124.5e-6), Status::Suspect);
        assert_eq!(judged(300e-9), Status::Valid);
    }

    #[test]
    fn core_to_core_latency_is_the_median_of_lines() {
        let turn = |trips: &[f64]| Sample::from_times(with_median(trips));
        // The second line has another home; one turn was slow on the first line.
        let turns = vec![
            turn(&[9.0, 9.0, 9.0]),
            turn(&[2.0, 3.0, 2.2]),
            turn(&[2.0, 3.0, 2.2]),
            turn(&[2.9, 3.0, 2.2]),
            turn(&[2.0, 3.0, 2.2]),
        ];
        let judged = SamplesByRegime::new(vec![turns], &[]);
        let near = |x: f64, y: f64| (x - y).abs() < 1e-9;
        assert!(near(stats::median(&judged.seconds(0, 0)), 1.1));
        assert!(near(spread(&judged, 0).unwrap(), 0.5));
        // A turn without a time has no value, and no spread.
        let lost = vec![turn(&[f64::INFINITY; 3]), turn(&[f64::NAN; 3])];
        let without_times = SamplesByRegime::new(vec![lost], &[]);
        assert!(without_times.cell_samples(0).is_none());
        assert_eq!(spread(&without_times, 0), None);
    }

    fn topology(text: &str) -> Topology {
        let source: TopologySource = text.parse().unwrap();
        Topology::load(&source).unwrap()
    }

    #[test]
    fn small_machine_measures_every_pair_once() {
        let machine = topology("synthetic:Package:2 L3Cache:2 Core:2 PU:2");
        let (pairs, all) = cpu_pairs(&machine);
        assert!(all);
        assert_eq!(pairs.len(), 16 * 15 / 2);
        let of = |distance| pairs.iter().filter(|pair| pair.distance == distance).count();
        assert_eq!(of(Distance::Core), 8);
        assert_eq!(of(Distance::Cache), 4 * 4);
        assert_eq!(of(Distance::OtherSocket), 64);
    }

    #[test]
    fn large_machine_measures_a_sample_per_distance() {
        let machine =
            topology("synthetic:Package:2 NUMANode:4(memory=96GiB) L3Cache:3 Core:8 PU:2");
        let (pairs, all) = cpu_pairs(&machine);
        assert!(!all);
        for distance in [
            Distance::Core,
            Distance::Cache,
            Distance::Node,
            Distance::Socket,
            Distance::OtherSocket,
        ] {
            let count = pairs.iter().filter(|pair| pair.distance == distance).count();
            assert_eq!(count, MAX_PAIRS_PER_CLASS, "{distance}");
        }
    }
}
