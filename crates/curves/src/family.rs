//! Family of curves: the latency of a dependent chain as a function of the bandwidth of the other threads, for each mix
//! of reads and writes, from idle memory to the full rate; and the bandwidth of all threads without the chain. `memory
//! loaded` shows only the curve of reads, `memory mix` only the bandwidths.
//!
//! The points of all curves and the bandwidths are cells of one run, which are measured interleaved. Pauses between
//! blocks control the load; its bandwidth is computed from the number of blocks that the threads processed.

mod drawn;
mod figures;
mod paths;
mod placed;
mod plan;
mod reaction;

pub use paths::NodeChoice;

pub(crate) use paths::MemoryPath;
pub(crate) use placed::{BANDWIDTH, BANDWIDTH_BELOW, LATENCY, NAMES, SENSITIVITY, SLOWDOWN};
pub(crate) use plan::{plan, plan_loaded, plan_mix};

use crate::config::CurveConfig;
use crate::loaded::{LoaderTimes, SAMPLE_SECONDS};
use crate::memory_chase::{ChasedMemory, SetRange};
use crate::mix::Mix;
use crate::prediction::CurveTimes;
use crate::run::CurveRun;
use crate::{Mode, notice};
use figures::FamilyFigures;
use nodegauge_arena::{ArenaError, RequestedPages};
use nodegauge_chase::traffic::{self, WorkingSetLoop};
use nodegauge_chase::{
    Chase, LOAD_BLOCK_BYTES, LoadGenerator, MemoryRegion, RegionBuffers, WitnessedPool,
};
use nodegauge_gauge::family::LOAD_PERCENTS;
use nodegauge_kernels::Kernel;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{PredictedTime, RemainingTime, policy};
use nodegauge_measure::{Bytes, Fraction, NoticeId, clock};
use nodegauge_placement::MemoryPolicy;
use nodegauge_toolchain::CommandLine;
use placed::{PlacedProgram, ProgramRuns};
use std::ops::Range;

/// Number of turns after which the arrays are filled again. A turn multiplies values by at most three, and 3^512 is
/// below the largest `f64`.
const TURNS_PER_REFILL: u32 = 512;

/// Share of the budget for the curves if a program is also measured.
const FAMILY_SHARE: Fraction = Fraction(0.4);

/// Part of the run that a command measures and shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FamilyView {
    /// `memory curves`: curves and bandwidths of several mixes.
    Curves,
    /// `memory loaded`: the curve of reads.
    Loaded,
    /// `memory mix`: bandwidths of all threads.
    Mix,
}

/// Planned measurement of the family or of a part of it.
pub(crate) struct Family {
    pub(crate) view: FamilyView,
    /// Threads and memories whose curves are measured.
    pub(crate) paths: Vec<MemoryPath>,
    pub(crate) mixes: Vec<Mix>,
    /// Working set of the chain; `None` if only bandwidths are measured.
    pub(crate) chase_sets: Option<SetRange>,
    /// Size of an array of one thread, bytes.
    pub(crate) array_bytes: u64,
    /// Number of arrays of one thread.
    pub(crate) arrays: u64,
    /// Program that is measured on the first path; `None` to measure only curves.
    pub(crate) program: Option<CommandLine>,
}

/// Quantity of a mix that a cell measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellQuantity {
    /// Bandwidth of all threads together.
    Saturated,
    /// Point of the curve; the number is the index into [`LOAD_PERCENTS`].
    Point(usize),
}

/// Cell of the run: one quantity of a mix on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FamilyCell {
    /// Index of the path.
    pub path: usize,
    /// Index of the mix in the list of members of its path.
    pub member: usize,
    pub part: CellQuantity,
}

/// Memory that a path uses during the run.
pub(crate) struct PathMemory {
    pub chase_memory: Option<ChasedMemory>,
    pub load_region: MemoryRegion,
}

/// Member of the family on one path: a mix with its loops.
pub(crate) struct FamilyMember<'m> {
    pub mix: Mix,
    /// Loop of each thread; empty if the bandwidth is not measured.
    pub loops: Vec<WorkingSetLoop>,
    /// Load during the chain, with the times from which its pauses are computed; `None` without a chain.
    pub load: Option<(LoadGenerator<'m>, LoaderTimes)>,
}

