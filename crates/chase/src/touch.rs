//! Rates of first touch, of later passes and of dependent loads, measured in a fraction of a second. They serve to
//! predict the time for the arrays of a measurement on a node that may be busy; they are not figures.

use nodegauge_kernels::CACHE_LINE_BYTES;
use nodegauge_measure::{Bytes, clock};
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::time::Duration;

/// Number of loads in the measurement of dependent loads. They take a tenth of a second on the slowest memory.
const LOADS: u32 = 200_000;
/// Maximum ratio of the rate of a later pass to the rate of the first touch.
const LATER: f64 = 10.0;

/// Current speed of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TouchRates {
    /// Rate of first touch by all CPUs, bytes per second.
    pub first: f64,
    /// Rate of a later pass by all CPUs, bytes per second.
    pub later: f64,
    /// Rate of first touch by one CPU, bytes per second.
    pub single: f64,
    /// Time of a load whose address depends on the previous load, seconds.
    pub load: f64,
}

impl TouchRates {
    /// Memory that each thread touches. The allocator maps such a large block separately and returns it
    /// immediately, so that its pages are always touched for the first time.
    pub const BLOCK: Bytes = Bytes::mib(64);

    /// Measures the rates with `threads` threads.
    pub fn measure(threads: u32) -> Self {
        let alone = touched(1);
        let together = touched(threads.max(1));
        Self {
            first: together[0],
            // The blocks may stay in caches. A later pass of stream is not much faster than a first touch on huge
            // pages.
            later: together[1].min(LATER * together[0]),
            single: alone[0],
            load: load_time(),
        }
    }

    /// Returns the rates of a node on which one CPU touches a block in this time.
    pub fn from_block_time(time: Duration) -> Self {
        let slow = Self::BLOCK.as_f64() / time.as_secs_f64();
        Self { first: slow, later: slow, single: slow, load: CACHE_LINE_BYTES as f64 / slow }
    }
}

/// Returns the rates at which this number of threads touches memory for the first time and for the second time.
fn touched(threads: u32) -> [f64; 2] {
    let block = TouchRates::BLOCK.0 as usize;
    let barrier = Barrier::new(threads as usize);
    let touch = || {
        barrier.wait();
        let begun = clock::now();
        let mut memory = vec![1u8; block];
        let first = clock::now();
        barrier.wait();
        let again = clock::now();
        memory.fill(2);
        std::hint::black_box(&memory);
        [first - begun, clock::now() - again]
    };
    let times: Vec<[Duration; 2]> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(touch)).collect();
        all.into_iter().filter_map(|one| one.join().ok()).collect()
    });
    let bytes = TouchRates::BLOCK.as_f64() * times.len() as f64;
    [0, 1].map(|at| {
        let slowest = times.iter().map(|of| of[at]).max().unwrap_or_default();
        bytes / slowest.as_secs_f64().max(1e-6)
    })
}

/// Returns the time per load in a random order of the lines of a block.
fn load_time() -> f64 {
    let lines = (TouchRates::BLOCK.0 / CACHE_LINE_BYTES as u64) as u32;
    let words = CACHE_LINE_BYTES / size_of::<u32>();
    let mut memory = vec![0u32; TouchRates::BLOCK.0 as usize / size_of::<u32>()];
    // A linear congruential generator visits every line once (Hull and Dobell, "Random Number Generators", SIAM Review
    // 4, 1962); the constants are those of Numerical Recipes.
    for line in 0..lines {
        let next = line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % lines;
        memory[line as usize * words] = next;
    }
    let mut line = 0;
    let begun = clock::now();
    for _ in 0..LOADS {
        line = memory[line as usize * words];
    }
    std::hint::black_box(line);
    (clock::now() - begun).as_secs_f64() / f64::from(LOADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touch_rates_are_positive() {
        let [first, later] = touched(2);
        assert!(first > 0.0 && later > 0.0 && load_time() > 0.0);
    }
}
