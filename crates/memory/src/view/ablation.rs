//! The view of the ablation of `explain`.

use nodegauge_gauge::Detail;
use nodegauge_gauge::view::Section;
use nodegauge_measure::record::Record;

/// The sections of this family; none where the record has no such figures.
pub(crate) fn sections(_record: &Record, _detail: Detail) -> Vec<Section> {
    Vec::new()
}
