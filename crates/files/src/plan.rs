//! Conversion of the options of a measurement to a list of tasks. Requests that are known to fail are refused: missing
//! folders, too little space, direct I/O with unsuitable block sizes, unavailable engines.

use crate::GAUGE;
use crate::grid;
use crate::reference::ReferenceProgram;
use nodegauge_blocks::engine::IoEngine;
use nodegauge_blocks::operation::{self, Operation};
use nodegauge_blocks::pattern::{AccessPattern, Stride};
use nodegauge_blocks::task::{CacheMode, CellSize, Task, TaskSetup};
use nodegauge_blocks::volume::{self, Volume};
use nodegauge_blocks::workers::FileWorkers;
use nodegauge_blocks::{error, scratch};
use nodegauge_machine::{SysRoot, cgroup, memory};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::schedule::Budget;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, notice};
use std::path::PathBuf;
use std::time::Duration;

/// Small set of sizes and operations that characterises a file system with and without the page cache.
#[derive(Debug, PartialEq)]
pub struct ShortGrid {
    /// File sizes in MiB. Only the largest file is measured with direct I/O.
    mib: &'static [u64],
    /// Block sizes in KiB.
    kib: &'static [u64],
    operations: &'static [&'static str],
    /// Time budget of the whole run.
    pub budget: Duration,
    /// Time limit of each operation.
    pub limit: Duration,
}

/// Sizes, operations and time limits of a quick run.
const QUICK: ShortGrid = ShortGrid {
    mib: &[1, 16, 64],
    kib: &[4, 64, 1024],
    operations: &["write", "rewrite", "read", "reread", "random_read", "random_write"],
    budget: Duration::from_secs(12),
    limit: Duration::from_millis(300),
};
/// Sizes, operations and time limits for the summary page of the node.
const SUMMARY: ShortGrid = ShortGrid {
    mib: &[16],
    kib: &[4, 1024],
    operations: &["write", "read", "random_read", "random_write"],
    budget: Duration::from_secs(5),
    limit: Duration::from_millis(250),
};

/// Options of file measurements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FilesOptions {
    /// Folders in which files are measured.
    pub paths: Vec<PathBuf>,
    /// Small set of sizes instead of the grid of all file sizes and block sizes.
    pub short_grid: Option<&'static ShortGrid>,
    /// File sizes; `None` for IOzone's file sizes.
    pub files: Option<Vec<Bytes>>,
    /// Block sizes; `None` for IOzone's block sizes.
    pub blocks: Option<Vec<Bytes>>,
    /// Maximum file size.
    pub max_file: Option<Bytes>,
    /// True to also measure the combinations of sizes that IOzone skips in its automatic mode.
    pub full: bool,
    /// Operations in the order of the table. If empty, the default operations are used.
    pub operations: Vec<&'static Operation>,
    /// Calls and flags of the operations; `stride` contains the distance of strided accesses.
    pub setup: TaskSetup,
    /// Distance of strided accesses.
    pub stride: Stride,
    /// Operations that the user named as POSIX asynchronous I/O, e.g. `aio_read`. They are measured with io_uring.
    pub aio_operations: Vec<&'static Operation>,
    /// Cache modes. If empty, the default modes are used.
    pub caches: Vec<CacheMode>,
    /// True if the page cache is dropped before each operation that reads.
    pub drop_before_reads: bool,
    /// Percentages of reads in the random mix to measure.
    pub read_percents: Vec<u8>,
    /// Workers that run simultaneously; `None` for a single worker.
    pub workers: Option<FileWorkers>,
    /// Share of the data that is compressible, in percent.
    pub compressible: u8,
    /// Number of samples per cell. If `None`, a cell is measured until its rates are determined or its share of the
    /// budget is used up; if reference programs are run, `None` means one sample.
    pub samples: Option<usize>,
    /// Time limit of each operation.
    pub limit: Option<Duration>,
    /// Time budget of the whole measurement.
    pub budget: Option<Budget>,
}

impl FilesOptions {
    /// Default time budget of the whole measurement.
    pub const BUDGET: Duration = Duration::from_secs(120);
    /// Default time budget of a quick measurement.
    pub const QUICK_BUDGET: Duration = QUICK.budget;

    /// Returns the options for the summary page of the node.
    pub(crate) fn for_summary(path: PathBuf) -> Self {
        Self {
            paths: vec![path],
            short_grid: Some(&SUMMARY),
            limit: Some(SUMMARY.limit),
            budget: Some(SUMMARY.budget.into()),
            ..Self::default()
        }
    }

