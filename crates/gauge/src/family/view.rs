//! View of a family of curves: a table of the derived figures of each curve, and one picture of all curves.

use super::{IDLE_PREFIX, KNEE_PREFIX, SATURATED_PREFIX};
use crate::view::sentence::value_in_words;
use crate::view::{
    AxisQuantity, Chart, ChartSeries, ColumnList, ColumnUnit, Guide, Table, TableCell, distinct,
};
use nodegauge_measure::Unit;
use nodegauge_measure::record::Measurement;

/// Figure of a family.
#[derive(Debug, Clone)]
pub struct FamilyFigure<'a> {
    /// Measured or derived figure; its name identifies its role, e.g. `knee_1:0`.
    pub m: &'a Measurement,
    /// Path to the memory, or device; empty if there is only one.
    pub title: String,
    /// Definition of a knee.
    pub basis: Option<String>,
}

/// Row of the table: a mix on a path.
struct Row<'a> {
    mix: &'a str,
    idle: Option<&'a Measurement>,
    loaded: Option<&'a Measurement>,
    knee: Option<&'a Measurement>,
    all: Option<&'a Measurement>,
}

/// Returns the figure with this name on the path `title`.
fn named<'a>(of: &[FamilyFigure<'a>], title: &str, name: &str) -> Option<&'a Measurement> {
    of.iter().find(|figure| figure.title == title && figure.m.name == name).map(|figure| figure.m)
}

/// Extracts the mix from the name of an idle latency or of a bandwidth without the chain.
fn named_mix(name: &str) -> Option<&str> {
    name.strip_prefix(IDLE_PREFIX).or_else(|| name.strip_prefix(SATURATED_PREFIX))
}

/// Returns the rows of a path, one per mix in the order of the figures.
fn rows<'a>(of: &[FamilyFigure<'a>], title: &str) -> Vec<Row<'a>> {
    let own = of.iter().filter(|figure| figure.title == title);
    let mut rows = Vec::new();
    for mix in distinct(own.filter_map(|figure| named_mix(&figure.m.name))) {
        rows.push(Row {
            mix,
            idle: named(of, title, &format!("{IDLE_PREFIX}{mix}")),
            loaded: named(of, title, &format!("latency_{mix}_load100")),
            knee: named(of, title, &format!("{KNEE_PREFIX}{mix}")),
            all: named(of, title, &format!("{SATURATED_PREFIX}{mix}")),
        });
    }
    rows
}

/// Returns the unit in which a column shows figures: times in nanoseconds.
fn column_unit(unit: Unit) -> ColumnUnit {
    if unit == Unit::Seconds { ColumnUnit::NANOSECONDS } else { ColumnUnit::from_unit(unit) }
}

/// Returns the cell of a figure; a dash without one.
fn cell(m: Option<&Measurement>) -> TableCell {
    m.map_or_else(|| "-".into(), |m| column_unit(m.unit).value(m))
}

/// Returns the cell with the 95 % interval of the median of a figure; a dash if it is unknown.
fn interval(m: Option<&Measurement>) -> TableCell {
    let ends = m.and_then(|m| Some((m.unit, m.summary.as_ref()?.ci95?)));
    let Some((unit, ends)) = ends else { return "-".into() };
    let [low, high] = ends.map(|end| column_unit(unit).number_text(end));
    format!("{low}..{high}").into()
}