/// Path with its workers, buffers and members during the run.
pub(crate) struct PathRun<'m> {
    pub pool: &'m mut WitnessedPool,
    chase: Option<Chase<'m>>,
    buffers: RegionBuffers<'m>,
    pub members: Vec<FamilyMember<'m>>,
    /// Number of blocks per array.
    blocks: usize,
    /// Block at which the next load begins.
    at: usize,
    /// Number of turns so far; at multiples of [`TURNS_PER_REFILL`], the arrays are filled again. `None` if no member
    /// writes.
    turns: Option<u32>,
}

impl PathRun<'_> {
    /// Measures a cell of the path once.
    fn turn(&mut self, member: usize, part: CellQuantity) -> Result<Sample, ArenaError> {
        if let Some(turns) = &mut self.turns {
            // Mixes write into common arrays, and values grow with every pass. The arrays are therefore filled again
            // long before values overflow.
            if *turns % TURNS_PER_REFILL == 0 {
                traffic::refill(self.pool, self.buffers, self.buffers.bytes())?;
            }
            *turns += 1;
        }
        let FamilyMember { loops, load, .. } = &self.members[member];
        match (part, &mut self.chase, load) {
            (CellQuantity::Point(number), Some(chase), Some((load, times))) => {
                // Loaders continue at another position of their buffers, where no data of the previous sample is in a
                // cache.
                self.at = (self.at + self.blocks / 7 + 1) % self.blocks;
                match times.spins(LOAD_PERCENTS[number]) {
                    None => chase.take_idle_sample(self.pool),
                    spins => load.take_sample(self.pool, chase, spins, self.at),
                }
            }
            _ => traffic::take_sample(loops, self.pool, self.buffers),
        }
    }

    /// Returns the block at which the next load begins.
    fn next_block(&mut self) -> usize {
        self.at = (self.at + self.blocks / 7 + 1) % self.blocks;
        self.at
    }
}

/// Returns the blocks at which successive loads begin, in arrays of `blocks` blocks.
fn block_starts(blocks: usize) -> impl Iterator<Item = usize> {
    (0..).map(move |number: usize| number * (blocks / 7 + 1) % blocks.max(1))
}

/// Returns a function that maps a buffer for the chasing worker of a pool.
fn mapped_for_chaser(
    pages: RequestedPages,
    policy: &MemoryPolicy,
) -> impl FnMut(&mut WitnessedPool, u64) -> Result<MemoryRegion, ArenaError> + '_ {
    move |pool, bytes| MemoryRegion::allocate(pool, 0..1, bytes, pages, policy)
}

impl Family {
    /// True if the bandwidth of all threads is measured.
    fn has_bandwidths(&self) -> bool {
        self.view != FamilyView::Loaded
    }

    /// Returns the workers that have arrays: the loading workers, and also the chasing worker if the bandwidth of all
    /// threads is measured.
    fn workers(&self, threads: usize) -> Range<usize> {
        usize::from(!self.has_bandwidths())..threads
    }

    /// Returns the quantities that the run measures for each mix.
    fn parts(&self) -> Vec<CellQuantity> {
        let mut parts = Vec::new();
        if self.has_bandwidths() {
            parts.push(CellQuantity::Saturated);
        }
        if self.chase_sets.is_some() {
            parts.extend((0..LOAD_PERCENTS.len()).map(CellQuantity::Point));
        }
        parts
    }

    /// Returns the total size of all arrays on all paths.
    fn array_memory(&self) -> Bytes {
        let buffers = self.paths.iter().map(|path| self.workers(path.places.len()).len() as u64);
        Bytes(self.array_bytes * self.arrays * buffers.sum::<u64>())
    }

    /// Maps the memory of a path. `known` is the size of the chain that has been found on another path; `None` to
    /// search for a sufficient size.
    fn map(
        &self,
        run: &CurveRun<'_>,
        path: &MemoryPath,
        pool: &mut WitnessedPool,
        known: Option<u64>,
    ) -> Result<PathMemory, ArenaError> {
        let pages = run.setup.pages();
        let mut map = mapped_for_chaser(pages, &path.policy);
        let chase_memory = match (self.chase_sets, known) {
            (None, _) => None,
            (Some(_), Some(bytes)) => Some(ChasedMemory::new(run.setup, pool, bytes, &mut map)?),
            (Some(sets), None) => Some(ChasedMemory::exceeding_caches(run, sets, pool, &mut map)?),
        };
        let workers = self.workers(pool.workers());
        let bytes = self.array_bytes * self.arrays;
        let load_region = MemoryRegion::allocate(pool, workers, bytes, pages, &path.policy)?;
        Ok(PathMemory { chase_memory, load_region })
    }

