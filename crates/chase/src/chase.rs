//! Pointer chase: each cache line of the memory contains the address of another line, in random order. A load therefore
//! cannot begin before the previous load has ended, and no prefetcher can predict it.
//!
//! The order is one cycle through all lines. The distance between consecutive lines of the cycle determines how
//! often the TLB misses. If the order is random over the whole working set, nearly every load accesses another
//! page. If the order is random within blocks of some pages, and the blocks are visited one after another, the TLB
//! contains the pages of the block. Both are valid latencies. They can differ by a factor of two or more; therefore
//! only figures with the same order and page size are comparable.

use crate::pool::WitnessedPool;
use crate::region::MemoryRegion;
use nodegauge_arena::ArenaError;
use nodegauge_kernels::CACHE_LINE_BYTES;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::interference::ThreadCounts;
use nodegauge_measure::quantity::read_bytes;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::shuffle::{Shuffler, successors};
use nodegauge_measure::{Bytes, SyntaxError};
use nodegauge_os::monotonic_nanos;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Instant;

/// Order in which a pointer chase visits the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChaseOrder {
    /// Distance between adjacent elements in memory, bytes.
    pub stride: usize,
    /// Range of memory in which the order is random.
    pub locality: Locality,
}

impl Default for ChaseOrder {
    /// Returns an order with one element per cache line that is random over the whole working set.
    fn default() -> Self {
        Self { stride: CACHE_LINE_BYTES, locality: Locality::Whole }
    }
}

/// Minimum size of a working set that no cache contains, as a multiple of the total size of the last-level caches in
/// use.
pub const TIMES_LLC: u64 = 4;

/// Number of chains that can share the same cache lines: each uses one word of every line.
pub const CHAINS_PER_LINE: usize = CACHE_LINE_BYTES / size_of::<usize>();

/// Range of memory in which the order of a chase is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locality {
    /// The order is random over the whole working set.
    Whole,
    /// The order is random within blocks of this size. Each block is visited completely before the next block.
    Block(Bytes),
}

impl fmt::Display for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.pad("whole"),
            Self::Block(bytes) => write!(f, "{}", bytes.0),
        }
    }
}

impl FromStr for Locality {
    type Err = SyntaxError;

    /// Parses `whole` or the size of a block.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        if text == "whole" {
            return Ok(Self::Whole);
        }
        let mut cursor = Cursor::new("locality", "--locality whole or --locality 256KiB", text);
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(cursor.error("expected 'whole' or the size of a block"));
        }
        let bytes = read_bytes(&mut cursor)?;
        cursor.finish("expected nothing after the unit")?;
        if bytes.0 < 4096 {
            return Err(cursor.error_at(0, "expected at least 4 KiB, the size of a page"));
        }
        Ok(Self::Block(bytes))
    }
}

/// Number of shuffle steps between two checks whether the user ends the run; they take a few milliseconds.
const STEPS_UNCHECKED: usize = 1 << 18;

/// Returns the order in which `elements` elements are visited, as a permutation. Blocks of `block` elements are visited
/// in random order; within a block, the elements are also visited in random order.
///
/// # Errors
/// Fails if the user ends the run.
fn order(elements: usize, block: usize, seed: u64) -> Result<Vec<u32>, ArenaError> {
    let mut shuffler = Shuffler::new(seed);
    let block = block.clamp(1, elements.max(1));
    let mut blocks: Vec<usize> = (0..elements.div_ceil(block)).collect();
    shuffler.shuffle(&mut blocks);
    let mut order = Vec::with_capacity(elements);
    for number in blocks {
        let first = number * block;
        let from = order.len();
        order.extend((first..(first + block).min(elements)).map(|element| element as u32));
        let mut steps = 0;
        let is_whole = shuffler.shuffle_while(&mut order[from..], || {
            steps += 1;
            steps % STEPS_UNCHECKED > 0 || !nodegauge_os::is_end_requested()
        });
        if !is_whole {
            return Err(ArenaError::Interrupted);
        }
    }
    Ok(order)
}

/// Random cycle through all elements of a working set.
pub struct Cycle {
    bytes: u64,
    stride: usize,
    /// Index of the successor of each element.
    next: Vec<u32>,
}

