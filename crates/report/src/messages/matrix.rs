//! Every core with every other, or pairs of nodes: a matrix while it fits, else the pairs that stand
//! out.

use super::{bytes, distance, doubts, how, library, us};
use crate::table::{Style, paragraph, table};
use crate::words;
use nodegauge_measure::Bytes;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::stats;
use serde_json::Value;

/// Columns of a matrix at most: a wider one fits no terminal.
const MOST: usize = 12;
/// Pairs that stand out, shown at most.
const WORST: usize = 8;
/// A pair stands out when it is this much worse than the median of its distance.
const FAR: f64 = 1.1;

/// One figure of one pair.
struct Cell<'a> {
    ends: [String; 2],
    value: f64,
    m: &'a Measurement,
}

fn cell(m: &Measurement) -> Option<Cell<'_>> {
    let end = |value: &Value| match value {
        Value::String(host) => Some(host.clone()),
        Value::Array(cpus) => Some(cpus.first()?.as_u64()?.to_string()),
        _ => None,
    };
    let ends = m.config.get("hosts").or_else(|| m.config.get("places"))?.as_array()?;
    let ends = [end(ends.first()?)?, end(ends.get(1)?)?];
    Some(Cell { ends, value: m.value?, m })
}

/// A table for each library, pattern and size, with what stands out.
pub(super) fn render(all: &[&Measurement], style: Style) -> String {
    let mut tables: Vec<(String, &str, Option<u64>)> = Vec::new();
    for m in all
        .iter()
        .filter(|m| m.unit != nodegauge_measure::Unit::MessagesPerSecond && bytes(m).is_some())
    {
        let key = (library(m), m.name.as_str(), bytes(m));
        if !tables.contains(&key) {
            tables.push(key);
        }
    }
    let mut parts = Vec::new();
    for key in &tables {
        let cells: Vec<Cell<'_>> = all
            .iter()
            .filter(|m| {
                (library(m), m.name.as_str(), bytes(m)) == *key
                    && m.unit != nodegauge_measure::Unit::MessagesPerSecond
            })
            .filter_map(|m| cell(m))
            .collect();
        if cells.is_empty() {
            continue;
        }
        let unit = Unit::of(&cells);
        let size = Bytes(key.2.unwrap_or(0));
        let mut part = style.strong(&format!("{}, {} of {size}, {}", key.0, key.1, unit.name()));
        part.push('\n');
        part.push_str(&square(&cells, unit, style));
        part.push_str(&outliers(&cells, unit, style));
        parts.push(part);
    }
    let mut out = parts.join("\n");
    out.push_str(&how(all, false, style));
    out.push_str(&doubts(all, style));
    out
}

/// What the figures of a table are shown in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microseconds,
    Gigabytes,
    /// For small messages, whose rates have nothing before the point and little behind it.
    Megabytes,
}

impl Unit {
    fn of(cells: &[Cell<'_>]) -> Self {
        let most = cells.iter().map(|cell| cell.value).fold(0.0, f64::max);
        match () {
            () if cells.iter().any(|cell| cell.m.unit == nodegauge_measure::Unit::Seconds) => {
                Self::Microseconds
            }
            () if most < 1e8 => Self::Megabytes,
            () => Self::Gigabytes,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "us",
            Self::Gigabytes => "GB/s",
            Self::Megabytes => "MB/s",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Microseconds => us(value),
            Self::Gigabytes => words::gb(value),
            Self::Megabytes => significant(value / 1e6),
        }
    }
}

/// The matrix itself, with as few ends as fit; of many only a summary by distance.
fn square(cells: &[Cell<'_>], unit: Unit, style: Style) -> String {
    let mut ends: Vec<&String> = Vec::new();
    for end in cells.iter().flat_map(|cell| &cell.ends) {
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    if ends.len() > MOST {
        return by_distance(cells, unit, style);
    }
    let rows: Vec<Vec<String>> = ends
        .iter()
        .map(|a| {
            let mut row = vec![(*a).clone()];
            row.extend(ends.iter().map(|b| {
                let found = cells.iter().find(|cell| {
                    (&cell.ends[0] == *a && &cell.ends[1] == *b)
                        || (&cell.ends[0] == *b && &cell.ends[1] == *a)
                });
                found.map_or_else(|| "-".to_owned(), |cell| unit.show(cell.value))
            }));
            row
        })
        .collect();
    let mut header = vec![""];
    header.extend(ends.iter().map(|end| end.as_str()));
    let right: Vec<usize> = (0..header.len()).collect();
    table(style, &header, &rows, &right)
}

fn by_distance(cells: &[Cell<'_>], unit: Unit, style: Style) -> String {
    let rows: Vec<Vec<String>> = groups(cells)
        .iter()
        .map(|(name, values)| {
            let at = |q: f64| unit.show(stats::quantile(values, q));
            vec![distance(*name).to_owned(), values.len().to_string(), at(0.0), at(0.5), at(1.0)]
        })
        .collect();
    table(style, &["", "pairs", "least", "median", "most"], &rows, &[1, 2, 3, 4])
}

/// Values by distance.
fn groups<'a>(cells: &[Cell<'a>]) -> Vec<(Option<&'a str>, Vec<f64>)> {
    let mut groups: Vec<(Option<&str>, Vec<f64>)> = Vec::new();
    for cell in cells {
        let name = words::text(cell.m, "distance");
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(cell.value),
            None => groups.push((name, vec![cell.value])),
        }
    }
    groups
}

/// Pairs far from the median of their distance.
fn outliers(cells: &[Cell<'_>], unit: Unit, style: Style) -> String {
    let groups = groups(cells);
    let mut far: Vec<(f64, &Cell<'_>)> = cells
        .iter()
        .filter_map(|cell| {
            let name = words::text(cell.m, "distance");
            let (_, values) = groups.iter().find(|(known, _)| *known == name)?;
            let median = stats::median(values);
            let worse =
                if unit == Unit::Microseconds { cell.value / median } else { median / cell.value };
            (worse > FAR && values.len() > 2).then_some((worse, cell))
        })
        .collect();
    far.sort_by(|a, b| b.0.total_cmp(&a.0));
    let list: Vec<String> = far
        .iter()
        .take(WORST)
        .map(|(worse, cell)| {
            format!("{}-{} {} (x {worse:.2})", cell.ends[0], cell.ends[1], unit.show(cell.value))
        })
        .collect();
    if list.is_empty() {
        return String::new();
    }
    paragraph(style, "far off", &list.join(", "))
}
