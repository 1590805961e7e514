//! Ratio of the figures of two settings A and B, with its confidence interval. The functions are pure, and random
//! numbers have a fixed seed: the same runs give the same interval.
//!
//! Each run counts as one observation. The samples of a run share conditions that differ between runs, such as the
//! physical location of pages and the load of other guests. A single run cannot show their effect, so each run
//! contributes one figure (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). The spread
//! between runs is estimated from the runs of A and B, from other runs with the same settings, or from blocks of
//! interleaved runs, never from a constant. All calculations use logarithms; the figure of a setting is therefore the
//! geometric mean of the figures of its runs.

pub mod bests;
pub mod closing;
pub mod paired;
pub mod speed;

use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;
use nodegauge_measure::stats::{self, MISS_PROBABILITY, UPPER_TAIL};
use serde::Serialize;

/// Minimum number of runs of A and of B, or of blocks, for an estimate of the spread. With only two, Student's t would
/// be 12.7.
const MIN_RUNS: usize = 3;
/// Minimum number of other runs for an estimate of the spread if A or B has fewer than [`MIN_RUNS`] runs. The next run
/// is between the extremes of n runs with a probability of 1 - 2 / (n + 1), which is 82 % for ten.
const MIN_RELATED_RUNS: usize = 10;
/// Number of bootstrap samples; sufficient for a standard deviation (Efron and Tibshirani, "An Introduction
/// to the Bootstrap", 1993, chapter 6).
const DRAWS: usize = 200;
/// Maximum number of samples of a run in the bootstrap; evenly spaced samples are taken from longer runs. This limits
/// the computing time and makes the standard deviation slightly larger.
const MAX_SAMPLES: usize = 500;
/// Change for which a comparison reports how many runs would be sufficient: 3 %, the effect of a changed setting of the
/// node that users want to detect.
pub const SOUGHT_CHANGE: f64 = 0.03;
/// Assumed probability of missing the change when the number of later runs is estimated. Later comparisons estimate
/// their own spread. With 0.1, only 85 of 100 of them would detect the change; with this probability, at least 90 do
/// (simulated in the tests).
const MISSED_LATER: f64 = 0.05;
/// Seed of the bootstrap; an arbitrary constant makes the results reproducible.
const SEED: u64 = 0x6e6f_6465_6761_7567;

/// Data from which the spread between runs was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpreadBasis {
    /// The runs of A and B.
    Runs,
    /// The runs of A and B, and saved runs of the same node with the same settings.
    History,
    /// Blocks A B B A of interleaved runs.
    Blocks,
}

impl SpreadBasis {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::History => "history",
            Self::Blocks => "blocks",
        }
    }
}

/// Figures of the runs of A or B; all are positive.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SideRuns {
    /// Figures of the runs of this setting, all in the same unit.
    pub figures: Vec<f64>,
    /// Figures of other runs with the same setting, from which the spread between runs is estimated; in the unit of
    /// `figures`.
    pub similar_runs: Vec<f64>,
    /// Relative standard deviation of a figure, estimated from the samples of its run. It is a lower bound of the
    /// spread between runs.
    pub run_spread: f64,
}

/// Ratio with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioInterval {
    /// Ratio of B to A.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio.
    pub ci95: [f64; 2],
    /// Smallest relative change that nine of ten comparisons like this one would detect.
    pub visible: f64,
    /// Data from which the spread between runs was estimated.
    pub basis: SpreadBasis,
    /// Number of blocks, or of runs of A and of B each, with which nine of ten comparisons would detect a change of
    /// [`SOUGHT_CHANGE`]; `None` if the spread comes from the history, whose range limits the interval.
    pub needed: Option<u64>,
}

/// Sum of squared deviations from one or several means, with the degrees of freedom.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    squares: f64,
    freedom: f64,
}

impl Spread {
    /// Returns the spread of figures around their mean, in logarithms.
    fn from_figures(figures: &[f64]) -> Self {
        let logs: Vec<f64> = figures.iter().map(|x| x.ln()).collect();
        let mean = stats::mean(&logs);
        Self {
            squares: logs.iter().map(|x| (x - mean).powi(2)).sum(),
            freedom: logs.len().saturating_sub(1) as f64,
        }
    }

