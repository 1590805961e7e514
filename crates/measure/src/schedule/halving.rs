//! Successive halving that takes noise into account. Candidates are measured interleaved, and the slower half is
//! eliminated after each round, except for candidates that differ from the slowest survivor by no more than the noise.
//! After Karnin, Koren and Somekh, "Almost Optimal Exploration in Multi-Armed Bandits" (2013); rates are compared only
//! within a regime. [`Halving`] does not measure; [`choose`] does.

mod search;

pub use super::shuffle::Shuffler;
use crate::{regime, stats};
pub use search::{
    CandidateTurns, DeadlineCheck, EliminationRule, PassesPerRound, PreparationResult, SearchRules,
    TurnRate, choose, prepare_candidates,
};
use std::collections::BTreeMap;

/// A candidate with its samples.
#[derive(Debug, Clone)]
struct Candidate<T> {
    what: T,
    /// Samples: the rate in any unit, and the core-to-core round trip that identifies the regime,
    /// seconds.
    samples: Vec<(f64, f64)>,
}

/// Candidates of a search, including eliminated candidates.
#[derive(Debug, Clone)]
pub struct Halving<T> {
    /// Remaining candidates, followed by the eliminated ones.
    candidates: Vec<Candidate<T>>,
    still_in: usize,
}

/// Advantage of the fastest candidate over the second fastest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lead {
    /// Rate of the fastest candidate divided by the rate of the second fastest.
    pub ratio: f64,
    /// Relative difference that the noise may cause between two equally fast candidates.
    pub noise: f64,
}

impl Lead {
    /// True if the difference exceeds the noise.
    pub fn is_significant(self) -> bool {
        self.ratio > 1.0 + self.noise
    }
}

/// Minimum significant difference of two scores, in standard errors.
const ERRORS_APART: f64 = 2.0;
/// Minimum deviation of a candidate's rank sum from its expected value, in standard deviations, at which the candidate
/// is eliminated. Five samples that are all slower than the five samples of the fastest candidate reach this deviation;
/// the probability that this occurs by chance is 1/252.
const MIN_RANK_DEVIATION: f64 = 2.6;
/// Quantile of a candidate's rates that is its score.
pub const SCORE_QUANTILE: f64 = 0.9;
/// Standard deviation of normal noise divided by its median absolute deviation.
const SIGMA_OVER_MAD: f64 = 1.4826;

impl<T> Halving<T> {
    /// Returns a search among these candidates.
    pub fn new(candidates: impl IntoIterator<Item = T>) -> Self {
        let candidates = candidates.into_iter().map(|what| Candidate { what, samples: Vec::new() });
        let candidates: Vec<Candidate<T>> = candidates.collect();
        Self { still_in: candidates.len(), candidates }
    }

    /// Returns the number of remaining candidates.
    pub fn len(&self) -> usize {
        self.still_in
    }

    /// True if no candidate remains.
    pub fn is_empty(&self) -> bool {
        self.still_in == 0
    }

    /// Returns remaining candidate number `i`.
    pub fn get(&self, i: usize) -> &T {
        &self.candidates[i].what
    }

    /// Returns remaining candidate number `i` for a measurement.
    pub fn get_mut(&mut self, i: usize) -> &mut T {
        &mut self.candidates[i].what
    }

    /// Returns the first candidate and drops the others.
    pub fn into_leader(mut self) -> T {
        self.candidates.swap_remove(0).what
    }

    /// Returns the first candidate, which is the fastest after [`Halving::sort_by_score`] or
    /// [`Halving::eliminate_half`].
    pub fn leader(&self) -> &T {
        self.get(0)
    }

    /// Sorts the remaining candidates by `group`, in random order within each group.
    pub fn shuffle<K: Ord>(&mut self, order: &mut Shuffler, group: impl Fn(&T) -> K) {
        let still_in = &mut self.candidates[..self.still_in];
        order.shuffle(still_in);
        still_in.sort_by_key(|candidate| group(&candidate.what));
    }