impl Cycle {
    /// Returns a random cycle through `bytes` bytes of memory. The number of elements must be below 2^32.
    ///
    /// # Errors
    /// Fails if the user ends the run.
    pub fn new(bytes: u64, how: ChaseOrder) -> Result<Self, ArenaError> {
        let elements = (bytes as usize / how.stride).max(1);
        let block = match how.locality {
            Locality::Whole => elements,
            Locality::Block(block) => (block.0 as usize / how.stride).max(1),
        };
        let order = order(elements, block, bytes)?;
        // The cycle is built in this small array, because each step in the working set itself would miss the TLB.
        Ok(Self { bytes, stride: how.stride, next: successors(&order) })
    }

    /// Returns the distance of an element from the first one, bytes.
    fn offset(&self, element: usize) -> usize {
        element * self.stride
    }
}

/// Position of a chain in a memory region.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChainPosition {
    /// Offset of the first line in bytes, a multiple of the line size.
    pub offset: u64,
    /// Index of the word that the chain uses in each line, below eight.
    pub slot: usize,
}

/// Chain of addresses in memory, with the current position of the chase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    elements: usize,
    /// Address of the element at which the next chase begins.
    at: usize,
}

impl Chain {
    /// Writes a chain into word `slot` of each line; the first line is at `start`.
    ///
    /// # Safety
    /// The memory of the cycle must be writable from `start` on, which must be a multiple of the line size. No other
    /// thread may use word `slot` of these lines; `slot` must be below eight.
    unsafe fn write(start: usize, slot: usize, cycle: &Cycle) -> Self {
        let first = start + slot * size_of::<usize>();
        for (element, next) in cycle.next.iter().enumerate() {
            let at = (first + cycle.offset(element)) as *mut usize;
            // SAFETY: every element is within the memory of the cycle, and the slot is within the line.
            unsafe { at.write(first + cycle.offset(*next as usize)) };
        }
        Self { elements: cycle.next.len(), at: first }
    }

    /// Returns the addresses of the next `steps` elements of the chain.
    ///
    /// # Safety
    /// The conditions of [`Self::run`] apply.
    unsafe fn next(mut self, steps: usize) -> Vec<usize> {
        let mut addresses = Vec::with_capacity(steps);
        for _ in 0..steps {
            // SAFETY: every element contains the address of another element.
            self.at = unsafe { *(self.at as *const usize) };
            addresses.push(self.at);
        }
        addresses
    }

    /// Performs at least `steps` loads along the chain. Returns the number of loads, which is a multiple of the unroll
    /// factor.
    ///
    /// # Safety
    /// The memory of the chain must be mapped, and the chain must be unchanged.
    unsafe fn run(&mut self, steps: usize) -> usize {
        let runs = steps.div_ceil(UNROLLED);
        let mut at = self.at;
        macro_rules! steps {
            ($($step:literal)*) => {$({
                let _ = $step;
                // SAFETY: every element contains the address of another element.
                at = unsafe { *(at as *const usize) };
            })*};
        }
        for _ in 0..runs {
            steps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        }
        self.at = std::hint::black_box(at);
        runs * UNROLLED
    }
}

/// Number of loads per iteration of the loop, so that the overhead of the loop is negligible.
const UNROLLED: usize = 32;
/// Duration of a timed stretch, i.e. a part of a chase, seconds.
const STRETCH_SECONDS: f64 = 2e-3;
/// Relative speed-up of a pass over the previous one, below which the caches count as warm.
const MIN_SPEED_UP: f64 = 0.02;
/// Maximum ratio of the time of a load to the time of a load of a flushed line at which the data counts as cached.
const MAX_CACHED_RATIO: f64 = 0.85;
/// Maximum number of flushed lines. Their pages fit in the second level of the TLB, which has at least 512 entries
/// since Intel's Nehalem of 2008.
const FLUSHED: usize = 256;
/// Maximum duration of the warm-up, seconds; the current pass is completed.
const WARM_SECONDS: f64 = 0.1;
/// Minimum number of loads of a timed stretch.
const MIN_STEPS: usize = 1024;
/// Number of elements that one cache line of a page table translates: eight entries of 4 KiB pages.
const PER_TABLE_LINE: usize = 8 * 4096 / CACHE_LINE_BYTES;
/// Number of random loads per cache line of a page table that brings nearly the whole table into the caches; a share of
/// e^-4 of its lines stays unused.
const TABLE_LOADS: usize = 4;
/// Ratio of the number of loads in the warm-up to the minimum number of loads in a timed stretch, for a working set
/// larger than the caches.
const WARM_OVER_STRETCH: usize = 8;

