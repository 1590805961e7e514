//! Decides whether the remaining time is sufficient to set up and measure one more cell.

use super::policy::{RepetitionPolicy, WarmUp};
use super::{RunLimits, clock};
use std::time::{Duration, Instant};

/// Remaining time for cells that are set up one after another and then measured in rounds.
#[derive(Debug, Clone, Copy)]
pub struct RemainingTime {
    /// End of the available time; `None` if the run ends after a number of samples instead of a
    /// time.
    end: Option<Instant>,
    /// Minimum number of measurements (turns) of each cell.
    turns: u32,
    /// Duration of a round of all accepted cells.
    round: Duration,
}

impl RemainingTime {
    /// Returns the time until `end`, in which each cell is measured `turns` times.
    pub fn until(end: Instant, turns: u32) -> Self {
        Self { end: Some(end), turns, round: Duration::ZERO }
    }

    /// Returns the time that a policy has for its minimum number of rounds.
    pub fn new(policy: &RepetitionPolicy, limits: &RunLimits) -> Self {
        let turns = policy.min_rounds + usize::from(policy.warm_up == WarmUp::Round);
        let end = limits.samples.is_none().then(|| limits.time_at_share(policy.measurement_share));
        Self { end, turns: turns as u32, round: Duration::ZERO }
    }

    /// True if the time is sufficient for one more cell, whose setup takes `set_up` and each of
    /// whose measurements takes `turn`.
    pub fn allows(&self, set_up: Duration, turn: Duration) -> bool {
        let expected_end = clock::now() + set_up + (self.round + turn) * self.turns;
        self.end.is_none_or(|end| expected_end <= end)
    }

    /// Accepts a cell whose measurements take `turn` each.
    pub fn accept(&mut self, turn: Duration) {
        self.round += turn;
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy;
    use super::*;

    #[test]
    fn cells_are_accepted_while_time_suffices() {
        let second = Duration::from_secs(1);
        let mut affordable = RemainingTime::until(clock::now() + 100 * second, 3);
        // Two cells of 15 s take 90 s in three turns.
        assert!(affordable.allows(second, 15 * second));
        affordable.accept(15 * second);
        assert!(affordable.allows(second, 15 * second));
        assert!(!affordable.allows(20 * second, 15 * second));
        affordable.accept(15 * second);
        assert!(affordable.allows(second, second));
        assert!(!affordable.allows(second, 5 * second));
    }

    #[test]
    fn cells_are_always_accepted_with_requested_samples() {
        let hour = Duration::from_secs(3600);
        let limits = |samples| RunLimits::new(Duration::from_secs(10), samples);
        let of = |samples| RemainingTime::new(&policy::SWEEP, &limits(samples));
        assert!(of(Some(3)).allows(hour, hour));
        assert!(!of(None).allows(hour, hour));
        assert!(of(None).allows(Duration::ZERO, Duration::ZERO));
    }
}
