//! View of metadata: for each folder, a table of operations with latencies and ratios to reference programs.

use super::{DirectoryLayout, MetadataConfig};
use crate::view::{latency_cell, volume_in_words};
use crate::{GAUGE, METADATA_TEST};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::{
    capitalise, enumeration, highest_in_words, quotable_figures,
};
use nodegauge_gauge::view::{ColumnList, ColumnUnit, Section, distinct, group_by_key};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, Fraction, Unit};

/// Figure with its configuration.
type EntryFigure<'a> = (&'a Measurement, MetadataConfig);

/// Figure of a reference program, with nodegauge's figure for the same cell.
struct Compared<'f, 'a> {
    own: &'f EntryFigure<'a>,
    theirs: &'f EntryFigure<'a>,
}

/// Operations that the conclusion names, with the words for them.
const NAMED: [(&str, &str); 3] =
    [("create", "created"), ("stat", "looked up (stat)"), ("remove", "removed")];

fn figures(record: &Record) -> Vec<EntryFigure<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == METADATA_TEST);
    own.map(|m| (m, m.read_config())).collect()
}

fn is_own((m, _): &EntryFigure<'_>) -> bool {
    m.category == Category::Variant
}

/// Returns the first sentence of the page.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let all = figures(record);
    let mut parts = Vec::new();
    for (name, done) in NAMED {
        let named = all.iter().filter(|figure| figure.0.name == name && is_own(figure));
        let best =
            quotable_figures(named, |(m, _)| *m).into_iter().max_by(|a, b| a.0.cmp_value(b.0));
        let Some((m, config)) = best else { continue };
        let rate = highest_in_words(m)?;
        parts.push(format!("{done} at {rate} by {}", workers_in_words(config)));
    }
    (!parts.is_empty()).then(|| capitalise(&format!("small files are {}", enumeration(&parts))))
}

/// Returns the section; `None` if the record has no such figures.
pub(crate) fn section(record: &Record, detail: Detail) -> Option<Section> {
    let all = figures(record);
    if all.is_empty() {
        return None;
    }
    let unit = ColumnUnit::from_unit(Unit::OperationsPerSecond);
    let mut section = Section::new(METADATA_TEST);
    for (_, here) in group_by_key(&all, |(_, config)| folder(config)) {
        if let Some(volume) = &here[0].1.volume {
            section.note("files", volume_in_words(volume, detail == Detail::Full));
        }
        let own: Vec<&EntryFigure<'_>> =
            here.iter().copied().filter(|figure| is_own(figure)).collect();
        let columns = ColumnList::<EntryFigure<'_>>::new()
            .names(&unit.symbol())
            .right("workers", |(_, config)| workers(config).to_string())
            .left("directories", |(_, config)| directories(config))
            .value_or_status("median", unit)
            .right_or_dash("p50", |(_, config)| {
                latency_cell(config.latency_s.as_ref(), |times| times.p50)
            })
            .right_or_dash("p99", |(_, config)| {
                latency_cell(config.latency_s.as_ref(), |times| times.p99)
            })
            .right_or_dash("max", |(_, config)| {
                latency_cell(config.latency_s.as_ref(), |times| times.max)
            })
            .right_or_blank("device", |(_, config)| device_reads(config));
        section.push(columns.table(own.iter().copied()));
        if detail == Detail::Full {
            section.note("how", how(&own));
            section.note("latencies", latencies(&own));
        }
        let compared = compared(&here);
        if !compared.is_empty() {
            section.push_gap();
            let of_programs = ColumnList::<Compared<'_, '_>>::new()
                .left(unit.symbol(), |pair: &Compared<'_, '_>| pair.own.0.name.clone())
                .right("workers", |pair| workers(&pair.own.1).to_string())
                .left("directories", |pair| directories(&pair.own.1))
                .right("nodegauge", |pair| unit.value(pair.own.0))
                .left("program", |pair| pair.theirs.1.engine.clone().unwrap_or_default())
                .right("its rate", |pair| unit.value(pair.theirs.0))
                .right_or_dash("ratio", |pair| Some(format!("{:.3}", pair.ratio()?)));
            section.push(of_programs.table(&compared));
            section.note("ratio", "nodegauge / program; above 1, nodegauge has the higher rate");
        }
        let measurements: Vec<&Measurement> = here.iter().map(|(m, _)| *m).collect();
        section.push_doubts(&measurements);
    }
    Some(section)
}