/// True if the data is in a cache. `step` is the time of a load, and `flushed` the time of a load of a flushed line,
/// seconds.
pub fn is_cached(step: f64, flushed: f64) -> bool {
    step < flushed * MAX_CACHED_RATIO
}

/// Flushes the lines with these addresses, which must be mapped, from all caches. Returns false if the processor has no
/// instruction for flushing.
pub(crate) fn flush(addresses: &[usize]) -> bool {
    // SAFETY: flushing a line does not change memory, and both architectures allow programs to flush lines.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_mm_clflush, _mm_mfence};
        addresses.iter().for_each(|address| _mm_clflush(*address as *const u8));
        _mm_mfence();
    }
    // SAFETY: flushing a line does not change memory. Linux allows programs to clean and invalidate lines by address
    // (SCTLR_EL1.UCI).
    #[cfg(target_arch = "aarch64")]
    unsafe {
        for address in addresses {
            std::arch::asm!("dc civac, {}", in(reg) *address, options(nostack, preserves_flags));
        }
        std::arch::asm!("dsb ish", options(nostack, preserves_flags));
    }
    !addresses.is_empty() && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// Pointer chase through a chain in a memory region, with the settings of the measurement.
#[derive(Clone)]
pub struct Chase<'a> {
    chain: Chain,
    region: PhantomData<&'a MemoryRegion>,
    /// Number of loads in a warm-up pass.
    warm_up: usize,
    /// True if the working set fits in the caches.
    fits: bool,
    /// True if lines of the working set are expected to stay in a cache until the chase returns to them.
    stays: bool,
    /// Number of loads that bring the page tables of the working set into the caches, for a working set whose lines do
    /// not stay in the caches.
    table_loads: usize,
    /// Number of loads of a timed stretch; 0 before the first stretch.
    steps: usize,
}

impl<'a> Chase<'a> {
    /// Writes a chain into a region at `place`. `held` is the size of the caches in bytes.
    ///
    /// # Safety
    /// As long as the chase exists, no other code may write word `slot` of these lines, except to write the same chain.
    /// `slot` must be below eight.
    ///
    /// # Panics
    /// Panics if the chain does not fit in the region.
    pub unsafe fn write(
        region: &'a MemoryRegion,
        place: ChainPosition,
        cycle: &Cycle,
        held: u64,
    ) -> Self {
        let start = region.mapping().at(place.offset as usize, cycle.bytes as usize).addr().get();
        // SAFETY: the chain is within the mapping; the caller guarantees the other conditions.
        let chain = unsafe { Chain::write(start, place.slot, cycle) };
        let held = held as usize / CACHE_LINE_BYTES;
        Self {
            chain,
            region: PhantomData,
            warm_up: chain.elements.min(held).max(MIN_STEPS),
            fits: chain.elements <= held,
            // Consider a working set that is four times as large as a cache. With random eviction, one line in twenty
            // (e to the power of -3) is still in the cache when the chase returns to it; with least-recently-used
            // eviction, none is.
            stays: (chain.elements as u64) < TIMES_LLC * held as u64,
            table_loads: (TABLE_LOADS * (chain.elements / PER_TABLE_LINE)).max(MIN_STEPS),
            steps: 0,
        }
    }

