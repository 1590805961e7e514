//! Allocator that ends the program with a message if the system has no memory.
//!
//! The allocator of Rust's standard library aborts in this case, with the number of bytes as its only explanation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator. If an allocation fails, the program prints an error and ends with an exit code.
#[derive(Debug)]
pub struct ExitingAllocator {
    code: u8,
    failed: AtomicBool,
}

impl ExitingAllocator {
    /// Returns an allocator that ends the program with `code` if an allocation fails.
    pub const fn new(code: u8) -> Self {
        Self { code, failed: AtomicBool::new(false) }
    }

    /// Returns `memory`, or ends the program if it is null. This function allocates nothing.
    fn or_exit(&self, memory: *mut u8, bytes: usize) -> *mut u8 {
        if !memory.is_null() {
            return memory;
        }
        // The first thread that fails reports the failure and ends the process.
        while self.failed.swap(true, Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let mut text = Cursor::new([0; 200]);
        let _ = writeln!(
            text,
            "error: cannot allocate {bytes} B of memory\n\
             hint: raise the memory limit (ulimit -v, ulimit -d, the control group), or use smaller sizes"
        );
        let length = text.position() as usize;
        // SAFETY: the text has this length; the second call ends the process.
        unsafe {
            libc::write(libc::STDERR_FILENO, text.get_ref().as_ptr().cast(), length);
            libc::_exit(self.code.into())
        }
    }
}

/// Makes all threads of this process allocate from one arena if its address space is limited (`ulimit -v`). Otherwise,
/// the C library reserves at least 64 MiB of address space for each thread, which would use up a low limit.
pub fn share_arena_if_limited() {
    #[cfg(target_env = "gnu")]
    {
        use rustix::process::{Resource, getrlimit};
        if getrlimit(Resource::As).current.is_some() {
            // SAFETY: the call changes only a setting of the allocator.
            unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        }
    }
}

// SAFETY: every call is passed on to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for ExitingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees the requirements.
        self.or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees the requirements.
        self.or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees the requirements.
        self.or_exit(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees the requirements.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocator_returns_usable_memory() {
        let allocator = ExitingAllocator::new(3);
        let layout = Layout::array::<u64>(100).unwrap();
        let larger = Layout::array::<u64>(200).unwrap();
        // SAFETY: the memory is used within its size, and freed with its layout.
        unsafe {
            let zeros = allocator.alloc_zeroed(layout);
            assert!(std::slice::from_raw_parts(zeros, layout.size()).iter().all(|byte| *byte == 0));
            let grown = allocator.realloc(zeros, layout, larger.size());
            assert_eq!(*grown, 0);
            allocator.dealloc(grown, larger);
        }
    }
}
