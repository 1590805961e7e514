//! Ratios of the times of two cells that were measured alternately. A ratio compares samples of the same round, so that
//! a drift does not appear as a difference.

use nodegauge_measure::record::{Measurement, Validity};
use nodegauge_measure::samples::{self, Sample};

/// Minimum number of undisturbed rounds; with fewer undisturbed rounds, all rounds are used.
const LEAST: usize = 3;

/// Returns the times of cell `of` divided by the times of cell `by`, for the rounds after the warm-up. Only rounds are
/// used in which both samples were undisturbed and in the same regime. The second value is true if there were enough
/// such rounds.
pub(crate) fn ratios(all: &[Vec<Sample>], of: usize, by: usize) -> (Vec<f64>, bool) {
    let rounds = all[of].iter().zip(&all[by]).skip(1);
    let rounds: Vec<Vec<Sample>> = rounds.map(|(x, y)| vec![x.clone(), y.clone()]).collect();
    let ratio = |round: &[Sample]| round[0].seconds[0] / round[1].seconds[0];
    match samples::clean_rounds(&rounds, &[true, true], LEAST) {
        Some(clean) => (clean.into_iter().map(ratio).collect(), true),
        None => (rounds.iter().map(|round| ratio(round)).collect(), false),
    }
}

/// Makes each figure `relative` at most as valid as the figure `name` of the two cells that it compares. `base_of` returns
/// the cell with which another is compared.
pub(crate) fn judge_relative(
    by_cell: &mut [Vec<Measurement>],
    name: &str,
    base_of: impl Fn(usize) -> Option<usize>,
) {
    let validities: Vec<Validity> =
        by_cell.iter().map(|of_cell| validity_of(of_cell, name)).collect();
    for (at, of_cell) in by_cell.iter_mut().enumerate() {
        let Some(base) = base_of(at) else { continue };
        for m in of_cell.iter_mut().filter(|m| m.name == "relative") {
            m.doubt_as(&validities[base], "baseline");
            m.doubt_as(&validities[at], name);
        }
    }
}

/// Returns the validity of the figure `name`; of none, a valid one.
fn validity_of(figures: &[Measurement], name: &str) -> Validity {
    let found = figures.iter().find(|m| m.name == name);
    found.map_or_else(Validity::valid, |m| m.validity.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::interference::Cause;

    fn sample(seconds: f64, disturbed: bool) -> Sample {
        let causes = if disturbed { vec![Cause::Faults(99)] } else { Vec::new() };
        Sample { causes, ..Sample::of_times(vec![seconds]) }
    }

    #[test]
    fn rounds_that_something_interfered_with_count_only_for_lack_of_others() {
        let cell = |times: &[f64]| times.iter().map(|x| sample(*x, *x > 5.0)).collect::<Vec<_>>();
        let all = [cell(&[3.0, 2.0, 2.0, 9.0, 4.0]), cell(&[1.0, 1.0, 2.0, 1.0, 2.0])];
        // The first round is the warm-up.
        assert_eq!(ratios(&all, 0, 1), (vec![2.0, 1.0, 2.0], true));
        let few = [cell(&[3.0, 2.0, 9.0, 9.0]), cell(&[1.0, 1.0, 1.0, 1.0])];
        assert_eq!(ratios(&few, 0, 1), (vec![2.0, 9.0, 9.0], false));
        assert_eq!(ratios(&[Vec::new(), cell(&[1.0])], 0, 1), (Vec::new(), false));
    }
}
