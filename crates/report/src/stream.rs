//! The result of `stream`: a table with the evidence below it.

use crate::table::{Loudness, Style, incomplete, loud_paragraph, paragraph, table};
use crate::{compiled, published, ranks, standard, sweep, words};
use nodegauge_measure::record::{Category, Measurement, Record, Status};
use nodegauge_measure::{BytesPerSec, Seconds};

/// The name that STREAM's licence asks for, for results of changed code.
pub const VARIANT: &str = "based on a variant of the STREAM benchmark code";

/// The native kernels' measurements of STREAM of a record, in order.
pub(crate) fn of(record: &Record) -> Vec<&Measurement> {
    variants(record).into_iter().filter(|m| !compiled::is_compiled(m)).collect()
}

/// The same and those of what compilers made.
pub(crate) fn variants(record: &Record) -> Vec<&Measurement> {
    all(record).into_iter().filter(|m| m.category == Category::Variant).collect()
}

/// All of STREAM's measurements of a record, in order.
pub(crate) fn all(record: &Record) -> Vec<&Measurement> {
    record.measurements.iter().filter(|m| m.gauge == "memory" && m.test == "stream").collect()
}

/// The part of the page: the table and the least evidence.
pub(crate) fn section(record: &Record, style: Style) -> String {
    let memory = of(record);
    let Some(first) = memory.first().filter(|_| !sweep::is_sweep(record)) else {
        return String::new();
    };
    let mut out = rates(&memory, style);
    out.push('\n');
    out.push_str(&paragraph(style, "how", &words::how(first)));
    if let Some(numa) = words::numa(first) {
        out.push_str(&paragraph(style, "memory", &numa));
    }
    if let Some(regimes) = memory.last().and_then(|m| words::regimes(m)) {
        out.push_str(&paragraph(style, "regime", &regimes));
    }
    out.push_str(&doubts(&memory, style));
    out.push_str(&paragraph(style, "name", VARIANT));
    out
}

/// The table, the configuration in words, and every doubt.
pub fn render(record: &Record, style: Style) -> String {
    let mut out = block(&of(record), style);
    for part in [compiled::render(record, style), standard::render(record, style)] {
        if !part.is_empty() && !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&part);
    }
    out.push_str(&published::beneath(record, style));
    out.push_str(&incomplete(style, record));
    for finding in record.findings.iter().filter(|finding| OWN_FINDINGS.contains(&&*finding.id)) {
        out.push_str(&paragraph(style, "finding", &finding.text));
    }
    for notice in &record.notices {
        out.push_str(&paragraph(style, "note", &notice.text));
    }
    out
}

/// Findings that come from the measurement itself and explain its figures.
const OWN_FINDINGS: [&str; 1] = ["topology-untrue"];

/// The table and evidence of one run over some kernels.
pub(crate) fn block(measurements: &[&Measurement], style: Style) -> String {
    let Some(first) = measurements.first() else { return String::new() };
    let mut out = rates(measurements, style);
    out.push('\n');
    out.push_str(&paragraph(style, "how", &words::how(first)));
    if let Some(numa) = words::numa(first) {
        out.push_str(&paragraph(style, "memory", &numa));
    }
    if let Some(spread) = measurements.last().and_then(|m| ranks::spread(m)) {
        out.push_str(&paragraph(style, "ranks", &spread));
    }
    if let Some(summary) = &first.summary {
        let stop = words::text(first, "stopped").unwrap_or("?");
        let disturbed = first.disturbed.len().saturating_sub(1);
        out.push_str(&paragraph(
            style,
            "samples",
            &format!("{} count, {disturbed} disturbed, 1 warm-up; {stop}", summary.n),
        ));
    }
    if let Some(trip) = words::number(first, "round_trip_s") {
        let text = words::regimes(measurements.last().unwrap_or(first))
            .unwrap_or_else(|| format!("core to core and back in {}", Seconds(trip)));
        out.push_str(&paragraph(style, "regime", &text));
    }
    if let Some(limit) = &first.limit {
        out.push_str(&paragraph(
            style,
            "limit",
            &format!("{} theoretical ({})", BytesPerSec(limit.value), limit.basis),
        ));
    } else {
        out.push_str(&paragraph(
            style,
            "limit",
            "unknown: no theoretical bandwidth for this memory; give --dimms COUNTxMT/s",
        ));
    }
    if let Some(counters) = words::counters(measurements) {
        out.push_str(&paragraph(style, "counters", &counters));
    }
    out.push_str(&doubts(measurements, style));
    out.push_str(&paragraph(style, "name", VARIANT));
    out
}

/// The table alone: best, median and spread of each kernel.
pub(crate) fn rates(measurements: &[&Measurement], style: Style) -> String {
    let rows: Vec<Vec<String>> = measurements.iter().map(|m| row(m)).collect();
    table(
        style,
        &["GB/s", "best", "median", "5 %", "95 %", "moved", "of limit", "loop"],
        &rows,
        &[1, 2, 3, 4, 5, 6],
    )
}

fn row(m: &Measurement) -> Vec<String> {
    let of = |f: &dyn Fn(&nodegauge_measure::stats::Summary) -> f64| {
        m.summary.as_ref().map_or_else(|| "-".to_owned(), |s| words::gb(f(s)))
    };
    vec![
        m.name.clone(),
        m.value.map_or_else(|| words::status(m.validity.status).to_owned(), words::gb),
        // An invalid result shows no figure that could be taken for one.
        if m.value.is_some() { of(&|s| s.median) } else { "-".to_owned() },
        if m.value.is_some() { of(&|s| s.p05) } else { "-".to_owned() },
        if m.value.is_some() { of(&|s| s.p95) } else { "-".to_owned() },
        m.traffic.as_ref().map_or_else(|| "-".to_owned(), |moved| words::gb(moved.value)),
        m.limit.as_ref().filter(|_| m.value.is_some()).map_or_else(
            || "?".to_owned(),
            |l| format!("{} %", words::trimmed(l.fraction * 100.0)),
        ),
        words::loop_of(m),
    ]
}

/// Every reason for doubt, once; the one that decides is labelled with the verdict. Reasons of
/// several kernels that differ only in their figures are shown for the first.
pub(crate) fn doubts(measurements: &[&Measurement], style: Style) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut out = String::new();
    for m in measurements {
        for (i, reason) in m.validity.reasons.iter().enumerate() {
            let kind = reason.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            if seen.contains(&kind) {
                continue;
            }
            seen.push(kind);
            let (label, loudness) = match (m.validity.status, i) {
                (Status::Invalid, 0) => ("invalid", Loudness::Bad),
                (Status::Valid, _) => ("remark", Loudness::Plain),
                _ => ("suspect", Loudness::Warning),
            };
            out.push_str(&loud_paragraph(style, loudness, label, reason));
        }
    }
    out
}
