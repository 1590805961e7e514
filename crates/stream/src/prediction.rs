//! Prediction of the time of a run before its arrays exist, and shortening of the arrays if the time is short.
//!
//! The rates come from a probe of the memory with the threads of the run ([`MemoryRates`]). If the user did not set the
//! length, the arrays are halved as long as they satisfy STREAM's rule. The size check then shows whether a cache has
//! an effect.

use crate::GAUGE;
use crate::SMALLER_ARRAYS_ADVICE;
use crate::arrangement::{self, Arrangement};
use crate::target::TargetConfig;
use nodegauge_arena::{ArenaError, MemoryRates};
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::schedule::{
    Predictable, PredictedTime, RepetitionPolicy, RunLimits, WarmUp,
};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer};
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Minimum time of the size check, in passes of all four kernels over the whole arrays. The check makes two passes of
/// one kernel over half the arrays, and two over the whole arrays.
const SIZE_CHECK: f64 = 0.75;

/// Assumed time for compiling a source; it cannot be predicted.
pub(crate) const COMPILE_TIME: Duration = Duration::from_secs(1);

/// Returns the predicted time of `count` compilations. It counts against the budget, but it is no reason to refuse a
/// run.
pub(crate) fn compile_time(count: usize) -> PredictedTime {
    PredictedTime { min: Duration::ZERO, likely: COMPILE_TIME * count as u32 }
}

/// Steps of a run whose time is proportional to the size of the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArraysCost {
    /// Number of sets of arrays that exist at the same time. Each set is touched first, and each of its elements is
    /// checked at the end.
    pub sets: u32,
    /// Number of times that a set of arrays is filled or checked, in addition to the first touch and the final check.
    pub refills: u32,
    /// Number of passes before the rounds, without the size check.
    pub passes_before_rounds: u32,
    /// Number of passes per round.
    pub passes_per_round: u32,
}

impl ArraysCost {
    /// Cost of one set of arrays, with one pass per round.
    pub(crate) const ONE_SET: Self =
        Self { sets: 1, refills: 0, passes_before_rounds: 0, passes_per_round: 1 };

    /// Predicts the time for the arrays of an arrangement under a policy.
    pub(crate) fn predicted(
        &self,
        arrangement: &Arrangement,
        rates: &MemoryRates,
        policy: &RepetitionPolicy,
    ) -> PredictedTime {
        let config = &arrangement.configs[0];
        let processes = arrangement.configs.len() as u64;
        let arrays = Bytes(config.bytes() * processes);
        let counted: u64 =
            config.kernels.iter().map(|(one, _)| one.counted_bytes(config.element)).sum();
        let pass = rates.rewrite_time(Bytes(counted * config.elements * processes));
        let set_up = self.sets * (rates.touch_time(arrays) + rates.rewrite_time(arrays))
            + self.refills * rates.rewrite_time(arrays)
            + pass.mul_f64(f64::from(self.passes_before_rounds) + SIZE_CHECK);
        let warm_up = u32::from(policy.warm_up != WarmUp::None);
        let round = self.passes_per_round * pass;
        let rounds = warm_up + policy.sufficient_rounds() as u32;
        PredictedTime { min: set_up + (warm_up + 1) * round, likely: set_up + rounds * round }
    }
}

/// Run whose time is predicted before its set-up. Its arrays can be shortened.
struct PredictedArrays<'a> {
    site: &'a MeasuredNode,
    arrangement: &'a mut Arrangement,
    cost: ArraysCost,
    policy: RepetitionPolicy,
    rates: MemoryRates,
    /// Time of the run that does not depend on the arrays.
    fixed: PredictedTime,
}

impl Predictable for PredictedArrays<'_> {
    fn predicted(&self) -> PredictedTime {
        let arrays = self.cost.predicted(self.arrangement, &self.rates, &self.policy);
        self.fixed + arrays
    }

    fn shorten(&mut self) -> bool {
        self.arrangement.shorten(self.site)
    }

    fn shortening_options(&self) -> &str {
        SMALLER_ARRAYS_ADVICE
    }
}

/// Predicts the time of a run with the arrays of `arrangement`, and shortens the arrays if the time is short. `fixed`
/// is the time of steps that do not depend on the arrays, such as compiling. Returns a remark for the message that
/// announces the run.
///
/// # Errors
/// Fails if the user set the budget and the shortest arrays exceed it.
pub(crate) fn admit(
    site: &MeasuredNode,
    arrangement: &mut Arrangement,
    cost: ArraysCost,
    policy: RepetitionPolicy,
    fixed: PredictedTime,
    limits: &RunLimits,
    observer: &mut dyn Observer,
) -> Result<String, Failure> {
    if limits.samples.is_some() {
        return Ok(String::new());
    }
    observer.begin_phase("predicting the time of the run");
    let rates = measure_rates(arrangement)?;
    let before = arrangement.elements();
    let fixed = fixed + PredictedTime::from_time(arrangement::MIN_CHOICE_TIME);
    let mut run = PredictedArrays { site, arrangement, cost, policy, rates, fixed };
    let remark = limits.admit(&mut run)?;
    arrangement.notices.extend(arrangement.shortening_notice(before));
    Ok(remark)
}

/// Measures the rates of memory with all threads of a run.
pub(crate) fn measure_rates(arrangement: &Arrangement) -> Result<MemoryRates, ArenaError> {
    let of_rank = &arrangement.configs[0];
    // The policy of one rank does not apply to the threads of all ranks.
    let policy = match arrangement.ranks {
        Some(_) => MemoryPolicy::Default,
        None => of_rank.policy.clone(),
    };
    let most = Bytes(arrangement.configs.iter().map(TargetConfig::bytes).sum());
    MemoryRates::probe(&arrangement.placement.thread_cpus(), of_rank.pages, &policy, most)
}

impl Arrangement {
    /// Halves the arrays. Returns `false` if the user set their length, or if shorter arrays would violate STREAM's
    /// rule.
    pub(crate) fn shorten(&mut self, site: &MeasuredNode) -> bool {
        let smaller = self.halved_size(site);
        let can = smaller.is_some();
        if let Some(size) = smaller {
            self.resize(size);
        }
        can
    }

    /// Returns a notice about shortened arrays, which had `before` elements per process; `None` if the length is
    /// unchanged.
    pub(crate) fn shortening_notice(&self, before: u64) -> Option<Notice> {
        let now = self.elements();
        let each = self.options.arrays.element.bytes();
        (now < before).then(|| {
            let text = format!(
                "arrays reduced from {} to {} each, to keep the budget",
                Bytes(before * each),
                Bytes(now * each)
            );
            Notice::new(NoticeId::Clamped, GAUGE, text)
        })
    }
}
