//! Flags that workers share, be they threads or processes.

use crate::clock::Clock;
use nodegauge_os::{Mapping, SharedBytes, SysError};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The flags; all but the first are set when they are not zero.
pub(crate) struct Flags {
    /// Workers that are ready, or have given up.
    arrived: AtomicU64,
    /// They may begin.
    go: AtomicU64,
    /// They shall end: one is through, or one has failed.
    pub(crate) stop: AtomicU64,
    /// They shall end: the user wants it.
    pub(crate) end: AtomicU64,
}

// SAFETY: a structure of atomics of which any bytes are a value.
unsafe impl SharedBytes for Flags {}

/// Flags in memory that stays shared after a fork.
pub(crate) struct SharedFlags(Mapping);

impl SharedFlags {
    pub(crate) fn new() -> Result<Self, SysError> {
        Mapping::shared(size_of::<Flags>()).map(Self)
    }
}

impl Deref for SharedFlags {
    type Target = Flags;
    fn deref(&self) -> &Flags {
        self.0.view(0)
    }
}

impl Flags {
    pub(crate) fn reset(&self) {
        for flag in [&self.arrived, &self.go, &self.stop, &self.end] {
            flag.store(0, Ordering::SeqCst);
        }
    }

    pub(crate) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits, giving the CPU away, until all may begin. There may be more workers than CPUs, so
    /// nobody spins.
    pub(crate) fn arrive_and_wait(&self) {
        self.arrive();
        while self.go.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }

    /// Waits until `workers` are ready, then lets them go. `lost` tells that one will never be.
    pub(crate) fn release(&self, workers: usize, mut lost: impl FnMut() -> bool) -> u64 {
        while self.arrived.load(Ordering::Acquire) < workers as u64 {
            if lost() {
                self.stop.store(1, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let now = Clock::get().now();
        self.go.store(1, Ordering::Release);
        now
    }
}
