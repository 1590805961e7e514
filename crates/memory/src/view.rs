//! What a person sees of the gauge's part of a record: a module for each family of figures.

pub mod ablation;
pub mod curves;
pub mod stream;
pub mod sweep;

use nodegauge_gauge::Detail;
use nodegauge_gauge::view::Section;
use nodegauge_measure::record::Record;

/// The sections of all families, in the order of a page.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    [stream::sections, sweep::sections, ablation::sections, curves::sections]
        .into_iter()
        .flat_map(|of_family| of_family(record, detail))
        .collect()
}
