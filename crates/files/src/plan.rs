//! From what a user asks for to a list of tasks, with everything refused that can be known to fail:
//! folders, space, direct I/O, engines.

use crate::FilesError;
use crate::cell::{CacheMode, Task};
use crate::engine::IoEngine;
use crate::grid::{self, CellSize};
use crate::operation::{self, Operation};
use crate::pass::Setup;
use crate::reference::ReferenceProgram;
use crate::volume::{self, Volume};
use crate::workers::{WorkerKind, Workers};
use crate::{GAUGE, scratch};
use nodegauge_machine::{SysRoot, cgroup, memory};
use nodegauge_measure::{Bytes, Notice, NoticeId, notice};
use std::path::PathBuf;
use std::time::Duration;

/// Which sizes are measured.
#[derive(Debug, Clone, PartialEq)]
pub enum GridShape {
    /// Every file size with every block size. What is not given is IOzone's, with its skip rule.
    Grid {
        /// Sizes of files.
        files: Option<Vec<Bytes>>,
        /// Sizes of blocks.
        blocks: Option<Vec<Bytes>>,
        /// No larger files than this.
        max: Option<Bytes>,
        /// Without the skip rule.
        full: bool,
    },
    /// A dozen cells, cached and direct, that show what a file system is like.
    Quick,
    /// Four of them, for a page on the whole node.
    Glance,
}

impl GridShape {
    /// Time for everything, and for each operation, unless the user says otherwise.
    pub fn usual_times(&self) -> (Duration, Option<Duration>) {
        let (seconds, milliseconds) = match self {
            Self::Grid { .. } => return (Duration::from_secs(120), None),
            Self::Quick => (12, 300),
            Self::Glance => (5, 250),
        };
        (Duration::from_secs(seconds), Some(Duration::from_millis(milliseconds)))
    }
}

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct FilesOptions {
    /// Folders under which to measure.
    pub paths: Vec<PathBuf>,
    /// Sizes.
    pub shape: GridShape,
    /// Operations, in the table's order; empty means those of the shape.
    pub operations: Vec<&'static Operation>,
    /// How they are carried out.
    pub setup: Setup,
    /// What the page cache may do; empty means what the shape says.
    pub caches: Vec<CacheMode>,
    /// Whether pages are dropped before each operation that reads.
    pub drop_before_reads: bool,
    /// Shares of reads of the random mix, percent; each is measured.
    pub read_percents: Vec<u8>,
    /// Several workers at once.
    pub workers: Option<Workers>,
    /// Share of the data that compresses, percent.
    pub compressible: u8,
    /// How often each cell is measured.
    pub samples: usize,
    /// Time for each operation.
    pub limit: Option<Duration>,
    /// Time for everything.
    pub budget: Option<Duration>,
}

impl Default for FilesOptions {
    fn default() -> Self {
        Self {
            paths: vec![PathBuf::from(".")],
            shape: GridShape::Grid { files: None, blocks: None, max: None, full: false },
            operations: Vec::new(),
            setup: Setup::default(),
            caches: Vec::new(),
            drop_before_reads: false,
            read_percents: Vec::new(),
            workers: None,
            compressible: 0,
            samples: 1,
            limit: None,
            budget: None,
        }
    }
}

impl FilesOptions {
    /// What the page on the whole node shows of a folder.
    pub fn glance(path: PathBuf) -> Self {
        let (budget, limit) = GridShape::Glance.usual_times();
        Self {
            paths: vec![path],
            shape: GridShape::Glance,
            limit,
            budget: Some(budget),
            ..Self::default()
        }
    }
}

/// What will be measured. Nothing of it was touched yet.
pub struct FilesPlan {
    pub(crate) options: FilesOptions,
    /// The file system of each path.
    pub(crate) volumes: Vec<Volume>,
    /// Number of the path and task, in order.
    pub(crate) tasks: Vec<(usize, Task)>,
    /// Programs that carry the same tasks out by turns.
    pub(crate) programs: Vec<Box<dyn ReferenceProgram>>,
    /// What was clamped or left out.
    pub(crate) notices: Vec<Notice>,
}

/// Largest share of the free space that files of the automatic grid may take.
const SHARE_OF_SPACE: f64 = 0.9;
/// Files of [`CacheMode::Beyond`] are this many times as large as memory.
const TIMES_MEMORY: u64 = 2;
/// Operations of the quick shape.
const QUICK: [&str; 6] = ["write", "rewrite", "read", "reread", "random_read", "random_write"];
/// Operations of the glance.
const GLANCE: [&str; 4] = ["write", "read", "random_read", "random_write"];

