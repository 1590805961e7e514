//! Handler for bus errors of mapped files. An access raises SIGBUS if the file system is full, the device fails or
//! the file has become shorter. The handler replaces the failed page by a page of zeros, so that the access
//! completes, and marks the mapping. A SIGBUS outside guarded mappings keeps its default effect.

use crate::mapping::Mapping;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of mappings that are guarded simultaneously, usually one per thread.
const SLOTS: usize = 1024;

/// Entry for a mapping in the handler's table. The entry is free if its start address is zero.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    failed: AtomicBool,
}

static SLOTS_IN_USE: [Slot; SLOTS] = [const {
    Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), failed: AtomicBool::new(false) }
}; SLOTS];

/// Size in bytes of the page that replaces a failed page. On x86-64, every page size is a multiple of it. On
/// architectures with larger base pages, the kernel refuses the replacement, and the signal has its default effect.
const PAGE: usize = 4096;

/// File mapping whose bus errors are caught and recorded. The mapping is unmapped before its entry in the table is
/// freed, so that no other mapping at the same address can use the entry.
#[derive(Debug)]
pub struct BusErrorGuard {
    mapping: Mapping,
    slot: TakenSlot,
}

#[derive(Debug)]
struct TakenSlot(&'static Slot);

impl Drop for TakenSlot {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

impl BusErrorGuard {
    /// Guards a mapping, which must be accessed only through raw pointers.
    ///
    /// # Errors
    /// Fails if too many mappings are guarded simultaneously.
    pub fn new(mapping: Mapping) -> io::Result<Self> {
        install_handler();
        let (address, length) = mapping.address_and_length();
        let free = SLOTS_IN_USE.iter().find(|slot| {
            slot.start.compare_exchange(0, address, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        let slot = free
            .ok_or_else(|| io::Error::other("too many mappings are guarded against bus errors"))?;
        slot.failed.store(false, Ordering::Release);
        slot.end.store(address + length, Ordering::Release);
        Ok(Self { mapping, slot: TakenSlot(slot) })
    }

    /// Returns the mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// True if an access has failed since the last call.
    pub fn take_error_flag(&self) -> bool {
        self.slot.0.failed.swap(false, Ordering::AcqRel)
    }
}

impl Drop for BusErrorGuard {
    fn drop(&mut self) {
        self.slot.0.end.store(0, Ordering::Release);
    }
}

extern "C" fn on_bus_error(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the address of this thread's errno is valid as long as the thread runs.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid structure, which contains an address for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    if !replace_page(address) {
        // The address is not in a guarded mapping. The default action is restored, so that the repeated access ends the
        // process. SAFETY: restoring a default action is permitted in a handler.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
    // SAFETY: the address of errno is valid. The value is restored because the interrupted code may be about to read
    // it.
    unsafe { *libc::__errno_location() = errno };
}

/// Replaces the page of `address` by a page of zeros if the address is in a guarded mapping. Returns true if the page
/// was replaced.
fn replace_page(address: usize) -> bool {
    for slot in &SLOTS_IN_USE {
        let start = slot.start.load(Ordering::Acquire);
        if start == 0 || address < start || address >= slot.end.load(Ordering::Acquire) {
            continue;
        }
        slot.failed.store(true, Ordering::Release);
        let page = address & !(PAGE - 1);
        // SAFETY: the page is in a guarded mapping, which is used only through raw pointers. `mmap` is a plain system
        // call, which is permitted in a handler.
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
            return true;
        }
    }
    false
}

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: zeros are a valid value of the structure. The handler has the type that SA_SIGINFO requires, and
        // makes only calls that are permitted in a handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_beyond_end_of_shortened_file_is_recorded() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let guard = BusErrorGuard::new(Mapping::map_file(&file, 0, 8192, true).unwrap()).unwrap();
        let at = guard.mapping().at(4096, 1);
        file.set_len(0).unwrap();
        assert!(!guard.take_error_flag());
        // SAFETY: the address of this thread's errno is valid, and the byte is in the mapping.
        let (byte, errno) = unsafe {
            *libc::__errno_location() = 77;
            (at.as_ptr().read_volatile(), *libc::__errno_location())
        };
        assert_eq!((byte, errno), (0, 77));
        assert!(guard.take_error_flag() && !guard.take_error_flag());
    }
}
