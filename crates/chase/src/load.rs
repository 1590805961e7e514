//! Memory load during a timed chase: loaders run a loop over blocks and wait after each block.

use crate::chase::Chase;
use crate::pool::WitnessedPool;
use crate::region::{RegionBuffers, SCALAR};
use crate::traffic;
use nodegauge_arena::ArenaError;
use nodegauge_kernels::{LoopArgs, MAX_ARRAYS, ResidentLoop};
use nodegauge_measure::samples::Sample;
use nodegauge_os::{CacheLine, Spin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of bytes of each array that a loader processes between two waits. A page is long enough for prefetchers to
/// detect the stride, and short compared with the time of a sample.
pub const LOAD_BLOCK_BYTES: usize = 4096;
/// Number of blocks between two fences in a loop with stores at full rate. A loop with non-temporal stores ends with a
/// fence, which waits until all its stores have left the core. A fence after each page would take a considerable part
/// of the time.
const BLOCKS_AT_FULL_RATE: usize = 16;
/// Number of iterations of the wait loop in the measurement of the time of an iteration.
const SPINS_TIMED: u64 = 2_000_000;

/// Maximum time for which the chaser waits until each loader has processed a block. A loader that has no CPU for this
/// time disturbs the sample.
const LOADERS_START: Duration = Duration::from_millis(100);
/// Number of checks that the waiting chaser makes before it yields its CPU.
const CHECKS: u32 = 1 << 12;

/// Loaders' arrays, and the loop that runs over them.
#[derive(Clone, Copy)]
pub struct LoadGenerator<'a> {
    buffers: RegionBuffers<'a>,
    variant: ResidentLoop,
    /// Number of blocks in an array of a loader.
    blocks: usize,
}

/// Progress of a sample, which the chaser and the loaders share.
#[derive(Default)]
struct Progress {
    /// Number of loaders that have processed a block.
    started: CacheLine<AtomicUsize>,
    /// True after the end of the chaser's stretch.
    ended: CacheLine<AtomicBool>,
}

impl Progress {
    /// Waits until `loaders` loaders have processed a block, but at most for [`LOADERS_START`].
    fn wait_for(&self, loaders: usize) {
        let begun = Instant::now();
        let mut spin = Spin::new(CHECKS);
        while self.started.0.load(Ordering::Relaxed) < loaders && begun.elapsed() < LOADERS_START {
            spin.pause();
        }
    }
}

/// Waits for `spins` iterations of an empty loop that the compiler cannot remove.
fn wait(spins: u64) {
    for spin in 0..spins {
        std::hint::black_box(spin);
    }
}

/// Measures the time of an iteration of the wait loop, seconds.
pub fn measure_wait_loop_time() -> f64 {
    let begun = Instant::now();
    wait(SPINS_TIMED);
    begun.elapsed().as_secs_f64() / SPINS_TIMED as f64
}

impl<'a> LoadGenerator<'a> {
    /// Creates a load that reads the first `blocks` blocks of each loader's buffer.
    pub fn new(buffers: RegionBuffers<'a>, blocks: usize) -> Self {
        Self::with_loop(buffers, traffic::default_read_loop(), blocks)
    }

    /// Creates a load that runs the loop `variant` over arrays of `blocks` blocks. A loader's buffer contains all
    /// arrays of the loop.
    pub fn with_loop(buffers: RegionBuffers<'a>, variant: ResidentLoop, blocks: usize) -> Self {
        Self { buffers, variant, blocks: blocks.max(1) }
    }

    /// Returns the loop of the loaders.
    pub fn variant(&self) -> ResidentLoop {
        self.variant
    }

    /// Returns the number of blocks of each array that a loader processes between two waits of `spins` iterations.
    fn blocks_at_once(&self, spins: u64) -> usize {
        let is_long = spins == 0 && self.variant.kernel().writes();
        if is_long { BLOCKS_AT_FULL_RATE.min(self.blocks) } else { 1 }
    }

