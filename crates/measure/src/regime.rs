//! Tells apart the regimes of a machine in which the same CPUs are now nearer to each other and now
//! further.
//!
//! A hypervisor may run two virtual CPUs now on cores that share a cache and a link to memory, now
//! on cores that do not; bandwidth then jumps by a factor, without load or steal time to show for
//! it. The round trip of a cache line between the CPUs jumps with it, so it tells the regime of each
//! sample. Samples of different regimes are never pooled.
//!
//! What is near and what is far is read off the round trips of the machine themselves: they are cut at
//! the widest gap between neighbours, in logarithms, where points spread evenly over the same range
//! would hardly leave so wide a gap, and where both sides lie as far apart as two kinds of way do; then
//! each side is cut in the same way. Pure functions of slices.

use crate::stats;

/// Regimes differ by this factor at least. From one class of distance to the next, published round
/// trips differ by 2.1 and more (N. Viennot, "core-to-core-latency", single and dual sockets of 2002
/// to 2022); within one last-level cache those of a mesh lie between 160 and 255 ns, a factor of 1.6.
const APART: f64 = 1.8;

/// The way of a cache line takes no longer than this, seconds: eight times the slowest published round
/// trip (1.2 us, PowerPC 970, same source). What does is the turn of a scheduler: a CPU was taken away.
const LONGEST: f64 = 10e-6;

/// A cluster of fewer round trips than this share of all is a disturbance, not a regime.
const MIN_SHARE: f64 = 0.05;

/// Chance at which a gap counts as one.
const BY_CHANCE: f64 = 0.01;

/// Round trips that belong together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regime {
    /// Fifth percentile of its round trips, seconds.
    pub from: f64,
    /// Ninety-fifth percentile, seconds.
    pub to: f64,
}

impl Regime {
    fn of(sorted_logs: &[f64]) -> Self {
        let at = |q| stats::quantile(sorted_logs, q).exp();
        Self { from: at(0.05), to: at(0.95) }
    }

    /// Whether a round trip belongs here; one beyond the ends that is nearer than another regime
    /// could be still does.
    pub fn contains(&self, round_trip: f64) -> bool {
        let slack = APART.sqrt();
        round_trip >= self.from / slack && round_trip <= self.to * slack
    }
}

/// Whether a round trip can be a cache line's.
pub fn is_of_a_line(round_trip: f64) -> bool {
    round_trip > 0.0 && round_trip <= LONGEST
}

/// The regimes in a set of round trips, shortest first. Empty only where none is a cache line's.
pub fn regimes(round_trips: &[f64]) -> Vec<Regime> {
    among(round_trips, &[])
}

/// The same, where `known` round trips of other runs help to tell what is near and what is far; regimes
/// that these alone met are left out.
pub fn among(round_trips: &[f64], known: &[f64]) -> Vec<Regime> {
    let logs = |trips: &[f64]| -> Vec<f64> {
        let of_lines = trips.iter().copied().filter(|trip| is_of_a_line(*trip));
        of_lines.map(f64::ln).collect()
    };
    let own = logs(round_trips);
    let mut all = [own.clone(), logs(known)].concat();
    all.sort_by(f64::total_cmp);
    let least = (own.len() as f64 * MIN_SHARE).max(if own.len() > 4 { 2.0 } else { 1.0 });
    let met = |part: &[f64]| {
        let (from, to) = (part[0], part[part.len() - 1]);
        own.iter().filter(|x| (from..=to).contains(*x)).count() as f64 >= least
    };
    parts(&all).into_iter().filter(|part| met(part)).map(Regime::of).collect()
}

/// Ascending logarithms, cut wherever a cut stands.
fn parts(logs: &[f64]) -> Vec<&[f64]> {
    match cut(logs) {
        Some(at) => [parts(&logs[..at]), parts(&logs[at..])].concat(),
        None if logs.is_empty() => Vec::new(),
        None => vec![logs],
    }
}

/// Where ascending logarithms fall into two kinds of way; `None` where they do not.
fn cut(logs: &[f64]) -> Option<usize> {
    let n = logs.len();
    let gap = |at: usize| logs[at] - logs[at - 1];
    let at = (1..n).max_by(|x, y| gap(*x).total_cmp(&gap(*y)))?;
    // The chance that n points spread evenly leave a gap of this share of their range, which one mode
    // with a peak leaves in its feet alone (R. A. Fisher, "Tests of significance in harmonic analysis",
    // 1929, first term, an upper bound).
    let share = gap(at) / (logs[n - 1] - logs[0]);
    let by_chance = n as f64 * (1.0 - share).powi(n as i32 - 1);
    let middle = |part: &[f64]| stats::median(part);
    let apart = middle(&logs[at..]) - middle(&logs[..at]) >= APART.ln();
    (apart && by_chance < BY_CHANCE).then_some(at)
}

/// Whether two round trips are of one regime, as far as two can tell; true where there are none.
pub fn same(x: f64, y: f64) -> bool {
    x.is_nan() || y.is_nan() || (x <= y * APART && y <= x * APART)
}

