//! Ratio of the best rates of two settings over rounds in which both were measured, with its confidence interval. The
//! functions are pure, and random numbers have a fixed seed: the same rates give the same interval.
//!
//! STREAM reports the best rate. Interference only makes a pass slower, so the best is affected less than any other
//! statistic. The interval is computed with a bootstrap over rounds (Davison and Hinkley, "Bootstrap Methods and their
//! Application", 1997). A round is always drawn with the rates of both settings, so that interference with both
//! settings cancels.

use super::speed::is_different;
use nodegauge_measure::stats;

/// Ratio with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Ratio of the best rates.
    pub value: f64,
    /// 95 % confidence interval; `None` with fewer than [`MIN_ROUNDS`] rounds.
    pub interval: Option<[f64; 2]>,
}

/// Minimum number of rounds for an interval. For any number of rounds, about two thirds of all bootstrap samples
/// contain the best round; with fewer than five, the others contain too few different bests to estimate its spread
/// (decision).
pub const MIN_ROUNDS: usize = 5;
/// Number of bootstrap samples.
const DRAWS: usize = 400;
/// Seed of the bootstrap; an arbitrary constant makes the results reproducible.
const SEED: u64 = 0x6265_7374;
/// Factor that widens the interval. The best of a bootstrap sample is mostly the best or the second best of the
/// original sample. Bootstrapped bests therefore vary less than the bests of independent samples (Bickel and Freedman,
/// "Some asymptotic theory for the bootstrap", 1981, section 6). If the duration of interference is distributed
/// exponentially, the standard deviation of the best is 1.28 times the scale of the distribution (Gumbel), and the
/// standard deviation of the bootstrapped best is 0.61 times the scale. The factor is the ratio of the two.
const WIDENING: f64 = 2.1;

impl Ratio {
    /// Returns the best of `after` divided by the best of `before`. The slices contain one rate (or another value for
    /// which higher is better) per round. Slices of equal length belong to the same rounds and are drawn together.
    /// Returns `None` without rates.
    pub fn from_bests(before: &[f64], after: &[f64]) -> Option<Self> {
        let value = best(after)? / best(before)?;
        let rounds = before.len().min(after.len());
        let mut random = fastrand::Rng::with_seed(SEED);
        let interval = (rounds >= MIN_ROUNDS).then(|| {
            let mut logs = Vec::with_capacity(DRAWS);
            for _ in 0..DRAWS {
                logs.push((drawn_ratio(&mut random, before, after) / value).ln());
            }
            let widening = WIDENING * few_samples_factor(rounds);
            [0.025, 0.975].map(|q| value * (widening * stats::quantile(&logs, q)).exp())
        });
        Some(Self { value, interval })
    }

    /// True if the interval does not contain 1, so that the settings differ.
    pub fn is_significant(&self) -> bool {
        self.interval.is_some_and(is_different)
    }
}

/// Returns the highest rate; `None` without rates.
fn best(rates: &[f64]) -> Option<f64> {
    rates.iter().copied().reduce(f64::max)
}

/// Returns the highest rate of these rounds; 0 without rounds.
fn best_at(rates: &[f64], rounds: &[usize]) -> f64 {
    rounds.iter().map(|round| rates[*round]).fold(0.0, f64::max)
}

/// Draws `n` rounds out of `n` with replacement.
fn drawn_rounds(random: &mut fastrand::Rng, n: usize) -> Vec<usize> {
    (0..n).map(|_| random.usize(..n)).collect()
}

/// Returns the ratio of the best rates of a bootstrap sample. Slices of equal length are drawn together.
fn drawn_ratio(random: &mut fastrand::Rng, before: &[f64], after: &[f64]) -> f64 {
    let rounds = drawn_rounds(random, before.len());
    if before.len() == after.len() {
        return best_at(after, &rounds) / best_at(before, &rounds);
    }
    let others = drawn_rounds(random, after.len());
    best_at(after, &others) / best_at(before, &rounds)
}

/// Returns the factor for widening bootstrapped deviations of few samples, because these are too small and have longer
/// tails.
pub(crate) fn few_samples_factor(samples: usize) -> f64 {
    1.0 + 4.0 / samples as f64
}