/// Makes the plan of measurements by turns with `programs`. Looks at folders, and touches nothing.
///
/// # Errors
/// When nothing of it can be carried out.
pub fn plan(
    options: FilesOptions,
    programs: Vec<Box<dyn ReferenceProgram>>,
) -> Result<FilesPlan, FilesError> {
    let root = SysRoot::live();
    check(&options)?;
    let mut notices = Vec::new();
    let mut volumes: Vec<Volume> = Vec::new();
    for path in &options.paths {
        scratch::check(path)?;
        let volume = Volume::of(path, &root)
            .map_err(|cause| FilesError::Unwritable { path: path.clone(), cause })?;
        volumes.push(volume);
    }
    probe_engine(&options)?;
    let mut by_path = Vec::new();
    for (number, volume) in volumes.iter().enumerate() {
        let tasks = tasks_of(&options, (&options.paths[number], volume), &root, &mut notices)?;
        by_path.push(tasks.into_iter().map(move |task| (number, task)));
    }
    // Several file systems side by side: the same cell on each, one after another.
    let mut tasks = Vec::new();
    loop {
        let step: Vec<_> = by_path.iter_mut().filter_map(Iterator::next).collect();
        if step.is_empty() {
            return Ok(FilesPlan { options, volumes, tasks, programs, notices });
        }
        tasks.extend(step);
    }
}

/// What cannot be, whatever the machine.
fn check(options: &FilesOptions) -> Result<(), FilesError> {
    let usage = |text: &str| Err(FilesError::Usage(text.to_owned()));
    if options.setup.depth > 1 && !options.setup.engine.queues() {
        return usage("a depth beyond 1 needs an engine that queues\nhint: --engine uring or aio");
    }
    let direct = options.setup.access.direct || options.caches.contains(&CacheMode::Direct);
    if direct && options.setup.engine == IoEngine::Mmap {
        return usage(
            "a mapping is the page cache, there is no direct one\nhint: leave out --engine mmap, or --cache direct",
        );
    }
    if options.workers.is_some() {
        if options.setup.verify {
            return usage(
                "--verify goes with one worker\nhint: leave out --threads or --processes",
            );
        }
        if options.workers.is_some_and(|workers| workers.kind == WorkerKind::Processes)
            && options.setup.engine == IoEngine::Aio
        {
            return usage(
                "POSIX asynchronous I/O brings threads of its own, which a forked process lacks\nhint: --threads, or --engine uring",
            );
        }
    }
    Ok(())
}

/// Refuses an engine that the system lacks before anything is made with it.
fn probe_engine(options: &FilesOptions) -> Result<(), FilesError> {
    match options.setup.engine {
        IoEngine::Uring => crate::engine::uring::probe().map_err(FilesError::NoUring),
        IoEngine::Aio => crate::engine::aio::probe().map_err(FilesError::NoAio),
        _ => Ok(()),
    }
}

/// A setup's part of a site's plan.
struct Part {
    cache: CacheMode,
    cells: Vec<CellSize>,
    operations: Vec<&'static Operation>,
}

fn tasks_of(
    options: &FilesOptions,
    (path, volume): (&PathBuf, &Volume),
    root: &SysRoot,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Task>, FilesError> {
    let mut tasks = Vec::new();
    for part in parts(options, (path, volume), root, notices)? {
        let setup = part.cache.applied(options.setup);
        let operations = carried_out(&part, &setup, options, notices)?;
        let drop_before_reads = options.drop_before_reads || part.cache == CacheMode::Fsync;
        let logical = volume.logical_block.unwrap_or(512).max(512);
        for cell in part.cells {
            if setup.access.direct && !cell.block.0.is_multiple_of(logical) {
                return Err(FilesError::Usage(format!(
                    "direct I/O goes in multiples of {logical} bytes, a block has {}\nhint: other --block-sizes",
                    cell.block.0
                )));
            }
            let task = Task {
                cell,
                cache: part.cache,
                setup,
                drop_before_reads,
                operations: operations.clone(),
            };
            tasks.extend(by_ratio(task, &options.read_percents));
        }
    }
    if tasks.is_empty() {
        return Err(FilesError::Usage("there is nothing to measure\nhint: no block size is as small as a file size, or --max-size leaves no file".to_owned()));
    }
    Ok(tasks)
}

/// A task for the first ratio with all operations, and one with the mix alone for each other.
fn by_ratio(task: Task, percents: &[u8]) -> Vec<Task> {
    let mix = |task: &Task| -> Vec<&'static Operation> {
        task.operations.iter().copied().filter(|o| o.name == "random_mix").collect()
    };
    let with = |percent: u8, operations| Task {
        setup: Setup { read_percent: percent, ..task.setup },
        operations,
        ..task.clone()
    };
    let first = percents.first().copied().unwrap_or(task.setup.read_percent);
    let mut tasks = vec![with(first, task.operations.clone())];
    let alone = mix(&task);
    if !alone.is_empty() {
        tasks.extend(percents.iter().skip(1).map(|percent| with(*percent, alone.clone())));
    }
    tasks
}

