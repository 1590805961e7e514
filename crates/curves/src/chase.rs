//! A chase: each line of memory holds the address of the next one, in random order, so that a load
//! cannot begin before the one before it has ended, and no prefetcher knows where it goes.
//!
//! The order is one cycle through all lines. How far neighbours in it may lie apart decides what the
//! chase sees of the TLB: over the whole set nearly every step needs another page; within blocks of
//! some pages, which are visited one after the other in random order, the TLB holds the block. Both
//! are latency; figures compare only at the same setting (and page size), or differ by a factor.

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

/// In which order a chase goes through its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Bytes from one element to the next.
    pub stride: usize,
    /// Within which range neighbours in the order lie.
    pub locality: Locality,
}

impl Default for Order {
    /// One element a line, over the whole set.
    fn default() -> Self {
        Self { stride: LINE, locality: Locality::Whole }
    }
}

impl Order {
    /// Writes itself into a configuration.
    pub(crate) fn describe(self, config: &mut CurveConfig) {
        config.stride_bytes = Some(self.stride as u64);
        config.locality = Some(self.locality.to_string());
    }
}

/// Chains that can share the same lines: words of a line.
pub(crate) const SLOTS: usize = LINE / size_of::<usize>();

/// Within which range neighbours of a chase lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locality {
    /// Anywhere in the set.
    Whole,
    /// Within a block of so many bytes; all of a block, then all of another.
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

    /// `whole`, or the size of a block.
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
            return Err(cursor.error_at(0, "a block holds at least a page, 4 KiB"));
        }
        Ok(Self::Block(bytes))
    }
}

/// The order in which `elements` elements are visited, a permutation: blocks in random order, each
/// visited in random order, where a block holds `block` elements.
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

/// Which element of a set comes behind which: one random cycle through all of them.
pub(crate) struct Cycle {
    bytes: u64,
    stride: usize,
    /// By element.
    next: Vec<u32>,
}

impl Cycle {
    /// A cycle through `bytes`; their number over the stride is below 2^32.
    pub(crate) fn new(bytes: u64, how: Order) -> Self {
        let elements = (bytes as usize / how.stride).max(1);
        let block = match how.locality {
            Locality::Whole => elements,
            Locality::Block(bytes) => (bytes.0 as usize / how.stride).max(1),
        };
        let order = order(elements, block, bytes);
        // In this small array, and not in the set: there each step would miss the TLB.
        let mut next = vec![order[0]; elements];
        order.windows(2).for_each(|pair| next[pair[0] as usize] = pair[1]);
        Self { bytes, stride: how.stride, next }
    }
}

/// A chain through a range of memory, and where the chase last was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    elements: usize,
    /// Address of the element at which the next chase begins.
    at: usize,
}

impl Chain {
    /// Writes a chain from `start` on, in word `slot` of each line.
    ///
    /// # Safety
    /// The bytes of the cycle are writable from `start`, which is a multiple of a line, and no other
    /// thread uses word `slot` of their lines; `slot` is below eight.
    unsafe fn write(start: usize, slot: usize, cycle: &Cycle) -> Self {
        let address = |element: usize| start + element * cycle.stride + slot * size_of::<usize>();
        for (element, next) in cycle.next.iter().enumerate() {
            // SAFETY: every element lies within the bytes, and its slot within its line.
            unsafe { (address(element) as *mut usize).write(address(*next as usize)) };
        }
        Self { elements: cycle.next.len(), at: address(0) }
    }

    /// The addresses of the next `steps` elements.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn next(mut self, steps: usize) -> Vec<usize> {
        let mut step = || {
            // SAFETY: every element holds the address of another.
            self.at = unsafe { *(self.at as *const usize) };
            self.at
        };
        (0..steps).map(|_| step()).collect()
    }

    /// Takes at least `steps` steps, whole runs of unrolled loads; returns how many it took.
    ///
    /// # Safety
    /// The chain's memory is still there, and nobody has changed the chain.
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

/// Loads between looks at the loop's counter, so that the loop costs nothing beside them.
const UNROLLED: usize = 32;
/// A pass that is not faster by this share than the one before it was as warm.
const WARMER: f64 = 0.02;
/// A cache serves a step that takes less than this share of one whose lines were flushed.
const NEAR: f64 = 0.85;
/// Lines that are flushed, at most: as many as a fraction of a millisecond visits.
const FLUSHED: usize = 2048;
/// Warming ends after the pass in which it took so long, seconds.
const WARM_SECONDS: f64 = 0.1;
/// Steps of a timed stretch at least.
const LEAST_STEPS: usize = 1024;
/// A stretch through a set beyond the caches is at least this part of the steps that warm for it.
const WARM_OVER_STRETCH: usize = 8;

/// Whether a cache serves steps of `step` seconds, where those through flushed lines take `flushed`.
pub(crate) fn is_cached(step: f64, flushed: f64) -> bool {
    step < flushed * NEAR
}

