//! Prediction of the time of a curve before it allocates memory, and reduction of its working set if the time is short.

use crate::run::SMALLER_SET_ADVICE;
use crate::{Curve, CurveOptions, CurveSetup, Mode, TIMES_LLC, notice, plan_mode};
use nodegauge_arena::{ArenaError, MemoryRates};
use nodegauge_gauge::MeasuredNode;
use nodegauge_kernels::CACHE_LINE_BYTES;
use nodegauge_measure::schedule::{Predictable, PredictedTime, RunLimits, policy};
use nodegauge_measure::{Bytes, Notice, NoticeId, Observer};
use nodegauge_placement::Placement;
use std::time::Duration;

/// Assumed number of passes of a chase through the caches before a sample. A chase passes until the time per load stops
/// falling, which takes at least two passes.
const WARM_PASSES: u32 = 2;
/// Minimum number of rounds of a curve, including the measurement during the set-up.
const MIN_ROUNDS: u32 = 2;
/// Number of passes over the working set during the set-up of a loop: the set is filled, the loop runs, every element
/// is checked, and a call determines the number of passes per timed call.
const SETUP_PASSES: u32 = 4;

/// Predicted times of the steps of a curve.
pub(crate) struct CurveTimes<'a> {
    pub(crate) rates: &'a MemoryRates,
    /// Size in bytes of the caches, which the warm-up of a chase fills.
    pub(crate) held: u64,
}

impl CurveTimes<'_> {
    /// Returns the time of measuring `loops` loops over a working set of `bytes` in total for all workers. For each
    /// loop, the working set is touched, filled and checked, and it is filled again before each turn.
    pub(crate) fn predict_loops(&self, bytes: Bytes, loops: u32) -> PredictedTime {
        let once = self.rates.rewrite_time(bytes);
        let set_up = self.rates.touch_time(bytes) + SETUP_PASSES * loops * once;
        let turn = (1 + loops) * once;
        let rounds = 1 + policy::CURVES_AFTER_SETUP.sufficient_rounds() as u32;
        PredictedTime { min: set_up + MIN_ROUNDS * turn, likely: set_up + rounds * turn }
    }

    /// Returns the time of measuring `loops` loops on one of `threads` workers, over its working set of `bytes`, after
    /// the set-up of these loops. One worker has at least the share of a worker in the rate of all workers, and at most
    /// the whole rate.
    pub(crate) fn predict_one_worker(
        &self,
        bytes: Bytes,
        threads: u64,
        loops: u32,
    ) -> PredictedTime {
        let shortest = self.rates.rewrite_time(bytes);
        let longest = self.rates.rewrite_time(bytes * threads);
        let rounds = 1 + policy::CURVES_AFTER_SETUP.sufficient_rounds() as u32;
        PredictedTime { min: MIN_ROUNDS * loops * shortest, likely: rounds * loops * longest }
    }

    /// Returns the time of measuring the points of curves. A point takes `seconds`, and its warm-up takes the same
    /// time. The shortest run has `least` points, the likely run has `all` points.
    pub(crate) fn predict_points(least: usize, all: usize, seconds: f64) -> PredictedTime {
        let turn = Duration::from_secs_f64(2.0 * seconds);
        let rounds = 1 + policy::CURVES_AFTER_SETUP.sufficient_rounds() as u32;
        PredictedTime { min: MIN_ROUNDS * turn * least as u32, likely: rounds * turn * all as u32 }
    }

    /// Returns the time of measuring a chase through `bytes`, all of which one worker touches.
    pub(crate) fn predict_chase(&self, bytes: Bytes) -> PredictedTime {
        // The cycle is determined and written at random places.
        let set_up = self.rates.touch_time(bytes)
            + self.rates.dependent_load_time(2 * bytes.0 / CACHE_LINE_BYTES as u64);
        let turn = WARM_PASSES
            * self.rates.dependent_load_time(bytes.0.min(self.held) / CACHE_LINE_BYTES as u64);
        let rounds = 1 + policy::CURVES_AFTER_SETUP.sufficient_rounds() as u32;
        PredictedTime { min: set_up + MIN_ROUNDS * turn, likely: set_up + rounds * turn }
    }
}

