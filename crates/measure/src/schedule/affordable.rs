//! Whether there is time for one cell more, beside the turns of those that are set up already.

use super::policy::{Policy, WarmUp};
use super::{Limits, clock};
use std::time::{Duration, Instant};

/// Time for cells that are set up one after another and then have turns round after round.
#[derive(Debug, Clone, Copy)]
pub struct Affordable {
    /// `None` where a number of samples decides, and the time does not.
    end: Option<Instant>,
    /// Turns of each cell at least.
    turns: u32,
    /// What a round of the cells that were taken lasts.
    round: Duration,
}

impl Affordable {
    /// Time until `end`, in which each cell has so many turns.
    pub fn until(end: Instant, turns: u32) -> Self {
        Self { end: Some(end), turns, round: Duration::ZERO }
    }

    /// The time that a policy has for the fewest rounds that say something.
    pub fn of(policy: &Policy, limits: &Limits) -> Self {
        let turns = policy.fewest + usize::from(policy.warm_up == WarmUp::Round);
        let end = limits.samples.is_none().then(|| limits.at(policy.measure));
        Self { end, turns: turns as u32, round: Duration::ZERO }
    }

    /// Whether there is time for a cell that takes `set_up` and then `turn` in every round.
    pub fn allows(&self, set_up: Duration, turn: Duration) -> bool {
        let foreseen = clock::now() + set_up + (self.round + turn) * self.turns;
        self.end.is_none_or(|end| foreseen <= end)
    }

    /// Takes a cell whose turn lasts so long.
    pub fn take(&mut self, turn: Duration) {
        self.round += turn;
    }
}
