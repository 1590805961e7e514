//! Pointer chase: each line of memory holds the address of the next one, in random order, so that a load cannot
//! begin before the previous one has ended, and no prefetcher can predict it.
//!
//! The order is one cycle through all lines. The distance of neighbours in it determines how often the chase
//! misses the TLB. Over the whole set nearly every step needs another page. Within blocks of some pages, which
//! are visited one after the other in random order, the TLB holds the pages of the block. Both are latencies;
//! only figures with the same setting and page size are comparable, because they can differ by a factor.

use crate::TIMES_LLC;
use crate::config::CurveConfig;
use crate::pool::WorkerPool;
use crate::region::MemoryRegion;
use nodegauge_arena::ArenaError;
use nodegauge_kernels::LINE;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::read_bytes;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_measure::{Bytes, SyntaxError};
use nodegauge_os::monotonic_nanos;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Instant;

/// Order in which a chase visits its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChaseOrder {
    /// Distance of neighbouring elements in memory, bytes.
    pub stride: usize,
    /// Range in which neighbours of the order lie.
    pub locality: Locality,
}

impl Default for ChaseOrder {
    /// Returns an order of one element per line, over the whole set.
    fn default() -> Self {
        Self { stride: LINE, locality: Locality::Whole }
    }
}

impl ChaseOrder {
    /// Writes the order into a configuration.
    pub(crate) fn describe(self, config: &mut CurveConfig) {
        config.stride_bytes = Some(self.stride as u64);
        config.locality = Some(self.locality.to_string());
    }
}

/// Number of chains that can share the same lines: the words of a line.
pub(crate) const SLOTS: usize = LINE / size_of::<usize>();

/// Range in which neighbours of a chase lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locality {
    /// Anywhere in the set.
    Whole,
    /// Within a block of this many bytes; a block is visited completely before the next one.
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
            return Err(cursor.error("expected whole, or the size of a block"));
        }
        let bytes = read_bytes(&mut cursor)?;
        cursor.finish("expected nothing after the unit")?;
        if bytes.0 < 4096 {
            return Err(cursor.error_at(0, "expected at least 4 KiB, the size of a page"));
        }
        Ok(Self::Block(bytes))
    }
}

/// Returns the order in which `elements` elements are visited, a permutation: blocks of `block` elements in
/// random order, each visited in random order.
fn order(elements: usize, block: usize, seed: u64) -> Vec<u32> {
    let mut shuffler = Shuffler::new(seed);
    let block = block.clamp(1, elements.max(1));
    let mut blocks: Vec<usize> = (0..elements.div_ceil(block)).collect();
    shuffler.shuffle(&mut blocks);
    let mut order = Vec::with_capacity(elements);
    for number in blocks {
        let first = number * block;
        let from = order.len();
        order.extend((first..(first + block).min(elements)).map(|element| element as u32));
        shuffler.shuffle(&mut order[from..]);
    }
    order
}

/// Successor of each element of a set: one random cycle through all elements.
pub(crate) struct Cycle {
    bytes: u64,
    stride: usize,
    /// Successor of each element.
    next: Vec<u32>,
}

impl Cycle {
    /// Returns a cycle through `bytes`; the number of elements is below 2^32.
    pub(crate) fn new(bytes: u64, how: ChaseOrder) -> Self {
        let elements = (bytes as usize / how.stride).max(1);
        let block = match how.locality {
            Locality::Whole => elements,
            Locality::Block(block) => (block.0 as usize / how.stride).max(1),
        };
        let order = order(elements, block, bytes);
        // The cycle is built in this small array, because in the set each step would miss the TLB.
        let mut next = vec![order[0]; elements];
        order.windows(2).for_each(|pair| next[pair[0] as usize] = pair[1]);
        Self { bytes, stride: how.stride, next }
    }
}

/// Place of a chain in a region.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChainPlace {
    /// Offset of its first line, a multiple of a line.
    pub offset: u64,
    /// Word of each line, below eight.
    pub slot: usize,
}

/// Chain through a range of memory, with the current position of the chase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    elements: usize,
    /// Address of the element at which the next chase begins.
    at: usize,
}

