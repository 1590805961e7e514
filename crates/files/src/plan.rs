//! From what a user asks for to a list of tasks, with everything refused that can be known to fail:
//! folders, space, direct I/O, engines.

use crate::FilesError;
use crate::cache;
use crate::cell::{CacheMode, Task};
use crate::engine::Engine;
use crate::grid::{self, Cell};
use crate::ground::{self, Ground, Leftover};
use crate::operation::{self, Operation};
use crate::pass::Setup;
use crate::team::{Crew, Kind};
use crate::volume::{self, Volume};
use nodegauge_machine::{SysRoot, cgroup, memory};
use nodegauge_measure::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// Which sizes are measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
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

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Folders under which to measure.
    pub paths: Vec<PathBuf>,
    /// Sizes.
    pub shape: Shape,
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
    pub crew: Option<Crew>,
    /// Share of the data that compresses, percent.
    pub compressible: u8,
    /// How often each cell is measured.
    pub samples: usize,
    /// Time for each operation.
    pub limit: Option<Duration>,
    /// Time for everything.
    pub budget: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            paths: vec![PathBuf::from(".")],
            shape: Shape::Grid { files: None, blocks: None, max: None, full: false },
            operations: Vec::new(),
            setup: Setup::default(),
            caches: Vec::new(),
            drop_before_reads: false,
            read_percents: Vec::new(),
            crew: None,
            compressible: 0,
            samples: 1,
            limit: None,
            budget: None,
        }
    }
}

/// A file system that is measured, with a folder of this run on it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) volume: Volume,
    pub(crate) ground: Ground,
}

/// What will be measured. Folders are made; dropped, it removes them.
#[derive(Debug)]
pub struct Plan {
    pub(crate) options: Options,
    pub(crate) sites: Vec<Site>,
    /// Site and task, in order.
    pub(crate) tasks: Vec<(usize, Task)>,
    /// What was clamped, left out or found.
    pub notices: Vec<String>,
    /// What earlier runs left under the folders.
    pub leftovers: Vec<Leftover>,
}

/// Largest share of the free space that files of the automatic grid may take.
const SHARE_OF_SPACE: f64 = 0.9;
/// Files of [`CacheMode::Beyond`] are this many times as large as memory.
const TIMES_MEMORY: u64 = 2;
/// Operations of the quick shape.
const QUICK: [&str; 6] = ["write", "rewrite", "read", "reread", "random_read", "random_write"];
/// Operations of the glance.
const GLANCE: [&str; 4] = ["write", "read", "random_read", "random_write"];

/// Makes the plan.
///
/// # Errors
/// When nothing of it can be carried out.
pub fn plan(options: Options) -> Result<Plan, FilesError> {
    let root = SysRoot::live();
    check(&options)?;
    let mut notices = Vec::new();
    let mut sites: Vec<Site> = Vec::new();
    let mut leftovers = Vec::new();
    for path in &options.paths {
        leftovers.extend(ground::leftovers(path));
        let ground = Ground::make(path)?;
        let volume = Volume::of(path, &root)
            .map_err(|cause| FilesError::Unwritable { path: path.clone(), cause })?;
        sites.push(Site { volume, ground });
    }
    probe_engine(&options)?;
    let mut tasks = Vec::new();
    for (number, site) in sites.iter().enumerate() {
        let made = tasks_of(&options, site, &root, &mut notices)?;
        tasks.extend(made.into_iter().map(|task| (number, task)));
    }
    // Several file systems side by side: the same cell on each, one after another.
    let mut order: Vec<usize> = Vec::new();
    let counts: Vec<usize> =
        (0..sites.len()).map(|site| tasks.iter().filter(|(s, _)| *s == site).count()).collect();
    for step in 0..counts.iter().copied().max().unwrap_or(0) {
        let mut first = 0;
        for count in &counts {
            if step < *count {
                order.push(first + step);
            }
            first += count;
        }
    }
    let tasks = order.into_iter().map(|i| tasks[i].clone()).collect();
    Ok(Plan { options, sites, tasks, notices, leftovers })
}

/// What cannot be, whatever the machine.
fn check(options: &Options) -> Result<(), FilesError> {
    let usage = |text: &str| Err(FilesError::Usage(text.to_owned()));
    if options.setup.depth > 1 && !options.setup.engine.queues() {
        return usage("a depth beyond 1 needs an engine that queues\nhint: --engine uring or aio");
    }
    let direct = options.setup.access.direct || options.caches.contains(&CacheMode::Direct);
    if direct && options.setup.engine == Engine::Mmap {
        return usage(
            "a mapping is the page cache, there is no direct one\nhint: leave out --engine mmap, or --cache direct",
        );
    }
    if options.crew.is_some() {
        if options.setup.verify {
            return usage(
                "--verify goes with one worker\nhint: leave out --threads or --processes",
            );
        }
        if options.crew.is_some_and(|crew| crew.kind == Kind::Processes)
            && options.setup.engine == Engine::Aio
        {
            return usage(
                "POSIX asynchronous I/O brings threads of its own, which a forked process lacks\nhint: --threads, or --engine uring",
            );
        }
    }
    Ok(())
}

