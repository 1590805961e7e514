//! Verdict on the relative speed of one of several settings, from rounds that contain each setting once.

/// Relative difference up to which two speeds count as equal.
pub const NEGLIGIBLE_DIFFERENCE: f64 = 0.01;

/// Verdict on the speed of a setting relative to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeedVerdict {
    /// The setting is faster.
    Faster,
    /// The setting is slower.
    Slower,
    /// The difference is at most 1 %.
    NoDifference,
    /// There are too few rounds, or they vary too much.
    CannotTell,
}
nodegauge_measure::names!(
    SpeedVerdict,
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
    /// 95 % confidence interval of the ratio, simultaneous over all settings of the sweep.
    pub ci95: [f64; 2],
    /// Smallest relative change that nine of ten sweeps like this one would detect.
    pub visible: f64,
    /// Verdict on the ratio.
    pub verdict: SpeedVerdict,
}

impl SpeedVerdict {
    /// Returns the verdict for a 95 % interval of a relative speed; [`SpeedVerdict::CannotTell`] without an interval.
    /// If the interval excludes differences above `little`, the speeds count as equal.
    pub fn from_interval(ci95: Option<[f64; 2]>, little: f64) -> Self {
        match ci95 {
            Some([low, high]) if high < 1.0 + little && low > 1.0 - little => Self::NoDifference,
            Some([low, _]) if low > 1.0 => Self::Faster,
            Some([_, high]) if high < 1.0 => Self::Slower,
            _ => Self::CannotTell,
        }
    }
}

/// True if the interval of a ratio does not contain 1, so that the settings differ.
pub fn is_different(ci95: [f64; 2]) -> bool {
    !matches!(SpeedVerdict::from_interval(Some(ci95), 0.0), SpeedVerdict::CannotTell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::paired::PairedRounds;

    fn compared(ratios: &[f64], comparisons: usize) -> Option<RelativeSpeed> {
        PairedRounds::from_ratios(ratios.to_vec()).compare(comparisons)
    }

    /// Returns ratios of rounds in which each run takes `1 + noise` times the time of its setting, with the occasional
    /// disturbances of a shared machine, and a drift.
    fn rounds(random: &mut fastrand::Rng, count: usize, noise: f64, speed: f64) -> Vec<f64> {
        let mut run = |round: usize| {
            let spread: f64 = (0..4).map(|_| random.f64() - 0.5).sum();
            let disturbed = if random.f64() < 0.05 { 1.3 } else { 1.0 };
            let drift = 1.0 + 0.002 * round as f64;
            (noise * spread).exp() * disturbed * drift
        };
        (0..count).map(|round| speed * run(round) / run(round)).collect()
    }

    /// Each setting that is compared with the baseline widens the intervals of all settings.
    #[test]
    fn further_comparisons_widen_the_interval_that_decides_the_verdict() {
        let ratios = [1.02, 1.22, 1.08, 1.18, 1.10];
        let [alone, with_others] =
            [1, 6].map(|comparisons| compared(&ratios, comparisons).unwrap());
        assert_eq!(alone.ci95, super::super::joint_block_interval(&ratios, 1).unwrap().ci95);
        assert!(with_others.ci95[0] < alone.ci95[0] && with_others.ci95[1] > alone.ci95[1]);
        assert!(with_others.visible > alone.visible);
        let mut random = fastrand::Rng::with_seed(3);
        for comparisons in [1, 2, 6, 30] {
            for _ in 0..200 {
                let speed = 1.0 + 0.1 * random.f64();
                let found = compared(&rounds(&mut random, 5, 0.05, speed), comparisons).unwrap();
                let [low, high] = found.ci95;
                let contains_one = low <= 1.0 && high >= 1.0;
                match found.verdict {
                    SpeedVerdict::Faster => assert!(low > 1.0, "{found:?}"),
                    SpeedVerdict::Slower => assert!(high < 1.0, "{found:?}"),
                    SpeedVerdict::CannotTell => assert!(contains_one, "{found:?}"),
                    SpeedVerdict::NoDifference => assert!(low > 0.99 && high < 1.01, "{found:?}"),
                }
            }
        }
    }

    /// Maximum number of false verdicts. With a true rate of 5 %, about one of 10,000 tests exceeds it (normal
    /// approximation of the binomial distribution: 50 + 3.7 x 6.9).
    #[test]
    fn equal_settings_are_called_different_in_at_most_75_of_1000_sweeps() {
        let mut random = fastrand::Rng::with_seed(5);
        for (count, others) in [(3, 1), (5, 1), (10, 1), (30, 1), (5, 5), (10, 5)] {
            for noise in [0.001, 0.02, 0.2] {
                let is_called = |_: &usize| {
                    (0..others).any(|_| {
                        let found = compared(&rounds(&mut random, count, noise, 1.0), others);
                        matches!(
                            found.unwrap().verdict,
                            SpeedVerdict::Faster | SpeedVerdict::Slower
                        )
                    })
                };
                let called = (0..1000).filter(is_called).count();
                assert!(called <= 75, "{called} of 1000 with {count} rounds, noise {noise}");
            }
        }
    }

    #[test]
    fn large_differences_are_found_and_small_ones_are_not() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut of = |speed: f64, noise: f64, count: usize| {
            compared(&rounds(&mut random, count, noise, speed), 1).map(|found| found.verdict)
        };
        for _ in 0..20 {
            assert_eq!(of(0.5, 0.02, 10), Some(SpeedVerdict::Slower));
            assert_eq!(of(2.0, 0.02, 10), Some(SpeedVerdict::Faster));
        }
        assert_eq!(
            compared(&[1.001, 1.002, 0.999, 1.0], 3).unwrap().verdict,
            SpeedVerdict::NoDifference
        );
        assert_eq!(compared(&[1.5, 0.7, 1.2, 0.9], 1).unwrap().verdict, SpeedVerdict::CannotTell);
        assert_eq!(compared(&[2.0, 2.0], 1), None);
    }
}
