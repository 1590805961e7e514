//! Decides if there is time to set up one more cell, in addition to the turns of the cells that exist.

use super::policy::{RepetitionPolicy, WarmUp};
use super::{Limits, clock};
use std::time::{Duration, Instant};

/// Time for cells that are set up one after another and then measured in rounds.
#[derive(Debug, Clone, Copy)]
pub struct Affordable {
    /// End of the time; `None` if a number of samples ends the run instead.
    end: Option<Instant>,
    /// Minimum number of turns of each cell.
    turns: u32,
    /// Duration of a round of the accepted cells.
    round: Duration,
}

impl Affordable {
    /// Returns the time until `end`, in which each cell has `turns` turns.
    pub fn until(end: Instant, turns: u32) -> Self {
        Self { end: Some(end), turns, round: Duration::ZERO }
    }

    /// Returns the time that a policy has for its minimum number of rounds.
    pub fn of(policy: &RepetitionPolicy, limits: &Limits) -> Self {
        let turns = policy.fewest + usize::from(policy.warm_up == WarmUp::Round);
        let end = limits.samples.is_none().then(|| limits.at(policy.measure));
        Self { end, turns: turns as u32, round: Duration::ZERO }
    }

    /// True if there is time for a cell that takes `set_up` once and `turn` in every round.
    pub fn allows(&self, set_up: Duration, turn: Duration) -> bool {
        let foreseen = clock::now() + set_up + (self.round + turn) * self.turns;
        self.end.is_none_or(|end| foreseen <= end)
    }

    /// Accepts a cell with turns of this duration.
    pub fn take(&mut self, turn: Duration) {
        self.round += turn;
    }
}