/// Curve that has not been set up yet.
struct PredictedCurve<'a> {
    curve: Curve,
    site: &'a MeasuredNode,
    placement: &'a Placement,
    options: &'a mut CurveOptions,
    mode: &'a mut Box<dyn Mode>,
    rates: MemoryRates,
    /// True if the user set the largest working set.
    is_given: bool,
    /// Share of the time of the whole run that this curve may use, 0 to 1.
    share: f64,
}

impl PredictedCurve<'_> {
    fn setup(&self) -> CurveSetup<'_> {
        CurveSetup { site: self.site, placement: self.placement, options: self.options }
    }
}

impl Predictable for PredictedCurve<'_> {
    fn predicted(&self) -> PredictedTime {
        let times = CurveTimes { rates: &self.rates, held: self.setup().held() };
        let PredictedTime { min: least, likely } = self.mode.predicted(&times);
        PredictedTime { min: least.div_f64(self.share), likely: likely.div_f64(self.share) }
    }

    /// Halves the working set, unless it would become too small for the size rule.
    fn shorten(&mut self) -> bool {
        let setup = self.setup();
        let half = Bytes(setup.largest(&mut Vec::new()).0 / 2);
        let is_enough = setup.llc().is_some_and(|llc| half.0 >= llc.0 * TIMES_LLC);
        if self.is_given || !is_enough {
            return false;
        }
        self.options.max_working_set = Some(half);
        let Ok(mode) = plan_mode(self.curve, self.setup(), &mut Vec::new()) else { return false };
        *self.mode = mode;
        true
    }

    fn shortening_options(&self) -> &str {
        SMALLER_SET_ADVICE
    }
}

/// Predicts the time of a curve, and reduces its working set if the time is short. `limits` are the limits of the whole
/// run; the curve gets its share of them.
///
/// # Errors
/// Fails if the user set the budget and the smallest working set exceeds it.
pub(crate) fn admit(
    curve: Curve,
    site: &MeasuredNode,
    placement: &Placement,
    options: &mut CurveOptions,
    mode: &mut Box<dyn Mode>,
    limits: &RunLimits,
    observer: &mut dyn Observer,
) -> Result<Option<Notice>, ArenaError> {
    if limits.samples.is_some() {
        return Ok(None);
    }
    observer.begin_phase("predicting the time of the run");
    let pages = CurveSetup { site, placement, options }.pages();
    let rates =
        MemoryRates::probe(&placement.thread_cpus(), pages, &options.policy, mode.memory())?;
    let before = mode.memory();
    let share = options.budget.time.as_secs_f64() / limits.budget.as_secs_f64();
    let is_given = options.max_working_set.is_some();
    let mut run = PredictedCurve { curve, site, placement, options, mode, rates, is_given, share };
    limits.admit(&mut run)?;
    let now = run.mode.memory();
    let text = || format!("memory reduced from {before} to {now} to keep the budget");
    Ok((now < before).then(|| notice(NoticeId::Clamped, text())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::{BytesPerSec, Seconds};

    #[test]
    fn prediction_of_loops_contains_their_checks() {
        let rate = BytesPerSec((1 << 30) as f64);
        let rates = MemoryRates { first_touch: rate, rewrite: rate, load: Seconds(1e-7) };
        let times = CurveTimes { rates: &rates, held: 1 << 25 };
        // A pass takes an eighth of a second. Each of ten loops has a set-up of four passes; two rounds follow, each with
        // a refill.
        let ten = times.predict_loops(Bytes::mib(128), 10);
        assert_eq!(ten.min, Duration::from_millis(125) * (1 + 40 + 2 * 11));
        let one = times.predict_one_worker(Bytes::mib(64), 2, 4);
        assert_eq!(one.min, Duration::from_micros(62_500) * (2 * 4));
        assert!(one.likely > 2 * one.min);
    }
}
