//! Prediction of the time of a search before its first arrays exist.
//!
//! The minimum search consists of the default team with its arrays, the passes of the three stages, and the measurement
//! of the choice, which may need another set of arrays. Other teams are tried as long as there is time.

use super::TunePlan;
use crate::arrangement::{self, Arrangement};
use crate::prediction::{self, ArraysCost};
use crate::size::SizeSpec;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::schedule::{PredictedTime, RunLimits, policy};
use nodegauge_measure::{Failure, Observer};

/// Passes of the first stage: a warm-up and two rounds for each of the two kinds of store.
const FIRST_STAGE: u32 = 6;
/// Passes of the final stage: a warm-up and one round for the leader and for the default team.
const FINAL_STAGE: u32 = 4;
/// Arrays and passes of the shortest search.
const SEARCH: ArraysCost = ArraysCost {
    sets: 2,
    refills: 0,
    passes_before_rounds: FIRST_STAGE + FINAL_STAGE,
    passes_per_round: 1,
};

impl TunePlan {
    /// Predicts the time of the search, and shortens the arrays of all teams if the time is short.
    ///
    /// # Errors
    /// Fails if the user set the budget and the shortest search exceeds it.
    pub(super) fn admit(
        &mut self,
        site: &MeasuredNode,
        limits: &RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let first = &self.space.setups[0];
        let mut options = self.options.clone();
        options.arrays = self.space.setup_arrays(first, &options.arrays);
        let mut plain = Arrangement::new(site, &first.request, options, Vec::new())?;
        let before = plain.elements();
        let fixed = PredictedTime::default();
        prediction::admit(site, &mut plain, SEARCH, policy::STREAM, fixed, limits, observer)?;
        let Some(shortened) = plain.shortening_notice(before) else { return Ok(()) };
        self.notices.push(shortened);
        self.options.arrays.size = SizeSpec::Elements(plain.elements());
        for (setup, config) in self.space.setups.iter().zip(&mut self.configs) {
            let arrays = self.space.setup_arrays(setup, &self.options.arrays);
            let own = arrangement::StreamOptions { arrays, ..self.options.clone() };
            let (_, shorter) = arrangement::plan(site, &setup.placement, &own)?;
            *config = shorter;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrangement::StreamOptions;
    use nodegauge_machine::{SysRoot, Topology, TopologySource};
    use nodegauge_measure::Bytes;
    use nodegauge_measure::progress::SilentObserver;
    use nodegauge_measure::record::Machine;
    use nodegauge_measure::schedule::Budget;
    use nodegauge_placement::PlacementRequest;
    use std::time::Duration;

    /// Returns the result of the prediction of a search on this machine with a budget of the user.
    fn admitted(size: SizeSpec, seconds: f64) -> Result<TunePlan, Failure> {
        let topology = Topology::load(&TopologySource::Live).unwrap();
        let mut machine = Machine::default();
        machine.memory.available = Some(1 << 40);
        let site = MeasuredNode::new(topology, machine, SysRoot::live());
        let budget = Budget { time: Duration::from_secs_f64(seconds), is_set_by_user: true };
        let mut options = StreamOptions { budget, ..StreamOptions::default() };
        options.arrays.size = size;
        let mut plan = TunePlan::new(&site, &PlacementRequest::default(), options, Vec::new())?;
        let limits = RunLimits::from_budget(budget, None);
        plan.admit(&site, &limits, &mut SilentObserver)?;
        Ok(plan)
    }

    #[test]
    fn search_with_too_short_a_budget_is_refused() {
        // The arrays are planned, not set up.
        let size = SizeSpec::Bytes(Bytes::gib(16));
        let refused = admitted(size, 0.01).map(|_| ()).unwrap_err();
        assert!(refused.message.contains("is too short"), "{refused}");
        let hint = refused.hint.unwrap();
        assert!(hint.contains("smaller arrays (--size)"), "{hint}");
        let (_, after) = hint.split_once("--budget ").unwrap();
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        let enough: f64 = digits.parse().unwrap();
        // Rates of a busy machine differ from probe to probe.
        admitted(size, 8.0 * enough).unwrap();
    }

    #[test]
    fn sufficient_budget_keeps_the_array_length() {
        let size = SizeSpec::Bytes(Bytes::mib(1));
        let plan = admitted(size, 30.0).unwrap();
        assert_eq!(plan.options.arrays.size, size);
        assert!(plan.notices.iter().all(|notice| !notice.message.contains("reduced")));
    }
}
