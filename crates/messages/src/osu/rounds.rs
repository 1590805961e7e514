//! Which rounds of two programs by turns met the same machine, and their figures together. Pure.
//!
//! Means over all operations can leave nothing out, so a round counts as a whole or not at all.
//!
//! OSU's programs do not say where a hypervisor had the CPUs while they ran; the probe does. A round
//! is an OSU program and then the probe, so each OSU program runs between two probes: where the round
//! trips of the one before, the one behind and all within agree, both met one regime.

use crate::osu::output::{self, Output};
use crate::pattern::Pattern;
use crate::protocol::SizeRun;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::regime;
use nodegauge_measure::stats::{self, Better, Summary};
use serde_json::json;

/// Round trips at either end of a probe's run that tell in which regime it began and ended.
const ENDS: usize = 5;
/// Share of a run's round trips that must agree: a stray one is a disturbance.
const AGREE: f64 = 0.9;

/// Share of the CPUs' time that others may have during a turn: a launcher's own time and the ticks in
/// which the kernel counts come to a hundredth or two.
const OTHERS: f64 = 0.03;

/// One turn of each program.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// What the OSU program printed.
    pub(crate) osu: Output,
    /// What the probe found; values are means over all operations.
    pub(crate) own: Vec<Measurement>,
    /// Round trips of a cache line during the probe's run, seconds, in order.
    pub(crate) trips: Vec<f64>,
    /// Share of the CPUs' time that other programs had, of the two turns that in which they had more.
    pub(crate) others: f64,
}

/// Mean seconds of one operation, over all of them: what OSU prints. It cannot leave out what other
/// programs disturbed, so beside it the probe does not either.
pub(crate) fn mean_of_all(run: &SizeRun) -> Option<f64> {
    let groups = || run.groups.iter();
    let operations: f64 = groups().map(|g| g.operations as f64 * g.seconds.len() as f64).sum();
    let total: f64 = groups().map(|g| g.operations as f64 * g.seconds.iter().sum::<f64>()).sum();
    (operations > 0.0).then(|| total / operations)
}

/// The probe's measurements with means over all operations for values.
pub(crate) fn like_osu(
    mut own: Vec<Measurement>,
    sizes: &[SizeRun],
    window: u32,
) -> Vec<Measurement> {
    for m in &mut own {
        let bytes = m.config.get("message_bytes").and_then(serde_json::Value::as_u64);
        let run = sizes.iter().find(|run| Some(run.bytes) == bytes && run.pattern.name() == m.name);
        if let (Some(run), Some(_)) = (run, m.value)
            && let Some(seconds) = mean_of_all(run)
        {
            m.value = Some(match m.unit.symbol() {
                "msg/s" => f64::from(window) * f64::from(run.pairs) / seconds,
                _ => run.pattern.figure(seconds, run.bytes, window, run.pairs),
            });
        }
    }
    own
}

/// The rounds that count, by number: those of the regime that most rounds met, without those in which
/// the CPUs were moved or others used them.
pub(crate) fn counting(rounds: &[Round]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::new();
    let settled: Vec<Option<f64>> = (0..rounds.len()).map(|at| trip_of(rounds, at)).collect();
    for trip in settled.iter().flatten() {
        let of_it: Vec<usize> = (0..rounds.len())
            .filter(|at| settled[*at].is_some_and(|other| regime::same(*trip, other)))
            .collect();
        if of_it.len() > best.len() {
            best = of_it;
        }
    }
    best
}

/// The round trip of a round that lay in one regime; NaN where ranks share no memory, `None` where
/// the CPUs were moved or others used them.
fn trip_of(rounds: &[Round], at: usize) -> Option<f64> {
    let trips = &rounds[at].trips;
    let middle = stats::median(trips);
    let agree = trips.iter().filter(|trip| regime::same(**trip, middle)).count();
    let before = at.checked_sub(1).map_or(f64::NAN, |before| {
        let trips = &rounds[before].trips;
        stats::median(&trips[trips.len().saturating_sub(ENDS)..])
    });
    let first = stats::median(&trips[..trips.len().min(ENDS)]);
    let settled = agree as f64 >= AGREE * trips.len() as f64
        && regime::same(before, first)
        && rounds[at].others <= OTHERS;
    settled.then_some(middle)
}