    fn and(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, freedom: self.freedom + other.freedom }
    }

    fn variance(self) -> f64 {
        self.squares / self.freedom
    }
}

/// Returns the confidence interval of the ratio b / a for independent runs. With at least three runs of `a` and of `b`,
/// it is Welch's interval. With fewer runs, the spread is estimated from at least ten other runs with the same setting,
/// and it is Student's interval. The latter is widened to at least the range of the other runs, because runs are not
/// normally distributed: the load of another guest may shift single runs to another level. Returns `None` if there are
/// too few runs for both methods.
pub fn interval(a: &SideRuns, b: &SideRuns) -> Option<RatioInterval> {
    if a.figures.is_empty() || b.figures.is_empty() {
        return None;
    }
    let [own_a, own_b] = [a, b].map(|side| Spread::from_figures(&side.figures));
    let [runs_a, runs_b] = [a, b].map(|side| side.figures.len() as f64);
    // The spread within a run is a lower bound of the standard deviation of its figure.
    let [least_a, least_b] = [a, b].map(|side| side.run_spread.powi(2));
    let ratio = stats::geometric_mean(&b.figures) / stats::geometric_mean(&a.figures);
    if a.figures.len().min(b.figures.len()) >= MIN_RUNS {
        let of_a = own_a.variance().max(least_a) / runs_a;
        let of_b = own_b.variance().max(least_b) / runs_b;
        let error = of_a + of_b;
        // Degrees of freedom by the formula of Welch and Satterthwaite.
        let parts = of_a.powi(2) / own_a.freedom + of_b.powi(2) / own_b.freedom;
        let freedom = if error > 0.0 { error.powi(2) / parts } else { own_a.freedom };
        let half = stats::student_quantile(UPPER_TAIL, freedom) * error.sqrt();
        let interval = with_half_width(ratio, half, error.sqrt(), freedom, SpreadBasis::Runs);
        let made = a.figures.len().min(b.figures.len());
        return Some(RatioInterval { needed: needed(error.sqrt(), freedom, made), ..interval });
    }
    // If A and B have the same setting, their other runs are the same and are counted once.
    let shared: &[f64] = if a.similar_runs == b.similar_runs { &[] } else { &b.similar_runs };
    if a.similar_runs.len() + shared.len() < MIN_RELATED_RUNS {
        return None;
    }
    let all = own_a
        .and(own_b)
        .and(Spread::from_figures(&a.similar_runs))
        .and(Spread::from_figures(shared));
    let share = 1.0 / runs_a + 1.0 / runs_b;
    let error = (all.variance().max(least_a).max(least_b) * share).sqrt();
    let apart = log_range(&a.similar_runs).max(log_range(shared)) * (share / 2.0).sqrt();
    let half = (stats::student_quantile(UPPER_TAIL, all.freedom) * error).max(apart);
    Some(with_half_width(ratio, half, error, all.freedom, SpreadBasis::History))
}

/// Returns the range of these figures as a difference of logarithms.
fn log_range(figures: &[f64]) -> f64 {
    let max = figures.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let min = figures.iter().copied().fold(max, f64::min);
    (max / min).ln()
}

/// Returns the confidence interval of the ratio by Student's t, computed from the ratio of each block of runs A B B A.
/// Within a block, a linear drift affects A and B equally. Returns `None` for fewer than three blocks.
fn block_interval(ratios: &[f64]) -> Option<RatioInterval> {
    block_interval_at(ratios, UPPER_TAIL)
}

/// Returns the interval of [`block_interval`] for one of several comparisons: with a probability of 95 %, all of the
/// intervals contain their true ratios (Bonferroni).
fn joint_block_interval(ratios: &[f64], comparisons: usize) -> Option<RatioInterval> {
    block_interval_at(ratios, UPPER_TAIL / comparisons.max(1) as f64)
}

/// Computes the interval of [`block_interval`] whose limits are exceeded with the probability `tail` on each side.
fn block_interval_at(ratios: &[f64], tail: f64) -> Option<RatioInterval> {
    if ratios.len() < MIN_RUNS {
        return None;
    }
    let spread = Spread::from_figures(ratios);
    let error = (spread.variance() / ratios.len() as f64).sqrt();
    let ratio = stats::geometric_mean(ratios);
    let half = stats::student_quantile(tail, spread.freedom) * error;
    let interval = with_half_width(ratio, half, error, spread.freedom, SpreadBasis::Blocks);
    Some(RatioInterval { needed: needed(error, spread.freedom, ratios.len()), ..interval })
}

