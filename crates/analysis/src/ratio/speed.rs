//! Verdict on the relative speed of one of several settings, from rounds that contain each setting once.

use super::of_blocks;
use nodegauge_measure::stats;

/// Probability that a sweep of equal settings calls any of them different. It is below the 5 % of the intervals that
/// are shown, because a reader looks at all rows.
const FALSE_ALARMS: f64 = 0.01;
/// Relative difference that counts as none.
const LITTLE: f64 = 0.01;

/// Verdict on the speed of a setting relative to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// The setting is faster.
    Faster,
    /// The setting is slower.
    Slower,
    /// The difference is at most 1 %.
    NoDifference,
    /// There are too few rounds, or they scatter too much.
    CannotTell,
}
nodegauge_measure::names!(
    Speed,
    "verdict",
    Faster = "faster",
    Slower = "slower",
    NoDifference = "no difference",
    CannotTell = "cannot tell"
);

/// Relative speed of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeSpeed {
    /// Speed divided by that of the baseline.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio.
    pub ci95: [f64; 2],
    /// Smallest relative change that nine of ten sweeps like this one would detect.
    pub visible: f64,
    /// Verdict on the ratio.
    pub verdict: Speed,
}

/// Compares a setting with the baseline, by the ratio of their speeds in each round. `comparisons` is the number of
/// settings that are compared with the baseline; the verdicts on all of them hold together (Bonferroni). Returns `None`
/// with fewer than three rounds.
pub fn compared(ratios: &[f64], comparisons: usize) -> Option<RelativeSpeed> {
    let found = of_blocks(ratios)?;
    let freedom = (ratios.len() - 1) as f64;
    let [low, high] = found.ci95;
    let half = (high / low).ln() / 2.0;
    let tail = FALSE_ALARMS / 2.0 / comparisons.max(1) as f64;
    let wider = stats::student(stats::normal_quantile(tail), freedom)
        / stats::student(stats::TWO_SIDED, freedom);
    let verdict = if high < 1.0 + LITTLE && low > 1.0 - LITTLE {
        Speed::NoDifference
    } else if found.ratio.ln() > half * wider {
        Speed::Faster
    } else if found.ratio.ln() < -half * wider {
        Speed::Slower
    } else {
        Speed::CannotTell
    };
    Some(RelativeSpeed { ratio: found.ratio, ci95: found.ci95, visible: found.visible, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns ratios of rounds in which each run takes `1 + noise` times as long as its setting, with the occasional
    /// disturbance of a shared machine, and a drift.
    fn rounds(random: &mut fastrand::Rng, count: usize, noise: f64, speed: f64) -> Vec<f64> {
        let mut run = |round: usize| {
            let spread: f64 = (0..4).map(|_| random.f64() - 0.5).sum();
            let disturbed = if random.f64() < 0.05 { 1.3 } else { 1.0 };
            let drift = 1.0 + 0.002 * round as f64;
            (noise * spread).exp() * disturbed * drift
        };
        (0..count).map(|round| speed * run(round) / run(round)).collect()
    }

    #[test]
    fn equal_settings_are_called_different_in_at_most_5_of_100_sweeps() {
        let mut random = fastrand::Rng::with_seed(5);
        for (count, others) in [(3, 1), (5, 1), (10, 1), (30, 1), (5, 5), (10, 5)] {
            for noise in [0.001, 0.02, 0.2] {
                let is_called = |_: &usize| {
                    (0..others).any(|_| {
                        let found = compared(&rounds(&mut random, count, noise, 1.0), others);
                        matches!(found.unwrap().verdict, Speed::Faster | Speed::Slower)
                    })
                };
                let called = (0..200).filter(is_called).count();
                assert!(called <= 10, "{called} of 200 with {count} rounds, noise {noise}");
            }
        }
    }

    #[test]
    fn differences_are_found_and_small_ones_are_none() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut of = |speed: f64, noise: f64, count: usize| {
            compared(&rounds(&mut random, count, noise, speed), 1).map(|found| found.verdict)
        };
        for _ in 0..20 {
            assert_eq!(of(0.5, 0.02, 10), Some(Speed::Slower));
            assert_eq!(of(2.0, 0.02, 10), Some(Speed::Faster));
        }
        assert_eq!(compared(&[1.001, 1.002, 0.999, 1.0], 3).unwrap().verdict, Speed::NoDifference);
        assert_eq!(compared(&[1.5, 0.7, 1.2, 0.9], 1).unwrap().verdict, Speed::CannotTell);
        assert_eq!(compared(&[2.0, 2.0], 1), None);
    }
}
