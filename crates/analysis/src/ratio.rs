//! The ratio of two settings with its confidence interval. Pure and seeded: the same runs give the same
//! interval.
//!
//! The unit of evidence is the run. What the samples of a run have in common (where its pages lie, what
//! its neighbours do) differs from run to run and cannot be seen in one of them, so nothing is made of a
//! run's samples but one figure (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013).
//! How figures of runs differ is taken from the runs of the sides, from other runs like them, or from
//! blocks of runs by turns, never from a constant. All is done in logarithms: a side's figure is the
//! geometric mean of its runs'.

pub mod closing;

use nodegauge_measure::Unit;
use nodegauge_measure::record::Quoted;
use nodegauge_measure::stats::{self, FOUND, TWO_SIDED};
use serde::Serialize;

/// Fewest runs of a side that tell by themselves how they differ, and fewest blocks: of two, Student's t
/// is 12.7.
const LEAST_RUNS: usize = 3;
/// Fewest other runs that tell it for sides with fewer: the next run is between the extremes of n with a
/// probability of 1 - 2 / (n + 1), four of five of these.
const LEAST_LIKE: usize = 10;
/// Draws of the bootstrap; enough for a standard deviation (Efron and Tibshirani, "An Introduction to the
/// Bootstrap", 1993, chapter 6).
const DRAWS: usize = 200;
/// Of a run with more samples than this, as many are taken, evenly spaced: the deviation becomes a
/// trifle greater, and the time bearable.
const MOST_SAMPLES: usize = 500;
/// Any number; the same for all, so that results repeat.
const SEED: u64 = 0x6e6f_6465_6761_7567;

/// Where it is known from how runs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// From the runs of the sides.
    Runs,
    /// From saved runs of the same node and setting, too.
    History,
    /// From blocks of runs by turns.
    Blocks,
}

impl Basis {
    /// The name, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::History => "history",
            Self::Blocks => "blocks",
        }
    }
}

/// The figures of one side; positive.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Runs {
    /// Of its runs.
    pub figures: Vec<f64>,
    /// Of other runs like them, which tell how such runs differ.
    pub like: Vec<f64>,
    /// Relative standard deviation of a figure as its own samples have it: runs differ by that at least.
    pub within: f64,
}

/// What is known of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The ratio.
    pub ratio: f64,
    /// 95 % confidence interval.
    pub ci95: [f64; 2],
    /// Smallest change, relative, that would be told from none in nine of ten comparisons like this one.
    pub visible: f64,
    /// Where the spread of runs is taken from.
    pub basis: Basis,
}

/// Sum of squares of deviations from a mean, or several means, with its degrees of freedom.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    squares: f64,
    freedom: f64,
}