    /// Records a sample of candidate number `i`: `rate` in any unit, and the core-to-core round trip that identifies
    /// the regime, in seconds.
    pub fn add_rate(&mut self, i: usize, rate: f64, round_trip: f64) {
        self.candidates[i].samples.push((rate, round_trip));
    }

    /// Sorts the remaining candidates, fastest first, and returns their scores.
    pub fn sort_by_score(&mut self) -> Vec<f64> {
        let left = self.candidates.split_off(self.still_in);
        let unsorted = scores(&relative(&self.candidates));
        let mut scored: Vec<(f64, Candidate<T>)> =
            unsorted.into_iter().zip(self.candidates.drain(..)).collect();
        scored.sort_by(|x, y| y.0.total_cmp(&x.0));
        let (sorted, candidates) = scored.into_iter().unzip();
        self.candidates = candidates;
        self.candidates.extend(left);
        sorted
    }

    /// Returns all measured candidates, fastest first, including the eliminated ones.
    pub fn measured_candidates(&self) -> Vec<&T> {
        let mut scored: Vec<(f64, &Candidate<T>)> =
            scores(&relative(&self.candidates)).into_iter().zip(&self.candidates).collect();
        scored.sort_by(|x, y| y.0.total_cmp(&x.0));
        let measured = scored.into_iter().filter(|(_, candidate)| !candidate.samples.is_empty());
        measured.map(|(_, candidate)| &candidate.what).collect()
    }

    /// Returns the score of `over` divided by that of `under`; `None` if one of them was not
    /// measured.
    pub fn ratio(&self, over: &T, under: &T) -> Option<f64>
    where
        T: PartialEq,
    {
        let scored = scores(&relative(&self.candidates));
        let score = |of: &T| {
            let at = self.candidates.iter().position(|candidate| candidate.what == *of)?;
            Some(scored[at]).filter(|score| *score > 0.0)
        };
        Some(score(over)? / score(under)?)
    }

    /// Returns the advantage of the first candidate over the best of all others, including
    /// eliminated candidates. Returns `None` if there are no others, or if no candidate has two
    /// samples.
    pub fn lead(&self) -> Option<Lead> {
        let relative = relative(&self.candidates);
        let scored = scores(&relative).into_iter().zip(relative.iter().map(Vec::len));
        let mut scored = scored.filter(|(_, samples)| *samples > 0);
        let own = scored.next()?;
        let next = scored.max_by(|x, y| x.0.total_cmp(&y.0))?;
        let errors = (1.0 / own.1 as f64 + 1.0 / next.1 as f64).sqrt();
        let noise = ERRORS_APART * scatter(&relative)? * errors;
        Some(Lead { ratio: own.0 / next.0, noise })
    }

    /// Returns the minimum significant relative difference between the scores of remaining candidates; `None` if no
    /// candidate has two samples.
    fn margin(&self) -> Option<f64> {
        let relative = relative(&self.candidates[..self.still_in]);
        let samples = relative.iter().map(Vec::len).min()?.max(1);
        Some(ERRORS_APART * scatter(&relative)? * (2.0 / samples as f64).sqrt())
    }

    /// Eliminates the slower half, at least one candidate. Candidates that differ from the slowest
    /// survivor by no more than the noise are kept. The remaining candidates are sorted by rank.
    pub fn eliminate_half(&mut self) {
        let scores = self.sort_by_score();
        let all = scores.len();
        if all < 2 {
            return;
        }
        let mut stay = all.div_ceil(2).min(all - 1);
        if let Some(margin) = self.margin() {
            let line = scores[stay - 1] * (1.0 - margin);
            while stay < all - 1 && scores[stay] >= line {
                stay += 1;
            }
        }
        self.still_in = stay;
    }

