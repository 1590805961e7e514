//! First sentence of the page of a record, and last sentence of a series of runs.

use nodegauge_gauge::view::group_by_key;
use nodegauge_gauge::view::sentence::{capitalise, enumeration, value_range};
use nodegauge_gauge::{Gauge, hosts};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::stats::BetterDirection;
use std::collections::BTreeSet;

/// Returns the first sentence of a page: for several gauges their headline figures, for several hosts the slow hosts,
/// otherwise the conclusion of the only gauge. Returns `None` if nothing can be concluded.
pub(crate) fn record_conclusion(record: &Record, gauges: &[&dyn Gauge]) -> Option<String> {
    let own = record.measurements.iter().filter(|m| !m.is_published());
    let measured: BTreeSet<&str> = own.map(|m| m.gauge.as_str()).collect();
    let text = if measured.len() > 1 {
        let figures = headline_figures(record, gauges);
        figures_predicate(&figures).map(|text| format!("the node {text}"))
    } else {
        gauges.iter().find_map(|gauge| gauge_conclusion(record, *gauge))
    };
    text.map(|text| to_sentence(&text))
}

/// Converts a text to a sentence, with a capital letter and a full stop.
pub(crate) fn to_sentence(text: &str) -> String {
    format!("{}.", capitalise(text.trim_end_matches('.')))
}

/// Returns the conclusion about the figures of one gauge.
fn gauge_conclusion(record: &Record, gauge: &dyn Gauge) -> Option<String> {
    let registry = Registry::new(gauge.figure_kinds());
    hosts::conclusion(record, gauge.name(), &registry).or_else(|| gauge.conclusion(record))
}

/// Headline figure with its title, e.g. `memory`.
pub type HeadlineFigure<'r> = (&'static str, &'r Measurement);

/// Returns the headline figures of a record.
pub fn headline_figures<'r>(record: &'r Record, gauges: &[&dyn Gauge]) -> Vec<HeadlineFigure<'r>> {
    let headlines = gauges.iter().flat_map(|gauge| gauge.headlines(record));
    headlines.filter_map(|headline| Some((headline.title, headline.figure?))).collect()
}

/// Returns the last sentence of a series of runs: the range of each headline figure over all runs. Returns `None` if
/// nothing can be concluded.
pub fn series_conclusion(samples: usize, figures: &[HeadlineFigure<'_>]) -> Option<String> {
    let text = figures_predicate(figures)?;
    Some(to_sentence(&format!("in {}, the node {text}", count_in_words(samples, "sample"))))
}

/// Returns the predicate of a sentence about headline figures, rates before times. Figures with the same title are
/// combined into a range.
fn figures_predicate(figures: &[HeadlineFigure<'_>]) -> Option<String> {
    let mut rates = Vec::new();
    let mut times = Vec::new();
    for (title, group) in group_by_key(figures.iter().copied(), |(title, _)| *title) {
        let Some(range) = value_range(group.iter().map(|(_, m)| *m)) else { continue };
        match group.first().map(|(_, m)| m.unit.better()) {
            Some(BetterDirection::Lower) if title == "latency" => times.push(range),
            Some(BetterDirection::Lower) => times.push(format!("{range} ({title})")),
            _ => rates.push(format!("{range} in {title}")),
        }
    }
    let noun = number_form(times.len(), "a latency", "latencies");
    let latencies = format!("{noun} of {}", enumeration(&times));
    match (rates.is_empty(), times.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("has {latencies}")),
        (false, true) => Some(format!("reaches {}", enumeration(&rates))),
        (false, false) => Some(format!("reaches {}, with {latencies}", enumeration(&rates))),
    }
}