/// The figures of both over the rounds that count: medians, and how the probe's stands to OSU's.
pub(crate) fn together(rounds: &[Round], pattern: Pattern) -> Vec<Measurement> {
    let mut chosen = counting(rounds);
    let none = chosen.is_empty();
    if none {
        chosen = (0..rounds.len()).collect();
    }
    let counted: Vec<&Round> = chosen.iter().map(|at| &rounds[*at]).collect();
    let mut found = Vec::new();
    let Some(first) = counted.first() else { return found };
    for one in first.own.iter().filter(|m| m.name == pattern.name()) {
        let bytes = one.config.get("message_bytes").and_then(serde_json::Value::as_u64);
        let Some(bytes) = bytes else {
            found.push(one.clone());
            continue;
        };
        let same = |m: &&Measurement| {
            m.unit == one.unit && m.config.get("message_bytes") == one.config.get("message_bytes")
        };
        let runs: Vec<Measurement> =
            counted.iter().filter_map(|round| round.own.iter().find(same).cloned()).collect();
        let row = |output: &Output| output.rows.iter().find(|row| row.bytes == bytes).cloned();
        let theirs: Vec<f64> = counted
            .iter()
            .filter_map(|round| {
                let row = row(&round.osu)?;
                if one.unit == nodegauge_measure::Unit::MessagesPerSecond {
                    row.messages
                } else {
                    Some(row.value)
                }
            })
            .collect();
        let mut own = over_rounds(one, &runs);
        if none {
            let why = "in every round the cpus were moved or other programs used them";
            own.validity.add(Status::Suspect, why);
        }
        let peer = row(&first.osu)
            .filter(|_| !theirs.is_empty())
            .map(|row| output::measurement(&first.osu, &row, one.unit, &theirs));
        if let Some(mut peer) = peer {
            for key in ["distance", "places", "hosts", "mpi", "pairs"] {
                if let Some(value) = one.config.get(key) {
                    peer.config.insert(key.to_owned(), value.clone());
                }
            }
            let ratio = own.value.map(|value| value / stats::median(&theirs));
            if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) {
                own.config.insert("over_osu".to_owned(), json!(ratio));
            }
            found.push(own);
            found.push(peer);
        } else {
            found.push(own);
        }
    }
    for m in &mut found {
        m.config.insert("rounds".to_owned(), json!(counted.len()));
    }
    found
}

/// One measurement of several rounds: each round's mean, which is what OSU prints, is a sample.
fn over_rounds(one: &Measurement, runs: &[Measurement]) -> Measurement {
    let samples: Vec<f64> = runs.iter().filter_map(|m| m.value).collect();
    let better =
        if one.unit == nodegauge_measure::Unit::Seconds { Better::Lower } else { Better::Higher };
    let mut own = one.clone();
    for m in runs {
        for reason in &m.validity.reasons {
            if !own.validity.reasons.contains(reason) {
                own.validity.add(m.validity.status, reason.clone());
            }
        }
    }
    let sound = own.validity.status != Status::Invalid && !samples.is_empty();
    own.value = sound.then(|| stats::median(&samples));
    own.summary = Summary::of(&samples, better);
    own.samples = samples;
    own.regimes.clear();
    own.disturbed.clear();
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Group;

    fn round(trips: &[f64]) -> Round {
        let osu =
            Output::read("# OSU MPI Latency Test v5.7\n# Size Latency (us)\n8 0.2\n").unwrap();
        Round { osu, own: Vec::new(), trips: trips.to_vec(), others: 0.0 }
    }

    const NEAR: [f64; 6] = [50e-9; 6];
    const FAR: [f64; 6] = [190e-9; 6];

    #[test]
    fn rounds_of_the_commoner_regime_count() {
        let rounds = [round(&NEAR), round(&FAR), round(&FAR), round(&FAR), round(&NEAR)];
        // While OSU's program of round 1 ran, the CPUs were moved, and so before round 4.
        assert_eq!(counting(&rounds), [2, 3]);
    }

    #[test]
    fn a_round_within_which_the_cpus_were_moved_does_not_count() {
        let both = [&NEAR[..], &FAR].concat();
        let rounds = [round(&NEAR), round(&NEAR), round(&both), round(&FAR)];
        assert_eq!(counting(&rounds), [0, 1]);
        assert!(counting(&[round(&both)]).is_empty());
        // One stray among many is nothing.
        let stray = [&[3e-6], &NEAR[..], &NEAR].concat();
        assert_eq!(counting(&[round(&stray)]), [0]);
    }

    #[test]
    fn a_round_that_others_disturbed_does_not_count() {
        let loud = Round { others: 0.2, ..round(&NEAR) };
        assert_eq!(counting(&[round(&NEAR), loud.clone(), round(&NEAR)]), [0, 2]);
        assert!(counting(&[loud]).is_empty());
    }

    #[test]
    fn without_a_shared_line_all_rounds_count() {
        assert_eq!(counting(&[round(&[]), round(&[]), round(&[])]), [0, 1, 2]);
        assert!(counting(&[]).is_empty());
    }

    #[test]
    fn the_mean_is_one_of_operations_disturbed_or_not() {
        let group = |operations, seconds: &[f64], lost: f64| Group {
            operations,
            trips: (0.0, 0.0),
            seconds: seconds.to_vec(),
            lost: vec![lost; seconds.len()],
        };
        let run = SizeRun {
            pattern: Pattern::Latency,
            bytes: 8,
            ranks: (0, 1),
            pairs: 1,
            groups: vec![group(100, &[1e-6, 2e-6], 0.0), group(50, &[4e-6], 0.5)],
            spread: None,
            wrong: None,
            done: None,
        };
        assert!((mean_of_all(&run).unwrap() - 2e-6).abs() < 1e-12);
        assert_eq!(mean_of_all(&SizeRun { groups: Vec::new(), ..run }), None);
    }
}
