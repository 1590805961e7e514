//! Prediction of the time of a run before its first start. Sizes and launches are left out if the time is short.
//!
//! The time of a start depends on the launcher and is known only after the first start. If starts take longer than
//! assumed, the run ends early with its results so far. Each size takes at least the minimum time limit.

use super::{MIN_LIMIT, MessagesPlan, QUICK_SIZES, RankPairs};
use crate::GAUGE;
use nodegauge_measure::record::doubt;
use nodegauge_measure::schedule::{Predictable, PredictedTime, RunLimits};
use nodegauge_measure::{Failure, Notice, NoticeId};
use std::time::Duration;

/// Likely duration of the measurement of one size, as a multiple of the minimum time limit: the minimum number of
/// batches for a median, each of which may take as long as this limit.
const LIKELY_LIMITS: u32 = doubt::TYPICAL_RULE.min as u32;
/// Assumed duration of a start by a launcher. The actual duration is unknown before the first start.
const LAUNCHING: Duration = Duration::from_secs(1);

impl MessagesPlan {
    /// Shortens the run until its predicted time is within the budget, and adds notices about what is left out. Divides
    /// the remaining time among the sizes.
    ///
    /// # Errors
    /// Fails if the user set the budget and the shortest run exceeds it.
    pub(crate) fn admit(&mut self, limits: &RunLimits) -> Result<(), Failure> {
        let sizes_before = self.options.sizes.clone();
        let launches_before = self.launches.len();
        limits.admit(self)?;
        if self.options.sizes != sizes_before {
            let text = "only the sizes of a quick run are measured, to keep the budget";
            self.notices.push(Notice::new(NoticeId::Clamped, GAUGE, text.to_owned()));
        }
        if self.launches.len() < launches_before {
            let text = format!(
                "{} of {launches_before} groups of ranks are measured, to keep the budget",
                self.launches.len()
            );
            self.notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        }
        self.divide(limits.budget.saturating_sub(limits.elapsed()));
        Ok(())
    }

    /// Returns the sizes of a quick run; `None` if the user set the sizes, or if they are invalid for a pattern.
    fn fewer_sizes(&self) -> Option<Vec<u64>> {
        let mut patterns = self.options.patterns.iter();
        let is_valid = patterns.all(|one| !one.valid_sizes(&QUICK_SIZES).is_empty());
        (self.options.sizes.is_none() && is_valid).then(|| QUICK_SIZES.to_vec())
    }

    /// Returns the index of the last launch that is not needed, because earlier launches measure all of its patterns.
    fn spare_launch(&self) -> Option<usize> {
        (1..self.launches.len()).rev().find(|number| {
            let earlier = &self.launches[..*number];
            let mut patterns = self.launches[*number].patterns.iter();
            patterns.all(|pattern| earlier.iter().any(|one| one.patterns.contains(pattern)))
        })
    }
}

impl Predictable for MessagesPlan {
    fn predicted(&self) -> PredictedTime {
        let min = MIN_LIMIT * self.size_count() as u32;
        let starts = self.launches.len() * self.choice.mpis.len();
        PredictedTime { min, likely: LIKELY_LIMITS * min + LAUNCHING * starts as u32 }
    }

    /// Reduces the sizes to those of a quick run. If the sizes cannot be reduced, leaves out the last group of ranks
    /// whose patterns other groups measure, unless the user chose the groups.
    fn shorten(&mut self) -> bool {
        if !self.osu.is_empty() {
            return false;
        }
        if let Some(sizes) = self.fewer_sizes() {
            self.options.sizes = Some(sizes);
            return true;
        }
        let spare = self.spare_launch().filter(|_| self.rank_pairs == RankPairs::EachDistance);
        if let Some(number) = spare {
            self.launches.remove(number);
        }
        spare.is_some()
    }

    fn shortening_options(&self) -> &str {
        "fewer sizes (--sizes) or patterns"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MessageOptions;
    use crate::transport::Fabric;
    use nodegauge_machine::{Topology, TopologySource};
    use nodegauge_measure::schedule::Budget;

    /// Returns a plan for pairs of cores at several distances.
    fn plan(budget: Duration, sizes: Option<Vec<u64>>) -> MessagesPlan {
        let text = "Package:2 L3Cache:1(size=32MiB) Core:2 PU:2".to_owned();
        let topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        let budget = Some(Budget { time: budget, is_set_by_user: true });
        let options = MessageOptions { budget, sizes, ..MessageOptions::default() };
        let plan =
            MessagesPlan::without_transport(&topology, options, RankPairs::EachDistance, None)
                .unwrap();
        MessagesPlan { fabrics: vec![Fabric::Shm], ..plan }
    }

    fn limits(plan: &MessagesPlan) -> RunLimits {
        RunLimits::from_budget(plan.options.budget.unwrap(), None)
    }

    #[test]
    fn short_budget_reduces_sizes_and_groups() {
        let mut long = plan(Duration::from_secs(60), None);
        let turns = long.size_count();
        let notices = long.notices.len();
        long.admit(&limits(&long)).unwrap();
        assert_eq!((long.size_count(), long.notices.len()), (turns, notices));
        let mut short = plan(Duration::from_millis(100), None);
        short.admit(&limits(&short)).unwrap();
        assert!(short.size_count() < turns);
        assert!(short.launches.len() < long.launches.len());
        // Every pattern is still measured.
        let patterns: Vec<_> = short.launches.iter().flat_map(|one| &one.patterns).collect();
        assert!(short.options.patterns.iter().all(|pattern| patterns.contains(&pattern)));
        let ids: Vec<NoticeId> = short.notices.iter().map(|notice| notice.id).collect();
        assert!(ids.ends_with(&[NoticeId::Clamped, NoticeId::LeftOut]), "{ids:?}");
    }

    #[test]
    fn short_budget_for_given_sizes_is_refused_and_sufficient_budget_is_named() {
        let sizes: Vec<u64> = (1..2000).map(|number| 8 * number).collect();
        let mut many = plan(Duration::from_millis(1), Some(sizes.clone()));
        let refused = many.admit(&limits(&many)).unwrap_err();
        assert!(refused.message.contains("is too short"), "{refused}");
        let hint = refused.hint.unwrap();
        let (_, after) = hint.split_once("--budget ").unwrap();
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        let mut again = plan(Duration::from_secs(digits.parse().unwrap()), Some(sizes));
        again.admit(&limits(&again)).unwrap();
    }
}