impl Compared<'_, '_> {
    fn ratio(&self) -> Option<f64> {
        Some(self.own.0.value? / self.theirs.0.value?)
    }
}

/// Returns the figures of reference programs for whose cells nodegauge also has a figure.
fn compared<'f, 'a>(all: &[&'f EntryFigure<'a>]) -> Vec<Compared<'f, 'a>> {
    let mut pairs = Vec::new();
    for theirs in all.iter().copied().filter(|figure| !is_own(figure)) {
        let own = all.iter().copied().find(|own| {
            is_own(own)
                && own.0.name == theirs.0.name
                && own.1.directories == theirs.1.directories
                && workers(&own.1) == workers(&theirs.1)
        });
        pairs.extend(own.map(|own| Compared { own, theirs }));
    }
    pairs
}

fn folder(config: &MetadataConfig) -> String {
    config.volume.as_ref().map_or_else(String::new, |volume| volume.path.clone())
}

fn workers(config: &MetadataConfig) -> u64 {
    config.threads.or(config.processes).unwrap_or(1)
}

/// Returns the word for the directories of a figure; `one` for a single worker, which shares its directory with no
/// other worker.
fn directories(config: &MetadataConfig) -> &'static str {
    config.directories.filter(|_| workers(config) > 1).map_or("one", |layout| layout.name())
}

fn workers_in_words(config: &MetadataConfig) -> String {
    let count = workers(config);
    let words = match (config.processes.is_some(), count) {
        (false, count) => count_in_words(count as usize, "thread"),
        (true, 1) => "1 process".to_owned(),
        (true, count) => format!("{count} processes"),
    };
    match config.directories.filter(|_| count > 1) {
        Some(DirectoryLayout::Own) => format!("{words} in own directories"),
        Some(DirectoryLayout::Shared) => format!("{words} in a shared directory"),
        None => words,
    }
}

/// Returns a text with the bytes that an operation read from the device; `None` unless the caches were dropped.
fn device_reads(config: &MetadataConfig) -> Option<String> {
    let bytes = config.device_bytes_per_operation.filter(|_| config.dropped == Some(true))?;
    Some(format!("{} read", Bytes(bytes.round() as u64)))
}

/// Returns a description of the files and of the caches.
fn how(own: &[&EntryFigure<'_>]) -> String {
    let files: Vec<String> = distinct(own.iter().filter_map(|(_, config)| config.files))
        .iter()
        .map(u64::to_string)
        .collect();
    let written = own.iter().find_map(|(_, config)| config.written_bytes);
    let data = written.map_or_else(|| "empty".to_owned(), |bytes| format!("of {}", Bytes(bytes)));
    let mut words = format!(
        "{} files per worker, {data}; all workers run an operation on all files before \
         the next operation",
        files.join(" and ")
    );
    if own.iter().any(|(_, config)| config.dropped == Some(true)) {
        words += "; _first: after the caches of the node were dropped; other operations: from \
                  the caches";
    } else {
        words += "; existing files are in the caches";
    }
    if own.iter().any(|(_, config)| config.fsync == Some(true)) {
        words += "; _fsync: written to the device before it is closed";
    }
    words
}

/// Returns a text that states what a latency is, and how long reading the clock takes.
fn latencies(own: &[&EntryFigure<'_>]) -> String {
    let batches = distinct(own.iter().filter_map(|(_, config)| config.batch));
    let most = batches.iter().copied().max().unwrap_or(1);
    let of = if most == 1 {
        "of single operations".to_owned()
    } else {
        format!(
            "of single operations, or means over up to {most} operations where reading the clock would take more than {} of the time",
            Fraction(nodegauge_blocks::entries::MAX_CLOCK_SHARE).in_whole_percent()
        )
    };
    let clock = own.iter().find_map(|(_, config)| config.clock.as_ref());
    let cost = clock.map_or_else(String::new, |clock| {
        format!("; reading the clock takes {}", clock.overhead_s)
    });
    format!("{of}{cost}")
}
