//! Flags that workers share, be they threads or processes.

use crate::clock::Clock;
use nodegauge_os::{Mapping, SharedBytes, SysError};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// The flags; all but the first two are set when they are not zero.
pub(crate) struct Flags {
    /// Number of workers that are ready, or have given up.
    arrived: AtomicU64,
    /// Time at which all were released, in ticks of the clock.
    released: AtomicU64,
    /// Workers may begin.
    go: AtomicU64,
    /// Workers must end: one has finished, or one has failed.
    pub(crate) stop: AtomicU64,
    /// Workers must end: the user interrupts.
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
        for flag in [&self.arrived, &self.released, &self.go, &self.stop, &self.end] {
            flag.store(0, Ordering::SeqCst);
        }
    }

    /// Arrives; the last of `workers` releases all.
    pub(crate) fn arrive(&self, workers: usize) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == workers as u64 {
            self.released.store(Clock::get().now(), Ordering::Relaxed);
            self.go.store(1, Ordering::Release);
        }
    }

    /// Arrives and waits until all may begin. Yields the CPU meanwhile: there may be more workers than CPUs, so that a
    /// spinning worker would delay one that has not arrived.
    pub(crate) fn arrive_and_wait(&self, workers: usize) {
        self.arrive(workers);
        while self.go.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }

    /// Time at which all were released, in ticks of the clock.
    pub(crate) fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }
}
