//! View of published figures together with the figures of a run.

use crate::by_threads;
use crate::catalog::PublishedConfig;
use crate::rows::{PublishedRow, native, origin, share};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{Picture, Section, Step, Table, TableCell, wrap};
use nodegauge_measure::Unit;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Measurement, Record};

/// Maximum width of the column with names, in characters.
const NAME: usize = 30;

/// Adds the published figures of a gauge: as a separate section on the page of `run`, or at the end of the last section
/// on the page of the gauge.
pub fn add(sections: &mut Vec<Section>, record: &Record, gauge: &str, detail: Detail) {
    let mut section = section(record, gauge);
    match sections.last_mut().filter(|_| detail == Detail::Full) {
        _ if section.blocks.is_empty() => {}
        Some(last) => {
            if matches!(section.blocks[0], nodegauge_gauge::view::Block::Table(_)) {
                last.gap();
            }
            last.blocks.append(&mut section.blocks);
        }
        None => sections.push(section),
    }
}

/// Returns the section with the published figures of a gauge; the section is empty without such figures. STREAM figures
/// requested with `--against` are shown in a table together with the figures of the run. STREAM figures of the most
/// similar node are shown in one line.
pub fn section(record: &Record, gauge: &str) -> Section {
    let mut section = Section::new("published");
    let own = |m: &&Measurement| m.gauge == gauge && m.is_published();
    let figures: Vec<PublishedRow<'_>> =
        record.measurements.iter().filter(own).map(|m| (m, m.read_config())).collect();
    let single: Vec<PublishedRow<'_>> =
        figures.iter().filter(|figure| !by_threads::is_row(figure)).cloned().collect();
    let nodes = by_node(&single);
    let (nearest, asked): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| node[0].1.shown.as_deref() == Some("nearest"));
    let (streams, others): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|node| node[0].0.test == stream::TEST);
    if !streams.is_empty() {
        section.push(comparison(record, &streams)).push(picture(record, &streams)).gap();
        for node in &streams {
            section.note("published", origin(node[0]));
        }
    }
    let sweeps = by_threads::groups(&figures);
    for sweep in &sweeps {
        section.gap();
        by_threads::add(&mut section, record, sweep);
    }
    if !streams.is_empty() || !sweeps.is_empty() {
        section.note("", "figures of other machines, measured by others; triad is compared with this run and with each machine's theoretical bandwidth");
    }
    for node in others {
        section.note("published", in_full(node));
    }
    for node in nearest {
        section.note("published", in_a_line(node));
    }
    section
}

/// Groups the figures by node and keeps their order.
fn by_node<'a, 'b>(figures: &'b [PublishedRow<'a>]) -> Vec<Vec<&'b PublishedRow<'a>>> {
    let place = |config: &PublishedConfig| {
        let PublishedConfig { machine, source, placement, threads, .. } = config.clone();
        (machine, source, placement, threads)
    };
    let mut nodes: Vec<Vec<&PublishedRow<'_>>> = Vec::new();
    for figure in figures {
        let (m, config) = figure;
        let alike = |node: &&mut Vec<&PublishedRow<'_>>| {
            node[0].0.test == m.test
                && place(&node[0].1) == place(config)
                && node.iter().all(|(known, _)| known.name != m.name)
        };
        match nodes.iter_mut().find(alike) {
            Some(node) => node.push(figure),
            None => nodes.push(vec![figure]),
        }
    }
    nodes
}

/// Returns a bar chart of Triad for the run and for every published node.
fn picture(record: &Record, nodes: &[&Vec<&PublishedRow<'_>>]) -> Picture {
    let is_triad = |m: &Measurement| m.name == stream::TRIAD;
    let gauge = nodes.first().map_or("", |node| node[0].0.gauge.as_str());
    let own = native(record, gauge).into_iter().find(|m| is_triad(m));
    let own = own.map(|m| Step::bar("this run", m.value, "").judged(m));
    let theirs = nodes.iter().filter_map(|node| node.iter().find(|(m, _)| is_triad(m)));
    let theirs = theirs.map(|figure| {
        let machine = figure.1.machine.clone().unwrap_or_else(|| "?".to_owned());
        Step::bar(machine, figure.0.value, origin(figure))
    });
    let title = "triad of this run and of published runs";
    Picture::bars(title, Unit::BytesPerSecond, own.into_iter().chain(theirs))
}

/// Returns a table with the STREAM figures of the run, followed by the published STREAM figures.
fn comparison(record: &Record, nodes: &[&Vec<&PublishedRow<'_>>]) -> Table {
    let gauge = nodes.first().map_or("", |node| node[0].0.gauge.as_str());
    let own = native(record, gauge);
    fn of<'a>(all: &[&'a Measurement], name: &str) -> Option<&'a Measurement> {
        all.iter().find(|m| m.name == name).copied()
    }
    let own_triad = of(&own, stream::TRIAD).and_then(|m| m.value);
    let row = |title: &str, all: &[&Measurement], ratio: String| {
        let mut row = vec![TableCell::lines(&wrap(title, NAME))];
        row.extend(stream::KERNELS.map(|name| match of(all, name).and_then(|m| m.value) {
            Some(value) => TableCell::figure(value, Unit::BytesPerSecond, significant(value / 1e9)),
            None => "-".into(),
        }));
        let triad = of(all, stream::TRIAD).filter(|m| m.value.is_some());
        row.push(triad.and_then(share).unwrap_or_else(|| "?".to_owned()).into());
        row.push(ratio.into());
        row
    };
    let titles = ["published, GB/s", ">copy", ">scale", ">add", ">triad", ">of theory", ">this/it"];
    let mut table = Table::new(&titles);
    if !own.is_empty() {
        table.row(row("this run", &own, String::new()));
    }
    for node in nodes {
        let all: Vec<&Measurement> = node.iter().map(|(m, _)| *m).collect();
        let theirs = of(&all, stream::TRIAD).and_then(|m| m.value);
        let ratio = own_triad.zip(theirs).map(|(rate, theirs)| format!("{:.2} x", rate / theirs));
        let title = node[0].1.machine.as_deref().unwrap_or("?");
        table.row(row(title, &all, ratio.unwrap_or_else(|| "-".to_owned())));
    }
    table
}

/// Describes a node in one line, with the Triad bandwidth.
fn in_a_line(node: &[&PublishedRow<'_>]) -> String {
    let (m, config) = node.iter().find(|(m, _)| m.name == stream::TRIAD).unwrap_or(&node[0]);
    let limit = share(m).map(|share| format!(", {share} of theoretical"));
    let placement = config.placement.as_ref().map(|placement| format!(", {placement}"));
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    format!(
        "{}: {} {}{}{}; {}; more with --against '{}'",
        or_unknown(&config.machine),
        m.name,
        m.in_words(),
        limit.unwrap_or_default(),
        placement.unwrap_or_default(),
        or_unknown(&config.source),
        or_unknown(&config.processor),
    )
}

/// Describes a node with all figures, for tests other than STREAM.
fn in_full(node: &[&PublishedRow<'_>]) -> String {
    let figures: Vec<String> =
        node.iter().map(|(m, _)| format!("{} {}", m.name, m.in_words())).collect();
    format!("{} {}; {}", node[0].0.test, origin(node[0]), figures.join(", "))
}