    /// Sets sizes and time limits that the user did not set: to those of a quick run if `quick` is true, otherwise to
    /// the defaults. If the number of samples is set, there is no default budget.
    #[must_use]
    pub fn with_limits(
        self,
        quick: bool,
        budget: Option<Duration>,
        limit: Option<Duration>,
    ) -> Self {
        let short_grid = quick.then_some(&QUICK);
        let usual = short_grid.map_or(Self::BUDGET, |short_grid| short_grid.budget);
        let is_unlimited = self.samples.is_some() && budget.is_none();
        Self {
            short_grid,
            limit: limit.or(short_grid.map(|short_grid| short_grid.limit)),
            budget: (!is_unlimited).then(|| Budget::new(budget, usual)),
            ..self
        }
    }
}

/// Planned measurement. Planning writes nothing to the file systems.
pub struct FilesPlan {
    pub(crate) options: FilesOptions,
    /// File system of each requested folder.
    pub(crate) volumes: Vec<Volume>,
    /// Tasks in the order of execution, each with the index of its folder.
    pub(crate) tasks: Vec<(usize, Task)>,
    /// Reference programs that run the same tasks, interleaved with the gauge.
    pub(crate) programs: Vec<ReferenceProgram>,
    /// Notices about tasks that were left out.
    pub(crate) notices: Vec<Notice>,
}

/// Maximum share of the free space that the files of the automatic grid may use.
const MAX_SPACE_SHARE: f64 = 0.9;
/// Ratio of the file size of [`CacheMode::Beyond`] to the memory size.
const TIMES_MEMORY: u64 = 2;

/// Plans the measurements, including the runs of the reference `programs`. The folders are inspected but not written.
///
/// # Errors
/// Fails if a folder, the engine or a combination of options cannot be used, or if there is nothing to measure.
pub fn plan(options: FilesOptions, programs: Vec<ReferenceProgram>) -> Result<FilesPlan, Failure> {
    let root = SysRoot::live();
    check(&options)?;
    let mut volumes = Vec::new();
    for path in &options.paths {
        scratch::check(path)?;
        volumes.push(
            Volume::from_folder(path, &root)
                .map_err(|cause| error::unwritable_error(path, cause))?,
        );
    }
    options.setup.engine.probe()?;
    let mut notices: Vec<Notice> = asynchronous_notice(&options).into_iter().collect();
    let mut tasks = Vec::new();
    for (number, measured) in volumes.iter().enumerate() {
        let of_path = volume_tasks(&options, measured, &root, &mut notices)?;
        tasks.extend(of_path.into_iter().enumerate().map(|(i, task)| (i, number, task)));
    }
    // With several file systems, each cell is measured on all of them before the next cell.
    tasks.sort_by_key(|(i, number, _)| (*i, *number));
    let tasks = tasks.into_iter().map(|(_, number, task)| (number, task)).collect();
    Ok(FilesPlan { options, volumes, tasks, programs, notices })
}

/// Returns the notice about operations that were named as POSIX asynchronous I/O; `None` without such operations.
fn asynchronous_notice(options: &FilesOptions) -> Option<Notice> {
    if options.aio_operations.is_empty() {
        return None;
    }
    let names: Vec<&str> = options.aio_operations.iter().map(|operation| operation.name).collect();
    let names = names.join(", ");
    let text = format!(
        "aio_*: {names} by io_uring with {} in flight (--depth); the C library's POSIX aio \
         (threads that call pread and pwrite) is not measured",
        options.setup.depth
    );
    Some(Notice::new(NoticeId::Method, GAUGE, text))
}

/// Fails for combinations of options that are impossible on any machine.
fn check(options: &FilesOptions) -> Result<(), Failure> {
    let TaskSetup { engine, depth, direct, verify, .. } = options.setup;
    let direct = direct || options.caches.contains(&CacheMode::Direct);
    let refused = [
        (
            depth > 1 && !engine.has_queue(),
            "a depth above 1 requires an engine that queues requests",
            "--engine uring",
        ),
        (
            direct && engine == IoEngine::Mmap,
            "a mapping always uses the page cache, never direct I/O",
            "leave out --engine mmap, or --cache direct",
        ),
        (
            options.workers.is_some() && verify,
            "--verify requires a single worker",
            "leave out --threads or --processes",
        ),
    ];
    match refused.into_iter().find(|(refuses, ..)| *refuses) {
        Some((_, why, hint)) => Err(Failure::usage(why).hint(hint)),
        None => Ok(()),
    }
}

