//! View of the family of curves of the node's memory, with a program shown among the curves.

use super::{CurvesFigure, cache_remark, evidence, memory_latency};
use crate::family::{BANDWIDTH, BANDWIDTH_BELOW, LATENCY, NAMES, SENSITIVITY, SLOWDOWN};
use nodegauge_gauge::family::{self, FamilyFigure, IDLE_PREFIX, KNEE_PREFIX, SATURATED_PREFIX};
use nodegauge_gauge::view::sentence::{capitalise, value_in_words, verb_form};
use nodegauge_gauge::view::words;
use nodegauge_gauge::view::{Block, ChartSeries, ColumnUnit, DotConnection, Section};
use nodegauge_measure::BytesPerSec;
use nodegauge_measure::record::Measurement;

/// NUMA node of the threads and NUMA node of the memory of a curve; `None` if the user did not choose the node.
type Path = (Option<u64>, Option<u64>);

/// True if the view can show a figure.
pub(super) fn can_show((m, config): &CurvesFigure<'_>) -> bool {
    let is_found = m.name.starts_with(SATURATED_PREFIX) || m.name.starts_with(KNEE_PREFIX);
    config.load_share.is_some() || is_found || NAMES.contains(&&*m.name)
}

fn figure_path((_, config): &CurvesFigure<'_>) -> Path {
    (config.from_node, config.to_node)
}

/// Returns a text for a path, e.g. `NUMA node 0 to NUMA node 1`; empty if neither node was chosen.
fn path_in_words(path: Path) -> String {
    match path {
        (None, None) => String::new(),
        (Some(from), None) => format!("from NUMA node {from}"),
        (None, Some(to)) => format!("to NUMA node {to}"),
        (Some(from), Some(to)) => format!("NUMA node {from} to NUMA node {to}"),
    }
}

/// Returns the figures of the curves, without those of a program.
fn curve_figures<'a>(of: &[CurvesFigure<'a>]) -> Vec<FamilyFigure<'a>> {
    let mut figures = Vec::new();
    for figure in of.iter().filter(|(m, _)| !NAMES.contains(&&*m.name)) {
        let (m, config) = figure;
        let title = path_in_words(figure_path(figure));
        figures.push(FamilyFigure { m, title, basis: config.basis.clone() });
    }
    figures
}

/// Returns the figure of a program with this name.
fn program_figure<'a>(of: &'a [CurvesFigure<'a>], name: &str) -> Option<&'a CurvesFigure<'a>> {
    of.iter().find(|(m, _)| m.name == name)
}