impl Spread {
    /// Of figures about their mean, in logarithms.
    fn of(figures: &[f64]) -> Self {
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

/// The interval of the ratio b over a of sides whose runs are independent. Of three runs a side and more it
/// is Welch's. Of fewer, the spread is that of other runs like them, ten or more: Student's with it, but no
/// narrower than these runs lie apart, for runs are not normal (a busy neighbour takes one of many to
/// another level). `None` where there is less.
pub fn interval(a: &Runs, b: &Runs) -> Option<Interval> {
    if a.figures.is_empty() || b.figures.is_empty() {
        return None;
    }
    let [own_a, own_b] = [a, b].map(|side| Spread::of(&side.figures));
    let [of_a, of_b] = [a, b].map(|side| side.figures.len() as f64);
    // A figure is known no better than within its run.
    let [least_a, least_b] = [a, b].map(|side| side.within.powi(2));
    let ratio = stats::geometric_mean(&b.figures) / stats::geometric_mean(&a.figures);
    if a.figures.len().min(b.figures.len()) >= LEAST_RUNS {
        let [of_a, of_b] =
            [own_a.variance().max(least_a) / of_a, own_b.variance().max(least_b) / of_b];
        let error = of_a + of_b;
        // Welch and Satterthwaite.
        let parts = of_a.powi(2) / own_a.freedom + of_b.powi(2) / own_b.freedom;
        let freedom = if error > 0.0 { error.powi(2) / parts } else { own_a.freedom };
        return Some(around(ratio, error.sqrt(), freedom, 0.0, Basis::Runs));
    }
    // Runs that are like both sides count once.
    let shared: &[f64] = if a.like == b.like { &[] } else { &b.like };
    if a.like.len() + shared.len() < LEAST_LIKE {
        return None;
    }
    let all = own_a.and(own_b).and(Spread::of(&a.like)).and(Spread::of(shared));
    let share = 1.0 / of_a + 1.0 / of_b;
    let error = (all.variance().max(least_a).max(least_b) * share).sqrt();
    let apart = apart(&a.like).max(apart(shared)) * (share / 2.0).sqrt();
    Some(around(ratio, error, all.freedom, apart, Basis::History))
}

/// How far the extremes of these figures lie apart, in logarithms.
fn apart(figures: &[f64]) -> f64 {
    let most = figures.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let least = figures.iter().copied().fold(most, f64::min);
    (most / least).ln()
}

/// The interval of the ratio from its figure in each block of runs A B B A (what drifts evenly is the
/// same on both sides of such a block), by Student's t. `None` below three blocks.
pub fn of_blocks(ratios: &[f64]) -> Option<Interval> {
    (ratios.len() >= LEAST_RUNS).then(|| {
        let spread = Spread::of(ratios);
        let error = (spread.variance() / ratios.len() as f64).sqrt();
        around(stats::geometric_mean(ratios), error, spread.freedom, 0.0, Basis::Blocks)
    })
}

/// The interval about a ratio whose logarithm has this standard error, `least` wide to each side at least;
/// what is visible as in the NIST/SEMATECH e-Handbook of Statistical Methods, 7.2.2.2.
fn around(ratio: f64, error: f64, freedom: f64, least: f64, basis: Basis) -> Interval {
    let half = (stats::student(TWO_SIDED, freedom) * error).max(least);
    Interval {
        ratio,
        ci95: [ratio * (-half).exp(), ratio * half.exp()],
        visible: (half + stats::student(FOUND, freedom) * error).exp_m1(),
        basis,
    }
}

/// Relative standard deviation of the statistic that a run quotes of its samples, by a bootstrap of
/// circular blocks of successive samples (Politis and Romano, "A circular block-resampling procedure for
/// stationary data", 1992), since samples a few milliseconds apart are alike. 0 where samples tell nothing:
/// fewer than two, or one that is not positive.
pub fn within(samples: &[f64], quoted: Quoted, unit: Unit) -> f64 {
    let step = samples.len().div_ceil(MOST_SAMPLES).max(1);
    let run: Vec<f64> = samples.iter().copied().step_by(step).collect();
    if run.len() < 2 || quoted == Quoted::Single || run.iter().any(|x| !x.is_finite() || *x <= 0.0)
    {
        return 0.0;
    }
    let (n, block) = (run.len(), block_length(&run));
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
            quoted.of(&drawn, unit)
        })
        .collect();
    Spread::of(&figures).variance().sqrt()
}

/// How many successive samples are alike: one and twice the sum of the autocorrelations until they
/// are lost in chance, a quarter of the samples at most.
fn block_length(run: &[f64]) -> usize {
    let n = run.len();
    let most = n / 4;
    let mean = stats::mean(run);
    let deviations: Vec<f64> = run.iter().map(|x| x - mean).collect();
    let variance: f64 = deviations.iter().map(|d| d * d).sum();
    if most <= 1 || variance <= 0.0 {
        return 1;
    }
    let chance = 2.0 / (n as f64).sqrt();
    let mut length = 1.0;
    for lag in 1..most {
        let sum: f64 = deviations.iter().zip(&deviations[lag..]).map(|(x, y)| x * y).sum();
        let correlation = sum / variance;
        if correlation < chance || length >= most as f64 {
            break;
        }
        length += 2.0 * correlation;
    }
    (length.ceil() as usize).clamp(1, most)
}

#[cfg(test)]
mod tests;
