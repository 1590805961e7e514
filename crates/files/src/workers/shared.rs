//! Flags in memory that the workers share, for threads as well as for processes.

use crate::clock::Clock;
use nodegauge_os::{Mapping, SharedBytes, SysError};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared state of the workers. The last three fields are flags, set if not zero.
pub(crate) struct Flags {
    /// Number of workers that are ready or have failed.
    arrived: AtomicU64,
    /// Time at which all were released, in ticks of the clock.
    released: AtomicU64,
    /// Flag: the workers may begin.
    go: AtomicU64,
    /// Flag: the workers must end, because one has finished or failed.
    pub(crate) stop: AtomicU64,
    /// Flag: the workers must end, because the user interrupted the run.
    pub(crate) end: AtomicU64,
}

// SAFETY: a structure of atomics, for which any bytes are a valid value.
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

    /// Registers a worker as ready. The last of `workers` releases all.
    pub(crate) fn arrive(&self, workers: usize) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == workers as u64 {
            self.released.store(Clock::get().now(), Ordering::Relaxed);
            self.go.store(1, Ordering::Release);
        }
    }

    /// Registers a worker as ready and waits until all may begin. Yields the CPU while it waits: with more workers than
    /// CPUs, a spinning worker would delay one that is not ready yet.
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
