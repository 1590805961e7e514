//! Two settings that were measured interleaved: the ratios of their rounds, their interval and verdict. A ratio
//! compares samples of the same round, so that drift does not appear as a difference.

use super::speed::{RelativeSpeed, SpeedVerdict};
use super::{RatioInterval, block_interval, joint_block_interval, speed};
use nodegauge_measure::samples::{self, Sample};

/// Minimum number of counting rounds. If fewer rounds would count, all rounds count.
const MIN_ROUNDS: usize = 3;

/// Rounds that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountingRounds {
    /// Undisturbed rounds of the most frequent regime.
    Undisturbed,
    /// Rounds of the most frequent regime, including disturbed ones. This is used for the best of the rounds, which
    /// interference does not change because it only makes samples slower.
    OneRegime,
}

/// Rounds from which a ratio is computed, with one sample of each cell.
#[derive(Debug, Clone)]
pub struct SelectedRounds<'a> {
    /// Rounds in chronological order.
    pub rounds: Vec<&'a [Sample]>,
    /// False if too few rounds count; `rounds` then contains all rounds.
    pub has_enough_rounds: bool,
}

impl<'a> SelectedRounds<'a> {
    /// Selects the counting rounds. Cells that are not `watched` are ignored, as in
    /// [`samples::undisturbed_round_numbers`].
    pub fn from_rounds(
        rounds: &'a [Vec<Sample>],
        watched: &[bool],
        counting: CountingRounds,
    ) -> Self {
        let found = match counting {
            CountingRounds::Undisturbed => samples::undisturbed_round_numbers(rounds, watched),
            CountingRounds::OneRegime => {
                samples::undisturbed_round_numbers(&as_undisturbed(rounds), watched)
            }
        };
        let has_enough_rounds = found.len() >= MIN_ROUNDS.min(rounds.len()).max(1);
        let numbers = if has_enough_rounds { found } else { (0..rounds.len()).collect() };
        let selected = numbers.iter().map(|at| rounds[*at].as_slice()).collect();
        Self { rounds: selected, has_enough_rounds }
    }
}

/// Copies the rounds without the causes of disturbances, so that every sample counts as undisturbed.
fn as_undisturbed(rounds: &[Vec<Sample>]) -> Vec<Vec<Sample>> {
    let mut quiet = rounds.to_vec();
    for sample in quiet.iter_mut().flatten() {
        sample.causes.clear();
        sample.part_causes.clear();
    }
    quiet
}

/// Ratios of two settings, one per counting round.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedRounds {
    ratios: Vec<f64>,
    has_enough_rounds: bool,
}

impl PairedRounds {
    /// Creates an instance from the ratios of rounds, or of blocks A B B A, all of which count.
    pub fn from_ratios(ratios: Vec<f64>) -> Self {
        Self { ratios, has_enough_rounds: true }
    }

    /// Divides the numbers of each round, e.g. the time of the baseline by that of a setting.
    pub fn from_quotients(numerators: &[f64], denominators: &[f64]) -> Self {
        let rounds = numerators.iter().zip(denominators);
        Self::from_ratios(rounds.map(|(numerator, denominator)| numerator / denominator).collect())
    }

    /// Returns the speeds of a setting relative to the baseline, from rounds with a sample of the baseline and a sample
    /// of the setting, in this order. Disturbed rounds count only if there are too few undisturbed rounds.
    pub fn from_samples(rounds: &[Vec<Sample>]) -> Self {
        let selected =
            SelectedRounds::from_rounds(rounds, &[true, true], CountingRounds::Undisturbed);
        let mut ratios = Vec::new();
        for round in &selected.rounds {
            ratios.push(round[0].seconds[0] / round[1].seconds[0]);
        }
        Self { ratios, has_enough_rounds: selected.has_enough_rounds }
    }

    /// Multiplies the ratios by a factor, e.g. by the ratio of the work per sample.
    #[must_use]
    pub fn scaled_by(mut self, factor: f64) -> Self {
        self.ratios.iter_mut().for_each(|ratio| *ratio *= factor);
        self
    }

    /// Returns the ratios.
    pub fn ratios(&self) -> &[f64] {
        &self.ratios
    }

    /// Returns the ratio with its interval and power; `None` for fewer than three rounds.
    pub fn interval(&self) -> Option<RatioInterval> {
        block_interval(&self.ratios)
    }

