//! Evaluation of all cells of a run in the same regime, so that a change of the regime does not
//! appear as a step in a curve.

use super::{
    MIN_SAMPLES_IN_REGIME, RegimeAssignment, RegimeGroup, SAMPLE_NOUN, Sample,
    assign_regimes_with_known,
};
use crate::quantity::Seconds;
use crate::regime::{self, Regime};

/// Samples of all cells of a run, grouped by regime, and the regime of the run's figures.
#[derive(Debug)]
pub struct SamplesByRegime {
    cells: Vec<(Vec<Sample>, RegimeAssignment)>,
    /// Regime of the run's figures; `None` if no round trips were measured.
    regime: Option<Regime>,
    guest: bool,
    /// Round trips of all detected regimes, seconds, shortest first.
    pub trips: Vec<f64>,
}

/// Samples of a cell, and the group from which the figures of the cell are computed.
#[derive(Debug, Clone, Copy)]
pub struct CellSamples<'a> {
    /// All samples of the cell.
    pub samples: &'a [Sample],
    /// Samples of the cell, grouped by regime.
    pub sorted: &'a RegimeAssignment,
    /// Samples of the regime from which the figures are computed.
    pub group: &'a RegimeGroup,
}

/// Returns the number of cells that have enough samples in a regime, and the number of samples of all cells in the
/// regime.
fn counts_in_regime(cells: &[(Vec<Sample>, RegimeAssignment)], regime: &Regime) -> (usize, usize) {
    let mut enough = 0;
    let mut all = 0;
    for (_, sorted) in cells {
        let groups = sorted.groups.iter().filter(|group| regime.contains(group.round_trip));
        let count: usize = groups.map(|group| group.all.len()).sum();
        enough += usize::from(count >= MIN_SAMPLES_IN_REGIME);
        all += count;
    }
    (enough, all)
}

impl SamplesByRegime {
    /// Groups the samples of each cell by regime, and chooses the regime in which most cells have
    /// enough samples. Of several such regimes, the one with most samples is chosen. `known` are
    /// round trips of other runs.
    pub fn new(samples: Vec<Vec<Sample>>, known: &[f64]) -> Self {
        let mut cells: Vec<(Vec<Sample>, RegimeAssignment)> = Vec::new();
        for of_cell in samples {
            let sorted = assign_regimes_with_known(&of_cell, known);
            cells.push((of_cell, sorted));
        }
        let mut counted = Vec::new();
        for (of_cell, sorted) in &cells {
            for pass in sorted.groups.iter().flat_map(|group| &group.all) {
                let (before, after) = of_cell[*pass].round_trips;
                counted.extend([before, after]);
            }
        }
        let regimes = regime::find_regimes_with_known(&counted, known);
        let chosen = regimes.iter().copied().max_by_key(|regime| counts_in_regime(&cells, regime));
        let trips = regimes.iter().map(|regime| (regime.from * regime.to).sqrt()).collect();
        Self { cells, regime: chosen, guest: false, trips }
    }

    /// Sets whether the machine is a guest, whose hypervisor may be the cause of a doubt.
    #[must_use]
    pub fn with_guest(self, guest: bool) -> Self {
        Self { guest, ..self }
    }

    /// True if the machine is a guest.
    pub fn is_guest(&self) -> bool {
        self.guest
    }

    /// Returns the samples of a cell, and the group of samples that counts: the group in the run's
    /// regime, or the headline group of the cell if it has no samples in that regime. Returns
    /// `None` if no samples count.
    pub fn cell_samples(&self, cell: usize) -> Option<CellSamples<'_>> {
        let (samples, sorted) = &self.cells[cell];
        let finish_run = sorted.groups.iter().find(|group| self.is_in_run(group));
        let group = finish_run.or_else(|| sorted.headline())?;
        Some(CellSamples { samples, sorted, group })
    }

    fn is_in_run(&self, group: &RegimeGroup) -> bool {
        self.regime.is_none_or(|regime| regime.contains(group.round_trip))
    }

    /// Returns the number of parts of each sample of a cell.
    pub fn part_count(&self, cell: usize) -> usize {
        self.cells[cell].0.first().map_or(0, |sample| sample.seconds.len())
    }

    /// Returns the seconds of part number `part` in each counted sample of a cell.
    pub fn seconds(&self, cell: usize, part: usize) -> Vec<f64> {
        let Some(CellSamples { samples, group, .. }) = self.cell_samples(cell) else {
            return Vec::new();
        };
        group.values(samples, part, &|seconds| seconds)
    }

    /// Returns the reasons why the figures of a part of a cell are suspect: disturbed samples,
    /// or samples in a regime that is not the regime of the run. In a `guest`, the hypervisor may be the
    /// cause.
    pub fn doubts(&self, cell: usize, part: usize, guest: bool) -> Vec<String> {
        let Some(CellSamples { samples, sorted, group }) = self.cell_samples(cell) else {
            return Vec::new();
        };
        let mut doubts = Vec::new();
        if !self.is_in_run(group) {
            doubts.push(other_regime(group));
        }
        doubts.extend(sorted.interference_doubt(samples, group, part, SAMPLE_NOUN, guest));
        doubts
    }
}

/// Returns the reason why a figure is suspect whose samples are not in the run's regime.
fn other_regime(group: &RegimeGroup) -> String {
    if group.round_trip.is_finite() {
        let trip = Seconds(group.round_trip);
        return format!(
            "measured with a core-to-core round trip of {trip}, which differs from that of most \
             other figures of the run"
        );
    }
    "measured in an unknown regime: the core-to-core round trips before and after the samples \
     differ"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, before: f64, after: f64) -> Sample {
        Sample { round_trips: (before, after), ..Sample::from_times(vec![seconds]) }
    }

    #[test]
    fn all_cells_use_regime_of_most_cells() {
        let (near, far) = (90e-9, 380e-9);
        // The first cell was faster in the regime with the long round trip, in which the second cell has only one
        // sample.
        let first: Vec<Sample> = std::iter::once(sample(9.0, near, near))
            .chain((0..6).flat_map(|_| [sample(2.0, near, near), sample(1.0, far, far)]))
            .collect();
        let mut second = vec![sample(4.0, near, near); 8];
        second.push(sample(1.5, far, far));
        let judged = SamplesByRegime::new(vec![first, second], &[]);
        assert_eq!(judged.seconds(0, 0), [2.0; 6]);
        assert_eq!(judged.seconds(1, 0), [4.0; 7]);
        assert_eq!(judged.trips.len(), 2);
        assert!(judged.doubts(0, 0, true).is_empty());
    }

    #[test]
    fn cell_in_another_regime_is_suspect() {
        let (near, far) = (90e-9, 380e-9);
        let judged = SamplesByRegime::new(
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
        assert!(judged.doubts(2, 0, true)[0].contains("round trip of 380.0 ns"));
        // The CPUs were moved during every sample, so the regime is unknown and the message contains no round trip.
        assert_eq!(judged.seconds(3, 0), [4.0; 4]);
        let doubts = judged.doubts(3, 0, true);
        assert!(doubts[0].contains("an unknown regime"), "{doubts:?}");
        assert!(doubts.iter().all(|doubt| !doubt.contains("NaN")), "{doubts:?}");
        // This cell has only a warm-up.
        assert!(judged.cell_samples(4).is_none() && judged.seconds(4, 0).is_empty());
    }
}
