//! Regimes: ranges of core-to-core round trips that belong together. Only samples of one regime are compared.
//!
//! A hypervisor may run two virtual CPUs first on cores that share a cache and a link to memory, and later on cores
//! that do not. Bandwidth then changes by a factor, and neither load nor steal time shows the reason. The round trip of
//! a cache line between the CPUs changes at the same time and identifies the regime of each sample. Samples of
//! different regimes are never pooled in one statistic.
//!
//! The regimes are determined from the round trips of the machine itself. The logarithms of the round trips are sorted
//! and split at the widest gap between neighbours if two conditions hold. First, evenly distributed points over the
//! same range would rarely leave such a gap. Second, the medians below and above the gap differ by at least the factor
//! between two classes of distance. The two groups are then split in the same way. All functions are pure functions of
//! slices.

use crate::{Seconds, stats};

/// Minimum factor between the round trips of two regimes. Between two classes of distance (same cache, same socket,
/// other socket), published round trips differ by a factor of 2.1 or more (N. Viennot, "core-to-core-latency", single
/// and dual sockets of 2002 to 2022). Within the last-level cache of a mesh, round trips are between 160 and 255 ns, a
/// factor of 1.6.
const MIN_REGIME_RATIO: f64 = 1.8;

/// Maximum round trip of a cache line, seconds: eight times the slowest published round trip (1.2 us, PowerPC 970, same
/// source). A longer time contains a time slice of the scheduler, because another task ran on one of the CPUs.
pub const MAX_ROUND_TRIP: f64 = 10e-6;

/// Minimum share of all round trips that forms a regime; a smaller cluster counts as a disturbance.
const MIN_SHARE: f64 = 0.05;

/// Maximum probability that a gap occurs by chance, at which the gap still separates two regimes.
const MAX_GAP_PROBABILITY: f64 = 0.01;

/// Regime: range of round trips that belong together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regime {
    /// Fifth percentile of the round trips, seconds.
    pub from: f64,
    /// Ninety-fifth percentile of the round trips, seconds.
    pub to: f64,
}

impl Regime {
    /// Describes the range of the round trips: `47.1 ns to 60.3 ns`, or `47.1 ns`.
    pub fn in_words(&self) -> String {
        let [from, to] = [self.from, self.to].map(|seconds| Seconds(seconds).to_string());
        if from == to { from } else { format!("{from} to {to}") }
    }

    fn from_logs(sorted_logs: &[f64]) -> Self {
        let [from, to] = [0.05, 0.95].map(|q| stats::quantile(sorted_logs, q).exp());
        Self { from, to }
    }

    /// True if the round trip belongs to this regime. A round trip slightly outside the percentiles
    /// belongs to the regime as well, if no other regime can be nearer.
    pub fn contains(&self, round_trip: f64) -> bool {
        let slack = MIN_REGIME_RATIO.sqrt();
        round_trip >= self.from / slack && round_trip <= self.to * slack
    }
}

/// True if the time is short enough to be a round trip of a cache line.
pub fn is_cache_line_round_trip(round_trip: f64) -> bool {
    round_trip > 0.0 && round_trip <= MAX_ROUND_TRIP
}

/// Returns the regimes in a set of round trips, shortest first. The result is empty if no two round trips are similar,
/// and if all times are too long to be round trips of a cache line.
pub fn find_regimes(round_trips: &[f64]) -> Vec<Regime> {
    find_regimes_with_known(round_trips, &[])
}

/// Returns the logarithms of those times that can be round trips of a cache line.
fn logs(trips: &[f64]) -> Vec<f64> {
    trips.iter().copied().filter(|trip| is_cache_line_round_trip(*trip)).map(f64::ln).collect()
}

/// Returns the regimes in a set of round trips, shortest first. The round trips `known` from other
/// runs help to separate the regimes. Regimes that occur only in `known` are omitted.
pub fn find_regimes_with_known(round_trips: &[f64], known: &[f64]) -> Vec<Regime> {
    let own = logs(round_trips);
    let mut all = [own.clone(), logs(known)].concat();
    all.sort_by(f64::total_cmp);
    let min = (own.len() as f64 * MIN_SHARE).max(if own.len() > 4 { 2.0 } else { 1.0 });
    let mut regimes = Vec::new();
    for part in parts(&all) {
        let range = part[0]..=part[part.len() - 1];
        if own.iter().filter(|x| range.contains(*x)).count() as f64 >= min {
            regimes.push(Regime::from_logs(part));
        }
    }
    regimes
}

