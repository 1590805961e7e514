//! Figures over message sizes: latencies with their spread, rates with a chart, collectives, and
//! the OSU micro-benchmarks beside the probe.

use super::{bytes, curve_in_words, distance, doubts, how, is_collective, library, line_of, us};
use crate::table::{Style, paragraph, table};
use crate::words;
use nodegauge_measure::Bytes;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Category, Measurement};

/// Columns of a bar at most.
const BAR: usize = 20;
/// Eighths of a block.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The curves of every library and distance.
pub(super) fn render(all: &[&Measurement], style: Style) -> String {
    let mut lines: Vec<(String, Option<&str>)> = Vec::new();
    for m in all.iter().filter(|m| bytes(m).is_some()) {
        if !lines.contains(&line_of(m)) {
            lines.push(line_of(m));
        }
    }
    let several = lines.len() > 1;
    let mut parts = Vec::new();
    for line in &lines {
        let own: Vec<&Measurement> = all.iter().copied().filter(|m| line_of(m) == *line).collect();
        let mut part = String::new();
        if several {
            part.push_str(&style.strong(&format!("{}, {}", line.0, distance(line.1))));
            part.push('\n');
        }
        let tables = [latencies(&own, style), rates(&own, style), collectives(&own, style)];
        let tables: Vec<String> = tables.into_iter().filter(|table| !table.is_empty()).collect();
        part.push_str(&tables.join("\n"));
        if let Some(text) = own.iter().find(|m| m.name == "latency").and_then(|m| curve_in_words(m))
        {
            part.push_str(&paragraph(style, "curve", &text));
        }
        parts.push(part);
    }
    parts.join("\n")
}

/// Sizes that any of these has, ascending.
fn sizes(own: &[&Measurement], names: &[&str]) -> Vec<u64> {
    let mut sizes: Vec<u64> =
        own.iter().filter(|m| names.contains(&&*m.name)).filter_map(|m| bytes(m)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn at<'a>(own: &[&'a Measurement], name: &str, unit: &str, size: u64) -> Option<&'a Measurement> {
    own.iter()
        .copied()
        .find(|m| m.name == name && m.unit.symbol() == unit && bytes(m) == Some(size))
}

fn latencies(own: &[&Measurement], style: Style) -> String {
    const NAMES: [&str; 3] = ["latency", "multi_lat", "latency_mt"];
    let there: Vec<&str> =
        NAMES.into_iter().filter(|name| own.iter().any(|m| m.name == *name)).collect();
    let Some(first) = there.first() else { return String::new() };
    let mut header = vec!["us"];
    header.extend(&there);
    // The spread of the first of them.
    header.extend(["min", "median", "p99", "max"]);
    let rows: Vec<Vec<String>> = sizes(own, &there)
        .into_iter()
        .map(|size| {
            let mut row = vec![Bytes(size).to_string()];
            row.extend(there.iter().map(|name| {
                at(own, name, "s", size).and_then(|m| m.value).map_or_else(|| "-".to_owned(), us)
            }));
            let main = at(own, first, "s", size);
            let number = |key: &str| main.and_then(|m| words::number(m, key));
            let median = main.and_then(|m| m.summary.as_ref().map(|s| s.median));
            for value in [number("min"), median, number("p99"), number("max")] {
                row.push(value.map_or_else(|| "-".to_owned(), us));
            }
            row
        })
        .collect();
    table(style, &header, &rows, &right(header.len(), rows.first()))
}

fn rates(own: &[&Measurement], style: Style) -> String {
    const NAMES: [&str; 3] = ["bw", "bibw", "mbw_mr"];
    let there: Vec<&str> =
        NAMES.into_iter().filter(|name| own.iter().any(|m| m.name == *name)).collect();
    let Some(first) = there.first() else { return String::new() };
    let messages = own.iter().any(|m| m.unit == nodegauge_measure::Unit::MessagesPerSecond);
    let mut header = vec!["GB/s"];
    header.extend(&there);
    if messages {
        header.push("Mmsg/s");
    }
    header.push("");
    let of = |size: u64, name: &str| at(own, name, "B/s", size).and_then(|m| m.value);
    let sizes = sizes(own, &there);
    let most = sizes.iter().filter_map(|size| of(*size, first)).fold(0.0, f64::max);
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .map(|size| {
            let mut row = vec![Bytes(*size).to_string()];
            row.extend(
                there.iter().map(|name| of(*size, name).map_or_else(|| "-".to_owned(), words::gb)),
            );
            if messages {
                let rate = at(own, "mbw_mr", "msg/s", *size).and_then(|m| m.value);
                row.push(rate.map_or_else(|| "-".to_owned(), |rate| significant(rate / 1e6)));
            }
            row.push(of(*size, first).map(|rate| bar(rate / most)).unwrap_or_default());
            row
        })
        .collect();
    let mut right = right(header.len(), rows.first());
    right.pop();
    table(style, &header, &rows, &right)
}