/// Refuses an engine that the system lacks before anything is made with it.
fn probe_engine(options: &Options) -> Result<(), FilesError> {
    match options.setup.engine {
        Engine::Uring => crate::engine::uring::probe().map_err(FilesError::NoUring),
        Engine::Aio => crate::engine::aio::probe().map_err(FilesError::NoAio),
        _ => Ok(()),
    }
}

/// A setup's part of a site's plan.
struct Part {
    cache: CacheMode,
    cells: Vec<Cell>,
    operations: Vec<&'static Operation>,
}

fn tasks_of(
    options: &Options,
    site: &Site,
    root: &SysRoot,
    notices: &mut Vec<String>,
) -> Result<Vec<Task>, FilesError> {
    let mut tasks = Vec::new();
    for part in parts(options, site, root, notices)? {
        let setup = part.cache.applied(options.setup);
        let operations = carried_out(&part, &setup, options, notices)?;
        let drop_before_reads = options.drop_before_reads || part.cache == CacheMode::Fsync;
        let logical = site.volume.logical_block.unwrap_or(512).max(512);
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
    options: &Options,
    notices: &mut Vec<String>,
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
        if !options.operations.is_empty() && !notices.contains(&text) || notices.is_empty() {
            notices.push(text);
        }
    }
    Ok(able)
}

fn how(cache: CacheMode, setup: &Setup) -> String {
    match (setup.access.direct, setup.engine) {
        (true, Engine::Sync) => "direct I/O".to_owned(),
        (true, engine) => format!("direct I/O by {}", engine.name()),
        (false, engine) => format!("engine {} ({})", engine.name(), cache.name()),
    }
}

/// The cells and operations of each cache mode of a site.
fn parts(
    options: &Options,
    site: &Site,
    root: &SysRoot,
    notices: &mut Vec<String>,
) -> Result<Vec<Part>, FilesError> {
    let chosen = |names: &[&str]| -> Vec<&'static Operation> {
        match options.operations.is_empty() {
            true => names.iter().filter_map(|name| operation::named(name)).collect(),
            false => options.operations.clone(),
        }
    };
    let mut modes = options.caches.clone();
    let short = options.shape == Shape::Quick || options.shape == Shape::Glance;
    if modes.is_empty() {
        modes.push(CacheMode::Cached);
        if short {
            modes.push(CacheMode::Direct);
        }
    }
    let given = !options.caches.is_empty();
    let mut parts = Vec::new();
    for cache in modes {
        if cache == CacheMode::Direct || options.setup.access.direct {
            match cache::prove_direct(site.ground.folder(), &site.volume) {
                Ok(()) => {}
                Err(error @ FilesError::NoDirect { .. }) if !given => {
                    let text = error.to_string();
                    notices.push(text.lines().next().unwrap_or_default().to_owned());
                    continue;
                }
                Err(error) => return Err(error),
            }
        }
        let usual: Vec<&str> =
            operation::OPERATIONS.iter().filter(|o| o.usual).map(|o| o.name).collect();
        let (cells, operations) = match &options.shape {
            Shape::Quick => (quick_cells(cache, &[1, 16, 64], &[4, 64, 1024]), chosen(&QUICK)),
            Shape::Glance => (quick_cells(cache, &[16], &[4, 1024]), chosen(&GLANCE)),
            Shape::Grid { files, blocks, max, full } => {
                let cells = match cache {
                    CacheMode::Beyond => beyond(files.as_deref(), blocks.as_deref(), root)?,
                    _ => grid_cells(files.as_deref(), blocks.as_deref(), *max, *full),
                };
                (cells, chosen(&usual))
            }
        };
        let explicit = matches!(&options.shape, Shape::Grid { files, .. } if files.is_some())
            || cache == CacheMode::Beyond;
        let cells = that_fit(cells, options, site, explicit, notices)?;
        parts.push(Part { cache, cells: grid::coarse_to_fine(cells), operations });
    }
    Ok(parts)
}

/// Cells of the short shapes: the direct ones on the largest file alone.
fn quick_cells(cache: CacheMode, mib: &[u64], kib: &[u64]) -> Vec<Cell> {
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
) -> Vec<Cell> {
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
) -> Result<Vec<Cell>, FilesError> {
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
    cells: Vec<Cell>,
    options: &Options,
    site: &Site,
    explicit: bool,
    notices: &mut Vec<String>,
) -> Result<Vec<Cell>, FilesError> {
    let path = PathBuf::from(&site.volume.path);
    let room = volume::room(site.ground.folder(), &site.volume)
        .map_err(|cause| FilesError::Unwritable { path: path.clone(), cause })?;
    let workers = options.crew.map_or(1, |crew| crew.count as u64);
    let share = if explicit { 1.0 } else { SHARE_OF_SPACE };
    let may = (room.free.as_f64() * share) as u64;
    let needs = |cell: &Cell| cell.file.0.saturating_mul(workers);
    let (fit, too_large): (Vec<Cell>, Vec<Cell>) =
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
        site.volume.path,
        too_large.len(),
        room.free,
        room.basis
    );
    if !notices.contains(&text) {
        notices.push(text);
    }
    Ok(fit)
}

impl Plan {
    /// Longest block of all tasks.
    pub(crate) fn longest_block(&self) -> Bytes {
        self.tasks.iter().map(|(_, task)| task.cell.block).max().unwrap_or_default()
    }

    /// How many cells there are, over all folders.
    pub fn cells(&self) -> usize {
        self.tasks.len()
    }
}