/// Splits ascending logarithms into one slice per regime.
fn parts(logs: &[f64]) -> Vec<&[f64]> {
    match cut(logs) {
        Some(at) => [parts(&logs[..at]), parts(&logs[at..])].concat(),
        None if logs.is_empty() => Vec::new(),
        None => vec![logs],
    }
}

/// Returns the index at which ascending logarithms split into two regimes; `None` if all of them
/// belong to one regime.
fn cut(logs: &[f64]) -> Option<usize> {
    let n = logs.len();
    let gap = |at: usize| logs[at] - logs[at - 1];
    let at = (1..n).max_by(|x, y| gap(*x).total_cmp(&gap(*y)))?;
    // Probability that n evenly distributed points leave a gap of this share of their range. A distribution with one
    // peak has such a gap only in its tails. R. A. Fisher, "Tests of significance in harmonic analysis", 1929; the
    // first term is an upper bound.
    let share = gap(at) / (logs[n - 1] - logs[0]);
    let by_chance = n as f64 * (1.0 - share).powi(n as i32 - 1);
    let apart = stats::median(&logs[at..]) - stats::median(&logs[..at]) >= MIN_REGIME_RATIO.ln();
    (apart && by_chance < MAX_GAP_PROBABILITY).then_some(at)
}

/// True if two round trips can belong to the same regime, or if one of them was not measured.
pub fn may_share_regime(x: f64, y: f64) -> bool {
    x.is_nan() || y.is_nan() || (x <= y * MIN_REGIME_RATIO && y <= x * MIN_REGIME_RATIO)
}

/// Returns the regime (index into `regimes`) of a sample with the round trips `before` and `after`. Returns `None` if
/// the two round trips belong to different regimes, because the hypervisor moved the CPUs during the sample.
pub fn regime_index(regimes: &[Regime], before: f64, after: f64) -> Option<usize> {
    find_containing(regimes, before).filter(|index| find_containing(regimes, after) == Some(*index))
}

