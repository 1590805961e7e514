//! A barrier for processes, in memory without a name: a memfd that the coordinator makes and the
//! ranks open through `/proc`, so that nothing is left when they have gone.
#![allow(unsafe_code)]

use super::RankError;
use crate::team::{Line, SPINS_BEFORE_YIELD};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A line that two ranks play with, see [`crate::core_to_core`].
type Court = Line<AtomicU64>;

/// What lies in the shared memory, followed by a court for each pair of ranks. Zeros are its start.
#[repr(C)]
struct Shared {
    arrived: Line<AtomicUsize>,
    round: Line<AtomicUsize>,
    broken: Line<AtomicBool>,
}

/// A view on the shared memory.
pub(super) struct Barrier {
    shared: *const Shared,
    /// How many courts follow.
    courts: usize,
    /// The coordinator's file, which its path leads to.
    file: File,
}

// SAFETY: the memory stays mapped as long as the view lives, and holds atomics only.
unsafe impl Send for Barrier {}
// SAFETY: as above.
unsafe impl Sync for Barrier {}

impl Barrier {
    /// New shared memory for so many ranks.
    pub(super) fn create(ranks: usize) -> Result<Self, RankError> {
        let refused = |cause| RankError::system("share memory among ranks", cause);
        // SAFETY: the name is a C string; the call makes a new descriptor.
        let fd = unsafe { libc::memfd_create(c"nodegauge-ranks".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        let length = size_of::<Shared>() + ranks.div_ceil(2) * size_of::<Court>();
        file.set_len(length as u64).map_err(refused)?;
        Self::map(file).map_err(refused)
    }

    /// The path under which other processes of this user open it.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// The memory that another process has made.
    pub(super) fn open(path: &str) -> Result<Self, RankError> {
        let file = File::options().read(true).write(true).open(path);
        file.and_then(Self::map)
            .map_err(|cause| RankError::system("open the memory that ranks share", cause))
    }

    fn map(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len() as usize;
        let Some(rest) = length.checked_sub(size_of::<Shared>()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let courts = rest / size_of::<Court>();
        // SAFETY: a new mapping at an address of the kernel's choice; the file is long enough.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match base == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self { shared: base.cast(), courts, file }),
        }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped, page-aligned and long enough, until the view is dropped; zeros and all
        // that is stored since are values of its atomics.
        unsafe { &*self.shared }
    }

    /// The line of pair number `pair`.
    pub(super) fn court(&self, pair: usize) -> Option<&AtomicU64> {
        (pair < self.courts).then(|| {
            // SAFETY: the mapping holds so many courts behind the structure, whose size is a multiple
            // of their alignment; zeros and all that is stored since are values of an atomic.
            unsafe { &(*self.shared.add(1).cast::<Court>().add(pair)).0 }
        })
    }

    /// Whether a rank has gone.
    pub(super) fn is_broken(&self) -> bool {
        self.shared().broken.0.load(Ordering::Relaxed)
    }

    /// Waits until `ranks` processes are here; `false` when one of them has gone.
    pub(super) fn wait(&self, ranks: usize) -> bool {
        let shared = self.shared();
        let round = shared.round.0.load(Ordering::Acquire);
        if shared.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == ranks {
            shared.arrived.0.store(0, Ordering::Relaxed);
            shared.round.0.store(round.wrapping_add(1), Ordering::Release);
            return true;
        }
        let mut spins = 0u32;
        while shared.round.0.load(Ordering::Acquire) == round {
            if self.is_broken() {
                return false;
            }
            spins += 1;
            if spins < SPINS_BEFORE_YIELD {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        true
    }

    /// Sends away who waits: somebody will never come.
    pub(super) fn give_up(&self) {
        self.shared().broken.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        let length = size_of::<Shared>() + self.courts * size_of::<Court>();
        // SAFETY: the mapping is ours, and no reference to it outlives the view.
        unsafe { libc::munmap(self.shared.cast_mut().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_released_by_the_last_and_by_giving_up() {
        let barrier = Barrier::create(3).unwrap();
        let other = Barrier::open(&barrier.path()).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| (0..100).all(|_| other.wait(2)));
            assert!((0..100).all(|_| barrier.wait(2)));
            assert!(waits.join().unwrap());
            let waits = scope.spawn(|| other.wait(2));
            barrier.give_up();
            assert!(!waits.join().unwrap());
        });
        assert!(barrier.court(1).is_some() && other.court(2).is_none());
        assert!(Barrier::open("/dev/null").is_err());
    }
}
