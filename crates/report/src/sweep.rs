//! The result of a sweep: a line a configuration, and a chart of the kernel that trends are read
//! from.

use crate::table::{Style, incomplete, paragraph, table};
use crate::{published, words};
use nodegauge_measure::record::{Measurement, Record};
use serde_json::Value;

/// Widest and narrowest room for bars, in characters.
const BAR: (usize, usize) = (24, 4);

/// The table with its chart, the evidence, and what the sweep found.
pub fn render(record: &Record, style: Style) -> String {
    let mut out = section(record, style);
    out.push_str(&published::beneath(record, style));
    for notice in &record.notices {
        out.push_str(&paragraph(style, "note", notice));
    }
    out.push_str(&incomplete(style, record));
    out
}

/// The table with its chart, and the doubts.
pub(crate) fn section(record: &Record, style: Style) -> String {
    if !is_sweep(record) {
        return String::new();
    }
    let cells = cells(record);
    let Some(first) = cells.first() else { return String::new() };
    let axes: Vec<&str> = coordinates(first[0]).iter().map(|(axis, _)| *axis).collect();
    let kernels: Vec<&str> = first.iter().map(|m| m.name.as_str()).collect();
    let charted = kernels.iter().position(|name| *name == "triad").unwrap_or(kernels.len() - 1);
    let most = cells
        .iter()
        .filter_map(|cell| cell.get(charted)?.summary.as_ref())
        .map(|summary| summary.median)
        .fold(0.0, f64::max);
    let mut header = axes.clone();
    header.extend(&kernels);
    header.push("5 %..95 %");
    let mut rows: Vec<Vec<String>> = cells
        .iter()
        .map(|cell| {
            let mut row: Vec<String> =
                coordinates(cell[0]).iter().map(|(_, value)| (*value).to_owned()).collect();
            row.extend(cell.iter().map(|m| median(m)));
            let summary = cell.get(charted).and_then(|m| m.summary.as_ref());
            row.push(summary.map_or_else(
                || "-".to_owned(),
                |s| format!("{}..{}", words::gb(s.p05), words::gb(s.p95)),
            ));
            row
        })
        .collect();
    let used: usize = (0..header.len())
        .map(|i| {
            rows.iter().map(|row| row[i].len()).chain([header[i].len()]).max().unwrap_or(0) + 2
        })
        .sum();
    let room = usize::from(style.width).saturating_sub(used).clamp(BAR.1, BAR.0);
    header.push("");
    for (row, cell) in rows.iter_mut().zip(&cells) {
        let summary = cell.get(charted).and_then(|m| m.summary.as_ref());
        let share = summary.map_or(0.0, |s| s.median / most);
        row.push("#".repeat((share * room as f64).round() as usize));
    }
    let right: Vec<usize> = (0..header.len() - 1).collect();
    let mut out = table(style, &header, &rows, &right);
    out.push_str(&format!("\nmedians in GB/s; spread and bars are of {}\n", kernels[charted]));
    for cell in &cells {
        let place: Vec<String> =
            coordinates(cell[0]).iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        if !cell[0].validity.reasons.is_empty() {
            let text = format!("{}: {}", place.join(", "), cell[0].validity.reasons.join("; "));
            out.push_str(&paragraph(style, words::status(cell[0].validity.status), &text));
        }
    }
    out.push_str(&paragraph(style, "name", crate::stream::VARIANT));
    out
}

/// The measurements of each configuration together.
fn cells(record: &Record) -> Vec<Vec<&Measurement>> {
    let mut cells: Vec<Vec<&Measurement>> = Vec::new();
    for m in crate::stream::of(record) {
        match cells.last_mut() {
            Some(cell) if cell[0].config.get("sweep") == m.config.get("sweep") => cell.push(m),
            _ => cells.push(vec![m]),
        }
    }
    cells
}

/// Whether a record is of a sweep.
pub(crate) fn is_sweep(record: &Record) -> bool {
    crate::stream::of(record).iter().any(|m| m.config.contains_key("sweep"))
}

fn coordinates(m: &Measurement) -> Vec<(&str, &str)> {
    m.config
        .get("sweep")
        .and_then(Value::as_object)
        .map(|map| {
            map.iter().filter_map(|(axis, value)| Some((axis.as_str(), value.as_str()?))).collect()
        })
        .unwrap_or_default()
}

fn median(m: &Measurement) -> String {
    match (&m.summary, m.value) {
        (Some(summary), Some(_)) => words::gb(summary.median),
        _ => words::status(m.validity.status).to_owned(),
    }
}
