//! Loop of fixed work that records its detours, i.e. the times in which something else ran on its CPU. A pass reads the
//! clock once; a pass that takes at least nine times as long as usual is a detour. This is the selfish detour benchmark
//! of Hoefler, Schneider and Lumsdaine, "Characterizing the Influence of System Noise on Large-Scale Applications by
//! Simulation" (SC 2010). It corresponds to the fixed work of Petrini, Kerbyson and Pakin (SC 2003) with the smallest
//! unit.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// Minimum ratio of the time of a pass with a detour to the time of a usual pass (Hoefler et al. 2010).
pub const MIN_DETOUR_RATIO: u64 = 9;
/// Number of passes in a trial, whose mean time is computed. The fastest of [`TRIALS`] trials gives the time of a usual
/// pass.
const PASSES: u64 = 2000;
const TRIALS: u32 = 10;
/// Maximum number of detours that are stored with their times. The recording stops when this number is reached.
const CAPACITY: usize = 1 << 17;

/// Time in which the loop did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detour {
    /// Time from the start of the recording to the start of the detour, nanoseconds.
    pub start: u64,
    /// Length of the detour, without the time of a usual pass, nanoseconds.
    pub length: u64,
}

/// Recording of the detours of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Duration of the recording, nanoseconds.
    pub elapsed: u64,
    /// Time of a usual pass, nanoseconds.
    pub pass: u64,
    /// Detours in chronological order.
    pub detours: Vec<Detour>,
}

impl Recording {
    /// Returns the total time of all detours, nanoseconds.
    pub fn lost_time(&self) -> u64 {
        self.detours.iter().map(|detour| detour.length).sum()
    }

    /// Returns the length of the longest detour, nanoseconds; 0 if there is none.
    pub fn longest_detour(&self) -> u64 {
        self.detours.iter().map(|detour| detour.length).max().unwrap_or(0)
    }

    /// Returns the time that was lost to detours in each quantum. `quantum` is the length of a quantum; all times are
    /// in nanoseconds. A detour counts in the quantum in which it begins. An incomplete last quantum is omitted.
    pub fn lost_per_quantum(&self, quantum: u64) -> Vec<u64> {
        let mut lost = vec![0; (self.elapsed / quantum.max(1)) as usize];
        for detour in &self.detours {
            if let Some(own) = lost.get_mut((detour.start / quantum.max(1)) as usize) {
                *own += detour.length;
            }
        }
        lost
    }
}

/// Runs the loop for this time and records its detours.
#[inline(never)]
pub fn record_detours(time: Duration) -> Recording {
    let pass = usual_pass();
    let limit = MIN_DETOUR_RATIO * pass;
    let end = nanoseconds(time);
    let mut detours = Vec::with_capacity(CAPACITY);
    // Its pages are touched now, not while the loop runs.
    detours.resize(CAPACITY, Detour { start: 0, length: 0 });
    detours.clear();
    let begun = Instant::now();
    let mut last = 0;
    loop {
        let now = nanoseconds(begun.elapsed());
        if now - last >= limit {
            detours.push(Detour { start: last, length: now - last - pass });
            if detours.len() == CAPACITY {
                return Recording { elapsed: now, pass, detours };
            }
        }
        if now >= end {
            return Recording { elapsed: now, pass, detours };
        }
        last = now;
    }
}

/// Returns the time of a pass without detours, nanoseconds: the smallest mean of several trials.
fn usual_pass() -> u64 {
    let mut shortest = u64::MAX;
    for _ in 0..TRIALS {
        let begun = Instant::now();
        let mut now = 0;
        for _ in 0..PASSES {
            now = nanoseconds(std::hint::black_box(begun.elapsed()));
        }
        shortest = shortest.min(now / PASSES);
    }
    shortest.max(1)
}

/// Converts a duration to nanoseconds, without the 128-bit arithmetic of the standard library.
fn nanoseconds(time: Duration) -> u64 {
    time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_lasts_requested_time() {
        let recording = record_detours(Duration::from_millis(20));
        assert!(recording.elapsed >= 20_000_000);
        assert!(recording.lost_time() <= recording.elapsed);
        assert!(
            recording
                .detours
                .iter()
                .all(|one| one.length >= (MIN_DETOUR_RATIO - 1) * recording.pass)
        );
        assert!(recording.detours.is_sorted_by_key(|one| one.start));
    }

    #[test]
    fn detour_is_counted_in_the_quantum_of_its_start() {
        let detours = vec![Detour { start: 5, length: 30 }, Detour { start: 19, length: 1 }];
        let recording = Recording { elapsed: 45, pass: 1, detours };
        assert_eq!(recording.lost_per_quantum(10), [30, 1, 0, 0]);
        assert_eq!((recording.lost_time(), recording.longest_detour()), (31, 30));
    }
}