/// Returns the number of runs of A and of B, or of blocks, with which nine of ten comparisons would detect a change of
/// [`SOUGHT_CHANGE`]; `made` if the existing ones are sufficient. `error` is the standard error of the logarithm with
/// `made` runs or blocks, and `freedom` its degrees of freedom. The quantiles are those for the existing runs, as in
/// the second stage of Stein's two-stage procedure ("A Two-Sample Test for a Linear Hypothesis Whose Power is
/// Independent of the Variance", Annals of Mathematical Statistics 16, 1945), because the spread is only estimated.
fn needed(error: f64, freedom: f64, made: usize) -> Option<u64> {
    let quantiles = stats::student_quantile(UPPER_TAIL, freedom)
        + stats::student_quantile(MISSED_LATER, freedom);
    let number = made as f64 * (quantiles * error / SOUGHT_CHANGE.ln_1p()).powi(2);
    number.is_finite().then_some((number.ceil() as u64).max(made as u64))
}

/// Creates the confidence interval of a ratio whose logarithm has the half width `half` and the standard error `error`.
/// The smallest detectable change is computed as in the NIST/SEMATECH e-Handbook of Statistical Methods, 7.2.2.2.
fn with_half_width(
    ratio: f64,
    half: f64,
    error: f64,
    freedom: f64,
    basis: SpreadBasis,
) -> RatioInterval {
    RatioInterval {
        ratio,
        ci95: [ratio * (-half).exp(), ratio * half.exp()],
        visible: (half + stats::student_quantile(MISS_PROBABILITY, freedom) * error).exp_m1(),
        basis,
        needed: None,
    }
}

/// Returns the relative standard deviation of the figure of a run (the statistic `quoted` of its samples), estimated by
/// a bootstrap of circular blocks of successive samples (Politis and Romano, "A circular block-resampling procedure for
/// stationary data", 1992). Blocks are necessary because samples a few milliseconds apart are correlated. Returns 0 if
/// there are fewer than two samples, or if a sample is not positive.
pub fn spread_in_run(samples: &[f64], quoted: QuotedStatistic, unit: Unit) -> f64 {
    let step = samples.len().div_ceil(MAX_SAMPLES).max(1);
    let run: Vec<f64> = samples.iter().copied().step_by(step).collect();
    if run.len() < 2
        || quoted == QuotedStatistic::Single
        || run.iter().any(|x| !x.is_finite() || *x <= 0.0)
    {
        return 0.0;
    }
    let n = run.len();
    let block = block_length(&run);
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut drawn = Vec::with_capacity(n);
    let figures: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            drawn.clear();
            while drawn.len() < n {
                let start = random.usize(..n);
                let length = block.min(n - drawn.len());
                drawn.extend((start..start + length).map(|at| run[at % n]));
            }
            quoted.statistic(&drawn, unit)
        })
        .collect();
    Spread::from_figures(&figures).variance().sqrt()
}

/// Returns the number of successive samples that are correlated: one plus twice the sum of the autocorrelations up to
/// the first insignificant one, and at most a quarter of the samples.
fn block_length(run: &[f64]) -> usize {
    let n = run.len();
    let max = n / 4;
    let mean = stats::mean(run);
    let deviations: Vec<f64> = run.iter().map(|x| x - mean).collect();
    let variance: f64 = deviations.iter().map(|d| d * d).sum();
    if max <= 1 || variance <= 0.0 {
        return 1;
    }
    let chance = 2.0 / (n as f64).sqrt();
    let mut length = 1.0;
    for lag in 1..max {
        let sum: f64 = deviations.iter().zip(&deviations[lag..]).map(|(x, y)| x * y).sum();
        let correlation = sum / variance;
        if correlation < chance || length >= max as f64 {
            break;
        }
        length += 2.0 * correlation;
    }
    (length.ceil() as usize).clamp(1, max)
}

#[cfg(test)]
mod tests;
