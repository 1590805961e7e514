//! Published figures: beside those of a run, and the catalog of them.

use crate::table::{Style, indent, paragraph, table, wrap};
use crate::{stream, words};
use nodegauge_machine::published::{self, PublishedNode};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{BytesPerSec, Seconds};

/// STREAM's kernels, in the order of its table.
const KERNELS: [&str; 4] = ["copy", "scale", "add", "triad"];
/// Widest column of names.
const NAME: usize = 30;

/// The published figures of a record: a table beside the run's own where they were asked for, a line
/// for the nearest node otherwise; empty without any.
pub(crate) fn section(record: &Record, style: Style) -> String {
    let figures: Vec<&Measurement> =
        record.measurements.iter().filter(|m| m.is_published()).collect();
    let mut out = String::new();
    let nodes = by_node(&figures);
    let (asked, nearest): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| words::text(node[0], "shown") != Some("nearest"));
    let streams: Vec<&[&Measurement]> =
        asked.iter().filter(|node| node[0].test == "stream").map(|node| node.as_slice()).collect();
    if !streams.is_empty() {
        out.push_str(&beside(record, &streams, style));
    }
    for node in asked.iter().filter(|node| node[0].test != "stream") {
        out.push_str(&paragraph(style, "published", &others(node)));
    }
    for node in nearest {
        out.push_str(&paragraph(style, "published", &in_a_line(node)));
    }
    out
}

/// [`section`] below another text: a table is set apart by an empty line.
pub(crate) fn beneath(record: &Record, style: Style) -> String {
    let text = section(record, style);
    if text.contains("published, GB/s") { format!("\n{text}") } else { text }
}

/// The figures of each node, in order.
fn by_node<'a>(figures: &[&'a Measurement]) -> Vec<Vec<&'a Measurement>> {
    let place = |m: &Measurement| {
        ["machine", "source", "placement", "threads"].map(|key| m.config.get(key).cloned())
    };
    let mut nodes: Vec<Vec<&Measurement>> = Vec::new();
    for m in figures {
        let alike = |node: &&mut Vec<&Measurement>| {
            node[0].test == m.test
                && place(node[0]) == place(m)
                && node.iter().all(|known| known.name != m.name)
        };
        match nodes.iter_mut().find(alike) {
            Some(node) => node.push(m),
            None => nodes.push(vec![m]),
        }
    }
    nodes
}

/// The run's STREAM, and each published one below it with how it was measured.
fn beside(record: &Record, nodes: &[&[&Measurement]], style: Style) -> String {
    let own = stream::of(record);
    let own_triad = own.iter().find(|m| m.name == "triad").and_then(|m| m.value);
    let figure = |all: &[&Measurement], name: &str| {
        let m = all.iter().find(|m| m.name == name).and_then(|m| m.value);
        m.map_or_else(|| "-".to_owned(), words::gb)
    };
    let row = |title: &str, all: &[&Measurement], ratio: String| {
        let triad = all.iter().find(|m| m.name == "triad");
        let limit = triad.filter(|m| m.value.is_some()).and_then(|m| m.limit.as_ref());
        let mut row = vec![wrap(title, NAME).join("\n")];
        row.extend(KERNELS.iter().map(|name| figure(all, name)));
        row.push(limit.map_or_else(
            || "?".to_owned(),
            |limit| format!("{} %", words::trimmed(limit.fraction * 100.0)),
        ));
        row.push(ratio);
        row
    };
    let mut rows = Vec::new();
    if !own.is_empty() {
        rows.push(row("this run", &own, String::new()));
    }
    for node in nodes {
        let title = words::text(node[0], "machine").unwrap_or("?");
        let theirs = node.iter().find(|m| m.name == "triad").and_then(|m| m.value);
        let ratio = own_triad.zip(theirs).map(|(own, theirs)| format!("{:.2} x", own / theirs));
        rows.push(row(title, node, ratio.unwrap_or_else(|| "-".to_owned())));
    }
    let header = ["published, GB/s", "copy", "scale", "add", "triad", "of limit", "this/it"];
    let mut out = table(style, &header, &rows, &[1, 2, 3, 4, 5, 6]);
    out.push('\n');
    for node in nodes {
        out.push_str(&paragraph(style, "published", &origin(node[0])));
    }
    out.push_str(&paragraph(
        style,
        "",
        "other machines' figures, measured by others; triad is set in relation",
    ));
    out
}

