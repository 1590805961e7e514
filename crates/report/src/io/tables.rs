//! Tables of files.

use super::{Sizes, cells, size, sizes};
use crate::table::{Style, paragraph, table};
use crate::words::{self, number, text};
use nodegauge_measure::Seconds;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::stats::median;
use serde_json::Value;

/// Files of this size and more are counted where operations are compared: below, a call's own time
/// and the clock's are most of it.
const COUNTED: u64 = 1 << 20;

/// Names of operations in order, each once.
fn names<'a>(measurements: &[&'a Measurement]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for m in measurements {
        if !names.contains(&m.name.as_str()) {
            names.push(&m.name);
        }
    }
    names
}

fn named<'a>(measurements: &[&'a Measurement], name: &str) -> Vec<&'a Measurement> {
    measurements.iter().copied().filter(|m| m.name == name).collect()
}

/// A quantile of the latency.
fn latency(m: &Measurement, quantile: &str) -> String {
    m.config
        .get("latency_s")
        .and_then(|map| map.get(quantile))
        .and_then(Value::as_f64)
        .map_or_else(|| "-".to_owned(), short)
}

/// A time in few characters: `1.23us`.
fn short(seconds: f64) -> String {
    let text = Seconds(seconds).to_string();
    let (value, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let value: f64 = value.parse().unwrap_or(0.0);
    let digits = match value {
        v if v >= 99.5 => 0,
        v if v >= 9.95 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

/// Operations a second: `12.3k`.
fn operations(m: &Measurement) -> String {
    number(m, "iops").map_or_else(
        || "-".to_owned(),
        |iops| match iops {
            n if n >= 999_500.0 => format!("{}M", three(n / 1e6)),
            n if n >= 999.5 => format!("{}k", three(n / 1e3)),
            n => three(n),
        },
    )
}

fn three(value: f64) -> String {
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Where the data of measurements came from or went to.
fn served(measurements: &[&Measurement]) -> String {
    let shares: Vec<f64> = measurements.iter().filter_map(|m| number(m, "device_share")).collect();
    if shares.is_empty() {
        return "unknown".to_owned();
    }
    let label = |m: &&Measurement| text(m, "served").unwrap_or("?").to_owned();
    let first = measurements.iter().find(|m| number(m, "device_share").is_some()).map(label);
    let same = measurements
        .iter()
        .filter(|m| number(m, "device_share").is_some())
        .all(|m| Some(label(m)) == first);
    let mean = shares.iter().sum::<f64>() / shares.len() as f64 * 100.0;
    match first.filter(|_| same) {
        Some(label) if label != "mixed" => label,
        _ => format!("{mean:.0} % dev"),
    }
}

fn rate(m: &Measurement) -> String {
    m.value.map_or_else(|| words::status(m.validity.status).to_owned(), words::gb)
}

/// A row a measurement.
pub(super) fn one_by_one(measurements: &[&Measurement], style: Style) -> String {
    let mixed = measurements.iter().any(|m| number(m, "read_percent").is_some());
    let rows: Vec<Vec<String>> = measurements
        .iter()
        .map(|m| {
            let (file, block) = sizes(m).unwrap_or_default();
            let percent = number(m, "read_percent").filter(|_| mixed);
            let name = percent.map_or_else(|| m.name.clone(), |p| format!("{} {p} %", m.name));
            vec![
                name,
                size(file),
                size(block),
                rate(m),
                operations(m),
                latency(m, "p50"),
                latency(m, "p99"),
                latency(m, "max"),
                served(&[m]),
            ]
        })
        .collect();
    table(
        style,
        &["GB/s", "file", "block", "rate", "op/s", "p50", "p99", "max", "from"],
        &rows,
        &[1, 2, 3, 4, 5, 6, 7],
    )
}

/// A row an operation: rates over all larger files, latencies in the smallest blocks.
pub(super) fn by_operation(measurements: &[&Measurement], style: Style) -> String {
    let counted: Vec<&Measurement> = measurements
        .iter()
        .copied()
        .filter(|m| sizes(m).is_some_and(|(file, _)| file >= COUNTED))
        .collect();
    let counted = if counted.is_empty() { measurements } else { &counted };
    let probe = probe(counted);
    let rows: Vec<Vec<String>> = names(measurements)
        .into_iter()
        .map(|name| {
            let of: Vec<&Measurement> = named(counted, name);
            let rates: Vec<f64> = of.iter().filter_map(|m| m.value).collect();
            let most = rates.iter().copied().fold(f64::NAN, f64::max);
            let show = |rate: f64| if rate.is_finite() { words::gb(rate) } else { "-".to_owned() };
            let at = of.iter().copied().find(|m| sizes(m) == probe);
            let of_probe =
                |f: &dyn Fn(&Measurement) -> String| at.map_or_else(|| "-".to_owned(), f);
            vec![
                name.to_owned(),
                show(median(&rates)),
                show(most),
                of_probe(&|m| operations(m)),
                of_probe(&|m| latency(m, "p50")),
                of_probe(&|m| latency(m, "p99")),
                of_probe(&|m| latency(m, "p99.9")),
                of_probe(&|m| latency(m, "max")),
                served(&of),
            ]
        })
        .collect();
    let mut out = table(
        style,
        &["GB/s", "median", "best", "op/s", "p50", "p99", "p99.9", "max", "from"],
        &rows,
        &[1, 2, 3, 4, 5, 6, 7],
    );
    let cells = cells(counted).len();
    let mut text =
        format!("median and best of {cells} cells with files of {} and more", size(COUNTED));
    if let Some((file, block)) = probe {
        text.push_str(&format!(
            "; op/s and latencies in blocks of {} of the file of {}",
            size(block),
            size(file)
        ));
    }
    out.push_str(&paragraph(style, "rows", &text));
    out
}

/// The cell for latencies: the smallest block, in the largest file that has it.
fn probe(measurements: &[&Measurement]) -> Option<Sizes> {
    let cells = cells(measurements);
    let block = cells.iter().map(|(_, block)| *block).min()?;
    cells.into_iter().rfind(|(_, b)| *b == block)
}

/// A row a cell and way, a column an operation: rates, and the latency of random reads.
pub(super) fn brief(measurements: &[&Measurement], style: Style) -> String {
    let names = names(measurements);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let ways = super::distinct(measurements, |m| text(m, "cache").unwrap_or("?").to_owned());
    for way in ways {
        let here: Vec<&Measurement> =
            measurements.iter().copied().filter(|m| text(m, "cache") == Some(&way)).collect();
        for cell in cells(&here) {
            let at = |name: &str| {
                here.iter().copied().find(|m| m.name == name && sizes(m) == Some(cell))
            };
            let mut row = vec![way.clone(), size(cell.1)];
            row.extend(names.iter().map(|name| at(name).map_or_else(|| "-".to_owned(), rate)));
            let probe = at("random_read").or_else(|| at(names.first()?));
            row.push(probe.map_or_else(|| "-".to_owned(), |m| latency(m, "p50")));
            row.push(probe.map_or_else(|| "-".to_owned(), |m| latency(m, "p99")));
            rows.push(row);
        }
    }
    let mut header = vec!["GB/s", "block"];
    header.extend(names.iter().copied());
    header.extend(["p50", "p99"]);
    let right: Vec<usize> = (1..header.len()).collect();
    table(style, &header, &rows, &right)
}

/// Several workers: what they saw, and what their parent saw.
pub(super) fn workers(measurements: &[&Measurement], style: Style) -> String {
    let rows: Vec<Vec<String>> = measurements
        .iter()
        .map(|m| {
            let (file, block) = sizes(m).unwrap_or_default();
            let of = |key: &str| number(m, key).map_or_else(|| "-".to_owned(), words::gb);
            vec![
                m.name.clone(),
                size(file),
                size(block),
                rate(m),
                of("parent_rate"),
                of("worker_rate_min"),
                of("worker_rate_max"),
                latency(m, "p99"),
                served(&[m]),
            ]
        })
        .collect();
    table(
        style,
        &["GB/s", "file", "block", "children", "parent", "least", "most", "p99", "from"],
        &rows,
        &[1, 2, 3, 4, 5, 6, 7],
    )
}

/// Own figures and those of another program on the same cells.
pub(super) fn beside(own: &[&Measurement], others: &[&Measurement], style: Style) -> String {
    let mut programs: Vec<&str> = others.iter().filter_map(|m| text(m, "engine")).collect();
    programs.dedup();
    let mut rows = Vec::new();
    for program in programs {
        let theirs: Vec<&Measurement> =
            others.iter().copied().filter(|m| text(m, "engine") == Some(program)).collect();
        for name in names(&theirs) {
            let pairs: Vec<(f64, f64)> = named(&theirs, name)
                .into_iter()
                .filter(|m| sizes(m).is_some_and(|(file, _)| file >= COUNTED))
                .filter_map(|m| {
                    let same = |o: &&Measurement| {
                        sizes(o) == sizes(m)
                            && number(o, "read_percent") == number(m, "read_percent")
                    };
                    Some((named(own, name).into_iter().find(same)?.value?, m.value?))
                })
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let of =
                |f: &dyn Fn(&(f64, f64)) -> f64| median(&pairs.iter().map(f).collect::<Vec<_>>());
            let ratio = of(&|(ours, theirs)| ours / theirs);
            rows.push(vec![
                name.to_owned(),
                words::gb(of(&|(ours, _)| *ours)),
                words::gb(of(&|(_, theirs)| *theirs)),
                significant(ratio),
                pairs.len().to_string(),
                program.to_owned(),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut out = table(
        style,
        &["GB/s", "nodegauge", "beside", "ratio", "cells", "program"],
        &rows,
        &[1, 2, 3, 4],
    );
    let note = format!(
        "medians over cells with files of {} and more; the ratio is the median of the cells' ratios",
        size(COUNTED)
    );
    out.push_str(&paragraph(style, "beside", &note));
    out
}
