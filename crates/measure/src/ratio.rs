//! The ratio of two settings that were each measured in one or several runs, with its confidence
//! interval. Pure and seeded: the same samples give the same interval.
//!
//! A run's figure is the statistic that is quoted of it (the best pass, the median, the mean); a side's
//! figure is the median of its runs'. The interval is bootstrapped in two stages (Davison and Hinkley,
//! "Bootstrap Methods and their Application", 1997, section 3.8): runs are drawn with replacement, and
//! within a run circular blocks of successive samples, since samples a few milliseconds apart are more
//! alike than those of two runs (Politis and Romano, "A circular block-resampling procedure for
//! stationary data", 1992). What differs from run to run cannot be seen in one run; it is then allowed
//! for by [`RUN_TO_RUN`].

use crate::stats::{self, Better};

/// Standard deviation, relative, that is allowed for between runs where a side has too few of them
/// to tell. Eight runs of Triad with the same pages and loops on a two-CPU Zen 5 guest, half a minute
/// apart and in one regime, had best passes with a standard deviation of 1.0 %; eight runs leave room
/// for a fifth more.
pub const RUN_TO_RUN: f64 = 0.012;
/// The median of a run moves with what disturbs its passes, which the best pass does not: between the
/// same eight runs medians differed by 4.7 %, where passes scattered by up to 15 % (the middle half of
/// them over 1.35, which is a standard deviation for normal scatter). So half of a run's scatter is
/// allowed for where that is more.
const SCATTER_BETWEEN_RUNS: f64 = 0.5;
/// Runs of a side from which their spread is taken from themselves.
pub const LEAST_RUNS: usize = 3;
/// Samples of a side with fewer runs, below which there is no interval: the extremes of five enclose
/// the median with less than 95 %.
pub const LEAST_SAMPLES: usize = 6;

/// Best samples from which it is told how well the best one is known.
const TOP: usize = 5;

/// What is quoted of a run's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The best one: STREAM's, HPL's.
    Best(Better),
    /// The median.
    Median,
    /// The mean.
    Mean,
}

impl Statistic {
    /// Of samples, of which there is one at least; their order is lost.
    fn of(self, samples: &mut [f64]) -> f64 {
        let all = samples.iter().copied();
        match self {
            Self::Best(Better::Higher) => all.fold(f64::NEG_INFINITY, f64::max),
            Self::Best(Better::Lower) => all.fold(f64::INFINITY, f64::min),
            Self::Mean => all.sum::<f64>() / samples.len() as f64,
            Self::Median => median_of(samples),
        }
    }
}

/// Draws.
const DRAWS: usize = 2000;
/// Of a run with more samples than this, as many are taken, evenly spaced: the interval becomes a
/// trifle wider, and the time bearable.
const MOST_SAMPLES: usize = 4000;
/// Any number; the same for all, so that results repeat.
const SEED: u64 = 0x6e6f_6465_6761_7567;

/// One side: the samples of each of its runs, in order of time; positive figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Runs(pub Vec<Vec<f64>>);

/// Why there is no interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoInterval {
    /// A side has one figure and no more.
    NoSamples,
    /// A side has this many samples in too few runs.
    TooFew(usize),
}

impl Runs {
    /// The median of the runs' figures; `None` without samples, or where one is not positive and
    /// finite.
    pub fn centre(&self, statistic: Statistic) -> Option<f64> {
        let all = || self.0.iter().flatten();
        if all().next().is_none() || all().any(|x| !x.is_finite() || *x <= 0.0) {
            return None;
        }
        let runs = self.0.iter().filter(|run| !run.is_empty());
        let figures: Vec<f64> = runs.map(|run| statistic.of(&mut run.clone())).collect();
        Some(stats::median(&figures))
    }