/// Returns the point for the program in the chart, from its bandwidth and the latency during the program.
fn program_point(of: &[CurvesFigure<'_>]) -> Option<ChartSeries> {
    let (bandwidth, _) = program_figure(of, BANDWIDTH)?;
    let (latency, _) = program_figure(of, LATENCY)?;
    let ends = bandwidth.summary.as_ref().and_then(|summary| summary.ci95);
    let labels = ends.map(|[low, high]| {
        let [from, to] = [low, high].map(|end| ColumnUnit::GB_PER_S.number_text(end));
        format!("program, {from} to {to} GB/s")
    });
    let mut series = ChartSeries {
        mark: 'P',
        name: "program".to_owned(),
        labels: labels.into_iter().collect(),
        joined: DotConnection::Apart,
        ..ChartSeries::default()
    };
    series.push((bandwidth.value?, latency.value?), bandwidth);
    Some(series)
}

/// Returns a value with its interval: `10.20 GB/s (9.800 GB/s to 10.60 GB/s)`.
fn with_interval(m: &Measurement) -> Option<String> {
    let value = value_in_words(m)?;
    let ends = m.summary.as_ref().and_then(|summary| summary.ci95);
    let ends = ends.map(|ends| ends.map(|end| m.unit.in_words(end)));
    Some(ends.map_or_else(|| value.clone(), |[low, high]| format!("{value} ({low} to {high})")))
}

/// Returns a sentence about the bandwidth of the program; `None` if it is unknown.
fn program_in_words(of: &[CurvesFigure<'_>]) -> Option<String> {
    if let Some((m, _)) = program_figure(of, BANDWIDTH_BELOW) {
        return Some(format!(
            "the program has no measurable memory traffic: less than {}",
            value_in_words(m)?
        ));
    }
    let (m, _) = program_figure(of, BANDWIDTH)?;
    let share = m.limit.as_ref().map(|limit| {
        format!(", {} of the read rate of its CPUs", limit.fraction.in_whole_percent())
    });
    Some(format!("the program uses {}{}", value_in_words(m)?, share.unwrap_or_default()))
}

/// Adds the lines about the program to a section.
fn add_program(of: &[CurvesFigure<'_>], section: &mut Section) {
    let Some((_, config)) = of.iter().find(|(m, _)| NAMES.contains(&&*m.name)) else { return };
    let command = config.program.clone().unwrap_or_default();
    let cpus = words::places_in_words(config.cpus.as_deref().unwrap_or_default());
    section.note("program", format!("{command}, on cpus {cpus}"));
    let lines = [
        (BANDWIDTH, "draws"),
        (BANDWIDTH_BELOW, "below"),
        (LATENCY, "latency"),
        (SLOWDOWN, "slowdown"),
        (SENSITIVITY, "sensitivity"),
    ];
    for (name, label) in lines {
        let Some((m, found)) = program_figure(of, name) else { continue };
        let basis = found.basis.clone().unwrap_or_default();
        section.note_if(label, with_interval(m).map(|value| format!("{value}: {basis}")));
    }
}

/// Adds the view of the family.
pub(super) fn add_view(of: &[CurvesFigure<'_>], section: &mut Section) {
    let figures = curve_figures(of);
    section.push(family::table(&figures)).push_gap();
    let mut bandwidths = of.iter().filter(|(m, _)| m.name.starts_with(SATURATED_PREFIX));
    let limit = bandwidths.find_map(|(m, _)| m.limit.as_ref());
    if let Some(chart) = family::chart(&figures, "rate of the loading threads", program_point(of)) {
        section.push(chart);
    }
    let mix = "lines read : lines written, -nt: non-temporal stores";
    let words = family::describe_columns(&figures, mix, "the other threads", "all threads");
    section.push_gap().push(Block::Text(words));
    if let Some(text) =
        of.iter().find(|(m, _)| m.name.starts_with(IDLE_PREFIX)).and_then(memory_latency)
    {
        section.push(Block::Text(format!("idle: {text}")));
    }
    add_program(of, section);
    let loaders = of.iter().filter_map(|(_, config)| config.loaders).max().unwrap_or(0);
    let load = verb_form(loaders, "load");
    let what = format!("1 thread measures latency, {loaders} {load} the memory");
    evidence(section, of, what);
    if let Some(limit) = limit {
        section.note("limit", format!("{} ({})", BytesPerSec(limit.value), limit.basis));
    }
}

/// Returns the idle latency that a conclusion states: the first one of the first path.
fn stated_idle<'a>(of: &'a [CurvesFigure<'a>]) -> Option<&'a CurvesFigure<'a>> {
    let path = figure_path(of.first()?);
    of.iter().find(|figure| {
        figure.0.name.starts_with(IDLE_PREFIX)
            && figure_path(figure) == path
            && value_in_words(figure.0).is_some()
    })
}

/// Returns the conclusion about the family: the idle latency, the range of the bandwidths of all threads, and the
/// bandwidth of the user's program, if given.
pub(super) fn conclusion(of: &[CurvesFigure<'_>]) -> Option<String> {
    let mut parts = family::conclusion(&curve_figures(of), "all threads together");
    // The first part states the idle latency, if it is known.
    if let Some((idle, first)) = stated_idle(of).zip(parts.first_mut()) {
        first.push_str(&cache_remark(idle));
    }
    parts.extend(program_in_words(of));
    (!parts.is_empty()).then(|| capitalise(&parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GAUGE;
    use crate::config::CurveConfig;
    use nodegauge_arena::names::CURVE_FAMILY;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    #[test]
    fn idle_latency_of_caches_has_a_remark() {
        let figure = |name: &str, unit: Unit, value: f64| {
            let m = Measurement::new(GAUGE, CURVE_FAMILY, name, unit);
            m.with_value(QuotedStatistic::Single, value)
        };
        let idle = figure("idle_1:0", Unit::Seconds, 5.059e-9);
        let all = figure("saturated_1:0", Unit::BytesPerSecond, 80e9);
        let with_flushed = |flushed: f64| {
            let config = CurveConfig { flushed_s: Some(flushed), ..CurveConfig::default() };
            conclusion(&[(&all, CurveConfig::default()), (&idle, config)]).unwrap()
        };
        let cached = "Memory latency is 5.059 ns without load (partly from caches: flushed lines take 147.0 ns); all \
                      threads together reach 80.00 GB/s (1:0)";
        assert_eq!(with_flushed(147e-9), cached);
        assert!(!with_flushed(5e-9).contains("partly"));
    }
}
