//! Decision before a run: a run that is predicted to exceed its budget is shortened. It is refused
//! only if the user set the budget and the run cannot be shortened further. The decision is made
//! once, before the setup. Later, a late run is not refused; it ends with the results so far.

use super::RunLimits;
use crate::failure::Failure;
use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

/// Factor by which the budget in the hint of a refusal exceeds the predicted time. Other load that
/// begins after the prediction halves the rates of a node whose CPUs are all in use.
const UNCERTAINTY: f64 = 2.0;

/// Predicted time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PredictedTime {
    /// Time of the shortest run that has a figure of every cell: set-up, one round after the warm-up, and checks.
    pub min: Duration,
    /// Time with a sufficient number of rounds, including steps whose length can only be assumed.
    pub likely: Duration,
}

impl PredictedTime {
    /// Returns the prediction for a part that always takes this time.
    pub fn from_time(time: Duration) -> Self {
        Self { min: time, likely: time }
    }
}

/// Adds the times of two consecutive parts of a run.
impl Add for PredictedTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { min: self.min + other.min, likely: self.likely + other.likely }
    }
}

impl Sum for PredictedTime {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}

/// Run that can predict its time and be shortened, before its setup.
pub trait Predictable {
    /// Returns the predicted time of the run as it is now, from the start of the set-up.
    fn predicted(&self) -> PredictedTime;

    /// Shortens the run by one step: first the arrays, then the cells. Returns `false` if it cannot
    /// be shortened further.
    fn shorten(&mut self) -> bool;

    /// Returns the options with which the user can shorten the run, e.g. `smaller arrays (--size)`.
    fn shortening_options(&self) -> &str;
}

impl RunLimits {
    /// Shortens a run until its predicted time keeps the budget. Returns a remark for the announcement of the run
    /// if it still exceeds a default budget, otherwise an empty text.
    ///
    /// # Errors
    /// Fails if the user set the budget and the shortest run exceeds it. The hint gives a budget that suffices.
    pub fn admit(&self, run: &mut dyn Predictable) -> Result<String, Failure> {
        if self.samples.is_some() {
            return Ok(String::new());
        }
        let elapsed = self.elapsed();
        while elapsed + run.predicted().likely > self.budget {
            if !run.shorten() {
                break;
            }
        }
        self.admit_as_planned(run.predicted(), run.shortening_options())
    }

    /// Admits a run that cannot be shortened, as [`Self::admit`] does. `smaller` names the options with which the user
    /// can shorten it.
    ///
    /// # Errors
    /// Fails as [`Self::admit`].
    pub fn admit_as_planned(&self, time: PredictedTime, smaller: &str) -> Result<String, Failure> {
        let elapsed = PredictedTime::from_time(self.elapsed());
        let PredictedTime { min, likely } = elapsed + time;
        if self.samples.is_some() || min <= self.budget + self.grace() {
            return Ok(String::new());
        }
        let min = min.as_secs_f64();
        if !self.is_set_by_user {
            return Ok(format!(": takes at least {:.0} s", min.ceil()));
        }
        let enough = (UNCERTAINTY * likely.as_secs_f64().max(min)).ceil();
        let reason = format!(
            "the run takes at least {min:.1} s, and up to {enough:.0} s with enough rounds on a busy node"
        );
        Err(self.too_short(&reason).hint(format!("use --budget {enough:.0}, or {smaller}")))
    }

    /// Returns the refusal of a run that ended before anything was measured. `smaller` names the options with which the
    /// user can shorten it.
    pub fn unmeasured_failure(&self, smaller: &str) -> Failure {
        let failure = self.too_short("the run ended before anything was measured");
        failure.hint(format!("use a longer --budget, or {smaller}"))
    }

    fn too_short(&self, reason: &str) -> Failure {
        let budget = self.budget.as_secs_f64();
        Failure::usage(format!("--budget {budget} is too short: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Budget;

    const SECOND: Duration = Duration::from_secs(1);

    /// Run whose arrays can be halved `left` times.
    struct Halved {
        time: Duration,
        left: u32,
    }

    impl Predictable for Halved {
        fn predicted(&self) -> PredictedTime {
            PredictedTime { min: self.time, likely: 2 * self.time }
        }
        fn shorten(&mut self) -> bool {
            let can = self.left > 0;
            if can {
                self.left -= 1;
                self.time /= 2;
            }
            can
        }
        fn shortening_options(&self) -> &str {
            "smaller arrays (--size)"
        }
    }

    fn asked(seconds: u32) -> RunLimits {
        RunLimits::from_budget(Budget::new(Some(seconds * SECOND), SECOND), None)
    }

    #[test]
    fn run_is_shortened_to_fit_budget() {
        let mut run = Halved { time: 80 * SECOND, left: 10 };
        assert_eq!(asked(10).admit(&mut run).unwrap(), "");
        assert_eq!(run.left, 5);
        assert!(asked(10).admit(&mut Halved { time: 9 * SECOND, left: 0 }).is_ok());
    }

    #[test]
    fn impossible_budget_is_refused_and_sufficient_budget_is_named() {
        let mut run = Halved { time: 80 * SECOND, left: 2 };
        let refused = asked(10).admit(&mut run).unwrap_err();
        assert_eq!(
            refused.message,
            "--budget 10 is too short: the run takes at least 20.0 s, and up to 81 s with enough rounds on a busy node"
        );
        let hint = refused.hint.unwrap();
        // Twice the likely time, and a little for the time since the start.
        assert_eq!(hint, "use --budget 81, or smaller arrays (--size)");
        assert!(asked(81).admit(&mut run).is_ok());
    }

    #[test]
    fn default_budget_never_refuses_run() {
        let usual = RunLimits::new(10 * SECOND, None);
        let mut short = Halved { time: 9 * SECOND, left: 4 };
        assert_eq!(usual.admit(&mut short).unwrap(), "");
        assert_eq!(short.left, 3);
        let mut long = Halved { time: 90 * SECOND, left: 1 };
        assert_eq!(usual.admit(&mut long).unwrap(), ": takes at least 46 s");
        assert_eq!(long.left, 0);
    }

    #[test]
    fn requested_samples_ignore_budget() {
        let mut run = Halved { time: 90 * SECOND, left: 1 };
        assert_eq!(RunLimits { samples: Some(3), ..asked(2) }.admit(&mut run).unwrap(), "");
        assert_eq!(run.left, 1);
    }
}
