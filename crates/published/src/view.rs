//! View of published figures together with the figures of a run.

use crate::by_threads;
use crate::rows::{PublishedRow, limit_share_text, native_figures, origin};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{
    ChartBar, ColumnList, ColumnUnit, Picture, Section, Table, TableCell, wrap,
};
use nodegauge_measure::Unit;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::record::{Measurement, Record};

/// Maximum width of the column with names, in characters.
const NAME: usize = 30;

/// Adds the published figures of a gauge: on the page of `run` as a separate section, and on the page of the gauge at
/// the end of the last section.
pub fn add_published_section(
    sections: &mut Vec<Section>,
    record: &Record,
    gauge: &str,
    detail: Detail,
) {
    let mut section = section(record, gauge);
    match sections.last_mut().filter(|_| detail == Detail::Full) {
        _ if section.blocks.is_empty() => {}
        Some(last) => {
            if matches!(section.blocks[0], nodegauge_gauge::view::Block::Table(_)) {
                last.push_gap();
            }
            last.blocks.append(&mut section.blocks);
        }
        None => sections.push(section),
    }
}

/// Returns the section with the published figures of a gauge; empty without such figures. If `--against` requested
/// STREAM figures, a table contains them together with those of the run. Otherwise, one line describes the STREAM
/// figures of the most similar node.
pub fn section(record: &Record, gauge: &str) -> Section {
    let mut section = Section::new("published");
    let own = record.measurements.iter().filter(|m| m.gauge == gauge && m.is_published());
    let figures: Vec<PublishedRow<'_>> = own.map(|m| (m, m.read_config())).collect();
    let single: Vec<PublishedRow<'_>> =
        figures.iter().filter(|figure| !by_threads::is_sweep_row(figure)).cloned().collect();
    let nodes = by_node(&single);
    let (nearest, asked): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| node[0].1.shown.as_deref() == Some("nearest"));
    let (streams, others): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|node| node[0].0.test == stream::TEST);
    if !streams.is_empty() {
        section.push(comparison(record, &streams)).push(picture(record, &streams)).push_gap();
        for node in &streams {
            section.note("published", origin(node[0]));
        }
    }
    let sweeps = by_threads::group_by_publication(&figures);
    for sweep in &sweeps {
        section.push_gap();
        by_threads::add_sweep(&mut section, record, sweep);
    }
    if !streams.is_empty() || !sweeps.is_empty() {
        section.note("", "figures of other machines, measured by others; triad is compared with this run and with each machine's theoretical bandwidth");
    }
    for node in others {
        section.note("published", in_full(node));
    }
    for node in nearest {
        section.note("published", node_in_words(node));
    }
    section
}

/// Groups the figures by node, in their original order.
fn by_node<'a, 'b>(figures: &'b [PublishedRow<'a>]) -> Vec<Vec<&'b PublishedRow<'a>>> {
    let mut nodes: Vec<Vec<&PublishedRow<'_>>> = Vec::new();
    for figure in figures {
        match nodes.iter_mut().find(|node| belongs(figure, node)) {
            Some(node) => node.push(figure),
            None => nodes.push(vec![figure]),
        }
    }
    nodes
}

/// True if a figure belongs to this group of figures of one node. Within a node, all figures have different names.
fn belongs((m, config): &PublishedRow<'_>, node: &[&PublishedRow<'_>]) -> bool {
    let (first, known) = node[0];
    first.test == m.test
        && (&known.machine, &known.source) == (&config.machine, &config.source)
        && (&known.placement, known.threads) == (&config.placement, config.threads)
        && node.iter().all(|(other, _)| other.name != m.name)
}

/// Returns a bar chart of Triad for the run and for every published node.
fn picture(record: &Record, nodes: &[&Vec<&PublishedRow<'_>>]) -> Picture {
    let gauge = nodes.first().map_or("", |node| node[0].0.gauge.as_str());
    let own = native_figures(record, gauge).into_iter().find(|m| m.name == stream::TRIAD);
    let own = own.map(|m| ChartBar::bar("this run", m.value, "").with_validity(m));
    let theirs = nodes.iter().filter_map(|node| node.iter().find(|(m, _)| m.name == stream::TRIAD));
    let theirs = theirs.map(|figure| {
        let machine = figure.1.machine.clone().unwrap_or_else(|| "?".to_owned());
        ChartBar::bar(machine, figure.0.value, origin(figure))
    });
    let title = "triad of this run and of published runs";
    Picture::bars(title, Unit::BytesPerSecond, own.into_iter().chain(theirs))
}

/// Row of the table: this run, or a published node.
struct NodeRow<'a> {
    title: &'a str,
    figures: Vec<&'a Measurement>,
    is_published: bool,
}

impl NodeRow<'_> {
    fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|m| m.name == name)?.value
    }

    /// Returns Triad as a share of its limit.
    fn share(&self) -> Option<String> {
        let triad = self.figures.iter().find(|m| m.name == stream::TRIAD)?;
        triad.value.and_then(|_| limit_share_text(triad))
    }
}

/// Returns a table with the STREAM figures of the run, followed by the published STREAM figures.
fn comparison(record: &Record, nodes: &[&Vec<&PublishedRow<'_>>]) -> Table {
    let gauge = nodes.first().map_or("", |node| node[0].0.gauge.as_str());
    let own =
        NodeRow { title: "this run", figures: native_figures(record, gauge), is_published: false };
    let own_triad = own.value(stream::TRIAD);
    let columns = ColumnList::<NodeRow<'_>>::new()
        .left("published, GB/s", |row| TableCell::lines(&wrap(row.title, NAME)))
        .columns_for_each(
            stream::KERNELS,
            |name| (*name).to_owned(),
            |row, name| ColumnUnit::GB_PER_S.cell(row.value(name)),
        )
        .right("of theory", |row| row.share().unwrap_or_else(|| "?".to_owned()))
        .right("this/it", |row| match own_triad.zip(row.value(stream::TRIAD)) {
            _ if !row.is_published => String::new(),
            Some((rate, theirs)) => format!("{:.2} x", rate / theirs),
            None => "-".to_owned(),
        });
    let theirs = nodes.iter().map(|node| NodeRow {
        title: node[0].1.machine.as_deref().unwrap_or("?"),
        figures: node.iter().map(|(m, _)| *m).collect(),
        is_published: true,
    });
    let own = Some(own).filter(|own| !own.figures.is_empty());
    columns.table(own.into_iter().chain(theirs))
}

/// Describes a node with its Triad bandwidth, in one line.
fn node_in_words(node: &[&PublishedRow<'_>]) -> String {
    let (m, config) = node.iter().find(|(m, _)| m.name == stream::TRIAD).unwrap_or(&node[0]);
    let limit =
        limit_share_text(m).map(|limit_share_text| format!(", {limit_share_text} of theoretical"));
    let placement = config.placement.as_ref().map(|placement| format!(", {placement}"));
    format!(
        "{}: {} {}{}{}; {}; more with --against '{}'",
        config.machine.as_deref().unwrap_or("?"),
        m.name,
        m.in_words(),
        limit.unwrap_or_default(),
        placement.unwrap_or_default(),
        config.source.as_deref().unwrap_or("?"),
        config.processor.as_deref().unwrap_or("?"),
    )
}

/// Describes a node with all figures, for tests other than STREAM.
fn in_full(node: &[&PublishedRow<'_>]) -> String {
    let figures: Vec<String> =
        node.iter().map(|(m, _)| format!("{} {}", m.name, m.in_words())).collect();
    format!("{} {}; {}", node[0].0.test, origin(node[0]), figures.join(", "))
}
