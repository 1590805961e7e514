//! View of the family of curves: a table with the properties of each curve, and one picture of all curves.

use super::{CurvesFigure, column_unit, distinct, evidence, memory_latency};
use crate::family::{
    BANDWIDTH, BANDWIDTH_BELOW, IDLE, KNEE, LATENCY, NAMES, SATURATED, SENSITIVITY, SLOWDOWN,
};
use crate::mix::Mix;
use nodegauge_gauge::view::sentence::{capital, quoted, verb};
use nodegauge_gauge::view::words;
use nodegauge_gauge::view::{
    Block, Chart, ChartSeries, ColumnList, ColumnUnit, DotConnection, Guide, Scale, Section,
    TableCell,
};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{BytesPerSec, Unit};

/// Nodes of the threads and of the memory of a curve; `None` if they were not chosen.
type Path = (Option<u64>, Option<u64>);

/// Row of the table: a mix on a path.
struct Row<'a> {
    mix: &'static str,
    idle: Option<&'a Measurement>,
    loaded: Option<&'a Measurement>,
    knee: Option<&'a Measurement>,
    all: Option<&'a Measurement>,
}

/// True if the view shows this figure.
pub(super) fn shows((m, config): &CurvesFigure<'_>) -> bool {
    let is_found = m.name.starts_with(SATURATED) || m.name.starts_with(KNEE);
    config.load_share.is_some() || is_found || NAMES.contains(&&*m.name)
}

fn figure_path((_, config): &CurvesFigure<'_>) -> Path {
    (config.from_node, config.to_node)
}

/// Returns a path as text: `node 0 to node 1`; empty for the threads and memory of the placement.
fn path_in_words(path: Path) -> String {
    match path {
        (None, None) => String::new(),
        (Some(from), None) => format!("from node {from}"),
        (None, Some(to)) => format!("to node {to}"),
        (Some(from), Some(to)) => format!("node {from} to node {to}"),
    }
}

/// Returns the figure with this name on a path.
fn named<'a>(of: &'a [CurvesFigure<'a>], path: Path, name: &str) -> Option<&'a CurvesFigure<'a>> {
    of.iter().find(|figure| figure_path(figure) == path && figure.0.name == name)
}

/// Returns the figure with a name on a path, without its configuration.
fn measurement<'a>(of: &'a [CurvesFigure<'a>], path: Path, name: &str) -> Option<&'a Measurement> {
    named(of, path, name).map(|(m, _)| *m)
}

/// Returns the rows of a path.
fn rows<'a>(of: &'a [CurvesFigure<'a>], path: Path) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for mix in Mix::ALL.iter().map(|mix| mix.name()) {
        let row = Row {
            mix,
            idle: measurement(of, path, &format!("{IDLE}{mix}")),
            loaded: measurement(of, path, &format!("latency_{mix}_load100")),
            knee: measurement(of, path, &format!("{KNEE}{mix}")),
            all: measurement(of, path, &format!("{SATURATED}{mix}")),
        };
        if row.idle.is_some() || row.all.is_some() {
            rows.push(row);
        }
    }
    rows
}

/// Returns the cell of a figure; a dash without a figure.
fn cell(m: Option<&Measurement>) -> TableCell {
    m.map_or_else(|| "-".into(), |m| column_unit(m.unit).value(m))
}

/// Returns the cell with the 95 % interval of the median of a figure; a dash if it is unknown.
fn interval(m: Option<&Measurement>) -> TableCell {
    let ends = m.and_then(|m| Some((m.unit, m.summary.as_ref()?.ci95?)));
    let Some((unit, ends)) = ends else { return "-".into() };
    let [low, high] = ends.map(|end| column_unit(unit).words(end));
    format!("{low}..{high}").into()
}

