//! Memory that files are read into and written from: page-aligned, as direct I/O asks for, and
//! touched before anything is timed.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A page-aligned piece of memory of its own, filled with zeros.
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its mapping, as a `Vec` owns its heap memory.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// `len` bytes (at least one page is taken), on huge pages where the kernel gives them.
    ///
    /// # Errors
    /// When the kernel has no memory.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1);
        // SAFETY: asks for fresh anonymous memory anywhere; nothing existing is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping made above; the advice changes no contents. Without huge
        // pages the memory is as good.
        unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut memory = Self { start, len };
        memory.fill(0);
        Ok(memory)
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are mapped, initialised, and live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only way in.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
