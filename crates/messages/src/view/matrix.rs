//! Figures of all pairs of cores or nodes, shown as a matrix if it fits the terminal, otherwise as a list of outliers.

use super::{ShownFigure, distance, evidence};
use nodegauge_gauge::view::{
    Block, ColumnList, ColumnUnit, Picture, Section, Table, distinct, group_by_key,
};
use nodegauge_measure::{Bytes, Unit, stats};
use nodegauge_placement::Distance;

/// Maximum number of columns of a matrix that fits a terminal.
const MAX_COLUMNS: usize = 12;
/// Maximum number of outliers that are shown.
const MAX_OUTLIERS: usize = 8;
/// Minimum ratio of an outlier to the median of the pairs at the same distance.
const OUTLIER_FACTOR: f64 = 1.1;
/// Rates below this value are shown in MB/s.
const SMALL_RATE: f64 = 1e8;

/// Figure of a pair.
struct PairFigure<'a> {
    ends: [String; 2],
    value: f64,
    figure: &'a ShownFigure<'a>,
}

impl<'a> PairFigure<'a> {
    fn from_figure(figure: &'a ShownFigure<'a>) -> Option<Self> {
        let config = &figure.config;
        let cpus = config.places.iter().flatten().filter_map(|cpus| cpus.first());
        let ends = config.hosts.clone().unwrap_or_else(|| cpus.map(u32::to_string).collect());
        Some(Self { ends: ends.try_into().ok()?, value: figure.m.value?, figure })
    }
}

fn scale(pairs: &[PairFigure<'_>]) -> ColumnUnit {
    let unit = pairs.first().map_or(Unit::Seconds, |pair| pair.figure.m.unit);
    let max = pairs.iter().map(|pair| pair.value).fold(0.0, f64::max);
    if unit == Unit::BytesPerSecond && max < SMALL_RATE {
        ColumnUnit::MB_PER_S
    } else {
        ColumnUnit::from_unit(unit)
    }
}

/// Adds a table and the outliers for each library, pattern and size.
pub(super) fn add(section: &mut Section, all: &[&ShownFigure<'_>]) {
    let own = all.iter().filter(|figure| figure.m.unit != Unit::MessagesPerSecond);
    let pairs = own.filter_map(|figure| PairFigure::from_figure(figure));
    let cells = group_by_key(pairs, |PairFigure { figure, .. }| {
        (figure.library(), figure.m.name.clone(), figure.config.message_bytes)
    });
    for ((library, name, bytes), cell_pairs) in cells {
        let Some(bytes) = bytes else { continue };
        if !section.blocks.is_empty() {
            section.push_gap();
        }
        let shown = scale(&cell_pairs);
        let size = Bytes(bytes);
        section.push(Block::Heading(format!("{library}, {name} of {size}, {}", shown.symbol())));
        section.push(square(&cell_pairs, shown));
        section.push(map(format!("{library}, {name} of {size}"), &cell_pairs, shown.unit()));
        section.note_if("outliers", outliers(&cell_pairs, shown));
    }
    evidence::add_notes(section, all, false);
    evidence::add_doubts(section, all);
}

/// Returns the matrix if it fits the terminal; otherwise a summary by distance.
fn square(pairs: &[PairFigure<'_>], shown: ColumnUnit) -> Table {
    let ends = distinct(pairs.iter().flat_map(|pair| &pair.ends));
    if ends.len() > MAX_COLUMNS {
        return summary(pairs, shown);
    }
    let columns = ColumnList::<&String>::new().right("", |end| end.to_string()).columns_for_each(
        &ends,
        |end| (*end).to_string(),
        |a, b| shown.cell(between(pairs, a, b)),
    );
    columns.table(&ends)
}

/// Returns the figure of a pair, regardless of the order of its two ends.
fn between(pairs: &[PairFigure<'_>], a: &str, b: &str) -> Option<f64> {
    let met = pairs.iter().find(|pair| {
        let [x, y] = &pair.ends;
        (x == a && y == b) || (x == b && y == a)
    });
    met.map(|pair| pair.value)
}

/// Returns a heat map of all pairs.
fn map(title: String, pairs: &[PairFigure<'_>], unit: Unit) -> Picture {
    let ends = distinct(pairs.iter().flat_map(|pair| &pair.ends).cloned());
    let values = ends.iter().map(|a| ends.iter().map(|b| between(pairs, a, b)).collect()).collect();
    Picture::pair_map(title, unit, ends, values)
}

/// Row of the summary: the values of all pairs of one distance.
struct DistanceRow {
    distance: Option<Distance>,
    values: Vec<f64>,
}

impl DistanceRow {
    fn at(&self, quantile: f64) -> Option<f64> {
        Some(stats::quantile(&self.values, quantile))
    }
}

fn summary(pairs: &[PairFigure<'_>], shown: ColumnUnit) -> Table {
    let rows = group_by_key(pairs, |pair| pair.figure.config.distance).into_iter();
    let columns = ColumnList::<DistanceRow>::new()
        .left("", |row| distance(row.distance))
        .right("pairs", |row| row.values.len().to_string())
        .values("min", shown, |row| row.at(0.0))
        .values("median", shown, |row| row.at(0.5))
        .values("max", shown, |row| row.at(1.0));
    columns.table(rows.map(|(distance, own)| DistanceRow {
        distance,
        values: own.iter().map(|pair| pair.value).collect(),
    }))
}

/// Returns the pairs that are far worse than the median of all pairs at the same distance.
fn outliers(pairs: &[PairFigure<'_>], shown: ColumnUnit) -> Option<String> {
    let mut far: Vec<(f64, &PairFigure<'_>)> = Vec::new();
    for (_, own) in group_by_key(pairs, |pair| pair.figure.config.distance) {
        let median = stats::median(&own.iter().map(|pair| pair.value).collect::<Vec<_>>());
        for pair in own.iter().filter(|_| own.len() > 2) {
            let worse = match shown.unit() {
                Unit::Seconds => pair.value / median,
                _ => median / pair.value,
            };
            far.extend((worse > OUTLIER_FACTOR).then_some((worse, *pair)));
        }
    }
    far.sort_by(|a, b| b.0.total_cmp(&a.0));
    let worst = far.iter().take(MAX_OUTLIERS).map(|(worse, pair)| {
        let [a, b] = &pair.ends;
        format!("{a}-{b} {} (x {worse:.2})", shown.number_text(pair.value))
    });
    let list: Vec<String> = worst.collect();
    (!list.is_empty()).then(|| list.join(", "))
}
