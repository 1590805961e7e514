//! The view of `explain`: a waterfall from the plain run to the best, one choice a line.

use super::words;
use crate::GAUGE;
use crate::ablation::{TEST, WHOLE};
use crate::config::ExplainConfig;
use nodegauge_gauge::view::{Cell, Section, Table};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, Unit};
use serde_json::Value;

/// The shortest bar, as a share of the longest.
const SHORTEST: f64 = 1.0 / 24.0;

/// The waterfall of the explained kernel, with the other kernels' factors below it; none where the
/// record has no such figures.
pub(crate) fn section(record: &Record) -> Option<Section> {
    let own = |m: &&Measurement| m.gauge == GAUGE && m.test == TEST;
    let all: Vec<&Measurement> = record.measurements.iter().filter(own).collect();
    let figures: Vec<(&Measurement, ExplainConfig)> =
        all.iter().map(|m| (*m, m.read_config())).collect();
    let (whole, config) = figures.iter().find(|(m, _)| m.name == WHOLE)?;
    let kernel = config.kernel.as_deref().unwrap_or("triad");
    let (from, to) = (config.from.unwrap_or(0.0), config.to.unwrap_or(0.0));
    let bar = |rate: f64| Cell::bar((rate / to.max(from).max(1.0)).max(SHORTEST));
    let mut table = Table::new(&[kernel, ">factor", ">GB/s", ""]);
    table.row(["baseline".into(), "".into(), words::rate(Some(from)), bar(from)]);
    let steps = || figures.iter().filter(|(m, _)| m.name != WHOLE);
    for (m, config) in steps() {
        let rate = config.to.unwrap_or(0.0);
        table.row([Cell::text(&m.name), factor(m), words::rate(Some(rate)), bar(rate)]);
    }
    table.row([WHOLE.into(), factor(whole), words::rate(Some(to)), "".into()]);
    let mut section = Section::new("explain");
    section.push(table).gap();
    section.note("baseline", config.baseline.as_deref().unwrap_or("plain run"));
    for (m, config) in steps() {
        let what = config.what.as_deref().unwrap_or("");
        section.note(&m.name, format!("{what}{}", other_factors(config, kernel)));
    }
    let (rounds, left_out) = (config.rounds.unwrap_or(0), config.rounds_left_out.unwrap_or(0));
    let text = format!(
        "{rounds} count, {left_out} left out because something interfered; all steps by turns in \
         random order; 3 arrays of {} for each; factors are geometric means",
        Bytes(config.array_bytes.unwrap_or(0))
    );
    section.note("rounds", text).doubts(&all).push(words::variant());
    Some(section)
}

fn factor(m: &Measurement) -> Cell {
    m.value.map_or_else(|| "-".into(), |x| Cell::figure(x, Unit::Factor, format!("x {x:.3}")))
}

/// A step's factors of the kernels that are not explained.
fn other_factors(config: &ExplainConfig, explained: &str) -> String {
    let others = config.factors.iter().flatten().filter(|(name, _)| *name != explained);
    let word = |(name, x): (&String, &Value)| Some(format!("{name} x {:.2}", x.as_f64()?));
    let words: Vec<String> = others.filter_map(word).collect();
    if words.is_empty() { String::new() } else { format!(" [{}]", words.join(", ")) }
}