    /// Chooses the loops for a mix on a path, and calibrates its load. Returns `None` if this processor has no loop for
    /// the mix. The choice ends when the share `until` of the time for choices has elapsed.
    fn member<'m>(
        &self,
        run: &mut CurveRun<'_>,
        path: &mut PathRun<'m>,
        mix: Mix,
        until: f64,
    ) -> Result<Option<FamilyMember<'m>>, ArenaError> {
        let kernel = mix.kernel();
        let bytes = self.array_bytes as usize * mix.arrays() as usize;
        let mut loops = Vec::new();
        let mut variant = traffic::default_read_loop();
        if self.has_bandwidths() {
            let stores = &[mix.stores()];
            let found =
                run.find_fastest_loop(until, path.pool, path.buffers, kernel, stores, bytes)?;
            let Some(fastest) = found else { return Ok(None) };
            loops.push(WorkingSetLoop::new(fastest, bytes));
            if kernel != Kernel::Read {
                variant = fastest;
            }
        }
        let mut load = None;
        if let Some(chase) = &mut path.chase {
            let of_mix = LoadGenerator::with_loop(path.buffers, variant, path.blocks);
            chase.warm(path.pool, SAMPLE_SECONDS)?;
            let loaders = path.pool.workers() as u64 - 1;
            let mut starts = block_starts(path.blocks);
            let times = LoaderTimes::calibrate(&of_mix, loaders, || {
                let start = starts.next().unwrap_or(0);
                of_mix.take_sample(path.pool, chase, Some(0), start)
            })?;
            load = Some((of_mix, times));
        }
        Ok(Some(FamilyMember { mix, loops, load }))
    }

    /// Measures each quantity of a mix on a path once. Returns the samples.
    fn prepare(
        &self,
        path: &mut PathRun<'_>,
        member: usize,
    ) -> Result<Vec<Vec<Sample>>, ArenaError> {
        let mut first = Vec::new();
        for part in self.parts() {
            first.push(vec![path.turn(member, part)?]);
        }
        Ok(first)
    }
}

impl Mode for Family {
    fn memory(&self) -> Bytes {
        let chains = self.chase_sets.map_or(Bytes(0), |sets| sets.min);
        self.array_memory() + chains * self.paths.len() as u64
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        let arrays = self.array_memory();
        // Mixes for which there is no time are left out.
        let one = times.predict_loops(arrays, 1);
        let all = times.predict_loops(arrays, self.mixes.len() as u32);
        let bandwidths = PredictedTime { min: one.min, likely: all.likely };
        let Some(sets) = self.chase_sets else { return bandwidths };
        let chains = (0..self.paths.len()).map(|_| times.predict_chase(sets.min));
        let points = LOAD_PERCENTS.len() * self.paths.len();
        bandwidths
            + chains.sum()
            + CurveTimes::predict_points(points, points * self.mixes.len(), SAMPLE_SECONDS)
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let program = match &self.program {
            Some(command) => Some(ProgramRuns::start(run, command, &self.paths[0].places)?),
            None => None,
        };
        let limits = run.limits;
        if program.is_some() {
            // The budget covers the curves and the program together.
            run.outcome.set_run_time(&limits, limits.elapsed());
            run.limits.budget = limits.budget.mul_f64(FAMILY_SHARE.0);
        }
        run.observer.begin_phase(&match self.view {
            FamilyView::Curves => {
                let arrays = self.arrays as usize * self.paths.len();
                format!("preparing a chain and {}", count_in_words(arrays, "array"))
            }
            FamilyView::Loaded => {
                let arrays = count_in_words(self.paths[0].places.len() - 1, "array");
                format!("preparing a chain and {arrays}")
            }
            FamilyView::Mix => {
                let arrays = Bytes(self.array_bytes * run.setup.threads());
                format!("preparing {} of {arrays}", count_in_words(self.arrays as usize, "array"))
            }
        });
        let mut pools = Vec::new();
        for path in &self.paths {
            pools.push(run.start_place_pool(&path.places, run.setup.spare())?);
        }
        let mut memories: Vec<PathMemory> = Vec::new();
        for (path, pool) in self.paths.iter().zip(&mut pools) {
            let first = memories.first().and_then(|memory| memory.chase_memory.as_ref());
            let known = first.map(ChasedMemory::bytes);
            memories.push(self.map(run, path, pool, known)?);
        }
        let writes = self.mixes.iter().any(|mix| mix.kernel().writes());
        let mut paths: Vec<PathRun<'_>> = Vec::new();
        for (memory, pool) in memories.iter().zip(&mut pools) {
            paths.push(PathRun {
                pool,
                chase: memory.chase_memory.as_ref().map(ChasedMemory::write_chase),
                buffers: memory.load_region.buffers(),
                members: Vec::new(),
                blocks: self.array_bytes as usize / LOAD_BLOCK_BYTES,
                at: 0,
                turns: writes.then_some(0),
            });
        }
        if self.has_bandwidths() {
            run.observer.begin_phase("choosing the fastest loop for each mix");
        }
        let mut mixes = Vec::new();
        for (done, mix) in self.mixes.iter().enumerate() {
            let until = (done + 1) as f64 / self.mixes.len() as f64;
            let mut is_measured = true;
            for path in &mut paths {
                match self.member(run, path, *mix, until)? {
                    Some(member) => path.members.push(member),
                    None => is_measured = false,
                }
            }
            if is_measured {
                mixes.push(*mix);
            }
        }
        let (cells, first) = self.prepare_all(run, &mut paths, &mixes)?;
        let phase = match self.view {
            FamilyView::Loaded => "measuring latency under all loads, interleaved",
            FamilyView::Curves => "measuring all points of all curves, interleaved",
            FamilyView::Mix => "measuring all mixes, interleaved",
        };
        let judged =
            run.take_samples_after_warm_up(policy::CURVES_AFTER_SETUP, first, phase, |number| {
                let FamilyCell { path, member, part } = cells[number];
                paths[path].turn(member, part)
            })?;
        let figures =
            FamilyFigures { family: self, memories: &memories, paths: &paths, cells: &cells };
        figures.add(run, &judged);
        let (config, validity) = figures.config_and_validity(run, 0, &memories[0].load_region);
        run.limits = limits;
        match program {
            Some(runs) if !run.outcome.is_interrupted() => {
                PlacedProgram::new(&runs, &mut paths[0]).measure(run, config, validity)
            }
            _ => Ok(()),
        }
    }
}

