//! A shared mapping of the file: blocks are copied from and to memory that the kernel keeps equal to
//! the file.
//!
//! An error of the device or a full file system shows as SIGBUS at the access. A handler puts a page
//! of zeros in the place of the one that failed, so that the copy ends, and remembers it; the mover
//! then reports the error. Accesses elsewhere keep their fate.

use super::{Mover, Msync, check};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings that can be under way at once: one a thread.
const SLOTS: usize = 1024;

/// A mapping as the handler knows it; zero is none.
struct MappingSlot {
    start: AtomicUsize,
    end: AtomicUsize,
    failed: AtomicBool,
}

static MAPPINGS: [MappingSlot; SLOTS] = [const {
    MappingSlot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
    }
}; SLOTS];

/// Size of the page that replaces one that failed; every page size is a multiple of it on x86-64, and
/// elsewhere the kernel refuses the replacement and the signal keeps its fate.
const PAGE: usize = 4096;

extern "C" fn on_bus_error(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure, which for SIGBUS holds an address.
    let address = unsafe { (*info).si_addr() } as usize;
    for slot in &MAPPINGS {
        let start = slot.start.load(Ordering::Acquire);
        if start == 0 || address < start || address >= slot.end.load(Ordering::Acquire) {
            continue;
        }
        slot.failed.store(true, Ordering::Release);
        let page = address & !(PAGE - 1);
        // SAFETY: the page lies in a mapping of ours, which nobody refers to but by raw pointers;
        // mmap is a plain system call and may be made in a handler.
        let got = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if got != libc::MAP_FAILED {
            return;
        }
    }
    // Not ours: with the usual fate restored, the access fails again on return.
    // SAFETY: restoring a default is permitted in a handler.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: zero is a value of the structure; the handler has the type that SA_SIGINFO asks for
        // and keeps to what a handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

/// A mapping of a whole file.
pub(crate) struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
    slot: &'static MappingSlot,
    msync: Msync,
}

impl Mapped {
    /// Maps the first `bytes` of `file`, which is made that long.
    pub(crate) fn new(file: &File, bytes: u64, msync: Msync) -> io::Result<Self> {
        install_handler();
        if file.metadata()?.len() < bytes {
            file.set_len(bytes)?;
        }
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?.max(1);
        // SAFETY: asks for a fresh mapping anywhere of a file that is open.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let address = start.as_ptr() as usize;
        let free = MAPPINGS.iter().find(|slot| {
            slot.start.compare_exchange(0, address, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        let Some(slot) = free else {
            // SAFETY: unmaps what was mapped above and is used by nobody.
            unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
            return Err(io::Error::other("too many mappings at once"));
        };
        slot.failed.store(false, Ordering::Release);
        slot.end.store(address + bytes, Ordering::Release);
        Ok(Self { start, bytes, slot, msync })
    }

    /// The place of a block in memory.
    fn at(&self, offset: u64, length: usize) -> io::Result<*mut u8> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        match offset.checked_add(length) {
            Some(end) if end <= self.bytes => Ok(self.start.as_ptr().wrapping_add(offset)),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the mapping")),
        }
    }

    /// Whether the handler had to step in since the last time. What failed, the signal does not say:
    /// a write may have found no space, everything else is an error of the device.
    fn failure(&self) -> io::Result<()> {
        if self.slot.failed.swap(false, Ordering::AcqRel) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }
}

impl Mover for Mapped {
    fn read(&mut self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        let from = self.at(offset, block.len())?;
        // SAFETY: `at` has checked the range; the file is ours alone, so nobody writes meanwhile, and
        // the block is memory of its own.
        unsafe { std::ptr::copy_nonoverlapping(from, block.as_mut_ptr(), block.len()) };
        self.failure()
    }

    fn write(&mut self, offset: u64, block: &[u8]) -> io::Result<()> {
        let to = self.at(offset, block.len())?;
        // SAFETY: as above, the other way.
        unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), to, block.len()) };
        self.failure()
    }

    fn finish(&mut self, wrote: bool) -> io::Result<()> {
        let flags = match self.msync {
            Msync::Sync if wrote => libc::MS_SYNC,
            Msync::Async if wrote => libc::MS_ASYNC,
            _ => return self.failure(),
        };
        // SAFETY: the range is the mapping.
        let done = unsafe { libc::msync(self.start.as_ptr().cast(), self.bytes, flags) };
        check(done as isize)?;
        self.failure()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.slot.end.store(0, Ordering::Release);
        // SAFETY: unmaps exactly what `new` mapped; nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        self.slot.start.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_shrinks_is_an_error_and_not_the_end() {
        let file = tempfile::tempfile().unwrap();
        let mut mapped = Mapped::new(&file, 1 << 16, Msync::Sync).unwrap();
        let mut block = vec![0; 8192];
        mapped.write(0, &[7; 8192]).unwrap();
        mapped.finish(true).unwrap();
        mapped.read(0, &mut block).unwrap();
        assert!(block.iter().all(|b| *b == 7));
        file.set_len(0).unwrap();
        let error = mapped.read(0, &mut block).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert!(mapped.read(1 << 16, &mut block).is_err(), "beyond the mapping");
    }
}
