//! Options of measurements of metadata, and the cells that these options require.

use super::{DirectoryLayout, MetadataConfig};
use nodegauge_blocks::entries::{EntryOperation, EntryTask};
use nodegauge_blocks::volume::Volume;
use nodegauge_blocks::workers::WorkerKind;
use nodegauge_measure::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// Options of measurements of metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataOptions {
    /// Folders in which files are created.
    pub paths: Vec<PathBuf>,
    /// Number of files per worker; `None` for the default number, or for as many as the time allows.
    pub files: Option<u64>,
    /// Kind of the workers.
    pub kind: WorkerKind,
    /// Numbers of workers to measure.
    pub workers: Vec<usize>,
    /// Layouts of directories to measure; a single worker is measured only with the first one.
    pub layouts: Vec<DirectoryLayout>,
    /// True to also measure the creation of files with `fsync`.
    pub fsync: bool,
    /// Bytes that are written to each file.
    pub bytes: Bytes,
    /// True to also measure the operations on existing files after the caches of the node were dropped.
    pub drop_caches: bool,
    /// Time budget of the whole run, if the user set one. A run that would exceed it is refused.
    pub budget: Option<Duration>,
    /// Exact number of turns per cell after the warm-up, regardless of the time.
    pub samples: Option<usize>,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            files: None,
            kind: WorkerKind::Threads,
            workers: vec![1],
            layouts: DirectoryLayout::ALL.to_vec(),
            fsync: false,
            bytes: Bytes(0),
            drop_caches: false,
            budget: None,
            samples: None,
        }
    }
}

/// Combination of folder, workers, layout and treatment of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MetadataCell {
    /// Index of the folder in the list of folders.
    pub(super) path: usize,
    /// Index of the number of workers in the list of these numbers.
    pub(super) workers: usize,
    pub(super) layout: DirectoryLayout,
    pub(super) fsync: bool,
    /// True if the caches are dropped before each operation on existing files.
    pub(super) drop_caches: bool,
}

impl MetadataCell {
    /// Returns the operations of a turn. A turn of a cell with `fsync` only creates files, because the other operations
    /// do not depend on `fsync`.
    pub(super) fn operations(&self) -> Vec<EntryOperation> {
        if self.fsync { vec![EntryOperation::Create] } else { EntryOperation::ALL.to_vec() }
    }

    /// Returns a description of the cell, e.g. `2 threads in shared directories, fsync`.
    pub(super) fn in_words(&self, options: &MetadataOptions) -> String {
        let count = options.workers[self.workers];
        let noun = match options.kind {
            WorkerKind::Threads if count == 1 => "thread",
            WorkerKind::Threads => "threads",
            WorkerKind::Processes if count == 1 => "process",
            WorkerKind::Processes => "processes",
        };
        let mut words = format!("{count} {noun} in {} directories", self.layout);
        if self.fsync {
            words += ", fsync";
        }
        if self.drop_caches {
            words += ", caches dropped";
        }
        words
    }

    /// True if the operations of both cells take a similar time per file: the cells differ at most in the workers and
    /// the layout.
    pub(super) fn takes_similar_time(&self, other: &Self) -> bool {
        Self { workers: other.workers, layout: other.layout, ..*self } == *other
    }

    /// Returns the task of the cell with `files` files per worker.
    pub(super) fn task(&self, options: &MetadataOptions, files: u64) -> EntryTask {
        let operations = self.operations();
        EntryTask {
            files,
            layout: self.layout,
            bytes: options.bytes.0,
            fsync: self.fsync,
            drop_caches: self.drop_caches,
            batches: vec![1; operations.len()],
            operations,
        }
    }

    /// Returns the part of the configuration that nodegauge's figures and the figures of reference programs share.
    pub(super) fn config(
        &self,
        options: &MetadataOptions,
        volume: &Volume,
        files: u64,
    ) -> MetadataConfig {
        let workers = options.workers[self.workers] as u64;
        let are_threads = options.kind == WorkerKind::Threads;
        MetadataConfig {
            directories: Some(self.layout),
            fsync: Some(self.fsync),
            dropped: Some(self.drop_caches),
            written_bytes: Some(options.bytes.0).filter(|bytes| *bytes > 0),
            files: Some(files),
            threads: are_threads.then_some(workers),
            processes: (!are_threads).then_some(workers),
            volume: Some(volume.clone()),
            ..MetadataConfig::default()
        }
    }

    /// Returns the figure name of an operation; `None` if another cell measures the operation.
    pub(super) fn figure_name(&self, operation: EntryOperation) -> Option<String> {
        let is_creation = operation == EntryOperation::Create;
        match (self.fsync, self.drop_caches) {
            (true, _) => is_creation.then(|| format!("{operation}_fsync")),
            (false, true) => (!is_creation).then(|| format!("{operation}_first")),
            (false, false) => Some(operation.to_string()),
        }
    }
}

/// Treatment of created files and of the caches in a cell.
#[derive(Debug, Clone, Copy, Default)]
struct Treatment {
    fsync: bool,
    drop_caches: bool,
}

/// Returns all cells. Within a folder, cells with `fsync` and then cells with dropped caches follow the other cells.
pub(super) fn cells(options: &MetadataOptions) -> Vec<MetadataCell> {
    let mut treatments = vec![Treatment::default()];
    treatments.extend(options.fsync.then_some(Treatment { fsync: true, drop_caches: false }));
    treatments.extend(options.drop_caches.then_some(Treatment { fsync: false, drop_caches: true }));
    let mut cells = Vec::new();
    for path in 0..options.paths.len() {
        for Treatment { fsync, drop_caches } in treatments.iter().copied() {
            for (workers, count) in options.workers.iter().enumerate() {
                // A single worker shares its directory with no other worker, so one layout suffices.
                let layouts = if *count == 1 { 1 } else { options.layouts.len() };
                for layout in &options.layouts[..layouts] {
                    cells.push(MetadataCell { path, workers, layout: *layout, fsync, drop_caches });
                }
            }
        }
    }
    cells
}