/// Returns the tasks for one volume.
fn volume_tasks(
    options: &FilesOptions,
    volume: &Volume,
    root: &SysRoot,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Task>, Failure> {
    let caches = match (&options.caches[..], options.short_grid) {
        ([], None) => &[CacheMode::Cached][..],
        ([], Some(_)) => &[CacheMode::Cached, CacheMode::Direct],
        (chosen, _) => chosen,
    };
    let usual = [options.setup.read_percent];
    let percents =
        if options.read_percents.is_empty() { &usual } else { &options.read_percents[..] };
    let mut tasks = Vec::new();
    for cache in caches.iter().copied() {
        let setup = cache.apply_to(options.setup);
        let cells = fitting_cells(cells(options, cache, root)?, options, cache, volume, notices)?;
        let operations = supported_operations(options, cache, &setup, notices)?;
        let logical = volume.logical_block.unwrap_or(512).max(512);
        let odd = cells.iter().find(|cell| !cell.block.0.is_multiple_of(logical));
        if let Some(cell) = odd.filter(|_| setup.direct) {
            return Err(Failure::usage(format!(
                "direct I/O requires block sizes that are multiples of {logical} B; {} B is not",
                cell.block.0,
            ))
            .hint("use other --block-sizes"));
        }
        let task = |cell: CellSize, read_percent, of_task| Task {
            cell,
            cache,
            setup: TaskSetup {
                read_percent,
                stride: options.stride.in_blocks(cell.block).unwrap_or(setup.stride),
                ..setup
            },
            drop_before_reads: options.drop_before_reads || cache == CacheMode::Fsync,
            operations: of_task,
        };
        let mut mixes = operations.clone();
        mixes.retain(|operation| operation.name == "random_mix");
        for cell in grid::sort_coarse_to_fine(cells) {
            let mut here = operations.clone();
            if options.stride.in_blocks(cell.block).is_none() {
                here.retain(|operation| operation.pattern != AccessPattern::Stride);
                if here.len() < operations.len() {
                    notice::add_new(notices, [stride_notice(options.stride, cell.block)]);
                }
                if here.is_empty() {
                    continue;
                }
            }
            // The first read percentage applies to all operations. For each further percentage, only the random mix is
            // repeated.
            tasks.push(task(cell, percents[0], here));
            let others = percents[1..].iter().filter(|_| !mixes.is_empty());
            tasks.extend(others.map(|percent| task(cell, *percent, mixes.clone())));
        }
    }
    if !tasks.is_empty() {
        return Ok(tasks);
    }
    if let Stride::Skipped(bytes) = options.stride {
        let text =
            format!("--stride {bytes} is not a whole number of blocks of any requested size");
        return Err(Failure::usage(text)
            .hint("use --block-sizes that divide it, or a distance in blocks, e.g. --stride 17"));
    }
    Err(Failure::usage("there is nothing to measure")
        .hint("every block is larger than every file, or every file is larger than --max-size"))
}

/// Returns the notice that the strided operation is left out for a block size.
fn stride_notice(stride: Stride, block: Bytes) -> Notice {
    let skipped = match stride {
        Stride::Skipped(bytes) => bytes,
        Stride::Blocks(_) => Bytes(0),
    };
    let text = format!(
        "stride_read is left out for blocks of {block}: {skipped} is not a whole number of such blocks"
    );
    Notice::new(NoticeId::LeftOut, GAUGE, text)
}

impl FilesOptions {
    /// True if an operation is requested.
    fn wants(&self, operation: &Operation) -> bool {
        match self.short_grid {
            _ if !self.operations.is_empty() => self.operations.contains(&operation),
            Some(short_grid) => short_grid.operations.contains(&operation.name),
            None => operation.is_default,
        }
    }
}

/// Returns the requested operations that the setup supports. Adds a notice about unsupported operations.
fn supported_operations(
    options: &FilesOptions,
    cache: CacheMode,
    setup: &TaskSetup,
    notices: &mut Vec<Notice>,
) -> Result<Vec<&'static Operation>, Failure> {
    let wanted = operation::OPERATIONS.iter().filter(|o| options.wants(o));
    let (able, unable): (Vec<_>, Vec<_>) = wanted.partition(|o| setup.refusal_reason(o).is_none());
    let Some(why) = unable.first().and_then(|first| setup.refusal_reason(first)) else {
        return Ok(able);
    };
    let names: Vec<&str> = unable.iter().map(|operation| operation.name).collect();
    let how = match (setup.direct, setup.engine) {
        (true, IoEngine::Sync) => "direct I/O".to_owned(),
        (true, engine) => format!("direct I/O by {}", engine.name()),
        (false, engine) => format!("engine {} ({})", engine.name(), cache.name()),
    };
    let text = format!("{} left out with {how}: {why}", names.join(", "));
    if able.is_empty() {
        return Err(
            Failure::usage(format!("nothing to measure: {text}")).hint("use other --operations")
        );
    }
    if !options.operations.is_empty() || notices.is_empty() {
        notice::add_new(notices, [Notice::new(NoticeId::LeftOut, GAUGE, text)]);
    }
    Ok(able)
}

