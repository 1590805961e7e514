//! What a person sees of the gauge's part of a record: a module for each family of figures.

mod ablation;
pub mod classic;
mod compiled;
pub mod curves;
mod standard;
pub mod stream;
mod sweep;
mod tune;
pub(crate) mod words;

use crate::GAUGE;
use nodegauge_gauge::view::{Section, plain_table};
use nodegauge_gauge::{Detail, published};
use nodegauge_measure::record::{Measurement, Record};

/// Tests that a family shows.
const KNOWN: [&str; 8] =
    ["stream", "tune", "explain", "ladder", "latency", "matrix", "loaded", "mix"];

/// The sections of all families, in the order of a page.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let mut sections = stream::sections(record, detail);
    sections.extend(sweep::section(record));
    sections.extend(ablation::section(record));
    published::add(&mut sections, record, GAUGE, detail);
    sections.extend(curves::sections(record, detail));
    sections.extend(unknown(record));
    sections
}

/// Figures of tests that this version does not know.
fn unknown(record: &Record) -> Option<Section> {
    let unknown = |m: &&Measurement| m.gauge == GAUGE && !KNOWN.contains(&m.test.as_str());
    let figures: Vec<&Measurement> = record.measurements.iter().filter(unknown).collect();
    let mut section = Section::new("memory");
    section.push(plain_table(&figures));
    section.doubts(&figures);
    (!figures.is_empty()).then_some(section)
}
