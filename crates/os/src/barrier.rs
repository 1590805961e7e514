//! Spinning barriers for the threads of a process, and for processes that share anonymous memory.

use crate::mapping::{Mapping, SharedBytes};
use crate::memory_program::descriptor_path;
use crate::spin::Spin;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Value that occupies its own cache line and the neighbouring line, which prefetchers load together with it.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CacheLine<T>(pub T);

/// Time for which a waiting thread yields before it sleeps. If each thread has its own CPU, all threads arrive much
/// earlier, unless their work differs. The second round of [`SpinBarrier::wait`] compensates for a sleep.
const YIELD_TIME: Duration = Duration::from_millis(1);

/// Size in bytes of a cache line that processes share.
const LINE: usize = size_of::<CacheLine<AtomicU64>>();

// SAFETY: the structure has only one field, which is `SharedBytes`.
unsafe impl<T: SharedBytes> SharedBytes for CacheLine<T> {}

/// Error of a poisoned barrier: at least one participant will never arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the barrier is poisoned")]
pub struct PoisonedBarrier;

/// Spinning barrier. It may be in memory that processes share: any bytes are a valid value, and zeros are the
/// initial state.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SpinBarrier {
    arrived: CacheLine<AtomicUsize>,
    /// Number of rounds times two, plus one if a waiter slept in the last round.
    round: CacheLine<AtomicUsize>,
    poisoned: CacheLine<AtomicU32>,
    /// 1 if a waiter has slept in the current round.
    slept: CacheLine<AtomicU32>,
}

// SAFETY: the structure contains only atomic integers.
unsafe impl SharedBytes for SpinBarrier {}

/// State of the waiters of a round when they were released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    Awake,
    /// At least one waiter slept.
    Asleep,
}

impl WaiterState {
    /// Decodes [`SpinBarrier::round`].
    fn from_round(round: usize) -> Self {
        if round & 1 == 0 { Self::Awake } else { Self::Asleep }
    }
}

impl SpinBarrier {
    /// Spins until `count` threads or processes have called this function. After a long wait, the caller sleeps between
    /// its checks. If any caller has slept, all callers wait for each other a second time, so that none starts late
    /// because it woke up late.
    ///
    /// # Errors
    /// Fails if the barrier is poisoned.
    #[inline]
    pub fn wait(&self, count: usize) -> Result<(), PoisonedBarrier> {
        if self.meet(count)? == WaiterState::Asleep {
            self.meet(count)?;
        }
        Ok(())
    }

    /// Waits for one round and returns the state of its waiters.
    #[inline]
    fn meet(&self, count: usize) -> Result<WaiterState, PoisonedBarrier> {
        let round = self.round.0.load(Ordering::Acquire);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == count {
            let slept = self.slept.0.swap(0, Ordering::Relaxed) as usize & 1;
            let next = (round & !1).wrapping_add(2) | slept;
            self.arrived.0.store(0, Ordering::Relaxed);
            self.round.0.store(next, Ordering::Release);
            return Ok(WaiterState::from_round(next));
        }
        let mut spin = Spin::default();
        loop {
            let seen = self.round.0.load(Ordering::Acquire);
            if seen != round {
                return Ok(WaiterState::from_round(seen));
            }
            if self.is_poisoned() {
                return Err(PoisonedBarrier);
            }
            // A mark that the last member no longer sees only repeats the following round.
            spin.pause_or_sleep(YIELD_TIME, || self.slept.0.store(1, Ordering::Relaxed));
        }
    }

    /// True if the barrier is poisoned.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.0.load(Ordering::Relaxed) != 0
    }

    /// Poisons the barrier, so that current and future waiters get an error.
    pub fn poison(&self) {
        self.poisoned.0.store(1, Ordering::Relaxed);
    }
}

/// Barrier for threads, each of which has its own CPU.
#[derive(Debug)]
pub struct Barrier {
    count: usize,
    gate: SpinBarrier,
}

impl Barrier {
    /// Creates a barrier for `count` threads.
    pub fn new(count: usize) -> Self {
        Self { count, gate: SpinBarrier::default() }
    }

    /// Poisons the barrier, so that current and future waiters panic.
    pub fn poison(&self) {
        self.gate.poison();
    }