/// Returns the first regime (index into `regimes`) that contains a round trip; `None` if none does.
pub(crate) fn find_containing(regimes: &[Regime], round_trip: f64) -> Option<usize> {
    regimes.iter().position(|regime| regime.contains(round_trip))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the round trips of a simulated machine, seconds. Each `(n, centre, spread)` gives
    /// `n` random round trips within a factor of `spread` around `centre`, which is in nanoseconds.
    fn histogram(seed: u64, modes: &[(usize, f64, f64)]) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let of = |(n, centre, spread): (usize, f64, f64)| {
            let mut trip = || centre * 1e-9 * spread.powf(random.f64() - 0.5);
            (0..n).map(|_| trip()).collect::<Vec<f64>>()
        };
        modes.iter().copied().flat_map(of).collect()
    }

    /// Simulates machines with many seeds, and checks that the expected number of regimes is found in at least
    /// `per_cent` of the cases.
    #[track_caller]
    fn found(expected: usize, per_cent: usize, modes: &[(usize, f64, f64)]) {
        let right =
            (0..200).filter(|seed| find_regimes(&histogram(*seed, modes)).len() == expected);
        let right = right.count();
        assert!(right >= 2 * per_cent, "{expected} regimes in {right} of 200: {modes:?}");
    }

    #[test]
    fn round_trips_around_one_value_are_one_regime() {
        for n in [4, 10, 40, 400] {
            found(1, 100, &[(n, 115.0, 1.05)]);
            // A mesh with one L3 cache: round trips are evenly distributed, or most cores are far from each other.
            found(1, 100, &[(n, 202.0, 1.6)]);
            found(1, 100, &[(n, 165.0, 1.06), (2 * n, 250.0, 1.04)]);
            // Round trips differ by a factor of four, but have no gap.
            found(1, 95, &[(n, 200.0, 4.0)]);
        }
    }

    #[test]
    fn round_trips_around_two_values_are_two_regimes() {
        // A Zen 4 guest has round trips within one CCD and, in a wide range, between two CCDs.
        for (near, far) in [(6, 6), (40, 40), (10, 90), (180, 20), (19, 1)] {
            let modes = [(near, 115.0, 1.04), (far, 640.0, 2.5)];
            found(if far == 1 { 1 } else { 2 }, 98, &modes);
        }
        found(2, 100, &[(20, 90.0, 1.1), (20, 390.0, 1.1)]);
        // A dual-socket Xeon has round trips within a socket and between sockets. The next machine has three classes of
        // distance.
        found(2, 100, &[(30, 100.0, 1.1), (30, 220.0, 1.1)]);
        found(3, 98, &[(30, 46.0, 1.1), (30, 214.0, 1.1), (30, 700.0, 1.1)]);
    }

    #[test]
    fn round_trip_between_regimes_belongs_to_no_regime() {
        // The round trips of neighbouring clusters differ by a factor of less than 1.6.
        let mut trips = histogram(1, &[(40, 100.0, 1.04), (40, 350.0, 1.04)]);
        trips.extend([140e-9, 190e-9, 260e-9]);
        let found = find_regimes(&trips);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(regime_index(&found, 101e-9, 99e-9), Some(0));
        assert_eq!(regime_index(&found, 340e-9, 351e-9), Some(1));
        assert_eq!(regime_index(&found, 190e-9, 190e-9), None);
        assert_eq!(regime_index(&found, 101e-9, 351e-9), None);
    }

    #[test]
    fn few_long_round_trips_are_not_a_regime() {
        let mut trips = histogram(1, &[(3, 160.0, 1.1)]);
        trips.extend([6e-3, 6e-3, 1.2e-3, 15e-6]);
        let found = find_regimes(&trips);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(regime_index(&found, 6e-3, 6e-3), None);
        assert!(find_regimes(&[6e-3; 8]).is_empty());
        // A single round trip among many others does not form a regime.
        let mut two_trips = histogram(2, &[(8, 115.0, 1.04), (8, 380.0, 1.12)]);
        two_trips.push(3e-6);
        let two_found = find_regimes(&two_trips);
        assert_eq!(two_found.len(), 2, "{two_found:?}");
        assert_eq!(regime_index(&two_found, 3e-6, 3e-6), None);
    }

    #[test]
    fn gradually_changing_round_trips_are_one_regime() {
        // Round trips become shorter, linearly or exponentially, while the clock frequency of the caches rises.
        for n in [10, 30, 100, 1000] {
            let to_end = |i: u32| 90e-9 * (1.0 + 1.2 * (-6.0 * f64::from(i) / f64::from(n)).exp());
            let ramps = [
                (0..n).map(|i| 200e-9 - 100e-9 * f64::from(i) / f64::from(n)).collect::<Vec<f64>>(),
                (0..n).map(to_end).collect(),
            ];
            for trips in ramps {
                assert_eq!(find_regimes(&trips).len(), 1, "{n} {:?}", find_regimes(&trips));
            }
        }
        assert!(find_regimes(&[]).is_empty());
    }

    #[test]
    fn known_round_trips_separate_regimes() {
        // Round trips of other runs separate two clusters that are too small on their own. Regimes that occur only in
        // other runs are left out.
        let known = histogram(3, &[(10, 115.0, 1.05), (10, 390.0, 1.05), (10, 900.0, 1.05)]);
        let own = [118e-9, 400e-9, 395e-9];
        assert_eq!(find_regimes_with_known(&own, &known).len(), 2);
        assert_eq!(regime_index(&find_regimes_with_known(&own, &known), 395e-9, 400e-9), Some(1));
        assert_eq!(find_regimes_with_known(&[115e-9; 6], &known).len(), 1);
    }

    #[test]
    fn few_round_trips_are_separated_by_their_ratio() {
        assert_eq!(find_regimes(&[160e-9, 255e-9]).len(), 1);
        assert_eq!(find_regimes(&[115e-9, 390e-9]).len(), 2);
        assert!(
            may_share_regime(160e-9, 255e-9)
                && !may_share_regime(113e-9, 388e-9)
                && may_share_regime(f64::NAN, 1e-7)
        );
    }
}