    /// Sorts the candidates by rank, and eliminates those that are significantly slower than the
    /// fastest, by a test on the ranks of the rates (Mann and Whitney 1947). Candidates with fewer
    /// than five samples are not eliminated.
    pub fn eliminate_slower(&mut self) {
        self.sort_by_score();
        let relative = relative(&self.candidates[..self.still_in]);
        let Some(leader) = relative.first() else { return };
        let behind = |rates: &Vec<f64>| {
            let m = rates.len() as f64;
            let n = leader.len() as f64;
            let pairs =
                rates.iter().flat_map(|rate| leader.iter().map(move |of| rate.total_cmp(of)));
            let won: f64 = pairs.map(|order| (order as i8 + 1) as f64 / 2.0).sum();
            m * n / 2.0 - won >= MIN_RANK_DEVIATION * (m * n * (m + n + 1.0) / 12.0).sqrt()
        };
        let leave: Vec<bool> = relative.iter().map(behind).collect();
        let mut leave = leave.into_iter();
        let (left, still_in): (Vec<_>, Vec<_>) =
            self.candidates.drain(..).partition(|_| leave.next().unwrap_or(true));
        self.still_in = still_in.len();
        self.candidates = still_in;
        self.candidates.extend(left);
    }

    /// Sorts the candidates by rank. Returns true if no other candidate can be faster than the
    /// first by more than `tolerance`, so that further rounds would not improve the choice.
    pub fn is_settled(&mut self, tolerance: f64) -> bool {
        let scores = self.sort_by_score();
        match (scores.get(1), self.margin()) {
            (None, _) => true,
            (Some(second), Some(margin)) => {
                second * (1.0 + margin) <= scores[0] * (1.0 + tolerance)
            }
            (Some(_), None) => false,
        }
    }
}

/// Returns the rates of each candidate, divided by the median rate of their regime.
fn relative<T>(candidates: &[Candidate<T>]) -> Vec<Vec<f64>> {
    let all: Vec<(f64, f64)> = candidates.iter().flat_map(|c| c.samples.iter().copied()).collect();
    let trips: Vec<f64> = all.iter().map(|(_, trip)| *trip).collect();
    let regimes = regime::find_regimes(&trips);
    let mut by_regime: BTreeMap<Option<usize>, Vec<f64>> = BTreeMap::new();
    for (rate, trip) in all {
        by_regime.entry(regime::find_containing(&regimes, trip)).or_default().push(rate);
    }
    let typical: BTreeMap<Option<usize>, f64> =
        by_regime.iter().map(|(regime, rates)| (*regime, stats::median(rates))).collect();
    let mut relative = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let samples = candidate.samples.iter();
        let rates =
            samples.map(|(rate, trip)| rate / typical[&regime::find_containing(&regimes, *trip)]);
        relative.push(rates.collect());
    }
    relative
}

/// Returns the score of each candidate: the upper decile of its relative rates. Interference only
/// makes a sample slower, and can affect more than half of the samples. A candidate without samples
/// has the score 0.
fn scores(relative: &[Vec<f64>]) -> Vec<f64> {
    let scores = relative.iter().map(|rates| stats::quantile(rates, SCORE_QUANTILE));
    scores.map(|score| if score.is_nan() { 0.0 } else { score }).collect()
}

