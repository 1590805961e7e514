//! Matrices: node to node, and CPU to CPU.

use super::{evidence, ns};
use crate::table::{Style, table};
use crate::words;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::stats;

/// CPUs of the widest matrix that is shown cell by cell.
const MOST_CPUS: usize = 12;
/// Nodes of the widest matrix; wider ones are shown by distance from the diagonal only in the record.
const MOST_NODES: usize = 16;

/// `n0->n1` or `cpu0->cpu1`, as its kind and two numbers.
fn pair(name: &str) -> Option<(&str, u32, u32)> {
    let (from, to) = name.split_once("->")?;
    let kind = from.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = |text: &str| text.strip_prefix(kind)?.parse().ok();
    Some((kind, number(from)?, number(to)?))
}

pub(super) fn render(of: &[&Measurement], style: Style) -> String {
    let kind = |wished: &'static str| -> Vec<&Measurement> {
        of.iter().copied().filter(|m| pair(&m.name).is_some_and(|p| p.0 == wished)).collect()
    };
    let (nodes, cpus) = (kind("n"), kind("cpu"));
    let mut out = String::new();
    let unit = |unit: &str| -> Vec<&Measurement> {
        nodes.iter().copied().filter(|m| m.unit.symbol() == unit).collect()
    };
    let rates = unit("B/s");
    if !rates.is_empty() {
        out.push_str(&grid(&rates, "GB/s", words::gb, style));
        out.push('\n');
        out.push_str(&grid(&unit("s"), "ns", ns, style));
        out.push_str("\nreads of a row's cores from a column's memory; latency of one of them\n");
        out.push_str(&evidence(&rates, style, "each node's cores read, memory bound to its node"));
    }
    if !cpus.is_empty() {
        if !out.is_empty() {
            out.push('\n');
        }
        let numbers = numbers(&cpus);
        if numbers.len() <= MOST_CPUS {
            out.push_str(&grid(&cpus, "ns", ns, style));
            out.push_str("\na cache line from cpu to cpu, half a round trip\n");
        }
        out.push_str(&by_distance(&cpus, style));
    }
    out
}

/// All numbers of some pairs, ascending.
fn numbers(of: &[&Measurement]) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        of.iter().filter_map(|m| pair(&m.name)).flat_map(|(_, from, to)| [from, to]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// A table of every row to every column.
fn grid(of: &[&Measurement], unit: &str, figure: fn(f64) -> String, style: Style) -> String {
    let numbers = numbers(of);
    if numbers.len() > MOST_NODES {
        return format!("{unit}: {} pairs, see the record\n", of.len());
    }
    let kind = of.first().and_then(|m| pair(&m.name)).map_or("", |(kind, ..)| kind);
    let titles: Vec<String> = numbers.iter().map(|number| format!("{kind}{number}")).collect();
    let mut header = vec![unit];
    header.extend(titles.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = numbers
        .iter()
        .zip(&titles)
        .map(|(from, title)| {
            let mut row = vec![title.clone()];
            row.extend(numbers.iter().map(|to| {
                let at = |x: u32, y: u32| of.iter().find(|m| pair(&m.name) == Some((kind, x, y)));
                // Half a round trip is the same both ways.
                let found = at(*from, *to).or_else(|| at(*to, *from).filter(|_| kind == "cpu"));
                match found {
                    Some(m) => super::shown(Some(m), figure),
                    None => String::new(),
                }
            }));
            row
        })
        .collect();
    let right: Vec<usize> = (1..header.len()).collect();
    table(style, &header, &rows, &right)
}

/// Smallest, median and largest of each class of distance, nearest first.
fn by_distance(of: &[&Measurement], style: Style) -> String {
    let mut classes: Vec<(&str, Vec<f64>)> = Vec::new();
    for m in of {
        let (Some(class), Some(value)) = (words::text(m, "distance"), m.value) else { continue };
        match classes.iter_mut().find(|(known, _)| *known == class) {
            Some((_, values)) => values.push(value),
            None => classes.push((class, vec![value])),
        }
    }
    let rows: Vec<Vec<String>> = classes
        .iter()
        .map(|(class, values)| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            vec![
                (*class).to_owned(),
                values.len().to_string(),
                ns(least),
                ns(stats::median(values)),
                ns(most),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n{}",
        table(style, &["cpus", "pairs", "least ns", "median", "most"], &rows, &[1, 2, 3, 4])
    )
}

#[cfg(test)]
mod tests {
    use super::pair;

    #[test]
    fn names_are_read() {
        assert_eq!(pair("n0->n11"), Some(("n", 0, 11)));
        assert_eq!(pair("cpu3->cpu7"), Some(("cpu", 3, 7)));
        assert_eq!(pair("copy"), None);
        assert_eq!(pair("n0->cpu1"), None);
    }
}