    /// Returns the number of bytes that count for one block of each array. All lines that the kernel reads or writes
    /// count; the kernel loads no lines only to overwrite them.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.variant.kernel().spec().words_per_iteration()) * LOAD_BLOCK_BYTES as u64
    }

    /// Processes blocks, beginning with number `block`, and waits for `spins` iterations after each, until the chaser
    /// ends. At least one block is processed. Returns the number of bytes moved per second.
    fn run(&self, worker: usize, block: usize, spins: u64, progress: &Progress) -> f64 {
        let mut is_first = true;
        let begun = Instant::now();
        let bytes = self.process_until(worker, block, spins, || {
            if std::mem::take(&mut is_first) {
                progress.started.0.fetch_add(1, Ordering::Relaxed);
            }
            progress.ended.0.load(Ordering::Relaxed)
        });
        bytes as f64 / begun.elapsed().as_secs_f64().max(1e-9)
    }

    /// Processes blocks, beginning with number `block`, and waits for `spins` iterations after each, until `is_ended`,
    /// which is called after each wait, returns true. At least one block is processed. Returns the number of bytes
    /// moved.
    pub(crate) fn process_until(
        &self,
        worker: usize,
        mut block: usize,
        spins: u64,
        mut is_ended: impl FnMut() -> bool,
    ) -> u64 {
        let spec = self.variant.kernel().spec();
        let array = self.blocks * LOAD_BLOCK_BYTES;
        let buffer = self.buffers.working_set(worker, array * spec.arrays().count());
        let mut offsets = [0; MAX_ARRAYS];
        for (number, used) in spec.arrays().enumerate() {
            offsets[used as usize] = number * array;
        }
        let at_once = self.blocks_at_once(spins);
        let n = at_once * LOAD_BLOCK_BYTES / size_of::<f64>();
        let mut processed = 0u64;
        loop {
            if block + at_once > self.blocks {
                block = 0;
            }
            // SAFETY: the buffer contains the arrays of the loop, each of which has this number of blocks. They are
            // page-aligned and belong to this worker.
            unsafe {
                let at = offsets.map(|offset| buffer.add(offset + block * LOAD_BLOCK_BYTES));
                let args = LoopArgs { at, n, repeats: 1, scalar: SCALAR };
                std::hint::black_box(self.variant.run(&args));
            }
            block += at_once;
            processed += at_once as u64;
            wait(spins);
            if is_ended() {
                return processed * self.block_bytes();
            }
        }
    }

    /// Takes a sample. The first part is the chaser's time per load; the second part is the time per byte of all
    /// loaders together; both in seconds. The loaders begin at block `start` and wait for `spins` iterations after each
    /// block. If `spins` is `None`, the loaders are idle, and there is no second part.
    ///
    /// # Errors
    /// Fails if a worker fails, or the user ends the run.
    pub fn take_sample(
        &self,
        pool: &mut WitnessedPool,
        chase: &mut Chase<'_>,
        spins: Option<u64>,
        start: usize,
    ) -> Result<Sample, ArenaError> {
        let progress = Progress::default();
        let loaders = pool.workers() - 1;
        pool.take_sample(|pool| {
            let stretch = chase.stretch_job(chase.steps());
            let timed = pool.run_timed(|worker| match (worker, spins) {
                (0, _) => {
                    progress.wait_for(spins.map_or(0, |_| loaders));
                    let stretch = stretch();
                    progress.ended.0.store(true, Ordering::Relaxed);
                    (Some(stretch), 0.0)
                }
                (_, None) => (None, 0.0),
                (_, Some(spins)) => (None, self.run(worker, start % self.blocks, spins, &progress)),
            })?;
            drop(stretch);
            let (stretches, rates): (Vec<_>, Vec<f64>) = timed.results.into_iter().unzip();
            let mut seconds = vec![chase.end_stretch(stretches)];
            seconds.extend(spins.map(|_| 1.0 / rates.iter().sum::<f64>()));
            let causes = vec![timed.causes; seconds.len()];
            Ok((seconds, causes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_time_grows_with_spins() {
        let of = |spins| {
            let begun = Instant::now();
            wait(spins);
            begun.elapsed()
        };
        // The fastest of several waits is compared, so that the load of other programs has no effect.
        let short = (0..9).map(|_| of(1_000)).min();
        assert!(Some(of(4_000_000)) > short);
    }
}
