//! What the views still share.

use crate::table::Style;
use crate::text;
use nodegauge_gauge::view::Section;
use nodegauge_measure::record::Measurement;

/// Every reason for doubt, once.
pub(crate) fn doubts(measurements: &[&Measurement], style: Style) -> String {
    let mut section = Section::new("");
    section.doubts(measurements);
    text::section(&section, style)
}
