//! Order statistics of samples. Pure functions: no clock, no I/O.
//!
//! Quantiles are linearly interpolated between order statistics (type 7 of Hyndman and Fan, "Sample
//! Quantiles in Statistical Packages", 1996). The confidence interval of the median is
//! distribution-free: it consists of two order statistics whose ranks are symmetric around the
//! centre of the binomial(n, 1/2) distribution.

use serde::{Deserialize, Serialize};
use std::f64::consts::FRAC_PI_2;

/// Direction of better values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BetterDirection {
    /// Higher values are better, e.g. rates.
    Higher,
    /// Lower values are better, e.g. times.
    Lower,
}

/// Statistics of a set of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Best of the samples.
    pub best: f64,
    /// Median of the samples.
    pub median: f64,
    /// 5th percentile of the samples.
    pub p05: f64,
    /// 95th percentile of the samples.
    pub p95: f64,
    /// 95 % confidence interval of the median within this run; `null` with fewer than six samples,
    /// for which no such interval exists. The interval assumes independent samples and does not
    /// cover differences between runs. For the relative speeds of `sweep`, it is a simultaneous
    /// interval of the geometric mean over all combinations.
    pub ci95: Option<[f64; 2]>,
}

impl Summary {
    /// Returns the statistics of `samples`; `None` if there are no samples or one of the samples is not finite.
    pub fn from_samples(samples: &[f64], better: BetterDirection) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let sorted = sorted(samples);
        let best = match better {
            BetterDirection::Higher => sorted[sorted.len() - 1],
            BetterDirection::Lower => sorted[0],
        };
        Some(Self {
            n: sorted.len(),
            best,
            median: quantile_sorted(&sorted, 0.5),
            p05: quantile_sorted(&sorted, 0.05),
            p95: quantile_sorted(&sorted, 0.95),
            ci95: median_ci95(&sorted),
        })
    }
}

/// Returns the samples in ascending order.
fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns quantile `q` in 0..=1 of ascending samples; NaN for an empty slice.
fn quantile_sorted(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let rank = q.clamp(0.0, 1.0) * last as f64;
    let below = rank.floor() as usize;
    let above = rank.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (rank - below as f64)
}

/// Returns quantile `q` in 0..=1; NaN if there are no samples.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    quantile_sorted(&sorted(samples), q)
}

/// Returns the median; NaN if there are no samples.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Returns a distribution-free 95 % confidence interval of the median of ascending samples: the narrowest symmetric
/// pair of order statistics that covers the median with at least 95 %. Returns `None` with fewer than six samples (the
/// extremes of five samples cover the median with only 93.75 %).
fn median_ci95(sorted: &[f64]) -> Option<[f64; 2]> {
    let n = sorted.len();
    if n < 6 {
        return None;
    }
    // Largest k with P(X < k) <= 2.5 %, X ~ binomial(n, 1/2). The sum uses logarithms of the terms, because
    // 2^-n underflows with more than a thousand samples.
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut k = 0;
    loop {
        below += log_term.exp();
        if below > 0.025 {
            break;
        }
        log_term += ((n - k) as f64 / (k + 1) as f64).ln();
        k += 1;
    }
    let low = k.saturating_sub(1);
    Some([sorted[low], sorted[n - 1 - low]])
}

/// Probability of a value above a two-sided 95 % interval.
pub const UPPER_TAIL: f64 = 0.025;
/// Probability of missing a change that is called detectable.
pub const MISS_PROBABILITY: f64 = 0.1;

