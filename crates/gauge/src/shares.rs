//! Division of a time budget among gauges that run one after another.

use crate::{Gauge, MeasuredNode, SummaryRequest};
use std::time::Duration;

/// Shares of a time budget, in proportion to the time that each gauge usually takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetShares {
    budget: Duration,
    /// Usual time of each gauge; zero if the gauge cannot be planned.
    usual: Vec<Duration>,
}

impl BudgetShares {
    /// Divides `budget` among gauges in proportion to the times that they usually take.
    pub fn new(budget: Duration, usual: Vec<Duration>) -> Self {
        Self { budget, usual }
    }

    /// Returns the budget of the gauge at index `at`, after the earlier gauges have used `spent`. The remaining time is
    /// divided in proportion to the usual times. Each gauge gets at least half of its share of the whole budget,
    /// because a gauge with a long setup could otherwise leave no time for the last gauge.
    pub fn part_budget(&self, at: usize, spent: Duration) -> Duration {
        let left = self.budget.saturating_sub(spent);
        let min = self.part(at, self.budget / 2, &self.usual);
        self.part(at, left, &self.usual[at..]).max(min)
    }

    /// Returns the share of `time` for the gauge at index `at`, among gauges with these usual times.
    fn part(&self, at: usize, time: Duration, among: &[Duration]) -> Duration {
        let all: Duration = among.iter().sum();
        time.mul_f64(self.usual[at].as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

/// Returns the time that the plan of each gauge for the request `ask` needs; zero if the gauge cannot be planned.
pub fn usual_times(
    gauges: &[&'static dyn Gauge],
    site: &MeasuredNode,
    ask: &SummaryRequest<'_>,
) -> Vec<Duration> {
    gauges.iter().map(|gauge| usual_time(*gauge, site, ask).unwrap_or_default()).collect()
}

/// Returns the time that the plan of a gauge needs; `None` if it is unknown or the gauge cannot be planned.
fn usual_time(
    gauge: &dyn Gauge,
    site: &MeasuredNode,
    ask: &SummaryRequest<'_>,
) -> Option<Duration> {
    gauge.summary_plan(site, ask).ok()??.expected_cost().time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_budget_never_exceed_it() {
        let seconds = Duration::from_secs_f64;
        // The fourth gauge measures nothing in this command.
        let usual = [10.0, 8.0, 3.0, 0.0, 4.0].map(seconds).to_vec();
        for (budget, misses) in [(30.0, 1.1), (30.0, 0.5), (10.0, 1.0), (300.0, 1.05)] {
            let divided = BudgetShares { budget: seconds(budget), usual: usual.clone() };
            let mut spent = Duration::ZERO;
            let mut shares = Vec::new();
            for at in 0..usual.len() {
                let share = divided.part_budget(at, spent);
                shares.push(share);
                spent += share.mul_f64(misses);
            }
            assert_eq!(shares[3], Duration::ZERO);
            let max = budget + f64::max(1.0, budget / 10.0);
            assert!(spent.as_secs_f64() <= max, "{budget} s, {misses}: {spent:?}");
            if misses == 1.0 {
                assert!((spent.as_secs_f64() - budget).abs() < 1e-6, "{spent:?}");
                assert!((shares[0].as_secs_f64() - 0.4 * budget).abs() < 1e-6, "{shares:?}");
            }
        }
        // The last gauge gets its minimum even if the others exceed the budget.
        let exceeded = BudgetShares { budget: seconds(25.0), usual };
        assert_eq!(exceeded.part_budget(4, seconds(80.0)), seconds(2.0));
        let unknown = BudgetShares { budget: seconds(3.0), usual: vec![Duration::ZERO] };
        assert_eq!(unknown.part_budget(0, seconds(1.0)), Duration::ZERO);
    }
}
