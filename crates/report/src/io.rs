//! Files: tables of operations with their latencies and where the data came from, heat maps of
//! file size and block size, and what other programs found beside.

mod heat;
mod originals;
mod tables;

pub use originals::{iozone, surface};

use crate::stream::doubts;
use crate::table::{Style, incomplete, paragraph};
use crate::words::{number, text};
use nodegauge_measure::Bytes;
use nodegauge_measure::record::{Category, Measurement, Record};
use serde_json::Value;

/// With what notices begin that belong to the page of the whole node.
const FILES: &str = "files: ";
/// Up to this many cells are shown one by one, more by operation.
const FEW: usize = 6;

/// The result of `io`.
pub fn render(record: &Record, style: Style) -> String {
    let mut out = section(record, style);
    out.push_str(&incomplete(style, record));
    for notice in &record.notices {
        out.push_str(&paragraph(style, "note", &notice.text));
    }
    out
}

/// What the gauge of files has to say of a record; empty when it took no part. Beside other gauges it
/// is brief.
pub fn section(record: &Record, style: Style) -> String {
    let all: Vec<&Measurement> =
        record.measurements.iter().filter(|m| m.gauge == "files").collect();
    if all.len() < record.measurements.len() {
        return brief(record, &all, style);
    }
    let mut out = String::new();
    for (number, volume) in distinct(&all, volume).iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let here: Vec<&Measurement> =
            all.iter().copied().filter(|m| self::volume(m) == *volume).collect();
        out.push_str(&paragraph(style, "files", &volume_in_words(here[0], true)));
        for how in distinct(&here, how) {
            let group: Vec<&Measurement> =
                here.iter().copied().filter(|m| self::how(m) == how).collect();
            out.push('\n');
            out.push_str(&of_group(&group, &how, style));
        }
    }
    out
}

/// Some lines for a page on the whole node.
fn brief(record: &Record, all: &[&Measurement], style: Style) -> String {
    let mut out = String::new();
    if let Some(first) = all.first() {
        out.push_str(&paragraph(style, "files", &volume_in_words(first, false)));
        out.push_str(&tables::brief(all, style));
        out.push_str(&doubts(all, style));
    }
    for notice in record.notices.iter().filter_map(|notice| notice.text.strip_prefix(FILES)) {
        out.push_str(&paragraph(style, "files", notice));
    }
    out
}

/// Measurements of one folder, taken in one way.
fn of_group(group: &[&Measurement], how: &str, style: Style) -> String {
    let own: Vec<&Measurement> =
        group.iter().copied().filter(|m| m.category == Category::Variant).collect();
    let others: Vec<&Measurement> =
        group.iter().copied().filter(|m| m.category == Category::Reference).collect();
    let mut out = paragraph(style, "how", how);
    // An import holds figures of another program alone.
    let shown = if own.is_empty() { &others } else { &own };
    let cells = cells(shown);
    if shown.iter().any(|m| number(m, "parent_rate").is_some()) {
        out.push_str(&tables::workers(shown, style));
    } else if cells.len() <= FEW {
        out.push_str(&tables::one_by_one(shown, style));
    } else {
        out.push_str(&tables::by_operation(shown, style));
        out.push_str(&heat::maps(shown, style));
    }
    if !own.is_empty() && !others.is_empty() {
        out.push('\n');
        out.push_str(&tables::beside(&own, &others, style));
    }
    out.push_str(&doubts(group, style));
    out
}

/// Sizes of file and block of a measurement.
type Sizes = (u64, u64);

fn sizes(m: &Measurement) -> Option<Sizes> {
    Some((number(m, "file_bytes")? as u64, number(m, "block_bytes")? as u64))
}

/// The cells of measurements, ascending.
fn cells(measurements: &[&Measurement]) -> Vec<Sizes> {
    let mut cells: Vec<Sizes> = measurements.iter().filter_map(|m| sizes(m)).collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// The different answers to a question, in the order in which they are met first.
fn distinct(measurements: &[&Measurement], of: impl Fn(&Measurement) -> String) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for m in measurements {
        let answer = of(m);
        if !seen.contains(&answer) {
            seen.push(answer);
        }
    }
    seen
}

/// The folder that a measurement was taken in.
fn volume(m: &Measurement) -> String {
    let path = m.config.get("volume").and_then(|volume| volume.get("path"));
    path.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The file system and its device; with the mount's options where there is room.
fn volume_in_words(m: &Measurement, in_full: bool) -> String {
    let Some(volume) = m.config.get("volume") else {
        return format!("as {} saw them", text(m, "engine").unwrap_or("another program"));
    };
    let get = |key: &str| volume.get(key).and_then(Value::as_str);
    let mut words =
        format!("{}: {}", get("path").unwrap_or("?"), get("type").unwrap_or("file system unknown"));
    match get("device") {
        Some(device) => {
            let mut more: Vec<String> = Vec::new();
            more.extend(get("model").map(str::to_owned));
            more.extend(get("scheduler").map(|name| format!("scheduler {name}")));
            let rotates = volume.get("rotational").and_then(Value::as_bool);
            more.extend(rotates.map(|rotates| {
                if rotates { "says that it rotates" } else { "does not rotate" }.to_owned()
            }));
            words.push_str(&format!(" on {device} ({})", more.join(", ")));
        }
        None => {
            if let Some(source) = get("source").filter(|source| *source != "none") {
                words.push_str(&format!(" on {source}"));
            }
            words.push_str(", no device of its own known");
        }
    }
    if let Some(options) = get("options").filter(|_| in_full) {
        words.push_str(&format!("; {options}"));
    }
    words
}

/// How measurements were taken, without what differs between own ones and others beside them.
fn how(m: &Measurement) -> String {
    let flag = |key: &str| m.config.get(key).and_then(Value::as_bool).unwrap_or(false);
    let mut parts = vec![match text(m, "cache") {
        Some("cached") => "through the page cache".to_owned(),
        Some("fsync") => {
            "written out within the time, dropped from the page cache before reading".to_owned()
        }
        Some("direct") => "direct I/O".to_owned(),
        Some("beyond") => "a file larger than memory".to_owned(),
        _ => "page cache unknown".to_owned(),
    }];
    let engine = match m.category {
        Category::Variant => text(m, "engine"),
        _ => text(m, "beside_engine"),
    };
    if let Some(engine) = engine {
        let depth = number(m, "depth").unwrap_or(1.0);
        let msync =
            text(m, "msync").filter(|mode| *mode != "none").map(|mode| format!(" msync {mode}"));
        parts.push(match engine {
            "sync" => String::new(),
            "mmap" => format!("mmap{}", msync.unwrap_or_default()),
            other => format!("{other} depth {depth}"),
        });
    }
    if let Some(sync) = text(m, "sync_writes") {
        parts.push(format!("O_{}", sync.to_uppercase()));
    }
    if flag("include_close") {
        parts.push("close timed".to_owned());
    }
    if flag("include_fsync") && text(m, "cache") != Some("fsync") {
        parts.push("fsync timed".to_owned());
    }
    if flag("dropped_before_reads") && text(m, "cache") != Some("fsync") {
        parts.push("dropped before reading".to_owned());
    }
    for kind in ["threads", "processes"] {
        if let Some(count) = number(m, kind) {
            let plain =
                if count == 1.0 { kind.trim_end_matches('s').trim_end_matches("se") } else { kind };
            parts.push(format!("{count} {plain} on files of their own"));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// A size as tables show it: `64 KiB`.
fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}