impl Family {
    /// Checks the loops of all mixes and measures each cell once, as long as there is time. Returns the cells with
    /// their first samples.
    fn prepare_all(
        &self,
        run: &mut CurveRun<'_>,
        paths: &mut [PathRun<'_>],
        mixes: &[Mix],
    ) -> Result<(Vec<FamilyCell>, Vec<Vec<Sample>>), ArenaError> {
        if self.has_bandwidths() {
            run.observer.begin_phase("checking every element");
        }
        let mut time = RemainingTime::new(&policy::CURVES_AFTER_SETUP, &run.limits);
        let mut cells = Vec::new();
        let mut first = Vec::new();
        let mut last = None;
        let mut done = 0;
        // The arrays of all mixes have equal length, so each mix is prepared in about the time of the previous one.
        for member in 0..mixes.len() {
            let late = |(set_up, turn_time)| {
                !time.allows(set_up, turn_time) || run.observer.is_interrupted()
            };
            if last.is_some_and(late) {
                break;
            }
            let begun = clock::now();
            for path in &mut *paths {
                let PathRun { pool, buffers, members, .. } = path;
                for each in &mut members[member].loops {
                    each.prepare(pool, *buffers)?;
                }
            }
            let prepared = clock::now();
            for (number, path) in paths.iter_mut().enumerate() {
                first.extend(self.prepare(path, member)?);
                let parts = self.parts().into_iter();
                cells.extend(parts.map(|part| FamilyCell { path: number, member, part }));
            }
            let taken = clock::now() - prepared;
            time.accept(taken);
            last = Some((prepared + taken - begun, taken));
            done += 1;
        }
        if done < mixes.len() && !run.observer.is_interrupted() {
            let names: Vec<&str> = mixes[done..].iter().map(|mix| mix.name()).collect();
            let text = format!(
                "no time was left for {}: use a longer --budget or a smaller --size",
                names.join(", ")
            );
            run.outcome.notices.push(notice(NoticeId::Budget, text));
        }
        Ok((cells, first))
    }
}

/// Returns the configuration of the figures of a mix.
fn with_mix(config: &CurveConfig, mix: Mix) -> CurveConfig {
    let spec = mix.kernel().spec();
    CurveConfig {
        reads: Some(spec.reads.len() as u64),
        writes: Some(spec.writes.is_some().into()),
        ..config.clone()
    }
}