/// The regime (index into `regimes`) in which a sample lies whose surroundings had round trips
/// `before` and `after`; `None` when they disagree: the CPUs were moved in between.
pub fn assign(regimes: &[Regime], before: f64, after: f64) -> Option<usize> {
    let of = |t: f64| regimes.iter().position(|regime| regime.contains(t));
    of(before).filter(|index| of(after) == Some(*index))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of a simulated machine, ns: `n` of each `(n, centre, spread)`, evenly over a factor
    /// of `spread` around the centre in an order that means nothing.
    fn histogram(seed: u64, modes: &[(usize, f64, f64)]) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let of = |(n, centre, spread): (usize, f64, f64)| {
            let mut trip = || centre * 1e-9 * spread.powf(random.f64() - 0.5);
            (0..n).map(|_| trip()).collect::<Vec<f64>>()
        };
        modes.iter().copied().flat_map(of).collect()
    }

    /// Checks on simulated machines of many seeds that this many regimes are found, as often as said.
    #[track_caller]
    fn found(expected: usize, per_cent: usize, modes: &[(usize, f64, f64)]) {
        let right = (0..200).filter(|seed| regimes(&histogram(*seed, modes)).len() == expected);
        let right = right.count();
        assert!(right >= 2 * per_cent, "{expected} regimes in {right} of 200: {modes:?}");
    }

    #[test]
    fn one_mode_is_one_regime() {
        for n in [4, 10, 40, 400] {
            found(1, 100, &[(n, 115.0, 1.05)]);
            // A mesh within one L3, evenly or with most cores at its far end.
            found(1, 100, &[(n, 202.0, 1.6)]);
            found(1, 100, &[(n, 165.0, 1.06), (2 * n, 250.0, 1.04)]);
            // Ways that differ by a factor of four with nothing between them missing.
            found(1, 95, &[(n, 200.0, 4.0)]);
        }
    }

    #[test]
    fn two_modes_are_two_regimes() {
        // A Zen 4 guest: one CCD, and two CCDs of widely different round trips.
        for (near, far) in [(6, 6), (40, 40), (10, 90), (180, 20), (19, 1)] {
            let modes = [(near, 115.0, 1.04), (far, 640.0, 2.5)];
            found(if far == 1 { 1 } else { 2 }, 98, &modes);
        }
        found(2, 100, &[(20, 90.0, 1.1), (20, 390.0, 1.1)]);
        // Socket and other socket of a Xeon, and three kinds of way.
        found(2, 100, &[(30, 100.0, 1.1), (30, 220.0, 1.1)]);
        found(3, 98, &[(30, 46.0, 1.1), (30, 214.0, 1.1), (30, 700.0, 1.1)]);
    }

    #[test]
    fn what_lies_between_two_modes_joins_neither() {
        // No two neighbours of this chain differ by a factor of 1.6.
        let mut trips = histogram(1, &[(40, 100.0, 1.04), (40, 350.0, 1.04)]);
        trips.extend([140e-9, 190e-9, 260e-9]);
        let found = regimes(&trips);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(assign(&found, 101e-9, 99e-9), Some(0));
        assert_eq!(assign(&found, 340e-9, 351e-9), Some(1));
        assert_eq!(assign(&found, 190e-9, 190e-9), None);
        assert_eq!(assign(&found, 101e-9, 351e-9), None);
    }

    #[test]
    fn a_cpu_that_was_taken_away_is_no_regime() {
        let mut trips = histogram(1, &[(3, 160.0, 1.1)]);
        trips.extend([6e-3, 6e-3, 1.2e-3, 15e-6]);
        let found = regimes(&trips);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(assign(&found, 6e-3, 6e-3), None);
        assert!(regimes(&[6e-3; 8]).is_empty());
        // A stray that could be a way is none either, where the others are many.
        let mut trips = histogram(2, &[(8, 115.0, 1.04), (8, 380.0, 1.12)]);
        trips.push(3e-6);
        let found = regimes(&trips);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(assign(&found, 3e-6, 3e-6), None);
    }

    #[test]
    fn a_ramp_is_one_regime() {
        // The clock of the caches rises: linearly, and towards its end.
        for n in [10, 30, 100, 1000] {
            let to_end = |i: u32| 90e-9 * (1.0 + 1.2 * (-6.0 * f64::from(i) / f64::from(n)).exp());
            let ramps = [
                (0..n).map(|i| 200e-9 - 100e-9 * f64::from(i) / f64::from(n)).collect::<Vec<f64>>(),
                (0..n).map(to_end).collect(),
            ];
            for trips in ramps {
                assert_eq!(regimes(&trips).len(), 1, "{n} {:?}", regimes(&trips));
            }
        }
        assert!(regimes(&[]).is_empty());
    }

    #[test]
    fn other_runs_help_to_tell_what_is_near() {
        // Two round trips that alone could be of a mesh are told apart by twenty of other runs; what the
        // run did not meet is none of its regimes.
        let known = histogram(3, &[(10, 115.0, 1.05), (10, 390.0, 1.05), (10, 900.0, 1.05)]);
        let own = [118e-9, 400e-9, 395e-9];
        assert_eq!(among(&own, &known).len(), 2);
        assert_eq!(assign(&among(&own, &known), 395e-9, 400e-9), Some(1));
        assert_eq!(among(&[115e-9; 6], &known).len(), 1);
    }

    #[test]
    fn few_round_trips_are_told_apart_by_the_kinds_of_way() {
        assert_eq!(regimes(&[160e-9, 255e-9]).len(), 1);
        assert_eq!(regimes(&[115e-9, 390e-9]).len(), 2);
        assert!(same(160e-9, 255e-9) && !same(113e-9, 388e-9) && same(f64::NAN, 1e-7));
    }
}
