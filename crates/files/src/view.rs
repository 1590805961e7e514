//! What a person sees of files: tables of operations with their latencies and where the data came
//! from, heat maps of file size and block size, and what reference programs found.

mod heat;
mod tables;

use crate::GAUGE;
use crate::cell::CacheMode;
use crate::config::FilesConfig;
use crate::engine::{IoEngine, SyncWrites};
use crate::volume::Volume;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{self, Section};
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, NoticeId, Unit};

/// Up to this many cells are shown one by one, more by operation.
const FEW: usize = 6;

/// A measurement with its configuration.
pub(crate) struct Row<'a> {
    pub(crate) m: &'a Measurement,
    pub(crate) config: FilesConfig,
}

impl Row<'_> {
    /// Sizes of file and block.
    pub(crate) fn sizes(&self) -> Option<(u64, u64)> {
        self.config.file_bytes.zip(self.config.block_bytes)
    }

    /// The folder that it was taken in.
    pub(crate) fn folder(&self) -> &str {
        self.config.volume.as_ref().map_or("", |volume| &volume.path)
    }
}

/// The gauge's measurements of a record.
pub(crate) fn rows(record: &Record) -> Vec<Row<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE);
    own.map(|m| Row { m, config: m.read_config() }).collect()
}

/// The gauge's part of a record's page.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let all = rows(record);
    let is_rate = |row: &&Row<'_>| row.m.unit == Unit::BytesPerSecond;
    let (rates, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) = all.iter().partition(is_rate);
    let mut sections = match detail {
        Detail::Brief => vec![brief(record, &rates)],
        Detail::Full => of_folders(&rates),
    };
    if !others.is_empty() {
        let mut plain = Section::new("files-others");
        plain.push(view::plain_table(&measurements(&others)));
        sections.push(plain);
    }
    sections
}

/// A section for each folder.
fn of_folders(rows: &[&Row<'_>]) -> Vec<Section> {
    let section = |folder: &str| {
        let here: Vec<&Row<'_>> =
            rows.iter().copied().filter(|row| row.folder() == folder).collect();
        let mut section = Section::new("files");
        section.note("files", volume_in_words(here[0], true));
        for how in distinct(here.iter().map(|row| how(row))) {
            let group: Vec<&Row<'_>> =
                here.iter().copied().filter(|row| self::how(row) == how).collect();
            section.gap().note("how", how);
            of_group(&group, &mut section);
        }
        section
    };
    distinct(rows.iter().map(|row| row.folder())).into_iter().map(section).collect()
}

/// Some lines for a page on the whole node.
fn brief(record: &Record, rows: &[&Row<'_>]) -> Section {
    let mut section = Section::new("files");
    if let Some(first) = rows.first() {
        section.note("files", volume_in_words(first, false));
        section.push(tables::brief(rows));
        section.doubts(&measurements(rows));
    }
    let failed = |id| matches!(id, NoticeId::Failed);
    for notice in record.notices.iter().filter(|n| n.gauge == GAUGE && failed(n.id)) {
        section.note("files", notice.text.as_str());
    }
    section
}

/// Measurements of one folder, taken in one way.
fn of_group(group: &[&Row<'_>], section: &mut Section) {
    let (own, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) =
        group.iter().partition(|row| row.m.category == Category::Variant);
    // An import holds figures of another program alone.
    let shown = if own.is_empty() { &others } else { &own };
    if shown.iter().any(|row| row.config.parent_rate.is_some()) {
        section.push(tables::workers(shown));
    } else if cells(shown).len() <= FEW {
        section.push(tables::one_by_one(shown));
    } else {
        tables::by_operation(shown, section);
        heat::maps(shown, section);
    }
    if !own.is_empty() && !others.is_empty() {
        section.gap();
        tables::comparison(&own, &others, section);
    }
    section.doubts(&measurements(group));
}

fn measurements<'a>(rows: &[&Row<'a>]) -> Vec<&'a Measurement> {
    rows.iter().map(|row| row.m).collect()
}