    /// Samples of all runs.
    pub fn samples(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn sufficient(&self) -> Result<(), NoInterval> {
        match (self.0.len(), self.samples()) {
            (LEAST_RUNS.., _) | (_, LEAST_SAMPLES..) => Ok(()),
            (_, 0 | 1) => Err(NoInterval::NoSamples),
            (_, n) => Err(NoInterval::TooFew(n)),
        }
    }
}

/// 95 % confidence interval of the ratio of the sides' figures, b over a.
///
/// # Errors
/// When a side has too little to tell.
pub fn ci95(a: &Runs, b: &Runs, statistic: Statistic) -> Result<[f64; 2], NoInterval> {
    a.sufficient()?;
    b.sufficient()?;
    let (mut a, mut b) = (Source::new(a, statistic)?, Source::new(b, statistic)?);
    let mut random = fastrand::Rng::with_seed(SEED);
    let ratios: Vec<f64> = (0..DRAWS).map(|_| b.draw(&mut random) - a.draw(&mut random)).collect();
    Ok([0.025, 0.975].map(|q| stats::quantile(&ratios, q).exp()))
}

/// A side that can be drawn from.
struct Source {
    statistic: Statistic,
    /// Each run with the length of its blocks.
    runs: Vec<(Vec<f64>, usize)>,
    /// Logarithm of the side's figure.
    centre: f64,
    between: Between,
    scratch: Vec<f64>,
}

/// How the runs of a side differ from those that were not made.
enum Between {
    /// As they differ from each other, with drawn deviations widened by this factor.
    Drawn(f64),
    /// There are too few to tell: by this standard deviation of the side's figure.
    Allowed(f64),
}

impl Source {
    fn new(side: &Runs, statistic: Statistic) -> Result<Self, NoInterval> {
        let centre = side.centre(statistic).ok_or(NoInterval::NoSamples)?.ln();
        let runs: Vec<(Vec<f64>, usize)> = side
            .0
            .iter()
            .filter(|run| !run.is_empty())
            .map(|run| {
                let step = run.len().div_ceil(MOST_SAMPLES);
                let thinned: Vec<f64> = run.iter().copied().step_by(step).collect();
                let block = block_length(&thinned);
                (thinned, block)
            })
            .collect();
        let between = match runs.len() {
            n @ LEAST_RUNS.. => Between::Drawn(widening(n)),
            n => {
                let most =
                    runs.iter().map(|(run, _)| allowance(run, statistic)).fold(0.0, f64::max);
                Between::Allowed(most / (n as f64).sqrt())
            }
        };
        Ok(Self { statistic, runs, centre, between, scratch: Vec::new() })
    }

