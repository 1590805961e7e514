//! Flags that workers share, be they threads or processes.

use crate::clock::Clock;
use nodegauge_os::{SharedValue, ZeroedShared};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The flags.
#[derive(Default)]
pub(crate) struct Flags {
    /// Workers that are ready, or have given up.
    arrived: AtomicUsize,
    /// They may begin.
    go: AtomicBool,
    /// They shall end: one is through, or one has failed.
    pub(crate) stop: AtomicBool,
    /// They shall end: the user wants it.
    pub(crate) end: AtomicBool,
}

// SAFETY: atomics, of which zeros are a value.
unsafe impl ZeroedShared for Flags {}

/// Flags in memory that stays shared after a fork.
pub(crate) type SharedFlags = SharedValue<Flags>;

impl Flags {
    pub(crate) fn reset(&self) {
        self.arrived.store(0, Ordering::SeqCst);
        for flag in [&self.go, &self.stop, &self.end] {
            flag.store(false, Ordering::SeqCst);
        }
    }

    pub(crate) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits, giving the CPU away, until all may begin. There may be more workers than CPUs, so
    /// nobody spins.
    pub(crate) fn arrive_and_wait(&self) {
        self.arrive();
        while !self.go.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// Waits until `workers` are ready, then lets them go. `lost` tells that one will never be.
    pub(crate) fn release(&self, workers: usize, mut lost: impl FnMut() -> bool) -> u64 {
        while self.arrived.load(Ordering::Acquire) < workers {
            if lost() {
                self.stop.store(true, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let now = Clock::get().now();
        self.go.store(true, Ordering::Release);
        now
    }
}