/// The cells of measurements, ascending.
pub(crate) fn cells(rows: &[&Row<'_>]) -> Vec<(u64, u64)> {
    let mut cells: Vec<(u64, u64)> = rows.iter().filter_map(|row| row.sizes()).collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// Different things in the order in which they are met first.
pub(crate) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

/// The file system and its device; with the mount's options where there is room.
fn volume_in_words(row: &Row<'_>, in_full: bool) -> String {
    let Some(volume) = &row.config.volume else {
        let program = row.config.engine.as_deref().unwrap_or("another program");
        return format!("as {program} saw them");
    };
    let Volume { path, kind, device, .. } = volume;
    let mut words = format!("{path}: {}", kind.as_deref().unwrap_or("file system unknown"));
    match device {
        Some(device) => {
            let mut more: Vec<String> = Vec::new();
            more.extend(volume.model.clone());
            more.extend(volume.scheduler.as_ref().map(|name| format!("scheduler {name}")));
            more.extend(volume.rotational.map(|rotates| {
                if rotates { "says that it rotates" } else { "does not rotate" }.to_owned()
            }));
            words.push_str(&format!(" on {device} ({})", more.join(", ")));
        }
        None => {
            if let Some(source) = volume.source.as_ref().filter(|source| *source != "none") {
                words.push_str(&format!(" on {source}"));
            }
            words.push_str(", no device of its own known");
        }
    }
    if let Some(options) = volume.options.as_ref().filter(|_| in_full) {
        words.push_str(&format!("; {options}"));
    }
    words
}

/// How measurements were taken, without what differs between own ones and those of reference
/// programs.
fn how(row: &Row<'_>) -> String {
    let Row { m, config } = row;
    let cache = match config.cache {
        Some(CacheMode::Cached) => "through the page cache",
        Some(CacheMode::Fsync) => {
            "written out within the time, dropped from the page cache before reading"
        }
        Some(CacheMode::Direct) => "direct I/O",
        Some(CacheMode::Beyond) => "a file larger than memory",
        None => "page cache unknown",
    };
    let mut parts = vec![cache.to_owned()];
    let engine = match m.category {
        Category::Variant => &config.engine,
        _ => &config.beside_engine,
    };
    match engine.as_deref() {
        None => {}
        Some(name) if name == IoEngine::Sync.name() => {}
        Some(name) if name == IoEngine::Mmap.name() => {
            let msync = config.msync.and_then(|msync| msync.in_words());
            parts.push(format!("mmap{}", msync.unwrap_or_default()));
        }
        Some(other) => parts.push(format!("{other} depth {}", config.depth.unwrap_or(1))),
    }
    match config.sync_writes.flatten() {
        Some(SyncWrites::Sync) => parts.push("O_SYNC".to_owned()),
        Some(SyncWrites::Dsync) => parts.push("O_DSYNC".to_owned()),
        None => {}
    }
    let is_fsync = config.cache == Some(CacheMode::Fsync);
    let flags = [
        (config.include_close, "close timed"),
        (config.include_fsync.filter(|_| !is_fsync), "fsync timed"),
        (config.dropped_before_reads.filter(|_| !is_fsync), "dropped before reading"),
    ];
    parts.extend(
        flags.iter().filter(|(flag, _)| *flag == Some(true)).map(|(_, words)| (*words).to_owned()),
    );
    for (count, one, several) in
        [(config.threads, "thread", "threads"), (config.processes, "process", "processes")]
    {
        if let Some(count) = count {
            let workers = if count == 1 { one } else { several };
            parts.push(format!("{count} {workers} on files of their own"));
        }
    }
    parts.join(", ")
}

/// A size as tables show it: `64 KiB`.
fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::Block;

    #[test]
    fn figures_of_other_kinds_are_shown_too() {
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