/// Returns the curve of a mix on a path.
fn curve(of: &[CurvesFigure<'_>], path: Path, mix: &str, mark: char) -> ChartSeries {
    let title = path_in_words(path);
    let name = if title.is_empty() { mix.to_owned() } else { format!("{mix}, {title}") };
    let mut series = ChartSeries { mark, name, ..ChartSeries::default() };
    let start = format!("latency_{mix}_load");
    for (m, _) in of.iter().filter(|figure| figure_path(figure) == path) {
        let Some(share) = m.name.strip_prefix(&start) else { continue };
        let rate = named(of, path, &format!("bandwidth_{mix}_load{share}"));
        if let (Some(rate), Some(latency)) = (rate.and_then(|(load, _)| load.value), m.value) {
            series.push((rate, latency), m);
        }
    }
    series.dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    series
}

/// Returns the rates to label: 1, 2 and 5 times powers of ten, between the lowest and the highest rate of the curves.
fn ticks(series: &[ChartSeries]) -> Vec<f64> {
    let rates = series.iter().flat_map(|one| &one.dots).map(|dot| dot.0);
    let (low, high) = rates.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), rate| {
        (low.min(rate), high.max(rate))
    });
    let mut ticks = Vec::new();
    for power in 0..16 {
        let decade = 10f64.powi(power);
        ticks.extend([1.0, 2.0, 5.0].map(|factor| factor * decade));
    }
    ticks.retain(|tick| (low..=high).contains(tick));
    ticks
}

/// Returns the figure of a program with this name.
fn program_figure<'a>(of: &'a [CurvesFigure<'a>], name: &str) -> Option<&'a CurvesFigure<'a>> {
    of.iter().find(|(m, _)| m.name == name)
}

