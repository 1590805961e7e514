//! Core-to-core latency: the time to transfer a cache line from one CPU to another, i.e. half of a round trip.
//!
//! On a small machine all pairs of CPUs are measured. On a larger machine, random pairs of each class of distance are
//! measured: hardware threads of a core, cores that share a last-level cache, cores of a NUMA node, of a socket, and of
//! different sockets.

use crate::config::CurveConfig;
use crate::run::{CurveRun, FigureOutline, Value};
use nodegauge_arena::ArenaError;
use nodegauge_machine::Topology;
use nodegauge_machine::topology::HardwareThread;
use nodegauge_measure::Seconds;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{Measurement, Quoted, Status, Validity};
use nodegauge_measure::regime::LONGEST;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::policy;
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_placement::{CpuPair, Distance};
use nodegauge_team::Team;
use nodegauge_team::core_to_core::{self, SharedLines};

/// Number of pairs up to which all pairs are measured; 48 CPUs have fewer pairs.
const ALL_PAIRS: usize = 1200;
/// Maximum number of measured pairs per class of distance on larger machines.
pub(crate) const PAIRS_PER_CLASS: usize = 48;

/// Returns the pairs to measure among the allowed CPUs, and true if these are all pairs.
pub(crate) fn pairs(topology: &Topology) -> (Vec<CpuPair>, bool) {
    let threads: Vec<&HardwareThread> = topology.allowed().collect();
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
        .flat_map(|class| class.iter().take(PAIRS_PER_CLASS).copied())
        .collect();
    chosen.sort_by_key(|pair| (pair.distance, pair.first, pair.second));
    (chosen, false)
}

/// Measures the pairs alternately. A sample is half of a round trip, in seconds.
pub(crate) fn measure(run: &mut CurveRun<'_>, pairs: &[CpuPair]) -> Result<(), ArenaError> {
    let phase = format!("core-to-core latency of {} of CPUs", counted(pairs.len(), "pair"));
    let judged = run.samples(policy::CURVES, pairs.len(), &phase, |i| {
        let mut team = Team::start(&[vec![pairs[i].first], vec![pairs[i].second]])?;
        let shared_lines = SharedLines::new(team.len());
        let trip = core_to_core::round_trip(&mut team, &shared_lines)?;
        // No regime is assigned to the sample, because the pairs of a run have different distances.
        Ok(Sample::from_times(vec![trip.0 / 2.0]))
    })?;
    let mut left_out = 0;
    for (i, pair) in pairs.iter().enumerate() {
        let config = CurveConfig {
            threads: Some(2),
            places: Some(vec![vec![pair.first.0], vec![pair.second.0]]),
            distance: Some(pair.distance),
            what: Some("half of a cache line's round trip".to_owned()),
            ..CurveConfig::default()
        };
        let figure = FigureOutline {
            name: format!("cpu{}->cpu{}", pair.first.0, pair.second.0),
            quoted: Quoted::Median,
            value: Value::Seconds,
            config,
            validity: Validity::valid(),
        };
        if !run.add(&judged, i, 0, figure) {
            left_out += 1;
        } else if let Some(m) = run.outcome.measurements.last_mut() {
            doubt_long_trip(m);
        }
    }
    if left_out > 0 {
        run.left_out(format!(
            "core-to-core latency of {left_out} of {} pairs of CPUs: they did not run at the same time",
            pairs.len()
        ));
    }
    Ok(())
}

/// Marks a latency as suspect that is longer than that of any processor.
fn doubt_long_trip(m: &mut Measurement) {
    if m.value.is_some_and(|half| 2.0 * half > LONGEST) {
        let longest = Seconds(LONGEST);
        let reason = format!(
            "a round trip of more than {longest} contains a time slice of another task on one of the CPUs: other load"
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
            let mut m = m.value(Quoted::Median, half);
            doubt_long_trip(&mut m);
            m.validity.status
        };
        assert_eq!(judged(124.5e-6), Status::Suspect);
        assert_eq!(judged(300e-9), Status::Valid);
    }

    fn topology(text: &str) -> Topology {
        let source: TopologySource = text.parse().unwrap();
        Topology::load(&source).unwrap()
    }

    #[test]
    fn small_machine_measures_every_pair_once() {
        let machine = topology("synthetic:Package:2 L3Cache:2 Core:2 PU:2");
        let (pairs, all) = pairs(&machine);
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
        let (pairs, all) = pairs(&machine);
        assert!(!all);
        for distance in [
            Distance::Core,
            Distance::Cache,
            Distance::Node,
            Distance::Socket,
            Distance::OtherSocket,
        ] {
            let count = pairs.iter().filter(|pair| pair.distance == distance).count();
            assert_eq!(count, PAIRS_PER_CLASS, "{distance}");
        }
    }
}
