//! Rule that ends the repetition of a measurement: the best and the median of every figure are stable, the time is used
//! up, or the requested number of samples was taken.

use crate::Fraction;
use crate::stats::{BetterDirection, Summary};
use std::fmt;
use std::time::Duration;

/// Reason why the repetition of a measurement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Best and median no longer change.
    Stable,
    /// The time is used up.
    Budget,
    /// The requested number of samples was taken.
    Samples,
    /// The user or the system requested the end of the run.
    Interrupted,
    /// A target that the cells share was lost: a device, a rank, a launcher.
    Lost,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stable => "best and median stable",
            Self::Budget => "time budget spent",
            Self::Samples => "requested number of samples",
            Self::Interrupted => "interrupted",
            Self::Lost => "target lost",
        })
    }
}

/// Conditions that end the repetition of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopRule {
    /// Minimum number of samples, unless the time is used up earlier.
    pub min_samples: usize,
    /// Exact number of samples, regardless of the time.
    pub exact_samples: Option<usize>,
    /// Minimum time. Regimes of a virtual machine last seconds, and the samples should cover all regimes.
    pub min_time: Duration,
    /// Maximum time of the repetition.
    pub max_time: Duration,
    /// Relative tolerance of stable figures. The second half of the samples improves the best by less than this share,
    /// and both ends of the 95 % interval of the median are nearer to the median than this share.
    pub tolerance: Fraction,
}

impl StopRule {
    /// Returns the reason to stop after `elapsed` with these samples of each figure in order of time; `None` to
    /// continue.
    pub fn stop_reason(
        &self,
        figures: &[&[f64]],
        elapsed: Duration,
        better: BetterDirection,
    ) -> Option<StopReason> {
        let n = figures.iter().map(|samples| samples.len()).min().unwrap_or(0);
        if let Some(exact_samples) = self.exact_samples {
            return (n >= exact_samples).then_some(StopReason::Samples);
        }
        if elapsed >= self.max_time {
            return Some(StopReason::Budget);
        }
        let enough = n >= self.min_samples.max(6) && elapsed >= self.min_time;
        (enough && figures.iter().all(|samples| self.is_stable(samples, better)))
            .then_some(StopReason::Stable)
    }

    fn is_stable(&self, samples: &[f64], better: BetterDirection) -> bool {
        let first_half = Summary::from_samples(&samples[..samples.len() / 2], better);
        let all = Summary::from_samples(samples, better);
        let (Some(first_half), Some(all)) = (first_half, all) else { return false };
        let best_is = (all.best / first_half.best - 1.0).abs() <= self.tolerance.0;
        let median_is = all.ci95.is_some_and(|[low, high]| {
            high - all.median <= self.tolerance.0 * all.median
                && all.median - low <= self.tolerance.0 * all.median
        });
        best_is && median_is
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> StopRule {
        StopRule {
            min_samples: 10,
            exact_samples: None,
            min_time: Duration::from_secs(1),
            max_time: Duration::from_secs(10),
            tolerance: Fraction(0.01),
        }
    }

    #[test]
    fn stable_samples_end_repetition_after_minimum_time() {
        let steady = vec![100.0; 12];
        let decide = |seconds| {
            rule().stop_reason(&[&steady], Duration::from_secs(seconds), BetterDirection::Higher)
        };
        assert_eq!(decide(0), None);
        assert_eq!(decide(2), Some(StopReason::Stable));
    }

    #[test]
    fn unstable_samples_use_whole_budget() {
        let scattered: Vec<f64> = (0..40).map(|i| 100.0 - f64::from(i % 2) * 40.0).collect();
        let rising: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i)).collect();
        for samples in [&scattered, &rising] {
            let decide = |seconds| {
                rule().stop_reason(
                    &[samples],
                    Duration::from_secs(seconds),
                    BetterDirection::Higher,
                )
            };
            assert_eq!(decide(5), None);
            assert_eq!(decide(10), Some(StopReason::Budget));
        }
    }

    #[test]
    fn requested_samples_are_taken_after_the_time_limit() {
        let rule = StopRule { exact_samples: Some(3), ..rule() };
        let late = Duration::from_secs(100);
        assert_eq!(rule.stop_reason(&[&[1.0, 2.0]], late, BetterDirection::Higher), None);
        assert_eq!(
            rule.stop_reason(&[&[1.0, 2.0, 3.0]], late, BetterDirection::Higher),
            Some(StopReason::Samples)
        );
    }
}
