//! View of file measurements: tables of operations with their latencies and the origin of the data, heat maps over file
//! size and block size, and the figures of reference programs.

mod conclusion;
mod heat;
mod plateau;
mod tables;

pub(crate) use conclusion::conclusion;
pub(crate) use tables::latency_cell;

use crate::config::FilesConfig;
use crate::{GAUGE, METADATA_TEST};
use nodegauge_analysis::ratio::closing::{Contender, single_run_sentence};
use nodegauge_blocks::engine::{IoEngine, Msync, SyncWrites};
use nodegauge_blocks::task::CacheMode;
use nodegauge_blocks::volume::Volume;
use nodegauge_gauge::Detail;
use nodegauge_gauge::outputs::is_output;
use nodegauge_gauge::view::{
    self, AttainableValue, ChartBar, FigureRow, Picture, Section, distinct, group_by_key,
};
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, NoticeId, Unit};
use std::collections::BTreeSet;

/// Maximum number of cells that are shown individually. Larger sets are summarised by operation.
const FEW: usize = 6;

/// Measurement with its configuration.
pub(crate) struct FilesRow<'a> {
    pub(crate) m: &'a Measurement,
    pub(crate) config: FilesConfig,
}

impl FigureRow for FilesRow<'_> {
    fn figure(&self) -> &Measurement {
        self.m
    }
}

impl FilesRow<'_> {
    /// Returns the file size and the block size in bytes.
    pub(crate) fn sizes(&self) -> Option<(u64, u64)> {
        self.config.file_bytes.zip(self.config.block_bytes)
    }

    /// True if both rows are measurements of the same cell in the same folder and with the same setup.
    pub(crate) fn is_comparable(&self, other: &Self) -> bool {
        self.sizes() == other.sizes()
            && self.config.read_percent == other.config.read_percent
            && self.config.cache == other.config.cache
            && self.folder() == other.folder()
    }

    /// Returns the folder of the measurement.
    pub(crate) fn folder(&self) -> &str {
        self.config.volume.as_ref().map_or("", |volume| &volume.path)
    }
}

/// Returns the measurements for which `picks` returns true.
pub(crate) fn select_rows<'r, 'a>(
    rows: &[&'r FilesRow<'a>],
    picks: impl Fn(&FilesRow<'a>) -> bool,
) -> Vec<&'r FilesRow<'a>> {
    rows.iter().copied().filter(|row| picks(row)).collect()
}

/// Returns the measurement of an operation in a cell.
pub(crate) fn find_row<'r, 'a>(
    rows: &[&'r FilesRow<'a>],
    name: &str,
    cell: (u64, u64),
) -> Option<&'r FilesRow<'a>> {
    rows.iter().copied().find(|row| row.m.name == name && row.sizes() == Some(cell))
}

/// Returns the gauge's measurements of data in a record.
pub(crate) fn rows(record: &Record) -> Vec<FilesRow<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && !is_output(m));
    let own = own.filter(|m| m.test != METADATA_TEST);
    own.map(|m| FilesRow { m, config: m.read_config() }).collect()
}

/// Returns the sections of this gauge on the page of a record.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let all = rows(record);
    let (rates, others): (Vec<&FilesRow<'_>>, Vec<&FilesRow<'_>>) =
        all.iter().partition(|row| row.m.unit == Unit::BytesPerSecond);
    if all.is_empty() && record.measurements.iter().any(|m| m.test == METADATA_TEST) {
        return Vec::new();
    }
    let mut sections = match detail {
        Detail::Brief => vec![brief(record, &rates)],
        Detail::Full => folder_sections(&rates, record.machine.memory.bytes),
    };
    let closing = closing(&rates).filter(|_| detail == Detail::Full);
    if !others.is_empty() {
        let mut plain = Section::new("files-others");
        plain.push(view::plain_table(&measurements(&others)));
        sections.push(plain);
    }
    sections.extend(closing);
    sections
}

/// Maximum number of operations that the closing sentences compare.
const MAX_COMPARED_OPERATIONS: usize = 2;

