//! Idle latency of memory: the working set and the sample that `latency`, `matrix` and `loaded` share, so that their
//! figures have the same meaning.
//!
//! A sample consists of two times. The first is the time per load of a random chase through a working set larger than
//! the caches. Nearly every load of such a chase accesses another page; on small pages, or on a virtual machine whose
//! host uses small pages, it misses the TLB. The second is the time per load of lines that were flushed from all caches
//! immediately before, on pages whose translations are in the TLB. The difference is the cost of TLB misses.

use crate::CurveSetup;
use crate::run::CurveRun;
use nodegauge_arena::ArenaError;
use nodegauge_chase::{ChainPosition, Chase, Cycle, MemoryRegion, WitnessedPool};
use nodegauge_measure::samples::SamplesByRegime;
use nodegauge_measure::{Bytes, clock, stats};

/// Number of pairs of a chase and flushed loads that are compared to decide whether a cache serves part of the loads.
const PAIRS: usize = 3;
/// Minimum ratio of the load time in a chase to the load time of a flushed line at which memory alone serves the chase.
/// A cache with random replacement serves one load in twenty even if it is only a quarter of the working set.
pub(crate) const MIN_MEMORY_RATIO: f64 = 0.95;
/// Maximum share of the budget for the search for a sufficient working set.
const SEARCH: f64 = 0.25;

/// Returns the median time per load of flushed lines, seconds. `part` is the index of this time in the samples of the
/// cell.
pub(crate) fn flushed_load_time(judged: &SamplesByRegime, cell: usize, part: usize) -> Option<f64> {
    let seconds =
        if part < judged.part_count(cell) { judged.seconds(cell, part) } else { Vec::new() };
    Some(stats::median(&seconds)).filter(|seconds| seconds.is_finite())
}

/// Minimum and maximum working set of a chase through memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetRange {
    pub min: Bytes,
    pub max: Bytes,
}

impl SetRange {
    /// Returns a range from `min` to `room` bytes. If the user requested the size, the range contains only `min`.
    pub(crate) fn from_setup(setup: CurveSetup<'_>, min: Bytes, room: Bytes) -> Self {
        let max = if setup.options.max_working_set.is_some() { min } else { room.max(min) };
        Self { min, max }
    }
}

/// Function that maps a region of a given size for the worker that chases through it.
pub(crate) type RegionMapper<'a> =
    dyn FnMut(&mut WitnessedPool, u64) -> Result<MemoryRegion, ArenaError> + 'a;

/// Memory that a chase visits in a random cycle.
pub(crate) struct ChasedMemory {
    pub region: MemoryRegion,
    cycle: Cycle,
    bytes: u64,
    held: u64,
}

impl ChasedMemory {
    /// Maps a region of `bytes` bytes with `map`, and determines a random cycle through it. `pool` performs the loads.
    ///
    /// Fails if the memory cannot be mapped, or if the user interrupts the run.
    pub(crate) fn new(
        setup: CurveSetup<'_>,
        pool: &mut WitnessedPool,
        bytes: u64,
        map: &mut RegionMapper<'_>,
    ) -> Result<Self, ArenaError> {
        let region = map(pool, bytes)?;
        let cycle = Cycle::new(bytes, setup.options.order)?;
        Ok(Self { region, cycle, bytes, held: setup.held() })
    }

    /// Does the same as [`Self::new`], but doubles the working set until no cache serves a noticeable part of the
    /// loads, i.e. until the loads take as long as loads of flushed lines. `chaser` performs the loads.
    ///
    /// Fails if memory cannot be mapped, if a worker fails, or if the user interrupts the run.
    pub(crate) fn exceeding_caches(
        run: &CurveRun<'_>,
        sets: SetRange,
        chaser: &mut WitnessedPool,
        map: &mut RegionMapper<'_>,
    ) -> Result<Self, ArenaError> {
        let end = run.limits.budget.mul_f64(SEARCH);
        let mut bytes = sets.min.0;
        loop {
            let began = clock::now();
            let memory = Self::new(run.setup, chaser, bytes, map)?;
            let grown = bytes.saturating_mul(2);
            // The next set takes twice as long.
            let late = run.limits.elapsed() + (clock::now() - began) * 2 > end;
            if grown > sets.max.0 || late || !memory.is_cached(chaser)? {
                return Ok(memory);
            }
            bytes = grown;
        }
    }

    /// Returns the size of the working set, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the chain to memory, and returns a chase through it.
    pub(crate) fn write_chase(&self) -> Chase<'_> {
        // SAFETY: the chain of this cycle is the only data that is written to the region after it was mapped.
        unsafe { Chase::write(&self.region, ChainPosition::default(), &self.cycle, self.held) }
    }

    /// True if loads of the chase take less time than loads of flushed lines.
    fn is_cached(&self, pool: &mut WitnessedPool) -> Result<bool, ArenaError> {
        let mut chase = self.write_chase();
        let mut steps = Vec::new();
        let mut flushed = Vec::new();
        for _ in 0..PAIRS {
            let [step, of_flushed] = chase.take_idle_sample(pool)?.seconds[..] else {
                // The processor cannot flush cache lines.
                return Ok(false);
            };
            steps.push(step);
            flushed.push(of_flushed);
        }
        Ok(stats::median(&steps) < stats::median(&flushed) * MIN_MEMORY_RATIO)
    }
}