    /// Spins until all threads have called this function.
    ///
    /// # Panics
    /// Panics if the barrier is poisoned.
    #[inline]
    pub fn wait(&self) {
        assert!(self.gate.wait(self.count).is_ok(), "another member of the team failed");
    }
}

/// Barrier for processes, in anonymous memory. One process creates a memfd, and the other processes open it through
/// `/proc`. The kernel frees the memory when the processes have ended. Behind the barrier, the memory contains
/// cache lines for pairs of processes.
#[derive(Debug)]
pub struct ProcessBarrier {
    mapping: Mapping,
    lines: usize,
    /// File of the shared memory, which other processes open through its path.
    file: File,
}

impl ProcessBarrier {
    /// Creates a barrier with `lines` shared cache lines.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn create(lines: usize) -> io::Result<Self> {
        let file = File::from(memfd_create(c"nodegauge-ranks", MemfdFlags::CLOEXEC)?);
        file.set_len((size_of::<SpinBarrier>() + lines * LINE) as u64)?;
        Self::map(file)
    }

    /// Opens a barrier that another process has created, by its path.
    ///
    /// # Errors
    /// Fails if the path cannot be opened, or if the file is too short for a barrier.
    pub fn open(path: &str) -> io::Result<Self> {
        Self::map(File::options().read(true).write(true).open(path)?)
    }

    fn map(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len() as usize;
        let Some(rest) = length.checked_sub(size_of::<SpinBarrier>()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mapping = Mapping::map_file(&file, 0, length, true)?;
        Ok(Self { mapping, lines: rest / LINE, file })
    }

    /// Returns the path by which other processes of this user open the barrier.
    pub fn path(&self) -> String {
        descriptor_path(&self.file).display().to_string()
    }

    /// Returns the shared cache line with number `index`; `None` if there are fewer lines.
    pub fn cache_line(&self, index: usize) -> Option<&AtomicU64> {
        let at = size_of::<SpinBarrier>() + index * LINE;
        (index < self.lines).then(|| &self.mapping.view::<CacheLine<AtomicU64>>(at).0)
    }
}

impl Deref for ProcessBarrier {
    type Target = SpinBarrier;
    #[inline]
    fn deref(&self) -> &SpinBarrier {
        self.mapping.view(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_released_by_last_process_or_poison() {
        let barrier = ProcessBarrier::create(2).unwrap();
        let other = ProcessBarrier::open(&barrier.path()).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| (0..100).all(|_| other.wait(2).is_ok()));
            assert!((0..100).all(|_| barrier.wait(2).is_ok()));
            assert!(waits.join().unwrap());
            let second_waits = scope.spawn(|| other.wait(2));
            barrier.poison();
            assert_eq!(second_waits.join().unwrap(), Err(PoisonedBarrier));
        });
        assert!(barrier.is_poisoned() && other.is_poisoned());
        assert!(barrier.cache_line(1).is_some() && other.cache_line(2).is_none());
        assert!(ProcessBarrier::open("/dev/null").is_err());
    }

    #[test]
    fn rounds_stay_synchronised_if_waiters_sleep() {
        let gate = SpinBarrier::default();
        let passed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for member in 0..3 {
                let (gate, passed) = (&gate, &passed);
                scope.spawn(move || {
                    for round in 0..12 {
                        if round % 3 == member {
                            // Longer than waiters stay awake.
                            std::thread::sleep(YIELD_TIME * 4);
                        }
                        gate.wait(3).unwrap();
                        passed.fetch_add(1, Ordering::AcqRel);
                        gate.wait(3).unwrap();
                        assert_eq!(passed.load(Ordering::Acquire), 3 * (round + 1));
                    }
                });
            }
        });
        assert_eq!(gate.arrived.0.load(Ordering::Relaxed), 0);
        // Every round advances the counter by two, and a round after a sleep was repeated.
        assert!(gate.round.0.load(Ordering::Relaxed) >= 2 * 24);
    }

    #[test]
    fn poisoned_barrier_panics() {
        let barrier = Barrier::new(2);
        barrier.poison();
        assert!(std::panic::catch_unwind(|| barrier.wait()).is_err());
    }
}
