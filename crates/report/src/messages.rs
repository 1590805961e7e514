//! The result of `mpi`: one line a distance, the curves with a chart, a matrix, or both beside the OSU
//! micro-benchmarks; the evidence below.

use crate::table::{Loudness, Style, incomplete, loud_paragraph, paragraph, table};
use crate::words;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Category, Measurement, Record, Status};
use nodegauge_measure::{Bytes, BytesPerSec, Seconds};
use serde_json::Value;

mod curves;
mod matrix;

/// Sizes of a summary: the latency of the smallest message that carries something, and the rate of
/// the largest.
const SMALL: u64 = 8;

/// How the notice of a run begins whose messages were not measured.
pub const NOT_MEASURED: &str = "messages not measured: ";

/// The measurements of messages, in order.
fn of(record: &Record) -> Vec<&Measurement> {
    record.measurements.iter().filter(|m| m.gauge == "messages").collect()
}

/// The library, the distance and the place of a measurement: what has a line of its own.
fn line_of(m: &Measurement) -> (String, Option<&str>) {
    (library(m), words::text(m, "distance"))
}

/// `Open MPI 4.1.4`; of a saved output the program that printed it.
fn library(m: &Measurement) -> String {
    let part = |key: &str| m.config.get("mpi").and_then(|mpi| mpi.get(key)?.as_str());
    match (part("library"), part("version")) {
        (Some(name), Some(version)) => format!("{name} {version}"),
        (Some(name), None) => name.to_owned(),
        (None, _) => match words::text(m, "engine_version") {
            Some(version) => format!("OSU {version}"),
            None => "OSU".to_owned(),
        },
    }
}

fn bytes(m: &Measurement) -> Option<u64> {
    m.config.get("message_bytes").and_then(Value::as_u64)
}

/// Whether every pair has figures of its own.
fn is_stepwise(m: &Measurement) -> bool {
    m.config.contains_key("ranks")
}

/// A distance, or what has none.
fn distance(name: Option<&str>) -> &str {
    name.unwrap_or("all ranks")
}

/// Microseconds with four digits.
fn us(seconds: f64) -> String {
    significant(seconds * 1e6)
}

/// The part of the page: one line a distance.
pub(crate) fn section(record: &Record, style: Style) -> String {
    let all = of(record);
    if all.is_empty() {
        // A page of all gauges says why one is missing.
        let why = record.notices.iter().find_map(|notice| notice.text.strip_prefix(NOT_MEASURED));
        return why.map_or_else(String::new, |why| {
            paragraph(style, "messages", &format!("not measured: {why}"))
        });
    }
    if all.iter().any(|m| m.category == Category::Reference) {
        return curves::beside(&all, style);
    }
    if all.iter().any(|m| is_stepwise(m)) {
        return matrix::render(&all, style);
    }
    let mut out = summary(&all, style);
    // On a page with other gauges only what one must know to read the row.
    let alone = all.len() == record.measurements.len();
    out.push_str(&how(&all, !alone, style));
    out.push_str(&doubts(&all, style));
    out
}

/// Everything.
pub fn render(record: &Record, style: Style) -> String {
    let all = of(record);
    let mut out = section(record, style);
    let plain = !all.iter().any(|m| is_stepwise(m) || m.category == Category::Reference);
    if plain && !all.is_empty() {
        out.push('\n');
        out.push_str(&curves::render(&all, style));
    }
    out.push_str(&incomplete(style, record));
    for notice in &record.notices {
        out.push_str(&paragraph(style, "note", &notice.text));
    }
    out
}

