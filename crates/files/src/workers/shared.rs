//! Flags that workers share, be they threads or processes.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The flags.
#[derive(Default)]
pub(crate) struct Flags {
    /// WorkerFigures that are ready, or have given up.
    arrived: AtomicUsize,
    /// They may begin.
    go: AtomicBool,
    /// They shall end: one is through, or one has failed.
    pub(crate) stop: AtomicBool,
    /// They shall end: the user wants it.
    pub(crate) end: AtomicBool,
}

/// Flags in memory that stays shared after a fork.
pub(crate) struct SharedFlags(NonNull<Flags>);

// SAFETY: the flags are atomics, in memory that this owns.
unsafe impl Send for SharedFlags {}
// SAFETY: as above.
unsafe impl Sync for SharedFlags {}

impl SharedFlags {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: asks for fresh shared memory anywhere, filled with zeros.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Flags>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let flags = NonNull::new(start.cast::<Flags>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the memory is large enough, aligned to a page, and nobody else's.
        unsafe { flags.write(Flags::default()) };
        Ok(Self(flags))
    }
}

impl Deref for SharedFlags {
    type Target = Flags;
    fn deref(&self) -> &Flags {
        // SAFETY: the flags were written by `new` and live as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedFlags {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; atomics need no drop.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Flags>()) };
    }
}

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
        let now = crate::clock::Clock::get().now();
        self.go.store(true, Ordering::Release);
        now
    }
}
