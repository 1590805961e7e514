//! View of the gauge's figures in a record, with one module for each family of figures.

mod ablation;
pub mod classic;
mod compiled;
mod conclusion;
pub(crate) mod figures;
pub mod length_plan;
pub mod standard;
mod statistics;
pub mod stream;
mod sweep;
mod tune;
pub(crate) mod words;

pub(crate) use conclusion::conclusion;
pub use statistics::Statistic;

use crate::GAUGE;
pub(crate) use figures::points;
use figures::{StreamFigure, comparable_rate};
use nodegauge_analysis::ratio::closing::several_figures_sentences;
use nodegauge_arena::names::{CURVE_TESTS, STREAM, TUNE};
use nodegauge_gauge::Detail;
use nodegauge_gauge::outputs::is_output;
use nodegauge_gauge::view::{Section, plain_table, summary, summary_section};
use nodegauge_measure::record::{Category, Finding, Measurement, QuotedStatistic, Record};
use nodegauge_published as published;

/// Findings that follow from the measurement itself and explain the figures.
const OWN_FINDINGS: [&str; 1] = ["topology-untrue"];

/// Tests of this gauge.
const TESTS: [&str; 3] = [STREAM, TUNE, crate::ablation::TEST];

/// Returns the sections of all families of figures, in the order of the page. A sweep is shown with the columns `show`
/// of STREAM's table.
pub(crate) fn sections(record: &Record, detail: Detail, show: &[Statistic]) -> Vec<Section> {
    let mut sections = run_sections(record, detail);
    sections.extend(sweep::section(record, show));
    sections.extend(ablation::section(record));
    published::add_published_section(&mut sections, record, GAUGE, detail);
    sections.extend(unknown(record));
    let last = if has_sweep(record) {
        sweep::fastest_comparison(record).map(summary)
    } else {
        closing(record)
    };
    sections.extend(last);
    sections
}

/// Returns a sentence that compares native loops, compiled loops and stream.c by their rates of the last kernel.
fn closing(record: &Record) -> Option<Section> {
    let all = figures::all(record);
    let (last, _) = all.iter().rfind(|(m, _)| !m.is_published())?;
    let own = all.iter().filter(|(m, _)| m.name == last.name && !m.is_published());
    let (native, others): (Vec<&StreamFigure<'_>>, Vec<_>) = own
        .partition(|(m, config)| m.category == Category::Variant && !figures::is_compiled(config));
    // Figures of different regimes are not compared.
    let of_one_regime = native.iter().filter(|figure| {
        others.iter().all(|(_, config)| comparable_rate(figure, config) == figure.0.value)
    });
    let own_loops = of_one_regime.map(|(m, _)| ("nodegauge's loop".to_owned(), *m));
    let programs = others.iter().map(|(m, config)| (standard::program_name(config), *m));
    let named: Vec<(String, &Measurement)> = own_loops.chain(programs).collect();
    let sentences =
        several_figures_sentences(&named, &format!("runs {}", last.name), QuotedStatistic::Best);
    (!sentences.is_empty()).then(|| summary_section(sentences))
}

/// Returns the sections of `stream` in all its modes except sweeps.
fn run_sections(record: &Record, detail: Detail) -> Vec<Section> {
    let rates = if has_sweep(record) {
        Section::new("stream")
    } else {
        stream::section(&figures::native(record), record, detail)
    };
    let mut sections =
        vec![tune::section(record), rates, compiled::section(record), standard::section(record)];
    sections.retain(|section| !section.blocks.is_empty());
    if let (Detail::Full, Some(last)) = (detail, sections.last_mut()) {
        for Finding { id, text, .. } in &record.findings {
            last.note_if("finding", OWN_FINDINGS.contains(&id.as_str()).then(|| text.clone()));
        }
    }
    sections
}

/// True if the record has a sweep.
pub fn has_sweep(record: &Record) -> bool {
    figures::variants(record).iter().any(|(_, config)| config.sweep.is_some())
}

/// Returns a section with figures of tests that this version does not support.
fn unknown(record: &Record) -> Option<Section> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && !is_output(m));
    let unknown =
        own.filter(|m| ![&TESTS[..], &CURVE_TESTS[..]].concat().contains(&m.test.as_str()));
    let figures: Vec<&Measurement> = unknown.collect();
    if figures.is_empty() {
        return None;
    }
    let mut section = Section::new("memory");
    section.push(plain_table(&figures));
    section.push_doubts(&figures);
    Some(section)
}