/// One row for each library and distance.
fn summary(all: &[&Measurement], style: Style) -> String {
    let mut lines: Vec<(String, Option<&str>)> = Vec::new();
    for m in all.iter().filter(|m| !is_collective(&m.name)) {
        let line = line_of(m);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let row = |line: &(String, Option<&str>)| {
        let own: Vec<&Measurement> = all.iter().copied().filter(|m| line_of(m) == *line).collect();
        let latency = own
            .iter()
            .filter(|m| m.name == "latency" && bytes(m).is_some_and(|bytes| bytes >= SMALL))
            .min_by_key(|m| bytes(m))
            .and_then(|m| m.value);
        let best = |name: &str, unit: &str| {
            let values = own.iter().filter(|m| m.name == name && m.unit.symbol() == unit);
            values.filter_map(|m| m.value).max_by(f64::total_cmp)
        };
        let curve = own.iter().find(|m| m.name == "latency").and_then(|m| m.config.get("curve"));
        let rendezvous = curve.and_then(|curve| curve.get("rendezvous_bytes")?.as_u64());
        let half = curve.and_then(|curve| {
            curve.get("hockney")?.as_array()?.last()?.get("half_bytes")?.as_f64()
        });
        let dash = || "-".to_owned();
        vec![
            line.0.clone(),
            distance(line.1).to_owned(),
            own.first().and_then(|m| words::places(m)).unwrap_or_else(dash),
            latency.map_or_else(dash, us),
            best("bw", "B/s").map_or_else(dash, words::gb),
            best("bibw", "B/s").map_or_else(dash, words::gb),
            best("mbw_mr", "msg/s").map_or_else(dash, |rate| significant(rate / 1e6)),
            rendezvous.map_or_else(dash, |at| Bytes(at).to_string()),
            half.map_or_else(dash, |half| Bytes(half as u64).to_string()),
        ]
    };
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    let header = ["messages", "", "cpus", "us", "bw GB/s", "bibw", "Mmsg/s", "eager <", "n1/2"];
    table(style, &header, &rows, &[3, 4, 5, 6, 7, 8])
}

fn is_collective(name: &str) -> bool {
    ["barrier", "bcast", "allreduce", "allgather", "alltoall"].contains(&name)
}

/// What the figures are of.
fn how(all: &[&Measurement], brief: bool, style: Style) -> String {
    let mut out = String::new();
    let mut seen: Vec<String> = Vec::new();
    for m in all {
        let library = library(m);
        if seen.contains(&library) {
            continue;
        }
        // The one that tells most: a start that failed does not know the transport.
        let told = all
            .iter()
            .filter(|other| line_of(other).0 == library)
            .find(|other| other.summary.is_some())
            .unwrap_or(m);
        let part = |key: &str| told.config.get("mpi").and_then(|mpi| mpi.get(key)?.as_str());
        let mut parts = vec![library.clone()];
        parts.extend(part("device").map(|device| format!("device {device}")));
        parts.push(match part("transport") {
            Some(transport) => transport.to_owned(),
            None => "transport unknown".to_owned(),
        });
        parts.extend(part("compiler").filter(|_| !brief).map(str::to_owned));
        out.push_str(&paragraph(style, "how", &parts.join(", ")));
        seen.push(library);
    }
    if brief {
        return out;
    }
    let rate = all
        .iter()
        .find(|m| m.unit == nodegauge_measure::Unit::BytesPerSecond && m.summary.is_some());
    if let Some(m) = rate {
        let window = words::number(m, "window").unwrap_or(0.0);
        let buffers = match words::text(m, "buffers") {
            Some("multiple") => "a buffer for each message",
            _ if m.config.contains_key("hosts") => "one buffer",
            _ => "one buffer, so that rates within a node are cache rates",
        };
        out.push_str(&paragraph(style, "", &format!("windows of {window} messages, {buffers}")));
    }
    if let Some(trip) = all.iter().find_map(|m| words::number(m, "round_trip_s")) {
        let text = format!(
            "us: half the time of {SMALL} B there and back; a bare cache line takes {}",
            Seconds(trip / 2.0)
        );
        out.push_str(&paragraph(style, "", &text));
    }
    out
}

/// Every doubt once, with what it concerns.
fn doubts(all: &[&Measurement], style: Style) -> String {
    let mut doubts: Vec<(Status, String, Vec<String>)> = Vec::new();
    for m in all.iter().filter(|m| m.validity.status != Status::Valid) {
        for reason in &m.validity.reasons {
            let size = bytes(m).map(|bytes| format!(" {}", Bytes(bytes))).unwrap_or_default();
            let what = format!("{}{size}", m.name);
            match doubts.iter_mut().find(|(_, known, _)| known == reason) {
                Some((_, _, whats)) if whats.contains(&what) => {}
                Some((_, _, whats)) => whats.push(what),
                None => doubts.push((m.validity.status, reason.clone(), vec![what])),
            }
        }
    }
    const SHOWN: usize = 3;
    let mut out = String::new();
    for (status, reason, whats) in doubts {
        let loudness = if status == Status::Invalid { Loudness::Bad } else { Loudness::Warning };
        let more = whats.len().saturating_sub(SHOWN);
        let mut shown = whats[..whats.len().min(SHOWN)].join(", ");
        if more > 0 {
            shown.push_str(&format!(" and {more} more"));
        }
        let text = format!("{shown}: {reason}");
        out.push_str(&loud_paragraph(style, loudness, words::status(status), &text));
    }
    out
}

/// Hockney's model and the changes of protocol, in words.
fn curve_in_words(m: &Measurement) -> Option<String> {
    let curve = m.config.get("curve")?;
    let mut parts: Vec<String> = Vec::new();
    for switch in curve.get("switches")?.as_array()? {
        let at = switch.get("bytes")?.as_u64()?;
        let leap = switch.get("leap")?.as_f64()?;
        let kind = if curve.get("rendezvous_bytes")?.as_u64() == Some(at) {
            "eager to rendezvous"
        } else {
            "another protocol"
        };
        parts.push(format!("{kind} at {} (x {leap:.1})", Bytes(at)));
    }
    for dip in curve.get("dips")?.as_array()? {
        parts.push(format!("{} falls out of the curve", Bytes(dip.as_u64()?)));
    }
    for fit in curve.get("hockney")?.as_array()? {
        let number = |key: &str| fit.get(key).and_then(Value::as_f64);
        parts.push(format!(
            "{} to {}: {} + bytes / {}, n1/2 {}, within {:.0} %",
            Bytes(number("from_bytes")? as u64),
            Bytes(number("to_bytes")? as u64),
            Seconds(number("latency_s")?),
            BytesPerSec(number("bytes_per_s")?),
            Bytes(number("half_bytes")? as u64),
            number("error")? * 100.0
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