    /// Returns the number of loads of a timed stretch; 0 before the first stretch.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Returns a job for one worker that times a stretch of `steps` loads. The job returns the new position of the
    /// chase and the seconds per load.
    pub(crate) fn stretch_job(&self, steps: usize) -> impl Fn() -> (Chain, f64) + Sync + '_ {
        move || {
            let mut chain = self.chain;
            let begun = monotonic_nanos();
            // SAFETY: the region is borrowed, and the creator of the chase guarantees that the chain does not change.
            let taken = unsafe { chain.run(steps) };
            (chain, (monotonic_nanos() - begun) as f64 * 1e-9 / taken as f64)
        }
    }

    /// Follows the chain until `is_ended`, which is called after every few loads, returns true. Returns the new
    /// position of the chase and the seconds per load, without the time in which this thread had no CPU.
    pub(crate) fn run_until(&self, is_ended: &dyn Fn() -> bool) -> (Chain, f64) {
        let mut chain = self.chain;
        let mut taken = 0;
        let before = ThreadCounts::now();
        loop {
            // SAFETY: the conditions are the same as for a timed stretch.
            taken += unsafe { chain.run(MIN_STEPS) };
            if is_ended() {
                break;
            }
        }
        let running = (ThreadCounts::now() - before).cpu_nanos;
        (chain, running as f64 * 1e-9 / taken as f64)
    }

    /// Stores the position at the end of a stretch, so that the next stretch continues there; `made` contains the
    /// result of the worker that followed the chain. Returns the seconds per load in the stretch.
    pub(crate) fn end_stretch(
        &mut self,
        made: impl IntoIterator<Item = Option<(Chain, f64)>>,
    ) -> f64 {
        let Some((chain, step)) = made.into_iter().flatten().next() else { return f64::NAN };
        self.chain = chain;
        step
    }

    /// Warms the caches with untimed loads on the first worker. The first call also determines the number of loads of a
    /// timed stretch of `seconds`. If loads take as long after a warm-up pass as after a flush, the lines of the
    /// working set do not stay in the caches. Then the warm-up has only as many loads as are needed to bring the page
    /// tables into the caches. Without these loads, a chase that is interrupted before each sample would take longer
    /// than an uninterrupted one.
    ///
    /// # Errors
    /// Fails if a worker fails, or the user ends the run.
    pub fn warm(&mut self, pool: &mut WitnessedPool, seconds: f64) -> Result<(), ArenaError> {
        let first = self.steps == 0;
        let flushed = if first { self.flushed_load_time(pool)? } else { None };
        let begun = Instant::now();
        let mut step = f64::INFINITY;
        for pass in 0.. {
            let steps = match (self.stays, self.fits || pass == 0) {
                (false, _) => self.table_loads,
                (true, true) => self.warm_up,
                (true, false) => self.warm_up / WARM_OVER_STRETCH,
            };
            let stretch = self.stretch_job(steps);
            let timed = pool.run_timed(|worker| (worker == 0).then(&stretch))?;
            drop(stretch);
            let taken = self.end_stretch(timed.results);
            let as_warm = taken > step * (1.0 - MIN_SPEED_UP);
            step = taken.min(step);
            let once = first && self.stays && pass == 0;
            let long = begun.elapsed().as_secs_f64() > WARM_SECONDS;
            if !once && (!self.fits || !self.stays || as_warm || long) {
                break;
            }
        }
        if first {
            self.stays &= flushed.is_none_or(|flushed| is_cached(step, flushed));
            // A working set that fits in the caches needs a stretch over a whole pass, because parts of it may be in
            // different caches. For a larger set, the long warm-up justifies a longer stretch.
            let least = match (self.stays, self.fits) {
                (false, _) => MIN_STEPS,
                (true, true) => self.warm_up,
                (true, false) => self.warm_up / WARM_OVER_STRETCH,
            };
            self.steps = ((seconds / step.max(1e-10)) as usize).max(least);
        }
        Ok(())
    }

    /// Measures the seconds per load of the first worker through lines of the working set that were flushed from all
    /// caches immediately before. Returns `None` if the processor has no instruction for flushing.
    pub(crate) fn flushed_load_time(
        &mut self,
        pool: &mut WitnessedPool,
    ) -> Result<Option<f64>, ArenaError> {
        let chain = self.chain;
        let steps = self.chain.elements.min(FLUSHED);
        let stretch = self.stretch_job(steps);
        let flush_and_run = || {
            // SAFETY: the conditions are the same as for a timed stretch.
            let lines = unsafe { chain.next(steps) };
            flush(&lines).then(&stretch)
        };
        let timed = pool.run_timed(|worker| (worker == 0).then(flush_and_run).flatten())?;
        drop(stretch);
        let step = self.end_stretch(timed.results);
        Ok(step.is_finite().then_some(step))
    }

    /// Takes a sample of an idle chase: the time per load and, if the processor can flush lines, the time per load of
    /// flushed lines. The first worker of the pool performs the loads.
    ///
    /// # Errors
    /// Fails if a worker fails, or the user ends the run.
    pub fn take_idle_sample(&mut self, pool: &mut WitnessedPool) -> Result<Sample, ArenaError> {
        self.warm(pool, STRETCH_SECONDS)?;
        let mut sample = self.sample(pool)?;
        sample.seconds.extend(self.flushed_load_time(pool)?);
        Ok(sample)
    }

    /// Takes a sample of a stretch on the first worker: the seconds per load.
    fn sample(&mut self, pool: &mut WitnessedPool) -> Result<Sample, ArenaError> {
        pool.take_sample(|pool| {
            let stretch = self.stretch_job(self.steps);
            let timed = pool.run_timed_undisturbed(|worker| (worker == 0).then(&stretch))?;
            drop(stretch);
            Ok((vec![self.end_stretch(timed.results)], vec![timed.causes]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Cache-line-aligned memory for the tests.
    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Aligned([usize; 8]);

    fn walk(elements: usize, stride: usize, slot: usize, locality: Locality) -> Vec<usize> {
        let bytes = elements * stride;
        let cycle = Cycle::new(bytes as u64, ChaseOrder { stride, locality }).unwrap();
        let mut memory = vec![Aligned([0; 8]); bytes / CACHE_LINE_BYTES];
        let start = memory.as_mut_ptr() as usize;
        // SAFETY: the memory is long enough for all elements.
        let chain = unsafe { Chain::write(start, slot, &cycle) };
        let mut visited = Vec::new();
        let mut at = chain.at;
        loop {
            visited.push((at - start) / stride);
            assert_eq!((at - start) % stride, slot * 8);
            at = memory[(at - start) / CACHE_LINE_BYTES].0[slot];
            if at == chain.at || visited.len() > elements {
                return visited;
            }
        }
    }

    #[test]
    fn chase_returns_the_number_of_its_steps() {
        let mut memory = vec![Aligned([0; 8]); 100];
        let start = memory.as_mut_ptr() as usize;
        let cycle = Cycle::new(6400, ChaseOrder::default()).unwrap();
        // SAFETY: the memory consists of 100 lines, as the cycle requires.
        let mut chain = unsafe { Chain::write(start, 3, &cycle) };
        let first = chain.at;
        // SAFETY: the chain is unchanged. 25 iterations of 32 loads are eight rounds through the chain.
        assert_eq!(unsafe { chain.run(800) }, 800);
        assert_eq!(chain.at, first);
        // SAFETY: the chain is unchanged.
        assert_eq!(unsafe { chain.run(1) }, 32);
        assert_ne!(chain.at, first);
    }

    #[test]
    fn localities_are_parsed() {
        assert_eq!("whole".parse(), Ok(Locality::Whole));
        assert_eq!("256KiB".parse(), Ok(Locality::Block(Bytes::kib(256))));
        assert!("page".parse::<Locality>().is_err() && "64".parse::<Locality>().is_err());
    }

    proptest! {
        #[test]
        fn chain_visits_every_element_once(
            elements in 1usize..3000, lines in 1usize..5, slot in 0usize..8,
            block in proptest::option::of(1u64..40)
        ) {
            let stride = lines * CACHE_LINE_BYTES;
            let locality = block.map_or(Locality::Whole, |pages| Locality::Block(Bytes(pages * 4096)));
            let mut visited = walk(elements, stride, slot, locality);
            prop_assert_eq!(visited.len(), elements);
            visited.sort_unstable();
            prop_assert!(visited.iter().copied().eq(0..elements));
        }

        #[test]
        fn chain_completes_each_block_before_next(
            elements in 1usize..3000, block in 1usize..500, seed: u64
        ) {
            let order = order(elements, block, seed).unwrap();
            let mut blocks: Vec<usize> = order.iter().map(|e| *e as usize / block).collect();
            blocks.dedup();
            prop_assert_eq!(blocks.len(), elements.div_ceil(block));
        }
    }

    #[test]
    fn chain_has_no_constant_stride() {
        let order = order(4096, 4096, 11).unwrap();
        let mut strides: Vec<i64> =
            order.windows(2).map(|pair| i64::from(pair[1]) - i64::from(pair[0])).collect();
        strides.sort_unstable();
        let most = strides.chunk_by(|x, y| x == y).map(<[i64]>::len).max().unwrap();
        assert!(most < 20, "{most} steps of the same stride");
    }
}