/// Returns the combinations of file size and block size for a cache mode.
fn cells(
    options: &FilesOptions,
    cache: CacheMode,
    root: &SysRoot,
) -> Result<Vec<CellSize>, Failure> {
    let FilesOptions { files, blocks, max_file: max, full, .. } = options;
    if let Some(short_grid) = options.short_grid {
        let first = if cache == CacheMode::Cached { 0 } else { short_grid.mib.len() - 1 };
        let short_files: Vec<Bytes> =
            short_grid.mib[first..].iter().map(|n| Bytes::mib(*n)).collect();
        let short_blocks: Vec<Bytes> = short_grid.kib.iter().map(|n| Bytes::kib(*n)).collect();
        return Ok(grid::cells(&short_files, &short_blocks, false));
    }
    if cache == CacheMode::Beyond {
        if files.is_some() {
            return Err(Failure::usage(
                "--cache beyond derives the file size from the memory size",
            )
            .hint("leave out --file-sizes"));
        }
        let known = [memory::info(root).total, cgroup::limits(root).memory];
        let memory =
            known.into_iter().flatten().min().ok_or_else(|| {
                Failure::usage("the memory size is unknown").hint("--cache direct")
            })?;
        let file = Bytes((memory * TIMES_MEMORY).next_multiple_of(1 << 24));
        let usual = [Bytes::mib(1)];
        return Ok(grid::cells(&[file], blocks.as_deref().unwrap_or(&usual), false));
    }
    // IOzone's skip rule applies only to the automatic grid. Sizes that the user gives are always measured.
    let skip = !full && files.is_none() && blocks.is_none();
    let mut files = files.clone().unwrap_or_else(|| grid::doubling_sizes(grid::FILE_SIZES));
    files.retain(|file| max.is_none_or(|max| *file <= max));
    let blocks = blocks.clone().unwrap_or_else(|| grid::doubling_sizes(grid::BLOCK_SIZES));
    Ok(grid::cells(&files, &blocks, skip))
}

/// Returns those cells whose files fit into the free space. Fails if the user requested a file size that does not fit.
fn fitting_cells(
    cells: Vec<CellSize>,
    options: &FilesOptions,
    cache: CacheMode,
    volume: &Volume,
    notices: &mut Vec<Notice>,
) -> Result<Vec<CellSize>, Failure> {
    let (free, basis) = volume::writable_space(volume)
        .map_err(|cause| error::unwritable_error(&volume.folder, cause))?;
    let explicit = options.files.is_some() || cache == CacheMode::Beyond;
    let may = (free.as_f64() * if explicit { 1.0 } else { MAX_SPACE_SHARE }) as u64;
    let workers = options.workers.map_or(1, |workers| workers.count as u64);
    let (fit, too_large): (Vec<CellSize>, Vec<CellSize>) =
        cells.into_iter().partition(|cell| cell.file.0.saturating_mul(workers) <= may);
    let needed = too_large.iter().map(|cell| cell.file.0.saturating_mul(workers));
    let Some(needed) = (if explicit { needed.max() } else { needed.min() }) else { return Ok(fit) };
    if explicit || fit.is_empty() {
        return Err(Failure::missing(format!(
            "{:?} has {free} left ({basis}); files of {} do not fit",
            volume.folder,
            Bytes(needed),
        ))
        .hint("use a smaller --max-size or --file-sizes, or another --path"));
    }
    let path = &volume.path;
    let left_out = count_in_words(too_large.len(), "cell");
    let text = format!("{path}: {left_out} left out: only {free} left ({basis})");
    notice::add_new(notices, [Notice::new(NoticeId::LeftOut, GAUGE, text)]);
    Ok(fit)
}

impl FilesPlan {
    /// Returns the largest block size of all tasks.
    pub(crate) fn longest_block(&self) -> Bytes {
        self.tasks.iter().map(|(_, task)| task.cell.block).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::PlannedRun;
    use nodegauge_measure::FailureKind;

    #[test]
    fn planning_io_writes_nothing_and_refuses_impossible_requests() {
        let folder = tempfile::tempdir().unwrap();
        let options = FilesOptions {
            paths: vec![folder.path().to_owned()],
            short_grid: Some(&QUICK),
            caches: vec![CacheMode::Cached, CacheMode::Direct],
            ..FilesOptions::default()
        };
        let planned = plan(options.clone(), Vec::new()).unwrap();
        assert_eq!(planned.tasks.len(), 12);
        assert!(planned.expected_cost().memory > Some(Bytes::mib(1)));
        let absent = FilesOptions { paths: vec![folder.path().join("absent")], ..options.clone() };
        let kind = |changed| plan(changed, Vec::new()).map(|_| ()).unwrap_err().kind;
        assert_eq!(kind(absent), FailureKind::Usage);
        let files = Some(vec![Bytes(1 << 60)]);
        let large = FilesOptions { short_grid: None, files, ..options };
        assert_eq!(kind(large), FailureKind::Missing);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
