//! What the views of sweeps, ablation and curves still share.

use crate::table::Style;
use crate::text;
use nodegauge_gauge::view::Section;
use nodegauge_measure::record::{Category, Measurement, Record};

/// The name that STREAM's licence asks for, for results of changed code.
pub(crate) const VARIANT: &str = "based on a variant of the STREAM benchmark code";

/// All variants' measurements of STREAM of a record, in order.
pub(crate) fn variants(record: &Record) -> Vec<&Measurement> {
    let own = |m: &&Measurement| {
        m.gauge == "memory" && m.test == "stream" && m.category == Category::Variant
    };
    record.measurements.iter().filter(own).collect()
}

/// Every reason for doubt, once.
pub(crate) fn doubts(measurements: &[&Measurement], style: Style) -> String {
    let mut section = Section::new("");
    section.doubts(measurements);
    text::section(&section, style)
}
