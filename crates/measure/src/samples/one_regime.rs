//! Cells of one run judged in one regime, so that a regime does not become a step in a curve.

use super::{LEAST_IN_REGIME, RegimeGroup, SAMPLES, Sample, Sorted, sort_beside};
use crate::quantity::Seconds;
use crate::regime::{self, Regime};

/// Samples of all cells of a run, sorted, and the regime that the run's figures are of.
#[derive(Debug)]
pub struct OneRegime {
    cells: Vec<(Vec<Sample>, Sorted)>,
    /// `None` without round trips.
    regime: Option<Regime>,
    /// The round trips of all regimes that were met, seconds, shortest first.
    pub trips: Vec<f64>,
}

impl OneRegime {
    /// Sorts the samples of each cell and chooses the regime in which most cells were measured; of
    /// several, the one with most samples. `known` are round trips of other runs.
    pub fn new(samples: Vec<Vec<Sample>>, known: &[f64]) -> Self {
        let sorted = |samples: Vec<Sample>| {
            let sorted = sort_beside(&samples, known);
            (samples, sorted)
        };
        let cells: Vec<(Vec<Sample>, Sorted)> = samples.into_iter().map(sorted).collect();
        let mut trips = Vec::new();
        for (samples, sorted) in &cells {
            for pass in sorted.groups.iter().flat_map(|group| &group.all) {
                let (before, after) = samples[*pass].round_trips;
                trips.extend([before, after]);
            }
        }
        let regimes = regime::among(&trips, known);
        let in_regime = |regime: &Regime| -> (usize, usize) {
            let of = |group: &&RegimeGroup| regime.contains(group.round_trip);
            let passes = cells.iter().map(|(_, sorted)| {
                sorted.groups.iter().filter(of).map(|group| group.all.len()).sum()
            });
            let passes: Vec<usize> = passes.collect();
            (passes.iter().filter(|n| **n >= LEAST_IN_REGIME).count(), passes.iter().sum())
        };
        let regime = regimes.iter().copied().max_by_key(in_regime);
        let trips = regimes.iter().map(|regime| (regime.from * regime.to).sqrt()).collect();
        Self { cells, regime, trips }
    }

    /// The samples of a cell, and the group of them that counts: of the run's regime, else of the
    /// cell's own headline. `None` when none counts.
    pub fn of(&self, cell: usize) -> Option<(&[Sample], &Sorted, &RegimeGroup)> {
        let (samples, sorted) = &self.cells[cell];
        let of_run = sorted.groups.iter().find(|group| self.is_of_run(group));
        Some((samples, sorted, of_run.or_else(|| sorted.headline())?))
    }

    fn is_of_run(&self, group: &RegimeGroup) -> bool {
        self.regime.is_none_or(|regime| regime.contains(group.round_trip))
    }

    /// Parts of the samples of a cell.
    pub fn parts(&self, cell: usize) -> usize {
        self.cells[cell].0.first().map_or(0, |sample| sample.seconds.len())
    }

    /// Seconds of part number `part` in each counted sample of a cell.
    pub fn seconds(&self, cell: usize, part: usize) -> Vec<f64> {
        let of = |(samples, _, group): (&[Sample], &Sorted, &RegimeGroup)| {
            group.values(samples, part, &|seconds| seconds)
        };
        self.of(cell).map(of).unwrap_or_default()
    }

    /// Why the figures of a part of a cell are suspect: of another regime than the run's, or disturbed;
    /// on a `guest`, by its hypervisor.
    pub fn doubts(&self, cell: usize, part: usize, guest: bool) -> Vec<String> {
        let Some((samples, sorted, group)) = self.of(cell) else { return Vec::new() };
        let other = (!self.is_of_run(group)).then(|| match group.round_trip.is_finite() {
            true => format!(
                "measured only while a cache line took {} between the cpus and back, unlike most \
                 of the run",
                Seconds(group.round_trip)
            ),
            false => "measured in an unknown regime: the times that a cache line took between the \
                      cpus and back around the samples disagree"
                .to_owned(),
        });
        other.into_iter().chain(sorted.doubt(samples, group, part, (SAMPLES, guest))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, before: f64, after: f64) -> Sample {
        Sample { round_trips: (before, after), ..Sample::of_times(vec![seconds]) }
    }

    #[test]
    fn all_cells_are_of_the_regime_that_most_of_them_saw() {
        let (near, far) = (90e-9, 380e-9);
        // The first cell was faster in the far regime, which the second met only once.
        let first: Vec<Sample> = std::iter::once(sample(9.0, near, near))
            .chain((0..6).flat_map(|_| [sample(2.0, near, near), sample(1.0, far, far)]))
            .collect();
        let mut second = vec![sample(4.0, near, near); 8];
        second.push(sample(1.5, far, far));
        let judged = OneRegime::new(vec![first, second], &[]);
        assert_eq!(judged.seconds(0, 0), [2.0; 6]);
        assert_eq!(judged.seconds(1, 0), [4.0; 7]);
        assert_eq!(judged.trips.len(), 2);
        assert!(judged.doubts(0, 0, true).is_empty());
    }

    #[test]
    fn a_cell_without_the_runs_regime_still_has_its_samples_and_says_so() {
        let (near, far) = (90e-9, 380e-9);
        let judged = OneRegime::new(
            vec![
                vec![sample(1.0, near, near); 9],
                vec![sample(2.0, near, near); 9],
                vec![sample(3.0, far, far); 5],
                vec![sample(4.0, near, far); 5],
                vec![sample(5.0, near, near)],
            ],
            &[],
        );
        assert_eq!(judged.seconds(2, 0), [3.0; 4]);
        assert!(judged.doubts(2, 0, true)[0].contains("took 380.0 ns between the cpus"));
        // Moved in every sample: of no regime, and no number is made of that.
        assert_eq!(judged.seconds(3, 0), [4.0; 4]);
        let doubts = judged.doubts(3, 0, true);
        assert!(doubts[0].contains("an unknown regime"), "{doubts:?}");
        assert!(doubts.iter().all(|doubt| !doubt.contains("NaN")), "{doubts:?}");
        // A warm-up alone.
        assert!(judged.of(4).is_none() && judged.seconds(4, 0).is_empty());
    }
}