/// Returns the value that the standard normal distribution exceeds with the probability `tail` (at most 0.5). The error
/// is below 0.0005. Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.23.
pub fn normal_quantile(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

/// Returns the value that Student's t distribution exceeds with the probability `tail` (at most 0.5), for at least two
/// degrees of `freedom`. The error is below 0.1 %. G. W. Hill, "Algorithm 396: Student's t-quantiles", Communications
/// of the ACM 13 (1970), 619-620.
pub fn student_quantile(tail: f64, freedom: f64) -> f64 {
    let n = freedom;
    let both = 2.0 * tail;
    if n == 2.0 {
        return (2.0 / (both * (2.0 - both)) - 2.0).sqrt();
    }
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * FRAC_PI_2).sqrt() * n;
    let y = (d * both).powf(2.0 / n);
    if n >= 2.1 && y <= 0.05 + a {
        let inner = ((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0;
        let sum = (1.0 / inner + 0.5 / (n + 4.0)) * y - 1.0;
        return (n * (sum * (n + 1.0) / (n + 2.0) + 1.0 / y)).sqrt();
    }
    let x = -normal_quantile(tail);
    let c = if n < 5.0 { c + 0.3 * (n - 4.5) * (x + 0.6) } else { c };
    let c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c;
    let square = x * x;
    let series = (((0.4 * square + 6.3) * square + 36.0) * square + 94.5) / c - square - 3.0;
    let root = (series / b + 1.0) * x;
    (n * (a * root * root).exp_m1()).sqrt()
}

/// Returns the arithmetic mean; NaN if there are no samples.
pub fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Returns the geometric mean; NaN if there are no samples.
pub fn geometric_mean(samples: &[f64]) -> f64 {
    (samples.iter().map(|x| x.ln()).sum::<f64>() / samples.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_interpolated() {
        let xs = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&xs), 2.5);
        assert_eq!(quantile(&xs, 0.0), 1.0);
        assert_eq!(quantile(&xs, 1.0), 4.0);
        assert!((quantile(&xs, 0.95) - 3.85).abs() < 1e-12);
    }

    #[test]
    fn median_interval_matches_published_ranks() {
        // Conover's table contains these ranks: the 2nd and 9th for n = 10, the extremes for n = 6, the 40th and 61st
        // for n = 100.
        let ranks = |n: usize| {
            let xs: Vec<f64> = (1..=n).map(|i| i as f64).collect();
            median_ci95(&xs)
        };
        assert_eq!(ranks(5), None);
        assert_eq!(ranks(6), Some([1.0, 6.0]));
        assert_eq!(ranks(10), Some([2.0, 9.0]));
        assert_eq!(ranks(100), Some([40.0, 61.0]));
        assert!(ranks(5000).is_some_and(|[lo, hi]| lo > 2400.0 && hi < 2600.0));
    }

    #[test]
    fn normal_quantiles_match_published_tables() {
        for (tail, quantile) in
            [(UPPER_TAIL, 1.9600), (MISS_PROBABILITY, 1.2816), (0.005, 2.5758), (0.0005, 3.2905)]
        {
            assert!((normal_quantile(tail) - quantile).abs() < 0.0005, "{tail}");
        }
    }

    #[test]
    fn student_quantiles_match_published_tables() {
        // Quantiles with the tail probabilities 0.25, 0.1, 0.05, 0.025, 0.005 and 0.0005. The first `central` quantiles
        // are not far out in a tail: their error is that of the normal quantile.
        let tables = [
            (2.0, [0.816_497, 1.885_618, 2.919_986, 4.302_653, 9.924_843, 31.599_05], 0),
            (3.0, [0.764_892, 1.637_744, 2.353_363, 3.182_446, 5.840_909, 12.923_98], 2),
            (4.0, [0.740_697, 1.533_206, 2.131_847, 2.776_445, 4.604_095, 8.610_302], 4),
            (6.0, [0.717_558, 1.439_756, 1.943_180, 2.446_912, 3.707_428, 5.958_816], 5),
            (10.0, [0.699_812, 1.372_184, 1.812_461, 2.228_139, 3.169_273, 4.586_894], 6),
            (30.0, [0.682_756, 1.310_415, 1.697_261, 2.042_272, 2.749_996, 3.645_959], 6),
            (1e9, [0.674_490, 1.281_552, 1.644_854, 1.959_964, 2.575_829, 3.290_527], 6),
        ];
        for (freedom, quantiles, central) in tables {
            let tails = [0.25, MISS_PROBABILITY, 0.05, UPPER_TAIL, 0.005, 0.0005];
            for (at, (tail, quantile)) in tails.into_iter().zip(quantiles).enumerate() {
                let tolerance = if at < central { 0.0005 } else { 0.000_01 };
                let ratio = student_quantile(tail, freedom) / quantile;
                assert!((ratio - 1.0).abs() < tolerance, "{freedom}, {tail}: {ratio}");
            }
        }
        // For degrees of freedom between two integers, the quantile is between the quantiles of these integers.
        let of = |freedom: f64| student_quantile(UPPER_TAIL, freedom);
        assert!(of(2.0) > of(2.05) && of(2.05) > of(2.5) && of(2.5) > of(3.0));
    }

    #[test]
    fn empty_and_nan_samples_have_no_summary() {
        assert_eq!(Summary::from_samples(&[], BetterDirection::Higher), None);
        assert_eq!(Summary::from_samples(&[1.0, f64::NAN], BetterDirection::Higher), None);
    }

    proptest! {
        #[test]
        fn summary_values_are_ordered(xs in proptest::collection::vec(1e-3f64..1e3, 1..60)) {
            let s = Summary::from_samples(&xs, BetterDirection::Higher).unwrap();
            prop_assert!(s.p05 <= s.median && s.median <= s.p95 && s.p95 <= s.best);
            if let Some([lo, hi]) = s.ci95 {
                prop_assert!(lo <= s.median && s.median <= hi);
            }
        }
    }
}
