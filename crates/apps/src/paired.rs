//! Validity of the relative speeds of cells ([`nodegauge_analysis::ratio::paired`] computes the ratios).

use nodegauge_measure::record::{Measurement, Validity};

/// Makes each figure `relative` at most as valid as the figures `name` of the two cells that it compares. `base_of`
/// returns the index of the cell with which a cell is compared.
pub(crate) fn limit_relative_validity(
    by_cell: &mut [Vec<Measurement>],
    name: &str,
    base_of: impl Fn(usize) -> Option<usize>,
) {
    let validities: Vec<Validity> =
        by_cell.iter().map(|cell_figures| figure_validity(cell_figures, name)).collect();
    for (at, cell_figures) in by_cell.iter_mut().enumerate() {
        let Some(base) = base_of(at) else { continue };
        for m in cell_figures.iter_mut().filter(|m| m.name == "relative") {
            m.inherit_doubts(&validities[base], "baseline");
            m.inherit_doubts(&validities[at], name);
        }
    }
}

/// Returns the validity of the figure `name`; valid if there is none.
fn figure_validity(figures: &[Measurement], name: &str) -> Validity {
    let found = figures.iter().find(|m| m.name == name);
    found.map_or_else(Validity::valid, |m| m.validity.clone())
}