/// How a published figure was measured, and who says so.
fn origin(m: &Measurement) -> String {
    let machine = words::text(m, "machine").unwrap_or("?");
    let mut parts: Vec<String> = ["node", "placement"]
        .iter()
        .filter_map(|key| words::text(m, key).map(str::to_owned))
        .collect();
    parts.extend(
        m.config.get("compiler").and_then(|c| c.get("command")?.as_str()).map(str::to_owned),
    );
    format!("{machine}: {}; {}", parts.join(", "), words::text(m, "source").unwrap_or("?"))
}

/// A node in one line, by its Triad.
fn in_a_line(node: &[&Measurement]) -> String {
    let shown = node.iter().find(|m| m.name == "triad").unwrap_or(&node[0]);
    let limit = shown
        .limit
        .as_ref()
        .map(|limit| format!(", {} % of theoretical", words::trimmed(limit.fraction * 100.0)));
    let placement = words::text(shown, "placement").map(|placement| format!(", {placement}"));
    format!(
        "{}: {} {}{}{}; {}; more with --against '{}'",
        words::text(shown, "machine").unwrap_or("?"),
        shown.name,
        value(shown),
        limit.unwrap_or_default(),
        placement.unwrap_or_default(),
        words::text(shown, "source").unwrap_or("?"),
        words::text(shown, "processor").unwrap_or("?"),
    )
}

/// A node's figures of other tests than STREAM.
fn others(node: &[&Measurement]) -> String {
    let figures: Vec<String> = node.iter().map(|m| format!("{} {}", m.name, value(m))).collect();
    format!("{} {}; {}", node[0].test, origin(node[0]), figures.join(", "))
}

fn value(m: &Measurement) -> String {
    match (m.value, m.unit.symbol()) {
        (None, _) => "-".to_owned(),
        (Some(value), "s") => Seconds(value).to_string(),
        (Some(value), _) => BytesPerSec(value).to_string(),
    }
}

/// The catalog, by source.
pub fn list(style: Style) -> String {
    let mut sources: Vec<&str> = published::all().iter().map(PublishedNode::source).collect();
    sources.dedup();
    let mut out = String::new();
    let mut seen: Vec<&str> = Vec::new();
    for source in sources {
        if seen.contains(&source) {
            continue;
        }
        seen.push(source);
        out.push_str(&style.strong(source));
        out.push('\n');
        let rows: Vec<Vec<String>> =
            published::all().iter().filter(|node| node.source() == source).map(listed).collect();
        out.push_str(&indent(&table(style, &[], &rows, &[3]), 2));
        out.push('\n');
    }
    let text = "shares are of the theoretical bandwidth; --against takes words of a line or of its source, \
                e.g. --against 'EPYC 7H12' or --against 'NPS4 9654'";
    wrap(text, usize::from(style.width)).iter().for_each(|line| out.push_str(&format!("{line}\n")));
    out
}

/// A line of the catalog.
fn listed(node: &PublishedNode) -> Vec<String> {
    let figures = node.measurements(None, "asked");
    let stands_for_it = ["triad", "time", "read"];
    let shown = figures.iter().find(|m| stands_for_it.contains(&m.name.as_str()));
    let what = match shown {
        Some(m) => format!("{} {}", m.name, value(m)),
        // A sweep, of which the row with the threads of a run is shown.
        None => "by threads".to_owned(),
    };
    let share = shown.and_then(|m| m.limit.as_ref());
    let share = share.map(|limit| format!("{:.0} %", limit.fraction * 100.0));
    vec![node.test.to_owned(), node.to_string(), what, share.unwrap_or_default()]
}