/// Returns the relative standard deviation of a sample, estimated from the deviations of all
/// samples from the median of their candidate; `None` if no candidate has two samples.
fn scatter(relative: &[Vec<f64>]) -> Option<f64> {
    let mut scatter = Vec::new();
    for rates in relative.iter().filter(|rates| rates.len() > 1) {
        let median = stats::median(rates);
        scatter.extend(rates.iter().map(|rate| (rate / median - 1.0).abs()));
    }
    (!scatter.is_empty()).then(|| SIGMA_OVER_MAD * stats::median(&scatter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn candidates_are_ranked_within_regime() {
        // The second candidate is faster in both regimes, but most of its samples are from the slow regime.
        let (slow, fast) = (100e-9, 400e-9);
        let mut halving = Halving::new(["first", "second"]);
        for (i, rate, trip) in [
            (0, 80.0, fast),
            (0, 81.0, fast),
            (0, 40.0, slow),
            (1, 90.0, fast),
            (1, 45.0, slow),
            (1, 45.5, slow),
        ] {
            halving.add_rate(i, rate, trip);
        }
        halving.sort_by_score();
        assert_eq!(*halving.leader(), "second");
    }

    #[test]
    fn candidates_within_noise_of_last_survivor_are_kept() {
        // The noise is 2 %. Candidates 0 to 2 differ by less than the noise; candidate 3 is much slower.
        let mut halving = Halving::new([0, 1, 2, 3]);
        for i in 0..4 {
            let rate = [100.0, 99.9, 99.8, 60.0][i];
            for noise in [0.98, 1.0, 1.02, 1.0] {
                halving.add_rate(i, rate * noise, f64::NAN);
            }
        }
        halving.eliminate_half();
        assert_eq!(halving.len(), 3);
        halving.eliminate_slower();
        assert_eq!(halving.len(), 3);
        assert!(!halving.is_settled(0.005));
        assert!(halving.is_settled(0.05));
        assert_eq!(halving.measured_candidates(), [&0, &1, &2, &3]);
        // The fastest two candidates differ by less than the noise. Only the advantage over the last candidate is
        // significant.
        assert!(!halving.lead().unwrap().is_significant());
        let mut two = Halving::new([0, 3]);
        for (i, rate) in [(0, 98.0), (0, 100.0), (0, 102.0), (1, 59.0), (1, 60.0), (1, 61.0)] {
            two.add_rate(i, rate, f64::NAN);
        }
        two.eliminate_half();
        let lead = two.lead().unwrap();
        assert!(lead.is_significant() && (lead.ratio - 101.6 / 60.8).abs() < 1e-9, "{lead:?}");
        // The median deviation is 1/60; the standard error is that of a difference of two scores of three samples.
        let noise = ERRORS_APART * SIGMA_OVER_MAD / 60.0 * (2.0f64 / 3.0).sqrt();
        assert!((lead.noise - noise).abs() < 1e-9, "{lead:?}");
        assert_eq!((two.len(), Halving::new([0]).lead()), (1, None));
        // A single sample does not show the noise.
        let mut single = Halving::new([0, 1]);
        single.add_rate(0, 100.0, f64::NAN);
        single.add_rate(1, 60.0, f64::NAN);
        assert_eq!((single.lead(), single.is_settled(1.0)), (None, false));
    }

    #[test]
    fn significantly_slower_candidates_are_eliminated() {
        // The second candidate is as fast as the first, except for one disturbed sample. The third candidate is slower
        // in all samples except one.
        let mut halving = Halving::new([0, 1, 2]);
        let rates = [
            [100.0, 98.0, 97.0, 99.0, 96.0, 98.3],
            [99.5, 60.0, 98.5, 97.5, 96.5, 97.2],
            [90.0, 96.5, 91.0, 89.0, 92.0, 90.5],
        ];
        for sample in [0, 1, 2, 3, 4, 5] {
            if sample == 3 {
                halving.eliminate_slower();
                assert_eq!(halving.len(), 3);
            }
            for i in 0..3 {
                halving.add_rate(i, rates[*halving.get(i)][sample], f64::NAN);
            }
        }
        halving.eliminate_slower();
        let mut left = [*halving.get(0), *halving.get(1)];
        left.sort_unstable();
        assert_eq!((halving.len(), left), (2, [0, 1]));
    }

    proptest! {
        #[test]
        fn halving_without_noise_finds_the_fastest_candidate(
            rates in proptest::collection::vec(1.0f64..100.0, 1..40)
        ) {
            let mut halving = Halving::new(rates.iter().copied());
            let mut rounds = 0;
            while halving.len() > 1 {
                for i in 0..halving.len() {
                    let rate = *halving.get(i);
                    halving.add_rate(i, rate, f64::NAN);
                }
                halving.eliminate_half();
                rounds += 1;
                prop_assert!(rounds <= 40);
            }
            let best = rates.iter().copied().fold(0.0, f64::max);
            prop_assert_eq!(*halving.leader(), best);
        }
    }
}
