//! Figures over message sizes: latencies with their spread, rates with bars, collectives.

use super::{Figure, distance, distinct, evidence, lines, shown, unit_words};
use crate::pattern::Pattern;
use nodegauge_gauge::view::{Block, Cell, Column, Section, Table};
use nodegauge_measure::{Bytes, Unit};

/// Columns of a bar at most.
const BAR: usize = 20;
/// Eighths of a block.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The curves of every library and distance.
pub(super) fn add(section: &mut Section, all: &[&Figure<'_>]) {
    let lines = lines(all.iter().filter(|figure| figure.config.message_bytes.is_some()));
    for (number, line) in lines.iter().enumerate() {
        let own: Vec<&Figure<'_>> =
            all.iter().copied().filter(|figure| figure.line() == *line).collect();
        if number > 0 {
            section.gap();
        }
        if lines.len() > 1 {
            section.push(Block::Heading(format!("{}, {}", line.0, distance(line.1))));
        }
        let tables = [latencies(&own), rates(&own), collectives(&own)];
        for (number, table) in tables.into_iter().flatten().enumerate() {
            if number > 0 {
                section.gap();
            }
            section.push(table);
        }
        let first = own.iter().find(|figure| figure.pattern == Some(Pattern::Latency));
        section.note_if("curve", first.and_then(|figure| evidence::curve(figure)));
    }
}

/// Figures of patterns that are not known here, by name.
pub(super) fn add_unknown(section: &mut Section, all: &[&Figure<'_>]) {
    let unknown = || all.iter().filter(|figure| figure.pattern.is_none());
    if unknown().next().is_none() {
        return;
    }
    section.gap();
    let mut table = Table::new(&["pattern", "", ">size", ">value", "unit"]);
    for figure in unknown() {
        let size = figure.config.message_bytes.map(|bytes| Bytes(bytes).to_string());
        table.row([
            figure.m.name.clone().into(),
            distance(figure.config.distance).into(),
            size.unwrap_or_default().into(),
            shown(figure.m.value, figure.m.unit),
            unit_words(figure.m.unit).into(),
        ]);
    }
    section.push(table);
}

/// The names of the patterns that are `of_kind`, in order of appearance.
fn names<'a>(own: &[&'a Figure<'_>], of_kind: impl Fn(Pattern) -> bool) -> Vec<&'a str> {
    let kind = own.iter().filter(|figure| figure.pattern.is_some_and(&of_kind));
    distinct(kind.map(|figure| figure.m.name.as_str()))
}

/// Sizes that any of these has, ascending.
pub(super) fn sizes(own: &[&Figure<'_>], names: &[&str]) -> Vec<u64> {
    let of_names = own.iter().filter(|figure| names.contains(&&*figure.m.name));
    let mut sizes: Vec<u64> = of_names.filter_map(|figure| figure.config.message_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn at<'a>(own: &[&'a Figure<'a>], name: &str, unit: Unit, size: u64) -> Option<&'a Figure<'a>> {
    own.iter().copied().find(|figure| figure.is(name, unit, size))
}

/// A table of figures over sizes, without rows; all columns are right-aligned.
fn over_sizes(title: &str, names: &[&str]) -> Table {
    let column = |title: &&str| Column { title: (*title).to_owned(), right: true };
    let columns = [title].iter().chain(names).map(column).collect();
    Table { columns, ..Table::default() }
}

fn latencies(own: &[&Figure<'_>]) -> Option<Table> {
    let there = names(own, |pattern| !pattern.is_rate() && !pattern.is_collective());
    let first = there.first()?;
    // The spread of the first of them.
    let columns = [&there[..], &["min", "median", "p99", "max"]].concat();
    let mut table = over_sizes("us", &columns);
    for size in sizes(own, &there) {
        let of = |name: &str| at(own, name, Unit::Seconds, size);
        let value = |name: &&str| shown(of(name).and_then(|figure| figure.m.value), Unit::Seconds);
        let main = of(first);
        let median = main.and_then(|figure| Some(figure.m.summary.as_ref()?.median));
        let config = main.map(|figure| figure.config.clone()).unwrap_or_default();
        let spread = [config.min, median, config.p99, config.max];
        let mut row: Vec<Cell> = vec![Bytes(size).to_string().into()];
        row.extend(there.iter().map(value));
        row.extend(spread.map(|value| shown(value, Unit::Seconds)));
        table.row(row);
    }
    Some(table)
}

fn rates(own: &[&Figure<'_>]) -> Option<Table> {
    let there = names(own, Pattern::is_rate);
    let first = there.first()?;
    let counting = own.iter().find(|figure| figure.m.unit == Unit::MessagesPerSecond);
    let mut columns = there.clone();
    columns.extend(counting.map(|_| unit_words(Unit::MessagesPerSecond)));
    let mut table = over_sizes("GB/s", &columns);
    table.columns.push(Column::default());
    let value = |name: &str, unit: Unit, size: u64| at(own, name, unit, size)?.m.value;
    let rate = |name: &str, size: u64| value(name, Unit::BytesPerSecond, size);
    let sizes = sizes(own, &there);
    let most = sizes.iter().filter_map(|size| rate(first, *size)).fold(0.0, f64::max);
    for size in sizes {
        let mut row: Vec<Cell> = vec![Bytes(size).to_string().into()];
        row.extend(there.iter().map(|name| shown(rate(name, size), Unit::BytesPerSecond)));
        row.extend(counting.map(|figure| {
            let unit = Unit::MessagesPerSecond;
            shown(value(&figure.m.name, unit, size), unit)
        }));
        row.push(rate(first, size).map(|rate| bar(rate / most)).unwrap_or_default().into());
        table.row(row);
    }
    Some(table)
}

fn collectives(own: &[&Figure<'_>]) -> Option<Table> {
    let there = names(own, Pattern::is_collective);
    let first = there.first()?;
    let ranks = own.iter().find(|figure| figure.m.name == *first)?.config.processes;
    let title = ranks.map_or_else(|| "us".to_owned(), |ranks| format!("us, {ranks} ranks"));
    let mut table = over_sizes(&title, &there);
    for size in sizes(own, &there) {
        let value =
            |name: &&str| at(own, name, Unit::Seconds, size).and_then(|figure| figure.m.value);
        let mut row: Vec<Cell> = vec![Bytes(size).to_string().into()];
        row.extend(there.iter().map(|name| shown(value(name), Unit::Seconds)));
        table.row(row);
    }
    Some(table)
}

/// A bar of a share of the width.
fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8 - 1]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(1.0).chars().count(), 20);
        assert_eq!(bar(0.5), "██████████");
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.01), "▎");
    }
}
