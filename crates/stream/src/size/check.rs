//! Check whether caches hold part of the arrays. The same loop runs interleaved over half of each array and over the
//! whole arrays. If the two rates agree within [`MAX_UNCACHED_RATIO`], longer arrays would not change the figures.
//!
//! Each measurement traverses the half or the whole arrays twice and keeps the second time. The caches then already
//! contain as much of the data as fits.

use crate::config::SizeCheckConfig;
use crate::kernels::Kernel;
use crate::target::Target;
use nodegauge_arena::{ArenaError, ArrayShare};
use nodegauge_measure::Observer;
use nodegauge_measure::schedule::{RepetitionPolicy, RunLimits, Schedule, policy};
use nodegauge_measure::stats::{self, BetterDirection, Summary};

/// Maximum ratio of the rate over half an array to the rate over the whole array at which caches have no effect.
pub(crate) const MAX_UNCACHED_RATIO: f64 = 1.05;

/// Result of the size check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SizeCheck {
    /// Kernel of the loop that was measured.
    pub kernel: Kernel,
    /// Median ratio of the rate over half the arrays to the rate over the whole arrays.
    pub ratio: f64,
    /// 95 % confidence interval of the median; with fewer than six ratios, the range of all ratios.
    pub within: [f64; 2],
    /// Number of rounds from which the ratio was computed.
    pub rounds: usize,
}

impl SizeCheck {
    /// Returns the result; `None` if there are too few ratios.
    fn from_ratios(kernel: Kernel, ratios: &[f64]) -> Option<Self> {
        let enough = ratios.len() >= policy::SIZE_CHECK.min_rounds;
        let summary = Summary::from_samples(ratios, BetterDirection::Higher).filter(|_| enough)?;
        let all = [stats::quantile(ratios, 0.0), stats::quantile(ratios, 1.0)];
        let within = summary.ci95.unwrap_or(all);
        Some(Self { kernel, ratio: summary.median, within, rounds: summary.n })
    }

    /// True if caches increase the rate over half the arrays by more than the noise.
    pub(crate) fn finds_cache(&self) -> bool {
        self.within[0] > MAX_UNCACHED_RATIO
    }

    /// Returns the reason why figures of these arrays are suspect; `None` if caches have no effect.
    pub(crate) fn cache_doubt(&self) -> Option<String> {
        self.finds_cache().then(|| {
            format!(
                "{} is {:.2} times as fast over half of each array as over the whole: a cache \
                 holds part of the arrays; use a larger --size",
                self.kernel, self.ratio
            )
        })
    }

    /// Converts the result for the record.
    pub(crate) fn to_config(self) -> SizeCheckConfig {
        SizeCheckConfig {
            kernel: self.kernel.name().to_owned(),
            half_over_whole: self.ratio,
            within: self.within,
            rounds: self.rounds,
            cached: self.finds_cache(),
        }
    }
}

/// Checks the arrays of `target` with the loop at index `i`. `targets` is the number of targets with arrays of this
/// length. Returns `None` if the target cannot run over parts of the arrays, the time is too short, or the user
/// interrupts the run.
pub(crate) fn run(
    target: &mut dyn Target,
    i: usize,
    targets: u32,
    limits: RunLimits,
    observer: &mut dyn Observer,
) -> Result<Option<SizeCheck>, ArenaError> {
    if limits.elapsed() >= limits.budget.mul_f64(policy::SIZE_CHECK.measurement_share.0) {
        return Ok(None);
    }
    let loops = target.loops().to_vec();
    let kernel = loops[i].kernel();
    target.set_loops(vec![loops[i].clone()])?;
    let limits = RunLimits { samples: None, ..limits };
    let most = if targets == 1 {
        policy::SIZE_CHECK.max_rounds
    } else {
        Some(policy::SIZE_CHECK.min_rounds)
    };
    // The check belongs to the set-up, whose failure refuses the run; a series would keep a part of it.
    let mut schedule =
        Schedule::new(RepetitionPolicy { max_rounds: most, ..policy::SIZE_CHECK }, limits, 2);
    let ran = schedule.run(observer, None, |turn| {
        let part = ArrayShare { index: 0, count: 1 + turn.cell };
        let warm = target.run_part(part)?;
        Ok::<_, ArenaError>(if warm.is_some() {
            target.run_part(part)?.into_iter().collect()
        } else {
            vec![]
        })
    });
    target.set_loops(loops)?;
    ran?;
    let rounds = schedule.rounds();
    let clean = schedule.undisturbed_rounds();
    let counted = if clean.len() >= policy::SIZE_CHECK.min_rounds {
        clean
    } else {
        (0..rounds.len()).collect()
    };
    let mut ratios: Vec<f64> = Vec::new();
    for at in counted {
        let round = &rounds[at];
        ratios.push(round[0].seconds[0] / (2.0 * round[1].seconds[0]));
    }
    Ok(SizeCheck::from_ratios(kernel, &ratios))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_is_detected_if_the_effect_is_significant() {
        let finds =
            |ratios: &[f64]| SizeCheck::from_ratios(Kernel::Triad, ratios).unwrap().finds_cache();
        assert!(!finds(&[1.0, 1.01, 0.99]));
        assert!(finds(&[1.3, 1.25, 1.4]));
        // The median is above the limit, but the difference is not significant.
        assert!(!finds(&[1.3, 1.25, 1.0]));
        assert!(!finds(&[1.07, 1.2, 0.8, 1.3, 0.9, 1.1, 1.0]));
        assert!(finds(&[1.07, 1.08, 1.07, 1.06, 1.09, 1.07, 1.08]));
        // Two rounds are too few to detect a cache.
        assert_eq!(SizeCheck::from_ratios(Kernel::Triad, &[1.4, 1.3]), None);
    }
}