/// The operations that can be carried out this way; those that cannot are named once.
fn carried_out(
    part: &Part,
    setup: &Setup,
    options: &FilesOptions,
    notices: &mut Vec<Notice>,
) -> Result<Vec<&'static Operation>, FilesError> {
    let (able, unable): (Vec<_>, Vec<_>) =
        part.operations.iter().copied().partition(|operation| setup.refuses(operation).is_none());
    if let Some(first) = unable.first() {
        let why = setup.refuses(first).unwrap_or("?");
        let names: Vec<&str> = unable.iter().map(|operation| operation.name).collect();
        let text = format!("{} left out with {}: {why}", names.join(", "), how(part.cache, setup));
        if able.is_empty() {
            return Err(FilesError::Usage(format!(
                "nothing to measure: {text}\nhint: other --operations"
            )));
        }
        if !options.operations.is_empty() || notices.is_empty() {
            notice::add_new(notices, [left_out(text)]);
        }
    }
    Ok(able)
}

fn how(cache: CacheMode, setup: &Setup) -> String {
    match (setup.access.direct, setup.engine) {
        (true, IoEngine::Sync) => "direct I/O".to_owned(),
        (true, engine) => format!("direct I/O by {}", engine.name()),
        (false, engine) => format!("engine {} ({})", engine.name(), cache.name()),
    }
}

/// The cells and operations of each cache mode of a site.
fn parts(
    options: &FilesOptions,
    (path, volume): (&PathBuf, &Volume),
    root: &SysRoot,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Part>, FilesError> {
    let chosen = |names: &[&str]| -> Vec<&'static Operation> {
        match options.operations.is_empty() {
            true => names.iter().filter_map(|name| operation::named(name)).collect(),
            false => options.operations.clone(),
        }
    };
    let mut modes = options.caches.clone();
    let short = options.shape == GridShape::Quick || options.shape == GridShape::Glance;
    if modes.is_empty() {
        modes.push(CacheMode::Cached);
        if short {
            modes.push(CacheMode::Direct);
        }
    }
    let mut parts = Vec::new();
    for cache in modes {
        let usual: Vec<&str> =
            operation::OPERATIONS.iter().filter(|o| o.usual).map(|o| o.name).collect();
        let (cells, operations) = match &options.shape {
            GridShape::Quick => (quick_cells(cache, &[1, 16, 64], &[4, 64, 1024]), chosen(&QUICK)),
            GridShape::Glance => (quick_cells(cache, &[16], &[4, 1024]), chosen(&GLANCE)),
            GridShape::Grid { files, blocks, max, full } => {
                let cells = match cache {
                    CacheMode::Beyond => beyond(files.as_deref(), blocks.as_deref(), root)?,
                    _ => grid_cells(files.as_deref(), blocks.as_deref(), *max, *full),
                };
                (cells, chosen(&usual))
            }
        };
        let explicit = matches!(&options.shape, GridShape::Grid { files, .. } if files.is_some())
            || cache == CacheMode::Beyond;
        let cells = that_fit(cells, options, (path, volume), explicit, notices)?;
        parts.push(Part { cache, cells: grid::coarse_to_fine(cells), operations });
    }
    Ok(parts)
}

/// Cells of the short shapes: the direct ones on the largest file alone.
fn quick_cells(cache: CacheMode, mib: &[u64], kib: &[u64]) -> Vec<CellSize> {
    let largest = mib.len().saturating_sub(1);
    let files = if cache == CacheMode::Cached { mib } else { &mib[largest..] };
    let files: Vec<Bytes> = files.iter().map(|n| Bytes::mib(*n)).collect();
    let blocks: Vec<Bytes> = kib.iter().map(|n| Bytes::kib(*n)).collect();
    grid::cells(&files, &blocks, false)
}