    /// Compares the setting with the baseline. `comparisons` is the number of settings that are compared with it; with
    /// a probability of 95 %, all of their intervals contain the true ratios. Returns `None` for fewer than three
    /// rounds.
    pub fn compare(&self, comparisons: usize) -> Option<RelativeSpeed> {
        let found = joint_block_interval(&self.ratios, comparisons)?;
        let verdict = SpeedVerdict::from_interval(Some(found.ci95), speed::NEGLIGIBLE_DIFFERENCE);
        let RatioInterval { ratio, ci95, visible, .. } = found;
        Some(RelativeSpeed { ratio, ci95, visible, verdict })
    }

    /// Returns the reason why the ratios are suspect; `None` if they are not.
    pub fn doubt(&self) -> Option<&'static str> {
        (!self.has_enough_rounds && !self.ratios.is_empty())
            .then_some("too few undisturbed rounds, so disturbed rounds count too")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::interference::Cause;

    /// Returns rounds of two cells. A sample of more than 5 s is disturbed.
    fn rounds(times: &[[f64; 2]]) -> Vec<Vec<Sample>> {
        times.iter().map(|round| round.iter().map(|seconds| sample(*seconds)).collect()).collect()
    }

    fn sample(seconds: f64) -> Sample {
        let causes = if seconds > 5.0 { vec![Cause::Faults(99)] } else { Vec::new() };
        Sample { causes, ..Sample::from_times(vec![seconds]) }
    }

    #[test]
    fn disturbed_rounds_count_if_too_few_others_remain() {
        let found =
            PairedRounds::from_samples(&rounds(&[[2.0, 1.0], [2.0, 2.0], [9.0, 1.0], [4.0, 2.0]]));
        assert_eq!(found.ratios(), [2.0, 1.0, 2.0]);
        assert_eq!(found.doubt(), None);
        let few = PairedRounds::from_samples(&rounds(&[[2.0, 1.0], [9.0, 1.0], [9.0, 1.0]]));
        assert_eq!(few.ratios(), [2.0, 9.0, 9.0]);
        assert!(few.doubt().unwrap().starts_with("too few undisturbed rounds"));
        // Two rounds are few, but none of them is disturbed.
        let two = PairedRounds::from_samples(&rounds(&[[2.0, 1.0], [2.0, 2.0]]));
        assert_eq!((two.ratios(), two.doubt()), (&[2.0, 1.0][..], None));
        let none = PairedRounds::from_samples(&[]);
        assert_eq!((none.ratios(), none.doubt()), (&[][..], None));
    }

    #[test]
    fn disturbed_rounds_count_for_best_values() {
        let all = rounds(&[[2.0, 1.0], [9.0, 1.0], [9.0, 1.0]]);
        let best = SelectedRounds::from_rounds(&all, &[true, true], CountingRounds::OneRegime);
        assert_eq!((best.rounds.len(), best.has_enough_rounds), (3, true));
        let clean = SelectedRounds::from_rounds(&all, &[false, true], CountingRounds::Undisturbed);
        assert_eq!(clean.rounds.len(), 3);
    }

    #[test]
    fn times_are_compared_as_speeds() {
        let found = PairedRounds::from_quotients(&[4.0, 4.1, 3.9, 4.0], &[2.0, 2.05, 1.95, 2.0]);
        let compared = found.compare(1).unwrap();
        assert_eq!(compared.verdict, SpeedVerdict::Faster);
        assert!((compared.ratio - 2.0).abs() < 1e-12);
        assert_eq!(found.interval().unwrap().ratio, compared.ratio);
        assert_eq!(
            found.clone().scaled_by(0.5).compare(1).unwrap().verdict,
            SpeedVerdict::NoDifference
        );
        assert_eq!(PairedRounds::from_quotients(&[1.0, 1.0], &[1.0, 1.0]).compare(1), None);
    }

    #[test]
    fn merged_sample_keeps_causes_only_if_many_parts_are_disturbed() {
        let parts = [sample(1.0), sample(9.0), sample(2.0)];
        let whole = Sample::from_consecutive(&parts);
        assert_eq!((whole.seconds, whole.causes.len()), (vec![12.0], 0));
        assert_eq!(Sample::from_consecutive(&parts[1..2]).causes, [Cause::Faults(99)]);
    }
}