/// Returns a section with sentences that compare the rates of reference programs with those of the gauge: for each
/// program, one sentence for each of the first operations, about the largest cell that both measured.
fn closing(rows: &[&FilesRow<'_>]) -> Option<Section> {
    let (own, others): (Vec<&FilesRow<'_>>, Vec<&FilesRow<'_>>) =
        rows.iter().partition(|row| row.m.category == Category::Variant);
    let mut sentences = Vec::new();
    for program in distinct(others.iter().filter_map(|row| row.config.engine.as_deref())) {
        let theirs = select_rows(&others, |row| row.config.engine.as_deref() == Some(program));
        let mut compared: Vec<(&FilesRow<'_>, &FilesRow<'_>)> = Vec::new();
        for name in distinct(theirs.iter().map(|row| row.m.name.as_str())) {
            let pairs = theirs.iter().filter(|row| row.m.name == name).filter_map(|row| {
                let same =
                    own.iter().find(|like| like.m.name == name && like.is_comparable(row))?;
                Some((*same, *row))
            });
            compared.extend(pairs.max_by_key(|(_, row)| row.sizes()));
        }
        for (ours, row) in compared.into_iter().take(MAX_COMPARED_OPERATIONS) {
            let (file, block) = row.sizes().unwrap_or_default();
            let name = &row.m.name;
            let does =
                format!("runs {name} on a file of {} in blocks of {}", size(file), size(block));
            let [a, b] = [(program, row.m), ("nodegauge", ours.m)]
                .map(|(label, figure)| Contender { name: label, figure });
            sentences.extend(single_run_sentence(a, b, &does, row.m.quoted));
        }
    }
    (!sentences.is_empty()).then(|| view::summary_section(sentences))
}

/// Returns one section per folder. `memory` is the memory of the node in bytes.
fn folder_sections(rows: &[&FilesRow<'_>], memory: Option<u64>) -> Vec<Section> {
    let mut sections = Vec::new();
    for (_, here) in group_by_key(rows.iter().copied(), |row| row.folder()) {
        let mut section = Section::new("files");
        section.note("files", row_volume_in_words(here[0], true));
        for (how, group) in group_by_key(here, |row| how(row)) {
            section.push_gap().note("how", how);
            add_group(&group, memory, &mut section);
        }
        sections.push(section);
    }
    sections
}

/// Returns the brief section for the summary of the node.
fn brief(record: &Record, rows: &[&FilesRow<'_>]) -> Section {
    let mut section = Section::new("files");
    if let Some(first) = rows.first() {
        section.note("files", row_volume_in_words(first, false));
        tables::add_brief_table(rows, &mut section);
        section.push_doubts(&measurements(rows));
    }
    for notice in record.notices.iter().filter(|notice| notice.gauge == GAUGE) {
        section.note_if("files", (notice.id == NoticeId::Failed).then(|| notice.to_string()));
    }
    section
}

/// Adds the measurements of one folder with the same setup to a section.
fn add_group(group: &[&FilesRow<'_>], memory: Option<u64>, section: &mut Section) {
    let (own, others): (Vec<&FilesRow<'_>>, Vec<&FilesRow<'_>>) =
        group.iter().partition(|row| row.m.category == Category::Variant);
    // An imported record contains only figures of another program.
    let shown = if own.is_empty() { &others } else { &own };
    if shown.iter().any(|row| row.config.parent_rate.is_some()) {
        tables::add_workers_table(shown, section);
        section.push_picture(one_by_one(shown));
    } else if cells(shown).len() <= FEW {
        tables::add_single_worker_table(shown, section);
        section.push_picture(one_by_one(shown));
    } else {
        tables::add_operation_table(shown, section);
        plateau::add_notes(shown, memory, section);
        heat::add_maps(shown, how(shown[0]), section);
    }
    if !own.is_empty() && !others.is_empty() {
        section.push_gap();
        tables::add_comparison_table(&own, &others, section);
    }
    section.push_doubts(&measurements(group));
}

/// Returns the rate of a copy in memory, which limits reads from the page cache; `None` for other figures. It is half
/// of STREAM's rate, because STREAM counts each copied byte twice, as read and as written.
pub(crate) fn reach(record: &Record, figure: &Measurement) -> Option<AttainableValue> {
    let config: FilesConfig = figure.read_config();
    let is_cached = config.cache == Some(CacheMode::Cached);
    let copies = record.measurements.iter().filter(|m| {
        m.test == stream::TEST
            && m.name == stream::COPY
            && m.unit == figure.unit
            && !m.is_published()
    });
    let rate = copies.filter_map(|m| m.value).reduce(f64::max).filter(|_| is_cached)?;
    Some(AttainableValue {
        value: rate / 2.0,
        basis: "memory copy: half of the STREAM Copy rate, which \
                                         counts each byte twice"
            .to_owned(),
    })
}

/// Returns a chart with one bar per operation and block size.
fn one_by_one(rows: &[&FilesRow<'_>]) -> Option<Picture> {
    let bars = rows.iter().filter_map(|row| {
        let (file, block) = row.sizes()?;
        let name = format!("{}, {}", row.m.name, size(block));
        Some(
            ChartBar::bar(name, row.m.value, format!("file of {}", size(file)))
                .with_validity(row.m),
        )
    });
    let title = "rates by operation and block";
    (rows.len() > 1).then(|| Picture::bars(title, Unit::BytesPerSecond, bars))
}

fn measurements<'a>(rows: &[&FilesRow<'a>]) -> Vec<&'a Measurement> {
    rows.iter().map(|row| row.m).collect()
}

/// Returns the combinations of file size and block size in these measurements, in ascending order.
pub(crate) fn cells(rows: &[&FilesRow<'_>]) -> Vec<(u64, u64)> {
    let cells: BTreeSet<(u64, u64)> = rows.iter().filter_map(|row| row.sizes()).collect();
    cells.into_iter().collect()
}

/// Returns a description of the file system of a figure.
fn row_volume_in_words(row: &FilesRow<'_>, in_full: bool) -> String {
    let Some(volume) = &row.config.volume else {
        let program = row.config.engine.as_deref().unwrap_or("another program");
        return format!("file system not in the output of {program}");
    };
    volume_in_words(volume, in_full)
}

/// Returns a description of the file system and its device; with `in_full`, also the mount options.
pub(crate) fn volume_in_words(volume: &Volume, in_full: bool) -> String {
    let Volume { path, kind, device, .. } = volume;
    let mut words = format!("{path}: {}", kind.as_deref().unwrap_or("file system unknown"));
    if let Some(device) = device {
        let scheduler = volume.scheduler.as_ref().map(|name| format!("scheduler {name}"));
        let rotates = volume.rotational.map(|rotates| {
            if rotates { "reported as rotational" } else { "not rotational" }.to_owned()
        });
        let known: Vec<String> =
            [volume.model.clone(), scheduler, rotates].into_iter().flatten().collect();
        words += &format!(" on {device} ({})", known.join(", "));
    } else {
        let source = volume.source.as_ref().filter(|source| *source != "none");
        words += &source.map(|source| format!(" on {source}")).unwrap_or_default();
        words += ", device unknown";
    }
    if let Some(options) = volume.options.as_ref().filter(|_| in_full) {
        words += &format!("; {options}");
    }
    words
}

/// Returns a description of the setup that the gauge and reference programs share.
fn how(row: &FilesRow<'_>) -> String {
    let FilesRow { m, config } = row;
    let cache = match config.cache {
        Some(CacheMode::Cached) => "through the page cache",
        Some(CacheMode::Fsync) => "write-out timed, page cache dropped before reading",
        Some(CacheMode::Direct) => "direct I/O",
        Some(CacheMode::Beyond) => "a file larger than memory",
        None => "page cache unknown",
    };
    let is_own = m.category == Category::Variant;
    let engine = if is_own { &config.engine } else { &config.compared_engine };
    let engine = engine.as_deref().filter(|name| *name != IoEngine::Sync.name());
    let engine = engine.map(|name| match (name == IoEngine::Mmap.name(), config.msync) {
        (true, Some(Msync::Async)) => "mmap msync async".to_owned(),
        (true, Some(Msync::Sync)) => "mmap msync sync".to_owned(),
        (true, _) => "mmap".to_owned(),
        (false, _) => format!("{name} depth {}", config.depth.unwrap_or(1)),
    });
    let sync = config.sync_writes.flatten();
    let is_fsync = config.cache == Some(CacheMode::Fsync);
    let flags = [
        (sync == Some(SyncWrites::Sync), "O_SYNC"),
        (sync == Some(SyncWrites::Dsync), "O_DSYNC"),
        (config.include_close == Some(true), "close timed"),
        (config.include_fsync == Some(true) && !is_fsync, "fsync timed"),
        (
            config.dropped_before_reads == Some(true) && !is_fsync,
            "page cache dropped before reading",
        ),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, words)| (*words).to_owned());
    let workers =
        [(config.threads, "thread", "threads"), (config.processes, "process", "processes")];
    let workers = workers.into_iter().filter_map(|(count, one, several)| match count? {
        1 => Some(format!("1 {one} on its own file")),
        count => Some(format!("{count} {several}, each on its own file")),
    });
    let parts = std::iter::once(cache.to_owned()).chain(engine).chain(flags).chain(workers);
    parts.collect::<Vec<_>>().join(", ")
}

/// Formats a size for tables, e.g. `64 KiB`.
fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::Block;

    #[test]
    fn figures_of_unknown_kinds_are_shown() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/io-quick/record.json");
        let mut record: Record =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let known = sections(&record, Detail::Full).len();
        record.measurements[0].unit = Unit::OperationsPerSecond;
        record.measurements[0].name = "create".to_owned();
        for detail in [Detail::Full, Detail::Brief] {
            let sections = sections(&record, detail);
            let Some(Block::Table(table)) = sections.last().unwrap().blocks.first() else {
                panic!("no table: {sections:?}")
            };
            assert_eq!(table.rows[0][0].text, "io create");
        }
        assert_eq!(sections(&record, Detail::Full).len(), known + 1);
    }
}
