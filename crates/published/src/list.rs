//! Page with the catalog of published figures.

use crate::catalog::{self, BY_THREADS, PublishedNode};
use nodegauge_gauge::view::{Block, Page, Section, Table, TableCell, Tone};
use nodegauge_measure::figure_names::{hpl, io, stream};

/// Returns the page with the catalog, grouped by source.
pub fn list() -> Page {
    let mut sources: Vec<&str> = Vec::new();
    for node in catalog::all() {
        if !sources.contains(&node.source()) {
            sources.push(node.source());
        }
    }
    let mut page = Page::default();
    for source in sources {
        let mut table = Table::new(&["", "", "", ">"]);
        table.heading(TableCell::text(source).tone(Tone::Strong));
        for node in catalog::all().iter().filter(|node| node.source() == source) {
            table.row(listed(node).map(TableCell::text));
        }
        page.sections.push(Section { id: "published", blocks: vec![table.into()] });
    }
    let text = "shares refer to the theoretical bandwidth; --against matches words of a line or of the source, \
                e.g. --against 'EPYC 7H12' or --against 'NPS4 9654'";
    page.sections.push(Section { id: "use", blocks: vec![Block::Text(text.to_owned())] });
    page
}

/// Returns a line of the catalog.
fn listed(node: &PublishedNode) -> [String; 4] {
    let figures = node.measurements("asked");
    let representative = [stream::TRIAD, hpl::TIME, io::READ];
    let shown = figures.iter().find(|m| representative.contains(&m.name.as_str()));
    let shown = shown.filter(|_| !node.is_sweep());
    let what = match shown {
        Some(m) => format!("{} {}", m.name, m.in_words()),
        None => BY_THREADS.to_owned(),
    };
    let share = shown.and_then(|m| m.limit.as_ref());
    let share = share.map(|limit| limit.fraction.in_whole_percent());
    [node.test.to_owned(), node.to_string(), what, share.unwrap_or_default()]
}