fn collectives(own: &[&Measurement], style: Style) -> String {
    let mut there: Vec<&str> = Vec::new();
    for m in own.iter().filter(|m| is_collective(&m.name)) {
        if !there.contains(&&*m.name) {
            there.push(&m.name);
        }
    }
    let Some(first) = there.first() else { return String::new() };
    let ranks = own
        .iter()
        .find(|m| m.name == *first)
        .and_then(|m| words::number(m, "processes"))
        .map_or_else(|| "us".to_owned(), |ranks| format!("us, {ranks} ranks"));
    let mut header = vec![ranks.as_str()];
    header.extend(&there);
    let rows: Vec<Vec<String>> = sizes(own, &there)
        .into_iter()
        .map(|size| {
            let mut row = vec![Bytes(size).to_string()];
            row.extend(there.iter().map(|name| {
                at(own, name, "s", size).and_then(|m| m.value).map_or_else(|| "-".to_owned(), us)
            }));
            row
        })
        .collect();
    table(style, &header, &rows, &right(header.len(), rows.first()))
}

/// Numbers of the columns that hold numbers: all of them.
fn right(columns: usize, row: Option<&Vec<String>>) -> Vec<usize> {
    if row.is_some() { (0..columns).collect() } else { Vec::new() }
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

/// The probe beside the OSU micro-benchmarks, or only the latter where an output was imported.
pub(super) fn beside(all: &[&Measurement], style: Style) -> String {
    let mut tables: Vec<(String, String, String)> = Vec::new();
    for m in all {
        let key = (library(m), m.name.clone(), m.unit.to_string());
        if !tables.contains(&key) {
            tables.push(key);
        }
    }
    let mut parts = Vec::new();
    for key in &tables {
        let own: Vec<&Measurement> = all
            .iter()
            .copied()
            .filter(|m| (library(m), m.name.clone(), m.unit.to_string()) == *key)
            .collect();
        let (unit, shown): (&str, fn(f64) -> String) = match key.2.as_str() {
            "s" => ("us", us),
            "B/s" => ("GB/s", words::gb),
            _ => ("Mmsg/s", |rate| significant(rate / 1e6)),
        };
        let of = |category: Category, size: u64| {
            own.iter().copied().find(|m| m.category == category && bytes(m) == Some(size))
        };
        let value =
            |m: Option<&Measurement>| m.and_then(|m| m.value).map_or_else(|| "-".to_owned(), shown);
        let rows: Vec<Vec<String>> = sizes(&own, &[&key.1])
            .into_iter()
            .map(|size| {
                let (probe, osu) = (of(Category::Variant, size), of(Category::Reference, size));
                let ratio = probe.and_then(|m| words::number(m, "over_osu"));
                vec![
                    Bytes(size).to_string(),
                    value(probe),
                    value(osu),
                    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
                    spread(probe),
                    spread(osu),
                ]
            })
            .collect();
        let version = own.iter().find_map(|m| words::text(m, "engine_version"));
        let osu = version.map_or_else(|| "osu".to_owned(), |version| format!("osu {version}"));
        let title = format!("{} {unit}", key.1);
        let header = [&*title, "probe", &*osu, "ratio", "spread", "osu's"];
        let mut part = style.strong(&key.0);
        part.push('\n');
        part.push_str(&table(style, &header, &rows, &[0, 1, 2, 3, 4, 5]));
        if let Some(rounds) = own.iter().find_map(|m| words::number(m, "rounds")) {
            let timing = own.iter().find_map(|m| words::text(m, "timing")).unwrap_or("batch");
            let text = format!(
                "medians of {rounds} rounds by turns, of their ratios too; the clock around each {}",
                if timing == "each" { "operation, as in OSU 7" } else { "batch, as in OSU 5" }
            );
            part.push_str(&paragraph(style, "", &text));
        }
        parts.push(part);
    }
    let mut out = parts.join("\n");
    if all.iter().any(|m| m.category == Category::Variant) {
        out.push_str(&how(all, false, style));
    }
    out.push_str(&doubts(all, style));
    out
}

/// How far samples scatter: half the range over the median.
fn spread(m: Option<&Measurement>) -> String {
    let Some(m) = m.filter(|m| m.samples.len() > 1) else { return "-".to_owned() };
    let median = m.summary.as_ref().map_or(f64::NAN, |s| s.median);
    let least = m.samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = m.samples.iter().copied().fold(0.0, f64::max);
    format!("{:.1} %", (most - least) / 2.0 / median * 100.0)
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
