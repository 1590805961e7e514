//! Page with the catalog of published figures.

use crate::catalog::{self, PublishedEntry, SWEEP_TITLE_SUFFIX};
use nodegauge_gauge::view::{Block, ColumnList, Page, Section, TableCell, Tone, group_by_key};
use nodegauge_measure::figure_names::{hpl, io, stream};
use nodegauge_measure::record::Measurement;

/// Returns the page with the catalog, grouped by source.
pub fn list() -> Page {
    let columns = ColumnList::<&PublishedEntry>::new()
        .left("", |node| node.test)
        .left("", |node| node.to_string())
        .left("", |node| match shown(node) {
            Some(m) => format!("{} {}", m.name, m.in_words()),
            None => SWEEP_TITLE_SUFFIX.to_owned(),
        })
        .right_or_blank("", |node| Some(shown(node)?.limit.as_ref()?.fraction.in_whole_percent()));
    let mut page = Page::default();
    for (source, nodes) in group_by_key(catalog::all(), |node| node.source()) {
        let heading = TableCell::text(source).tone(Tone::Strong);
        let table = columns.grouped_table([(heading, nodes)]);
        page.sections.push(Section { id: "published", blocks: vec![table.into()] });
    }
    let text = "shares refer to the theoretical bandwidth; --against matches words of a line or of the source, \
                e.g. --against 'EPYC 7H12' or --against 'NPS4 9654'";
    page.sections.push(Section { id: "use", blocks: vec![Block::Text(text.to_owned())] });
    page
}

/// Returns the representative figure of a node in the catalog; `None` for a sweep.
fn shown(node: &PublishedEntry) -> Option<Measurement> {
    let representative = [stream::TRIAD, hpl::TIME, io::READ];
    let mut figures = node.measurements("asked").into_iter();
    let shown = figures.find(|m| representative.contains(&m.name.as_str()));
    shown.filter(|_| !node.is_sweep())
}
