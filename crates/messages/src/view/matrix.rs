//! Figures of every pair of cores or nodes, shown as a matrix if it fits the terminal, otherwise as a list of outliers.

use super::{FigureUnit, ShownFigure, distance, evidence};
use nodegauge_gauge::view::{Block, Picture, Section, Table, TableCell, distinct, grouped};
use nodegauge_measure::{Bytes, Unit, stats};

/// Maximum number of columns of a matrix that fits a terminal.
const MOST: usize = 12;
/// Maximum number of outliers that are shown.
const WORST: usize = 8;
/// Factor by which an outlier is worse than the median of its distance.
const FAR: f64 = 1.1;
/// Rates below this value are shown in MB/s.
const SMALL_RATE: f64 = 1e8;

/// Figure of a pair.
struct PairFigure<'a> {
    ends: [String; 2],
    value: f64,
    figure: &'a ShownFigure<'a>,
}

impl<'a> PairFigure<'a> {
    fn of(figure: &'a ShownFigure<'a>) -> Option<Self> {
        let config = &figure.config;
        let cpus = config.places.iter().flatten().filter_map(|cpus| cpus.first());
        let ends = config.hosts.clone().unwrap_or_else(|| cpus.map(u32::to_string).collect());
        Some(Self { ends: ends.try_into().ok()?, value: figure.m.value?, figure })
    }
}

fn scale(pairs: &[PairFigure<'_>]) -> FigureUnit {
    let unit = pairs.first().map_or(Unit::Seconds, |pair| pair.figure.m.unit);
    let most = pairs.iter().map(|pair| pair.value).fold(0.0, f64::max);
    if unit == Unit::BytesPerSecond && most < SMALL_RATE {
        FigureUnit { unit, name: "MB/s", convert: |rate| rate / 1e6 }
    } else {
        FigureUnit::of(unit)
    }
}

/// Adds a table and the outliers for each library, pattern and size.
pub(super) fn add(section: &mut Section, all: &[&ShownFigure<'_>]) {
    let own = all.iter().filter(|figure| figure.m.unit != Unit::MessagesPerSecond);
    let pairs = own.filter_map(|figure| PairFigure::of(figure));
    let key = |PairFigure { figure, .. }: &PairFigure<'_>| {
        (figure.library(), figure.m.name.clone(), figure.config.message_bytes)
    };
    for ((library, name, bytes), cell_pairs) in grouped(pairs, key) {
        let Some(bytes) = bytes else { continue };
        if !section.blocks.is_empty() {
            section.gap();
        }
        let shown = scale(&cell_pairs);
        let size = Bytes(bytes);
        section.push(Block::Heading(format!("{library}, {name} of {size}, {}", shown.name)));
        section.push(square(&cell_pairs, shown));
        section.push(map(format!("{library}, {name} of {size}"), &cell_pairs, shown.unit));
        section.note_if("outliers", outliers(&cell_pairs, shown));
    }
    evidence::how(section, all, false);
    evidence::doubts(section, all);
}

/// Returns the matrix if it fits the terminal; otherwise a summary by distance.
fn square(pairs: &[PairFigure<'_>], shown: FigureUnit) -> Table {
    let ends = distinct(pairs.iter().flat_map(|pair| &pair.ends));
    if ends.len() > MOST {
        return summary(pairs, shown);
    }
    let titles = ends.iter().map(|end| format!(">{end}"));
    let titles: Vec<String> = std::iter::once(">".to_owned()).chain(titles).collect();
    let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    for a in &ends {
        let mut row: Vec<TableCell> = vec![(*a).clone().into()];
        row.extend(ends.iter().map(|b| shown.cell(between(pairs, a, b))));
        table.row(row);
    }
    table
}

/// Returns the figure of a pair, for either order of its two ends.
fn between(pairs: &[PairFigure<'_>], a: &str, b: &str) -> Option<f64> {
    let met = |pair: &&PairFigure<'_>| {
        let [x, y] = &pair.ends;
        (x == a && y == b) || (x == b && y == a)
    };
    pairs.iter().find(met).map(|pair| pair.value)
}

/// Returns a heat map of all pairs.
fn map(title: String, pairs: &[PairFigure<'_>], unit: Unit) -> Picture {
    let ends = distinct(pairs.iter().flat_map(|pair| &pair.ends).cloned());
    let row = |a: &String| ends.iter().map(|b| between(pairs, a, b)).collect();
    let values = ends.iter().map(row).collect();
    Picture::between(title, unit, ends, values)
}

fn summary(pairs: &[PairFigure<'_>], shown: FigureUnit) -> Table {
    let mut table = Table::new(&["", ">pairs", ">min", ">median", ">max"]);
    for (name, own) in grouped(pairs, |pair| pair.figure.config.distance) {
        let values: Vec<f64> = own.iter().map(|pair| pair.value).collect();
        let at = |q: f64| shown.cell(Some(stats::quantile(&values, q)));
        let count = values.len().to_string();
        table.row([distance(name).into(), count.into(), at(0.0), at(0.5), at(1.0)]);
    }
    table
}

/// Returns the pairs that are far worse than the median of their distance.
fn outliers(pairs: &[PairFigure<'_>], shown: FigureUnit) -> Option<String> {
    let mut far: Vec<(f64, &PairFigure<'_>)> = Vec::new();
    for (_, own) in grouped(pairs, |pair| pair.figure.config.distance) {
        let median = stats::median(&own.iter().map(|pair| pair.value).collect::<Vec<_>>());
        let worse = |pair: &PairFigure<'_>| match shown.unit {
            Unit::Seconds => pair.value / median,
            _ => median / pair.value,
        };
        let own = own.iter().filter(|_| own.len() > 2).map(|pair| (worse(pair), *pair));
        far.extend(own.filter(|(ratio, _)| *ratio > FAR));
    }
    far.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = |(worse, pair): &(f64, &PairFigure<'_>)| {
        let [a, b] = &pair.ends;
        format!("{a}-{b} {} (x {worse:.2})", shown.words(pair.value))
    };
    let list: Vec<String> = far.iter().take(WORST).map(words).collect();
    (!list.is_empty()).then(|| list.join(", "))
}
