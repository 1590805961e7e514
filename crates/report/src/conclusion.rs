//! The sentence that the page of a record begins with.

use nodegauge_gauge::view::sentence::{capital, joined, quoted};
use nodegauge_gauge::{Gauge, hosts};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::Record;
use nodegauge_measure::stats::Better;
use std::collections::BTreeSet;

/// Returns the sentence: of several gauges their headline figures, of several hosts the slow hosts, otherwise the
/// conclusion of the gauge. Returns `None` if nothing can be concluded.
pub(crate) fn of(record: &Record, gauges: &[&dyn Gauge]) -> Option<String> {
    let own = record.measurements.iter().filter(|m| !m.is_published());
    let measured: BTreeSet<&str> = own.map(|m| m.gauge.as_str()).collect();
    let text = if measured.len() > 1 {
        of_headlines(record, gauges)
    } else {
        gauges.iter().find_map(|gauge| of_gauge(record, *gauge))
    };
    text.map(|text| sentence(&text))
}

/// Returns a text as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    format!("{}.", capital(text.trim_end_matches('.')))
}

/// Returns the conclusion on the figures of one gauge.
fn of_gauge(record: &Record, gauge: &dyn Gauge) -> Option<String> {
    let registry = Registry::new(gauge.kinds());
    hosts::conclusion(record, gauge.name(), &registry).or_else(|| gauge.conclusion(record))
}

/// Returns the headline figures of all gauges: first the rates, then the times.
fn of_headlines(record: &Record, gauges: &[&dyn Gauge]) -> Option<String> {
    let mut rates = Vec::new();
    let mut times = Vec::new();
    for headline in gauges.iter().flat_map(|gauge| gauge.headlines(record)) {
        let Some(m) = headline.figure else { continue };
        let Some(value) = quoted(m) else { continue };
        match m.unit.better() {
            Better::Higher => rates.push(format!("{value} in {}", headline.title)),
            Better::Lower => times.push(format!("{value} ({})", headline.title)),
        }
    }
    let noun = if times.len() == 1 { "a latency" } else { "latencies" };
    let latencies = format!("{noun} of {}", joined(&times));
    match (rates.is_empty(), times.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("The node has {latencies}")),
        (false, true) => Some(format!("The node reaches {}", joined(&rates))),
        (false, false) => Some(format!("The node reaches {}, with {latencies}", joined(&rates))),
    }
}