fn grid_cells(
    files: Option<&[Bytes]>,
    blocks: Option<&[Bytes]>,
    max: Option<Bytes>,
    full: bool,
) -> Vec<CellSize> {
    // The skip rule is for the automatic grid: sizes that a user names are all measured.
    let skip = !full && files.is_none() && blocks.is_none();
    let files = files.map_or_else(grid::automatic_files, <[Bytes]>::to_vec);
    let files: Vec<Bytes> =
        files.into_iter().filter(|file| max.is_none_or(|max| *file <= max)).collect();
    let blocks = blocks.map_or_else(grid::automatic_blocks, <[Bytes]>::to_vec);
    grid::cells(&files, &blocks, skip)
}

/// A file of twice the memory, in the blocks that are given or of 1 MiB.
fn beyond(
    files: Option<&[Bytes]>,
    blocks: Option<&[Bytes]>,
    root: &SysRoot,
) -> Result<Vec<CellSize>, FilesError> {
    if files.is_some() {
        return Err(FilesError::Usage(
            "--cache beyond chooses the file size by the memory\nhint: leave out --file-sizes"
                .to_owned(),
        ));
    }
    let total = memory::info(root).total;
    let limit = cgroup::limits(root).memory;
    let Some(total) = [total, limit].into_iter().flatten().min() else {
        return Err(FilesError::Usage(
            "how much memory there is, is not known\nhint: --cache direct".to_owned(),
        ));
    };
    let file = Bytes((total * TIMES_MEMORY).next_multiple_of(1 << 24));
    Ok(grid::cells(&[file], blocks.unwrap_or(&[Bytes::mib(1)]), false))
}

/// Cells whose files fit where they will be. Sizes that were asked for must fit.
fn that_fit(
    cells: Vec<CellSize>,
    options: &FilesOptions,
    (path, volume): (&PathBuf, &Volume),
    explicit: bool,
    notices: &mut Vec<Notice>,
) -> Result<Vec<CellSize>, FilesError> {
    let path = path.clone();
    let room = volume::room(&path, volume)
        .map_err(|cause| FilesError::Unwritable { path: path.clone(), cause })?;
    let workers = options.workers.map_or(1, |workers| workers.count as u64);
    let share = if explicit { 1.0 } else { SHARE_OF_SPACE };
    let may = (room.free.as_f64() * share) as u64;
    let needs = |cell: &CellSize| cell.file.0.saturating_mul(workers);
    let (fit, too_large): (Vec<CellSize>, Vec<CellSize>) =
        cells.into_iter().partition(|cell| needs(cell) <= may);
    let Some(largest) = too_large.iter().map(needs).max() else { return Ok(fit) };
    if explicit || fit.is_empty() {
        let needed =
            if explicit { largest } else { too_large.iter().map(needs).min().unwrap_or(largest) };
        return Err(FilesError::NoSpace {
            path,
            free: room.free,
            basis: room.basis,
            needed: Bytes(needed),
        });
    }
    let text = format!(
        "{}: {} cells left out, as there are {} left ({})",
        volume.path,
        too_large.len(),
        room.free,
        room.basis
    );
    notice::add_new(notices, [left_out(text)]);
    Ok(fit)
}

fn left_out(text: String) -> Notice {
    Notice::new(NoticeId::LeftOut, GAUGE, text)
}

impl FilesPlan {
    /// Longest block of all tasks.
    pub(crate) fn longest_block(&self) -> Bytes {
        self.tasks.iter().map(|(_, task)| task.cell.block).max().unwrap_or_default()
    }

    /// How many cells there are, over all folders.
    pub fn cells(&self) -> usize {
        self.tasks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::Planned;

    #[test]
    fn a_plan_touches_nothing_and_refuses_what_can_be_known() {
        let folder = tempfile::tempdir().unwrap();
        let options = FilesOptions {
            paths: vec![folder.path().to_owned()],
            shape: GridShape::Quick,
            caches: vec![CacheMode::Cached, CacheMode::Direct],
            ..FilesOptions::default()
        };
        let planned = plan(options.clone(), Vec::new()).unwrap();
        assert_eq!(planned.cells(), 12);
        assert!(planned.foreseen().memory > Some(Bytes::mib(1)));
        let absent = FilesOptions { paths: vec![folder.path().join("absent")], ..options.clone() };
        assert!(matches!(plan(absent, Vec::new()), Err(FilesError::NotAFolder { .. })));
        let large = GridShape::Grid {
            files: Some(vec![Bytes(1 << 60)]),
            blocks: None,
            max: None,
            full: false,
        };
        let large = FilesOptions { shape: large, ..options };
        assert!(matches!(plan(large, Vec::new()), Err(FilesError::NoSpace { .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