    /// The logarithm of the figure of a sample of runs and of samples in them.
    fn draw(&mut self, random: &mut fastrand::Rng) -> f64 {
        let mut figures = Vec::with_capacity(self.runs.len());
        for i in 0..self.runs.len() {
            let chosen = match self.between {
                Between::Drawn(_) => random.usize(..self.runs.len()),
                Between::Allowed(_) => i,
            };
            let (run, block) = &self.runs[chosen];
            self.scratch.clear();
            while self.scratch.len() < run.len() {
                let start = random.usize(..run.len());
                let left = run.len() - self.scratch.len();
                for k in 0..(*block).min(left) {
                    self.scratch.push(run[(start + k) % run.len()]);
                }
            }
            figures.push(self.statistic.of(&mut self.scratch));
        }
        let drawn = stats::median(&figures).ln();
        match self.between {
            Between::Drawn(factor) => self.centre + (drawn - self.centre) * factor,
            Between::Allowed(deviation) => drawn + normal(random) * deviation,
        }
    }
}

/// The standard deviation that is allowed for between a run and another of its kind, relative.
fn allowance(run: &[f64], statistic: Statistic) -> f64 {
    let scatter =
        (stats::quantile(run, 0.75) - stats::quantile(run, 0.25)) / stats::median(run) / 1.35;
    match statistic {
        Statistic::Best(better) => RUN_TO_RUN.hypot(luck(run, better)),
        _ => RUN_TO_RUN.max(SCATTER_BETWEEN_RUNS * scatter),
    }
}

/// Standard deviation of the logarithm of the best sample, from how far the few best ones lie apart:
/// the best of many has an extreme-value distribution, whose scale is the mean distance of the best m
/// to the next one (Weissman, "Estimation of parameters and large quantiles based on the k largest
/// observations", 1978). Where many samples come close to the best, it is a ceiling; where few do, luck.
fn luck(run: &[f64], better: Better) -> f64 {
    let mut logs: Vec<f64> = run.iter().map(|x| x.ln()).collect();
    logs.sort_by(f64::total_cmp);
    if better == Better::Higher {
        logs.reverse();
    }
    let m = TOP.min(logs.len().saturating_sub(1));
    if m == 0 {
        return 0.0;
    }
    let scale = logs[..m].iter().map(|x| (x - logs[m]).abs()).sum::<f64>() / m as f64;
    scale * std::f64::consts::PI / 6f64.sqrt()
}

/// Drawing from few runs makes them look more alike than they are: their deviations lack the factor
/// k / (k - 1), and their tails are those of Student's distribution.
fn widening(runs: usize) -> f64 {
    /// Two-sided 5 % points of Student's t, from two degrees of freedom on.
    const T: [f64; 8] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    const NORMAL: f64 = 1.96;
    let k = runs as f64;
    let t = T.get(runs - LEAST_RUNS).copied().unwrap_or(NORMAL * (1.0 + 1.25 / (k - 1.0)));
    (k / (k - 1.0)).sqrt() * t / NORMAL
}

/// How many successive samples are alike: one and twice the sum of the autocorrelations until they
/// are lost in chance, a quarter of the samples at most.
fn block_length(run: &[f64]) -> usize {
    let n = run.len();
    let most = n / 4;
    let mean = run.iter().sum::<f64>() / n.max(1) as f64;
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

/// The median, by selection; the order of `values`, of which there is one at least, is lost.
fn median_of(values: &mut [f64]) -> f64 {
    let (n, middle) = (values.len(), values.len() / 2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if n % 2 == 1 {
        return upper;
    }
    upper.midpoint(below.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// A draw from the normal distribution (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `n` samples around `centre` with a relative spread; successive ones alike by `memory`.
    fn drifting(seed: u64, n: usize, centre: f64, spread: f64, memory: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut drift = 0.0;
        (0..n)
            .map(|_| {
                drift = memory * drift + (1.0 - memory * memory).sqrt() * normal(&mut random);
                centre * (spread * drift).exp()
            })
            .collect()
    }

    #[test]
    fn a_clear_difference_is_clear_and_repeats() {
        let a = Runs(vec![drifting(1, 40, 100.0, 0.01, 0.0)]);
        let b = Runs(vec![drifting(2, 40, 110.0, 0.01, 0.0)]);
        let [low, high] = ci95(&a, &b, Statistic::Median).unwrap();
        assert!(low > 1.04 && low < 1.1 && high > 1.1 && high < 1.16, "{low} {high}");
        assert_eq!(ci95(&a, &b, Statistic::Median), ci95(&a, &b, Statistic::Median));
    }

    #[test]
    fn one_run_a_side_allows_for_what_it_cannot_see() {
        // Samples that hardly scatter: the interval is that of the allowance alone.
        let a = Runs(vec![drifting(1, 400, 100.0, 1e-4, 0.0)]);
        let [low, high] = ci95(&a, &a, Statistic::Median).unwrap();
        let half = 1.96 * RUN_TO_RUN * 2f64.sqrt();
        assert!((low.ln() + half).abs() < 0.1 * half && (high.ln() - half).abs() < 0.1 * half);
    }

    #[test]
    fn several_runs_speak_for_themselves() {
        let side = |medians: &[f64]| {
            Runs(
                medians
                    .iter()
                    .enumerate()
                    .map(|(i, m)| drifting(i as u64, 30, *m, 1e-4, 0.0))
                    .collect(),
            )
        };
        let near = side(&[100.0, 100.1, 99.9, 100.05, 99.95]);
        let [low, high] = ci95(&near, &near, Statistic::Median).unwrap();
        assert!(low > 0.995 && high < 1.005, "{low} {high}");
        let far = side(&[90.0, 100.0, 110.0, 95.0, 105.0]);
        let [low, high] = ci95(&far, &far, Statistic::Median).unwrap();
        assert!(low < 0.9 && high > 1.1, "{low} {high}");
    }

    #[test]
    fn a_best_that_stands_alone_is_luck() {
        let ceiling: Vec<f64> = (0..60).map(|i| 100.0 - f64::from(i) * 0.01).collect();
        assert!(luck(&ceiling, Better::Higher) < 0.001);
        let scattered = [100.0, 93.0, 88.0, 80.0, 71.0, 66.0, 50.0];
        assert!(luck(&scattered, Better::Higher) > 0.2);
        // Of times the shortest.
        assert!(luck(&scattered.map(f64::recip), Better::Lower) > 0.2);
        assert_eq!(luck(&[1.0], Better::Higher), 0.0);
        // Best of exponential scatter: the standard deviation of the best is that of one sample.
        let mut random = fastrand::Rng::with_seed(5);
        let mut run =
            || -> Vec<f64> { (0..200).map(|_| (0.02 * random.f64().ln()).exp().recip()).collect() };
        let mean = (0..200).map(|_| luck(&run(), Better::Higher)).sum::<f64>() / 200.0;
        assert!((mean / (0.02 * 1.2825) - 1.0).abs() < 0.15, "{mean}");
    }

    #[test]
    fn too_little_gives_no_interval() {
        let one = Runs(vec![vec![715.0]]);
        let few = Runs(vec![vec![1.0, 2.0, 3.0]]);
        let enough = Runs(vec![vec![1.0; 6]]);
        assert_eq!(ci95(&one, &enough, Statistic::Median), Err(NoInterval::NoSamples));
        assert_eq!(ci95(&enough, &few, Statistic::Median), Err(NoInterval::TooFew(3)));
        assert!(ci95(&enough, &enough, Statistic::Median).is_ok());
        let runs = Runs(vec![vec![1.0], vec![1.1], vec![0.9]]);
        assert!(ci95(&runs, &runs, Statistic::Median).is_ok());
        assert_eq!(Runs(vec![vec![0.0]]).centre(Statistic::Median), None);
        assert_eq!(Runs::default().centre(Statistic::Median), None);
    }

    #[test]
    fn samples_that_are_alike_are_drawn_together() {
        assert_eq!(block_length(&drifting(3, 200, 1.0, 0.01, 0.0)), 1);
        assert!(block_length(&drifting(3, 200, 1.0, 0.01, 0.9)) > 6);
        assert_eq!(block_length(&[1.0; 50]), 1);
        assert_eq!(block_length(&[1.0, 2.0]), 1);
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        // Runs that differ by 1 % from each other, samples that are alike within a run.
        let mut random = fastrand::Rng::with_seed(7);
        let mut side = |truth: f64| {
            let medians: Vec<f64> =
                (0..5).map(|_| truth * (0.01 * normal(&mut random)).exp()).collect();
            let seed = random.u64(..);
            Runs((0..5).map(|i| drifting(seed + i, 20, medians[i as usize], 0.01, 0.5)).collect())
        };
        let held = (0..60)
            .filter(|_| {
                let [low, high] = ci95(&side(100.0), &side(105.0), Statistic::Median).unwrap();
                low <= 1.05 && 1.05 <= high
            })
            .count();
        assert!(held >= 53, "{held} of 60");
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_inverts_the_ratio(
            a in proptest::collection::vec(50f64..200.0, 6..40),
            b in proptest::collection::vec(50f64..200.0, 6..40),
        ) {
            let (a, b) = (Runs(vec![a]), Runs(vec![b]));
            let [low, high] = ci95(&a, &b, Statistic::Median).unwrap();
            let ratio = b.centre(Statistic::Median).unwrap() / a.centre(Statistic::Median).unwrap();
            prop_assert!(low <= ratio * 1.1 && ratio <= high * 1.1 && low <= high);
            let [under, over] = ci95(&b, &a, Statistic::Median).unwrap();
            prop_assert!((under * high).ln().abs() < 0.2 && (over * low).ln().abs() < 0.2);
        }

        #[test]
        fn selection_gives_the_median(mut xs in proptest::collection::vec(-1e3f64..1e3, 1..50)) {
            let expected = stats::median(&xs);
            prop_assert!((median_of(&mut xs) - expected).abs() < 1e-9);
        }
    }
}
