//! What the views still share.

use crate::table::{Style, paragraph};
use crate::text;
use nodegauge_gauge::view::Section;
use nodegauge_measure::record::{Measurement, Record};

/// Every reason for doubt, once.
pub(crate) fn doubts(measurements: &[&Measurement], style: Style) -> String {
    let mut section = Section::new("");
    section.doubts(measurements);
    text::section(&section, style)
}

/// What was noticed on the way.
pub(crate) fn notes(record: &Record, style: Style) -> String {
    record.notices.iter().map(|notice| paragraph(style, "note", &notice.text)).collect()
}