/// Returns the point of the program: its bandwidth, and the latency during the program.
fn program_point(of: &[CurvesFigure<'_>]) -> Option<ChartSeries> {
    let (bandwidth, _) = program_figure(of, BANDWIDTH)?;
    let (latency, _) = program_figure(of, LATENCY)?;
    let ends = bandwidth.summary.as_ref().and_then(|summary| summary.ci95);
    let labels = ends.map(|[low, high]| {
        let [from, to] = [low, high].map(|end| ColumnUnit::GB_PER_S.words(end));
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
    let value = quoted(m)?;
    let ends = m.summary.as_ref().and_then(|summary| summary.ci95);
    let ends = ends.map(|ends| ends.map(|end| m.unit.in_words(end)));
    Some(ends.map_or_else(|| value.clone(), |[low, high]| format!("{value} ({low} to {high})")))
}

/// Returns a sentence on the bandwidth of the program; `None` if it is unknown.
fn program_in_words(of: &[CurvesFigure<'_>]) -> Option<String> {
    if let Some((m, _)) = program_figure(of, BANDWIDTH_BELOW) {
        return Some(format!(
            "the program has no measurable memory traffic: less than {}",
            quoted(m)?
        ));
    }
    let (m, _) = program_figure(of, BANDWIDTH)?;
    let share = m.limit.as_ref().map(|limit| {
        format!(", {} of the read rate of its CPUs", limit.fraction.in_whole_percent())
    });
    Some(format!("the program uses {}{}", quoted(m)?, share.unwrap_or_default()))
}

/// Adds the lines on the program.
fn add_program(of: &[CurvesFigure<'_>], section: &mut Section) {
    let Some((_, config)) = of.iter().find(|(m, _)| NAMES.contains(&&*m.name)) else { return };
    let command = config.program.clone().unwrap_or_default();
    let cpus = words::places(config.cpus.as_deref().unwrap_or_default());
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
pub(super) fn view(of: &[CurvesFigure<'_>], section: &mut Section) {
    let of_curves = of.iter().filter(|(m, _)| !NAMES.contains(&&*m.name));
    let paths = distinct(of_curves.map(figure_path));
    let columns = ColumnList::<Row<'_>>::new()
        .left("mix", |row| row.mix)
        .right("idle", |row| cell(row.idle))
        .right("95 %", |row| interval(row.idle))
        .right("full", |row| cell(row.loaded))
        .right("knee", |row| cell(row.knee))
        .right("95 %", |row| interval(row.knee))
        .right("all", |row| cell(row.all))
        .right("of limit", |row| {
            let limit = row.all.and_then(|m| m.limit.as_ref());
            limit.map_or_else(|| "-".to_owned(), |limit| limit.fraction.to_string())
        });
    let mut table = columns.empty();
    let mut series = Vec::new();
    for path in &paths {
        let of_path = rows(of, *path);
        let title = path_in_words(*path);
        if !title.is_empty() {
            table.heading(title);
        }
        columns.add(&mut table, &of_path);
        for row in &of_path {
            let mark = char::from(b'a' + (series.len() % 26) as u8);
            series.push(curve(of, *path, row.mix, mark));
        }
    }
    section.push(table).gap();
    series.extend(program_point(of));
    series.retain(|one| !one.dots.is_empty());
    let mut bandwidths = of.iter().filter(|(m, _)| m.name.starts_with(SATURATED));
    let limit = bandwidths.find_map(|(m, _)| m.limit.as_ref());
    if !series.is_empty() {
        let idle = of.iter().find(|(m, _)| m.name.starts_with(IDLE));
        let guides = idle.and_then(|(m, _)| m.value).map(|value| {
            Guide::y(value, format!("idle {} ns", ColumnUnit::NANOSECONDS.words(value)))
        });
        section.push(Chart {
            title: "memory latency under load, by lines read : lines written".to_owned(),
            names: ["rate of the loading threads", ""],
            x: Scale::Rate(Unit::BytesPerSecond),
            y: Scale::Nanoseconds,
            ticks: ticks(&series),
            series,
            guides: guides.into_iter().collect(),
            ..Chart::default()
        });
    }
    section.gap().push(Block::Text(words_for_columns(of)));
    if let Some(text) = of.iter().find(|(m, _)| m.name.starts_with(IDLE)).and_then(memory_latency) {
        section.push(Block::Text(format!("idle: {text}")));
    }
    add_program(of, section);
    let loaders = of.iter().filter_map(|(_, config)| config.loaders).max().unwrap_or(0);
    let load = verb(loaders, "load");
    let what = format!("1 thread measures latency, {loaders} {load} the memory");
    evidence(section, of, what);
    if let Some(limit) = limit {
        section.note("limit", format!("{} ({})", BytesPerSec(limit.value), limit.basis));
    }
}

/// Describes the columns of the table.
fn words_for_columns(of: &[CurvesFigure<'_>]) -> String {
    let bases = of.iter().filter(|(m, _)| m.name.starts_with(KNEE));
    let bases = distinct(bases.filter_map(|(_, config)| config.basis.as_deref()));
    let knee = if bases.is_empty() {
        "none: latency does not rise by more than its interval".to_owned()
    } else {
        bases.join("; ")
    };
    format!(
        "mix: lines read : lines written, -nt: non-temporal stores; idle and full: latency in ns without load and under \
         the full load of the other threads; 95 %: interval; knee: rate of the other threads in GB/s ({knee}); all: \
         bandwidth of all threads in GB/s, without the chain"
    )
}

/// Returns a sentence on the family: the idle latency, and the range of the bandwidths of all threads.
pub(super) fn conclusion(of: &[CurvesFigure<'_>]) -> Option<String> {
    let path = figure_path(of.first()?);
    let of_path = rows(of, path);
    let idle = of_path.iter().find_map(|row| row.idle.and_then(quoted));
    let all =
        of_path.iter().filter_map(|row| Some((row.mix, row.all.filter(|m| quoted(m).is_some())?)));
    let all: Vec<(&str, &Measurement)> = all.collect();
    let lowest = all.iter().min_by(|a, b| a.1.cmp_value(b.1));
    let highest = all.iter().max_by(|a, b| a.1.cmp_value(b.1));
    let latency = idle.map(|idle| format!("memory latency is {idle} without load"));
    let rates = lowest.zip(highest).and_then(|((low_mix, low), (high_mix, high))| {
        let [from, to] = [quoted(low)?, quoted(high)?];
        let range = if low_mix == high_mix {
            format!("{from} ({low_mix})")
        } else {
            format!("{from} ({low_mix}) to {to} ({high_mix})")
        };
        Some(format!("all threads together reach {range}"))
    });
    let program = program_in_words(of);
    let parts: Vec<String> = latency.into_iter().chain(rates).chain(program).collect();
    (!parts.is_empty()).then(|| capital(&parts.join("; ")))
}
