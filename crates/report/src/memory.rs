//! The results of `memory`: ladder, latency, matrix, loaded and mix, each with its table, its chart and
//! its evidence.

mod curves;
mod matrix;

use crate::table::{Style, incomplete, paragraph, table};
use crate::{stream, words};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, Seconds};

/// Draws the measurements of one test.
type Render = fn(&[&Measurement], Style) -> String;

/// The tests, in the order of the page.
const TESTS: [(&str, Render); 5] = [
    ("ladder", curves::ladder),
    ("latency", curves::latency),
    ("matrix", matrix::render),
    ("loaded", curves::loaded),
    ("mix", mix),
];

/// The text of a `memory` command.
pub fn render(record: &Record, style: Style) -> String {
    let mut out = section(record, style);
    for notice in &record.notices {
        out.push_str(&paragraph(style, "note", &notice.text));
    }
    out.push_str(&incomplete(style, record));
    out
}

/// What was measured of the memory system besides STREAM; empty without.
pub(crate) fn section(record: &Record, style: Style) -> String {
    let mut out = String::new();
    for (test, render) in TESTS {
        let of: Vec<&Measurement> =
            record.measurements.iter().filter(|m| m.gauge == "memory" && m.test == test).collect();
        if of.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&render(&of, style));
        out.push_str(&doubts(&of, style));
    }
    out
}

/// How it was measured and how often.
fn evidence(of: &[&Measurement], style: Style, what: &str) -> String {
    let Some(first) = of.first() else { return String::new() };
    let mut how = vec![what.to_owned()];
    let threads = words::number(first, "threads").unwrap_or(0.0);
    let plural = if threads == 1.0 { "thread" } else { "threads" };
    let places = words::places(first).unwrap_or_default();
    how.push(match words::text(first, "bind") {
        Some("none") => format!("{threads} {plural}, not bound"),
        _ => format!("{threads} {plural} on cpus {places}"),
    });
    let mut kinds: Vec<String> = Vec::new();
    for pages in of.iter().filter_map(|m| words::pages(m)) {
        if !kinds.contains(&pages) {
            kinds.push(pages);
        }
    }
    how.extend(kinds);
    let mut out = paragraph(style, "how", &how.join(", "));
    let counts: Vec<usize> = of.iter().filter_map(|m| m.summary.as_ref()).map(|s| s.n).collect();
    let (least, most) = (counts.iter().min(), counts.iter().max());
    if let (Some(least), Some(most)) = (least, most) {
        let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let stopped = words::text(first, "stopped").unwrap_or("?");
        out.push_str(&paragraph(style, "samples", &format!("{range} each, by turns; {stopped}")));
    }
    let trip = of.iter().find_map(|m| words::number(m, "round_trip_s"));
    if let Some(trip) = trip {
        let several = of.iter().any(|m| m.regimes.len() > 1);
        let text = match several {
            true => format!(
                "the cpus were moved during the run; all figures are of the regime in which a line went from core to core and back in {}",
                Seconds(trip)
            ),
            false => format!("core to core and back in {}", Seconds(trip)),
        };
        out.push_str(&paragraph(style, "regime", &text));
    }
    out
}

/// Reasons for doubt, with how many figures each concerns where it is not all of them.
fn doubts(of: &[&Measurement], style: Style) -> String {
    stream::doubts(of, style)
}

/// Nanoseconds with four digits.
fn ns(seconds: f64) -> String {
    nodegauge_measure::quantity::significant(seconds * 1e9)
}

/// The value of a measurement as `figure` prints it, or its verdict.
fn shown(m: Option<&&Measurement>, figure: fn(f64) -> String) -> String {
    m.map_or_else(
        || "-".to_owned(),
        |m| m.value.map_or_else(|| m.validity.status.name().to_owned(), figure),
    )
}

/// Room that is left beside columns for bars.
fn bars(rows: &mut [Vec<String>], header: &[&str], shares: &[f64], style: Style) {
    let used: usize = (0..header.len())
        .map(|i| {
            let cells = rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
            cells.chain([header[i].len()]).max().unwrap_or(0) + 2
        })
        .sum();
    let room = usize::from(style.width).saturating_sub(used).clamp(4, 30);
    for (row, share) in rows.iter_mut().zip(shares) {
        row.push("#".repeat((share * room as f64).round() as usize));
    }
}

/// Reads to writes.
fn mix(of: &[&Measurement], style: Style) -> String {
    let most = of.iter().filter_map(|m| m.value).fold(0.0, f64::max);
    let header = ["GB/s", "best", "median", "5 %", "95 %", "of limit", "loop", ""];
    let mut rows: Vec<Vec<String>> = of
        .iter()
        .map(|m| {
            let of = |f: &dyn Fn(&nodegauge_measure::stats::Summary) -> f64| {
                m.summary
                    .as_ref()
                    .filter(|_| m.value.is_some())
                    .map_or_else(|| "-".to_owned(), |s| words::gb(f(s)))
            };
            vec![
                m.name.clone(),
                shown(Some(m), words::gb),
                of(&|s| s.median),
                of(&|s| s.p05),
                of(&|s| s.p95),
                m.limit.as_ref().filter(|_| m.value.is_some()).map_or_else(
                    || "?".to_owned(),
                    |l| format!("{} %", words::trimmed(l.fraction * 100.0)),
                ),
                words::loop_of(m),
            ]
        })
        .collect();
    let shares: Vec<f64> = of.iter().map(|m| m.value.unwrap_or(0.0) / most).collect();
    bars(&mut rows, &header[..7], &shares, style);
    let mut out = table(style, &header, &rows, &[1, 2, 3, 4, 5]);
    out.push_str("\nreads to writes of lines that move; -nt: with non-temporal stores\n");
    let size = of.first().and_then(|m| words::number(m, "array_bytes"));
    let size = size.map_or_else(String::new, |bytes| format!("arrays of {}", Bytes(bytes as u64)));
    out.push_str(&evidence(of, style, &size));
    out
}