impl Chain {
    /// Writes a chain from `start` on, into word `slot` of each line.
    ///
    /// # Safety
    /// The bytes of the cycle must be writable from `start`, which is a multiple of a line; no other thread may
    /// use word `slot` of their lines; `slot` must be below eight.
    unsafe fn write(start: usize, slot: usize, cycle: &Cycle) -> Self {
        let address = |element: usize| start + element * cycle.stride + slot * size_of::<usize>();
        for (element, next) in cycle.next.iter().enumerate() {
            // SAFETY: every element lies within the bytes, and its slot within its line.
            unsafe { (address(element) as *mut usize).write(address(*next as usize)) };
        }
        Self { elements: cycle.next.len(), at: address(0) }
    }

    /// Returns the addresses of the next `steps` elements.
    ///
    /// # Safety
    /// The requirements are those of [`Self::run`].
    unsafe fn next(mut self, steps: usize) -> Vec<usize> {
        let mut step = || {
            // SAFETY: every element holds the address of another.
            self.at = unsafe { *(self.at as *const usize) };
            self.at
        };
        (0..steps).map(|_| step()).collect()
    }

    /// Does at least `steps` steps in whole runs of unrolled loads; returns the number of steps.
    ///
    /// # Safety
    /// The chain's memory must be mapped, and the chain unchanged.
    unsafe fn run(&mut self, steps: usize) -> usize {
        let runs = steps.div_ceil(UNROLLED);
        let mut at = self.at;
        macro_rules! steps {
            ($($step:literal)*) => {$({
                let _ = $step;
                // SAFETY: every element holds the address of another.
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

/// Loads per iteration of the loop, so that the loop itself costs nothing in comparison.
const UNROLLED: usize = 32;
/// Relative gain below which a pass counts as equally warm as the previous one.
const WARMER: f64 = 0.02;
/// Share of the time of a flushed step below which a cache serves a step.
const NEAR: f64 = 0.85;
/// Maximum number of flushed lines: as many as are visited in a fraction of a millisecond.
const FLUSHED: usize = 2048;
/// Time after which warming ends with the current pass, seconds.
const WARM_SECONDS: f64 = 0.1;
/// Minimum number of steps of a timed stretch.
const LEAST_STEPS: usize = 1024;
/// Divisor of the warming steps that gives the minimum stretch through a set larger than the caches.
const WARM_OVER_STRETCH: usize = 8;

/// True if a cache serves steps of `step` seconds, where steps through flushed lines take `flushed` seconds.
pub(crate) fn is_cached(step: f64, flushed: f64) -> bool {
    step < flushed * NEAR
}

/// Flushes the lines of these addresses, which are mapped, from all caches; returns false if the processor has
/// no instruction for that.
fn flush(addresses: &[usize]) -> bool {
    // SAFETY: flushing a line changes no memory, and both architectures allow programs to do it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_mm_clflush, _mm_mfence};
        addresses.iter().for_each(|address| _mm_clflush(*address as *const u8));
        _mm_mfence();
    }
    // SAFETY: as above; Linux allows programs to clean and invalidate by address (SCTLR_EL1.UCI).
    #[cfg(target_arch = "aarch64")]
    unsafe {
        for address in addresses {
            std::arch::asm!("dc civac, {}", in(reg) *address, options(nostack, preserves_flags));
        }
        std::arch::asm!("dsb ish", options(nostack, preserves_flags));
    }
    !addresses.is_empty() && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// Chain in a region with the settings of its chase.
#[derive(Clone)]
pub(crate) struct Chase<'a> {
    chain: Chain,
    region: PhantomData<&'a MemoryRegion>,
    /// Steps of a warming pass.
    warm: usize,
    /// True if the caches can hold the set.
    fits: bool,
    /// True if a line is expected to stay in a cache until the chase returns to it.
    stays: bool,
    /// Steps of a timed stretch; 0 before the first stretch.
    pub steps: usize,
}

impl<'a> Chase<'a> {
    /// Writes a chain into a region at `place`; the caches hold `held` bytes.
    ///
    /// # Safety
    /// During the life of the chase no other code may write word `slot` of these lines, except to write the
    /// same chain; `slot` must be below eight.
    ///
    /// # Panics
    /// Panics if the bytes do not lie in the region.
    pub(crate) unsafe fn write(
        region: &'a MemoryRegion,
        place: ChainPlace,
        cycle: &Cycle,
        held: u64,
    ) -> Self {
        let start = region.mapping().at(place.offset as usize, cycle.bytes as usize).addr().get();
        // SAFETY: the bytes lie in the mapping; the remaining conditions are the caller's promise.
        let chain = unsafe { Chain::write(start, place.slot, cycle) };
        let held = held as usize / LINE;
        Self {
            chain,
            region: PhantomData,
            warm: chain.elements.min(held).max(LEAST_STEPS),
            fits: chain.elements <= held,
            // With random eviction one line in twenty of a set four times as large as a cache survives until
            // the chase returns, e to the power of -3; with eviction of the oldest, none.
            stays: (chain.elements as u64) < TIMES_LLC * held as u64,
            steps: 0,
        }
    }

    /// Returns a timed stretch of `steps` steps for one worker, which returns the new position of the chase and
    /// the seconds per step.
    pub(crate) fn stretch(&self, steps: usize) -> impl Fn() -> (Chain, f64) + Sync + '_ {
        move || {
            let mut chain = self.chain;
            let begun = monotonic_nanos();
            // SAFETY: the region is borrowed, and the creator of the chase promised that the chain does not
            // change.
            let taken = unsafe { chain.run(steps) };
            (chain, (monotonic_nanos() - begun) as f64 * 1e-9 / taken as f64)
        }
    }

    /// Continues from the end of the worker's stretch; returns its seconds per step.
    pub(crate) fn ended(&mut self, made: impl IntoIterator<Item = Option<(Chain, f64)>>) -> f64 {
        let Some((chain, step)) = made.into_iter().flatten().next() else { return f64::NAN };
        self.chain = chain;
        step
    }

    /// Does steps that do not count, on the first worker, to fill the caches. The first call also sets the
    /// number of steps of a timed stretch of `seconds`. A set is not warmed again if its steps take as long
    /// immediately after a pass as with its lines flushed, because its lines do not stay in the caches.
    pub(crate) fn warm(&mut self, pool: &mut WorkerPool, seconds: f64) -> Result<(), ArenaError> {
        let first = self.steps == 0;
        let flushed = if first { self.flushed(pool)? } else { None };
        let begun = Instant::now();
        let mut step = f64::INFINITY;
        for pass in 0.. {
            let steps = match (self.stays, self.fits || pass == 0) {
                (false, _) => LEAST_STEPS,
                (true, true) => self.warm,
                (true, false) => self.warm / WARM_OVER_STRETCH,
            };
            let stretch = self.stretch(steps);
            let timed = pool.timed(|worker| (worker == 0).then(&stretch))?;
            drop(stretch);
            let taken = self.ended(timed.made);
            let as_warm = taken > step * (1.0 - WARMER);
            step = taken.min(step);
            let once = first && self.stays && pass == 0;
            let long = begun.elapsed().as_secs_f64() > WARM_SECONDS;
            if !once && (!self.fits || !self.stays || as_warm || long) {
                break;
            }
        }
        if first {
            self.stays &= flushed.is_none_or(|flushed| is_cached(step, flushed));
            // A set that fits needs a whole pass, because any part of it may be nearer than the rest. For a
            // larger set, the time of warming justifies a longer stretch.
            let least = match (self.stays, self.fits) {
                (false, _) => LEAST_STEPS,
                (true, true) => self.warm,
                (true, false) => self.warm / WARM_OVER_STRETCH,
            };
            self.steps = ((seconds / step.max(1e-10)) as usize).max(least);
        }
        Ok(())
    }

    /// Returns the seconds per step of the first worker through lines that no cache holds: they are flushed
    /// immediately before, on the pages of the set. `None` if the processor has no such instruction.
    pub(crate) fn flushed(&mut self, pool: &mut WorkerPool) -> Result<Option<f64>, ArenaError> {
        let chain = self.chain;
        let steps = self.chain.elements.min(FLUSHED);
        let stretch = self.stretch(steps);
        let flush_and_run = || {
            // SAFETY: the conditions are those of the stretch.
            let lines = unsafe { chain.next(steps) };
            flush(&lines).then(&stretch)
        };
        let timed = pool.timed(|worker| (worker == 0).then(flush_and_run).flatten())?;
        drop(stretch);
        let step = self.ended(timed.made);
        Ok(step.is_finite().then_some(step))
    }

    /// Returns a sample of seconds per step of a stretch on the first worker only.
    pub(crate) fn sample(&mut self, pool: &mut WorkerPool) -> Result<Sample, ArenaError> {
        pool.sample(|pool| {
            let stretch = self.stretch(self.steps);
            let timed = pool.undisturbed(|worker| (worker == 0).then(&stretch))?;
            drop(stretch);
            Ok((vec![self.ended(timed.made)], vec![timed.causes]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of memory.
    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Aligned([usize; 8]);

    fn walk(elements: usize, stride: usize, slot: usize, locality: Locality) -> Vec<usize> {
        let bytes = elements * stride;
        let cycle = Cycle::new(bytes as u64, ChaseOrder { stride, locality });
        let mut memory = vec![Aligned([0; 8]); bytes / LINE];
        let start = memory.as_mut_ptr() as usize;
        // SAFETY: the memory is as long as the elements need.
        let chain = unsafe { Chain::write(start, slot, &cycle) };
        let mut visited = Vec::new();
        let mut at = chain.at;
        loop {
            visited.push((at - start) / stride);
            assert_eq!((at - start) % stride, slot * 8);
            at = memory[(at - start) / LINE].0[slot];
            if at == chain.at || visited.len() > elements {
                return visited;
            }
        }
    }

    #[test]
    fn a_run_takes_the_steps_it_says() {
        let mut memory = vec![Aligned([0; 8]); 100];
        let start = memory.as_mut_ptr() as usize;
        let cycle = Cycle::new(6400, ChaseOrder::default());
        // SAFETY: the memory is 100 lines.
        let mut chain = unsafe { Chain::write(start, 3, &cycle) };
        let first = chain.at;
        // SAFETY: as above; 25 runs of 32 steps are eight rounds.
        assert_eq!(unsafe { chain.run(800) }, 800);
        assert_eq!(chain.at, first);
        // SAFETY: as above.
        assert_eq!(unsafe { chain.run(1) }, 32);
        assert_ne!(chain.at, first);
    }

    #[test]
    fn localities_are_read() {
        assert_eq!("whole".parse(), Ok(Locality::Whole));
        assert_eq!("256KiB".parse(), Ok(Locality::Block(Bytes::kib(256))));
        assert!("page".parse::<Locality>().is_err() && "64".parse::<Locality>().is_err());
    }

    proptest! {
        #[test]
        fn a_chain_is_one_cycle_through_every_element(
            elements in 1usize..3000, lines in 1usize..5, slot in 0usize..8,
            block in proptest::option::of(1u64..40)
        ) {
            let stride = lines * LINE;
            let locality = block.map_or(Locality::Whole, |pages| Locality::Block(Bytes(pages * 4096)));
            let mut visited = walk(elements, stride, slot, locality);
            prop_assert_eq!(visited.len(), elements);
            visited.sort_unstable();
            prop_assert!(visited.iter().copied().eq(0..elements));
        }

        #[test]
        fn blocks_are_visited_one_after_the_other(
            elements in 1usize..3000, block in 1usize..500, seed: u64
        ) {
            let order = order(elements, block, seed);
            let mut blocks: Vec<usize> = order.iter().map(|e| *e as usize / block).collect();
            blocks.dedup();
            prop_assert_eq!(blocks.len(), elements.div_ceil(block));
        }
    }

    #[test]
    fn neighbours_are_no_stride() {
        let order = order(4096, 4096, 11);
        let mut strides: Vec<i64> =
            order.windows(2).map(|pair| i64::from(pair[1]) - i64::from(pair[0])).collect();
        strides.sort_unstable();
        let most = strides.chunk_by(|x, y| x == y).map(<[i64]>::len).max().unwrap();
        assert!(most < 20, "{most} steps of the same stride");
    }
}