/// Returns the titles of the paths, in the order of the figures.
fn titles<'f>(of: &'f [FamilyFigure<'_>]) -> Vec<&'f str> {
    distinct(of.iter().map(|figure| figure.title.as_str()))
}

/// Returns the table with a row per mix, below a heading for each path.
pub fn table(of: &[FamilyFigure<'_>]) -> Table {
    let columns = ColumnList::<Row<'_>>::new()
        .left("mix", |row| row.mix.to_owned())
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
    let mut table = columns.empty_table();
    for title in titles(of) {
        if !title.is_empty() {
            table.push_heading(title);
        }
        columns.add_rows(&mut table, rows(of, title));
    }
    table
}

/// Returns the curve of a mix on a path.
fn curve(of: &[FamilyFigure<'_>], title: &str, mix: &str, mark: char) -> ChartSeries {
    let name = if title.is_empty() { mix.to_owned() } else { format!("{mix}, {title}") };
    let mut series = ChartSeries { mark, name, ..ChartSeries::default() };
    let start = format!("latency_{mix}_load");
    for figure in of.iter().filter(|figure| figure.title == title) {
        let Some(share) = figure.m.name.strip_prefix(&start) else { continue };
        let rate = named(of, title, &format!("bandwidth_{mix}_load{share}"));
        if let (Some(rate), Some(latency)) = (rate.and_then(|load| load.value), figure.m.value) {
            series.push((rate, latency), figure.m);
        }
    }
    series.dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    series
}

/// Returns the rates to label: 1, 2 and 5 times the powers of ten between the lowest and the highest rate of the
/// curves.
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

/// Returns the picture of all curves; `None` without points. `axis` is the name of the horizontal axis, and `program` a
/// user's program that is shown as a point.
pub fn chart(
    of: &[FamilyFigure<'_>],
    axis: &'static str,
    program: Option<ChartSeries>,
) -> Option<Chart> {
    let mut series = Vec::new();
    for title in titles(of) {
        for row in rows(of, title) {
            let mark = char::from(b'a' + (series.len() % 26) as u8);
            series.push(curve(of, title, row.mix, mark));
        }
    }
    series.extend(program);
    series.retain(|one| !one.dots.is_empty());
    if series.is_empty() {
        return None;
    }
    let idle = of.iter().find(|figure| figure.m.name.starts_with(IDLE_PREFIX));
    let guides = idle.and_then(|figure| figure.m.value).map(|value| {
        Guide::y(value, format!("idle {} ns", ColumnUnit::NANOSECONDS.number_text(value)))
    });
    Some(Chart {
        title: "memory latency under load, by lines read : lines written".to_owned(),
        names: [axis, ""],
        x: AxisQuantity::Rate(Unit::BytesPerSecond),
        y: AxisQuantity::Nanoseconds,
        ticks: ticks(&series),
        series,
        guides: guides.into_iter().collect(),
        ..Chart::default()
    })
}

/// Describes the columns of the table. `who` names the threads that load the memory during the chain, e.g. `the other
/// threads`; `all` names the threads that load it without the chain.
pub fn describe_columns(of: &[FamilyFigure<'_>], mix: &str, who: &str, all: &str) -> String {
    let knees = of.iter().filter(|figure| figure.m.name.starts_with(KNEE_PREFIX));
    let bases = distinct(knees.filter_map(|figure| figure.basis.as_deref()));
    let knee = if bases.is_empty() {
        "none: latency does not rise by more than its interval".to_owned()
    } else {
        bases.join("; ")
    };
    format!(
        "mix: {mix}; idle and full: latency in ns without load and under the full load of {who}; 95 %: interval; knee: \
         rate of {who} in GB/s ({knee}); all: bandwidth of {all} in GB/s, without the chain"
    )
}

/// Returns the parts of a sentence about a family: the idle latency, and the range of the bandwidths without the chain.
/// `all` names the threads that reach them, e.g. `all threads together`.
pub fn conclusion(of: &[FamilyFigure<'_>], all: &str) -> Vec<String> {
    let Some(first) = of.first() else { return Vec::new() };
    let of_path = rows(of, &first.title);
    let idle = of_path.iter().find_map(|row| row.idle.and_then(value_in_words));
    let rates = of_path
        .iter()
        .filter_map(|row| Some((row.mix, row.all.filter(|m| value_in_words(m).is_some())?)));
    let rates: Vec<(&str, &Measurement)> = rates.collect();
    let lowest = rates.iter().min_by(|a, b| a.1.cmp_value(b.1));
    let highest = rates.iter().max_by(|a, b| a.1.cmp_value(b.1));
    let latency = idle.map(|idle| format!("memory latency is {idle} without load"));
    let range = lowest.zip(highest).and_then(|((low_mix, low), (high_mix, high))| {
        let [from, to] = [value_in_words(low)?, value_in_words(high)?];
        let range = if low_mix == high_mix {
            format!("{from} ({low_mix})")
        } else {
            format!("{from} ({low_mix}) to {to} ({high_mix})")
        };
        Some(format!("{all} reach {range}"))
    });
    latency.into_iter().chain(range).collect()
}
