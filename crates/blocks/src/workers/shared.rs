//! State that the workers share in memory, both for threads and for processes.

use crate::clock::Clock;
use nodegauge_os::{Mapping, SharedBytes, SysError};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared state of the workers. The last three fields are flags, which are set if they are not zero.
pub(crate) struct WorkerState {
    /// Number of workers that are ready or have failed.
    arrived: AtomicU64,
    /// Time at which all workers were released, in ticks of the clock.
    released: AtomicU64,
    /// Flag that allows the workers to begin.
    go: AtomicU64,
    /// Flag that ends the workers because one worker has finished or failed.
    pub(crate) stop: AtomicU64,
    /// Flag that ends the workers because the user interrupted the run.
    pub(crate) end: AtomicU64,
}

// SAFETY: the structure contains only atomic integers, for which all bytes are valid.
unsafe impl SharedBytes for WorkerState {}

/// State of the workers in memory that parent and child processes share after a fork.
pub(crate) struct SharedWorkerState(Mapping);

impl SharedWorkerState {
    pub(crate) fn new() -> Result<Self, SysError> {
        Mapping::shared(size_of::<WorkerState>()).map(Self)
    }
}

impl Deref for SharedWorkerState {
    type Target = WorkerState;
    fn deref(&self) -> &WorkerState {
        self.0.view(0)
    }
}

impl WorkerState {
    pub(crate) fn reset(&self) {
        for flag in [&self.arrived, &self.released, &self.go, &self.stop, &self.end] {
            flag.store(0, Ordering::SeqCst);
        }
    }

    /// Registers a worker as ready. The last of `workers` workers releases all of them.
    pub(crate) fn arrive(&self, workers: usize) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == workers as u64 {
            self.released.store(Clock::get().now(), Ordering::Relaxed);
            self.go.store(1, Ordering::Release);
        }
    }

    /// Registers a worker as ready, and waits until all workers may begin. The CPU is yielded during the wait,
    /// because with more workers than CPUs a spinning worker would delay workers that are not ready yet.
    pub(crate) fn arrive_and_wait(&self, workers: usize) {
        self.arrive(workers);
        while self.go.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }

    /// Returns the time at which all workers were released, in ticks of the clock.
    pub(crate) fn release_ticks(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }
}
