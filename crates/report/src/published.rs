//! The catalog of published figures.

use crate::table::{Style, indent, table, wrap};
use nodegauge_gauge::published::value;
use nodegauge_machine::published::{self, PublishedNode};

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
