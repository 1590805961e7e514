//! Load of the memory: loaders read blocks and wait after each block, while a chase is timed.

use crate::chase::Chase;
use crate::pool::WitnessedPool;
use crate::region::{RegionBuffers, SCALAR};
use crate::traffic;
use nodegauge_arena::ArenaError;
use nodegauge_kernels::{ARRAYS, Args, ResidentLoop};
use nodegauge_measure::samples::Sample;
use nodegauge_os::{CacheLine, Spin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes that a loader reads between two waits. A page is long enough for prefetchers to detect the stride, and short
/// compared with the time of a sample.
pub const BLOCK: usize = 4096;
/// Number of iterations of the wait loop that are timed to calibrate the loop.
const TURNS_TIMED: u64 = 2_000_000;

/// Maximum time for which the chaser waits until all loaders have read a block. A loader that has no CPU for so long
/// disturbs the sample.
const LOADERS_START: Duration = Duration::from_millis(100);
/// Number of checks by the waiting chaser before it yields its CPU.
const CHECKS: u32 = 1 << 12;

/// Data that the loaders read.
pub struct Load<'a> {
    buffers: RegionBuffers<'a>,
    variant: ResidentLoop,
    /// Number of blocks in a loader's buffer.
    blocks: usize,
}

/// Progress of a sample, which chaser and loaders share.
#[derive(Default)]
struct Progress {
    /// Number of loaders that have read a block.
    reading: CacheLine<AtomicUsize>,
    /// True after the chaser has ended its stretch.
    ended: CacheLine<AtomicBool>,
}

impl Progress {
    /// Waits until `loaders` loaders read, at most [`LOADERS_START`].
    fn wait_for(&self, loaders: usize) {
        let begun = Instant::now();
        let mut spin = Spin::new(CHECKS);
        while self.reading.0.load(Ordering::Relaxed) < loaders && begun.elapsed() < LOADERS_START {
            spin.pause();
        }
    }
}

/// Waits for `turns` iterations of an empty loop that the compiler cannot remove.
fn wait(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// Returns the time of an iteration of the wait loop, seconds.
pub fn wait_loop_time() -> f64 {
    let begun = Instant::now();
    wait(TURNS_TIMED);
    begun.elapsed().as_secs_f64() / TURNS_TIMED as f64
}

impl<'a> Load<'a> {
    /// Creates a load of the first `blocks` blocks of each loader's buffer.
    pub fn new(buffers: RegionBuffers<'a>, blocks: usize) -> Self {
        Self { buffers, variant: traffic::reader(), blocks }
    }

    /// Returns the loop of the loaders.
    pub fn variant(&self) -> ResidentLoop {
        self.variant
    }

    /// Reads blocks, beginning with number `block`, and waits `turns` iterations after each block, until the chaser ends.
    /// Reads at least one block. Returns the bytes read per second.
    fn run(&self, worker: usize, mut block: usize, turns: u64, progress: &Progress) -> f64 {
        let buffer = self.buffers.set(worker, self.blocks * BLOCK);
        let begun = Instant::now();
        let mut read = 0u64;
        loop {
            // SAFETY: the buffer has this number of blocks, which are page-aligned, belong to this worker, and are only
            // read.
            unsafe {
                let at = [buffer.add(block * BLOCK); ARRAYS];
                let args = Args { at, n: BLOCK / size_of::<f64>(), repeats: 1, scalar: SCALAR };
                std::hint::black_box(self.variant.run(&args));
            }
            block = (block + 1) % self.blocks;
            if read == 0 {
                progress.reading.0.fetch_add(1, Ordering::Relaxed);
            }
            read += BLOCK as u64;
            wait(turns);
            if progress.ended.0.load(Ordering::Relaxed) {
                break;
            }
        }
        read as f64 / begun.elapsed().as_secs_f64().max(1e-9)
    }

    /// Returns a sample. The first part is the chaser's time per load, the second part the time per byte of all loaders
    /// together, in seconds. The loaders begin at block `start` and wait `turns` iterations after each block. Without
    /// `turns` the loaders are idle, and there is no second part.
    ///
    /// # Errors
    /// Fails if a worker fails, or the user ends the run.
    pub fn sample(
        &self,
        pool: &mut WitnessedPool,
        chase: &mut Chase<'_>,
        turns: Option<u64>,
        start: usize,
    ) -> Result<Sample, ArenaError> {
        let progress = Progress::default();
        let loaders = pool.workers() - 1;
        pool.sample(|pool| {
            let stretch = chase.stretch(chase.steps());
            let timed = pool.timed(|worker| match (worker, turns) {
                (0, _) => {
                    progress.wait_for(turns.map_or(0, |_| loaders));
                    let stretch = stretch();
                    progress.ended.0.store(true, Ordering::Relaxed);
                    (Some(stretch), 0.0)
                }
                (_, None) => (None, 0.0),
                (_, Some(turns)) => (None, self.run(worker, start % self.blocks, turns, &progress)),
            })?;
            drop(stretch);
            let (stretches, rates): (Vec<_>, Vec<f64>) = timed.made.into_iter().unzip();
            let mut seconds = vec![chase.ended(stretches)];
            seconds.extend(turns.map(|_| 1.0 / rates.iter().sum::<f64>()));
            let causes = vec![timed.causes; seconds.len()];
            Ok((seconds, causes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_waits_take_more_time() {
        let of = |turns| {
            let begun = Instant::now();
            wait(turns);
            begun.elapsed()
        };
        // The fastest of several waits is compared, so that the load of other programs has no effect.
        let short = (0..9).map(|_| of(1_000)).min();
        assert!(Some(of(4_000_000)) > short);
    }
}