/// Returns the number of significant decimals (one to three) of a value with this interval: down to the first digit of
/// half the interval's width.
pub fn significant_decimals([low, high]: [f64; 2]) -> usize {
    let half = (high - low) / 2.0;
    if half > 0.0 { (-half.log10().floor()).clamp(1.0, 3.0) as usize } else { 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rates of two settings in each round. The settings differ by `factor`. Other programs disturb the
    /// share `busy` of all passes, and all passes of half of the rounds.
    fn rounds(seed: u64, n: usize, factor: f64, busy: f64) -> [Vec<f64>; 2] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut exponential = |share: f64, scale: f64, of: bool| match (random.f64(), of) {
            (x, true) if x < share => -scale * (1.0 - random.f64()).ln(),
            (_, true) => 0.0,
            // Noise of the machine without other programs.
            _ => scale * (random.f64() + random.f64() + random.f64() - 1.5),
        };
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..n {
            let together = exponential(0.5, 0.1 * busy, true);
            for (side, rate) in sides.iter_mut().zip([1.0, factor]) {
                let lost = together + exponential(busy, 0.15 * busy, true);
                side.push(rate * (exponential(1.0, 0.008, false) - lost).exp());
            }
        }
        sides
    }

    /// Returns the share of simulated runs whose ratio satisfies `holds`.
    fn share(n: usize, factor: f64, busy: f64, holds: impl Fn(Ratio) -> bool) -> f64 {
        let runs = 200;
        let of = |seed| {
            let [before, after] = rounds(seed, n, factor, busy);
            holds(Ratio::from_bests(&before, &after).unwrap())
        };
        (0..runs).filter(|seed| of(*seed)).count() as f64 / f64::from(runs as u32)
    }

    #[test]
    fn interval_of_best_rates_contains_the_true_ratio_in_at_least_86_of_100_runs() {
        for (n, busy, min) in [(6, 0.1, 0.88), (10, 0.6, 0.86), (20, 0.6, 0.91), (10, 0.9, 0.87)] {
            let held = |ratio: Ratio| {
                let [low, high] = ratio.interval.unwrap();
                low <= 1.08 && 1.08 <= high
            };
            let held = share(n, 1.08, busy, held);
            assert!(held >= min, "{n} rounds, {busy} busy: held in {held}");
            let reported = share(n, 1.0, busy, |ratio| ratio.is_significant());
            assert!(
                reported <= 1.0 - min,
                "{n} rounds, {busy} busy: distinguished from 1 in {reported}"
            );
        }
        // A real difference is detected, even under load.
        assert!(share(10, 1.15, 0.1, |ratio| ratio.is_significant()) > 0.99);
        assert!(share(20, 1.15, 0.6, |ratio| ratio.is_significant()) > 0.9);
    }

    #[test]
    fn ratios_of_best_rates_are_multiplicative_and_deterministic() {
        let [a, b] = rounds(1, 12, 1.2, 0.5);
        let c: Vec<f64> = b.iter().map(|rate| rate * 1.5).collect();
        let of = |x: &[f64], y: &[f64]| Ratio::from_bests(x, y).unwrap();
        let product = of(&a, &b).value * of(&b, &c).value;
        assert!((product / of(&a, &c).value - 1.0).abs() < 1e-12);
        // If the rates of both settings vary by the same factor from round to round, their ratio has no error.
        let [low, high] = of(&b, &c).interval.unwrap();
        assert!((low - 1.5).abs() < 1e-9 && (high - 1.5).abs() < 1e-9);
        assert_eq!(of(&a, &b), of(&a, &b));
        // Slices of different lengths are drawn independently.
        let [low_subset, high_subset] = of(&a, &b[..9]).interval.unwrap();
        assert!(low_subset < of(&a, &b[..9]).value && high_subset > low_subset);
    }

    #[test]
    fn too_few_rounds_have_no_interval() {
        let ratio = Ratio::from_bests(&[1.0, 1.1], &[2.0, 2.1]).unwrap();
        assert!(ratio.interval.is_none() && !ratio.is_significant());
        assert_eq!(Ratio::from_bests(&[], &[1.0]), None);
    }

    #[test]
    fn number_of_digits_depends_on_the_interval() {
        assert_eq!(significant_decimals([1.09, 1.26]), 2);
        assert_eq!(significant_decimals([0.8, 1.3]), 1);
        assert_eq!(significant_decimals([3.0, 9.0]), 1);
        assert_eq!(significant_decimals([1.1715, 1.1765]), 3);
        assert_eq!(significant_decimals([1.0, 1.0]), 3);
    }
}