/// Takes the lines of these addresses, which are mapped, out of all caches; `false` where the processor
/// has no instruction for that.
fn flush(addresses: &[usize]) -> bool {
    // SAFETY: flushing a line changes no memory; both architectures let programs do it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_mm_clflush, _mm_mfence};
        addresses.iter().for_each(|address| _mm_clflush(*address as *const u8));
        _mm_mfence();
    }
    // SAFETY: as above; Linux lets programs clean and invalidate by address (SCTLR_EL1.UCI).
    #[cfg(target_arch = "aarch64")]
    unsafe {
        for address in addresses {
            std::arch::asm!("dc civac, {}", in(reg) *address, options(nostack, preserves_flags));
        }
        std::arch::asm!("dsb ish", options(nostack, preserves_flags));
    }
    !addresses.is_empty() && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// A chain in a region, and how it is chased.
#[derive(Clone)]
pub(crate) struct Chase<'a> {
    chain: Chain,
    region: PhantomData<&'a MemoryRegion>,
    /// Steps of a pass that warms.
    warm: usize,
    /// Whether caches can hold the set.
    fits: bool,
    /// Whether a line stays near until the chase comes back to it, as far as is known.
    stays: bool,
    /// Steps of a timed stretch; 0 before the first.
    pub steps: usize,
}

impl<'a> Chase<'a> {
    /// Writes a chain into a region from `offset` on, a multiple of a line; caches hold `held` bytes.
    ///
    /// # Safety
    /// As long as the chase lives nobody else writes word `slot` of these lines, unless the same chain;
    /// `slot` is below eight.
    ///
    /// # Panics
    /// When the bytes do not lie in the region.
    pub(crate) unsafe fn write(
        region: &'a MemoryRegion,
        (offset, slot): (u64, usize),
        cycle: &Cycle,
        held: u64,
    ) -> Self {
        let start = region.mapping().at(offset as usize, cycle.bytes as usize).addr().get();
        // SAFETY: the bytes were found in the mapping; the rest is the caller's promise.
        let chain = unsafe { Chain::write(start, slot, cycle) };
        let held = held as usize / LINE;
        Self {
            chain,
            region: PhantomData,
            warm: chain.elements.min(held).max(LEAST_STEPS),
            fits: chain.elements <= held,
            // Of a set four times as large as a cache one line in twenty survives until the chase is
            // back, e to the power of -3, where the cache evicts at random; none where it evicts the
            // oldest.
            stays: (chain.elements as u64) < TIMES_LLC * held as u64,
            steps: 0,
        }
    }

    /// A timed stretch of `steps` steps, for one worker: where the chase is then, and seconds a step.
    pub(crate) fn stretch(&self, steps: usize) -> impl Fn() -> (Chain, f64) + Sync + '_ {
        move || {
            let mut chain = self.chain;
            let begun = monotonic_nanos();
            // SAFETY: the region is borrowed, and the maker of the chase promised that nobody changes
            // the chain.
            let taken = unsafe { chain.run(steps) };
            (chain, (monotonic_nanos() - begun) as f64 * 1e-9 / taken as f64)
        }
    }

    /// Goes on where the stretch of some worker ended; its seconds a step.
    pub(crate) fn ended(&mut self, made: impl IntoIterator<Item = Option<(Chain, f64)>>) -> f64 {
        let Some((chain, step)) = made.into_iter().flatten().next() else { return f64::NAN };
        self.chain = chain;
        step
    }

    /// Takes steps that do not count, by the first worker, so that what can be near is near; the first
    /// time sets how many a timed stretch of `seconds` takes. A set whose steps take as long right after
    /// a pass through it as with its lines flushed need not be warmed again: they do not stay.
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
            // A whole pass through what fits: any part of it may be nearer than the rest. Beyond,
            // long warming pays for a longer stretch.
            let least = match (self.stays, self.fits) {
                (false, _) => LEAST_STEPS,
                (true, true) => self.warm,
                (true, false) => self.warm / WARM_OVER_STRETCH,
            };
            self.steps = ((seconds / step.max(1e-10)) as usize).max(least);
        }
        Ok(())
    }

    /// Seconds a step, by the first worker, through lines that no cache holds: flushed just before, on
    /// the pages of the set. `None` where the processor has no such instruction.
    pub(crate) fn flushed(&mut self, pool: &mut WorkerPool) -> Result<Option<f64>, ArenaError> {
        let (chain, steps) = (self.chain, self.chain.elements.min(FLUSHED));
        let stretch = self.stretch(steps);
        let flush_and_run = || {
            // SAFETY: as for the stretch.
            let lines = unsafe { chain.next(steps) };
            flush(&lines).then(&stretch)
        };
        let timed = pool.timed(|worker| (worker == 0).then(flush_and_run).flatten())?;
        drop(stretch);
        let step = self.ended(timed.made);
        Ok(step.is_finite().then_some(step))
    }

    /// A stretch by the first worker alone: a sample of seconds a step.
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
        let cycle = Cycle::new(bytes as u64, Order { stride, locality });
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
        let cycle = Cycle::new(6400, Order::default());
        // SAFETY: the memory is 100 lines.
        let mut chain = unsafe { Chain::write(start, 3, &cycle) };
        let first = chain.at;
        // SAFETY: as above; 25 runs of 32 steps are eight times round.
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
