//! Mapped memory: anonymous memory on pages of a chosen size, memory that is shared with forked processes, or a mapped
//! file. The page size is only a request; [`Mapping::page_size_shares`] returns the sizes that the kernel used.

use crate::call::{SysError, check};
use crate::smaps;
use crate::system::{huge_page_bytes, page_bytes};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Returns the alignment of memory of `length` bytes. It is a huge page if the memory is at least as long as a huge
/// page, otherwise 2 MiB if the memory is at least 2 MiB long, otherwise a base page.
fn boundary(length: usize) -> usize {
    [huge_page_bytes(), 2 << 20].into_iter().find(|page| *page <= length).unwrap_or_else(page_bytes)
}

/// Requested page size of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSize {
    /// Base pages, with transparent huge pages disabled.
    Base,
    /// Transparent huge pages if the kernel supports them, otherwise base pages.
    PreferHuge,
    /// Transparent huge pages; mapping fails if the kernel does not support them.
    Transparent,
    /// Reserved huge pages of the given size in bytes.
    Reserved(usize),
}

/// Reason why memory cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Too few reserved huge pages are free.
    #[error("{free} of the {total} reserved huge pages are free, {needed} are needed")]
    NoReservedPages {
        /// Requested length in bytes, which is a multiple of the page size.
        length: usize,
        /// Number of reserved pages.
        total: u64,
        /// Number of free reserved pages.
        free: u64,
        /// Number of pages that the request requires.
        needed: u64,
    },
    /// The kernel refused `mmap` or `madvise`.
    #[error(transparent)]
    Refused(#[from] SysError),
}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Refused(error) => error.into(),
            MapError::NoReservedPages { .. } => io::ErrorKind::OutOfMemory.into(),
        }
    }
}

/// Memory mapping that is unmapped when this value is dropped. It provides addresses and raw pointers, whose users
/// must ensure exclusive access, and references to values that other processes may change.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping owns its memory and gives access only through raw pointers and to values that may be shared.
unsafe impl Send for Mapping {}
// SAFETY: the mapping gives access only through raw pointers and to values that may be shared.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `length` bytes of private memory, rounded up to whole pages. The start is aligned to a
    /// reserved page. Without reserved pages, it is aligned to a transparent huge page or to 2 MiB if the memory is
    /// long enough. No page is touched; the kernel allocates a page when a thread first writes to it. The kernel
    /// does not reserve memory for the mapping, because strict accounting of address space could refuse mappings
    /// that fit into memory. Therefore the caller must compare the size with the available memory.
    ///
    /// # Errors
    /// Fails if too few huge pages are reserved, or if there is not enough memory.
    pub fn anonymous(length: usize, pages: PageSize) -> Result<Self, MapError> {
        let base = page_bytes();
        let page = if let PageSize::Reserved(page) = pages { page } else { base };
        let too_long = SysError { call: "mmap", errno: libc::ENOMEM };
        let length = length.max(1).checked_next_multiple_of(page).ok_or(too_long)?;
        let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // To align the start, a longer range is mapped, and both ends are unmapped.
        let mut slack = boundary(length) - base;
        if matches!(pages, PageSize::Reserved(_)) {
            Self::check_reserved_pages(length, page, 1)?;
            // Without MAP_NORESERVE, the kernel reserves the pages now. With MAP_NORESERVE, another program could take
            // all free pages, and the first touch would end this program.
            flags |= libc::MAP_HUGETLB | (page.trailing_zeros() as i32) << libc::MAP_HUGE_SHIFT;
            slack = 0;
        } else {
            flags |= libc::MAP_NORESERVE;
        }
        let long = length.checked_add(slack).ok_or(too_long)?;
        let mut mapping = Self::map(long, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)?;
        if slack > 0 {
            mapping.cut(length);
        }
        mapping.advise(pages)?;
        Ok(mapping)
    }

    /// Checks that enough reserved huge pages of `page` bytes are free for `count` mappings of `length` bytes.
    ///
    /// # Errors
    /// Fails if too few pages are free.
    pub fn check_reserved_pages(length: usize, page: usize, count: u64) -> Result<(), MapError> {
        let needed = count * length.div_ceil(page) as u64;
        let (total, free) = reserved_pages(page);
        if free < needed {
            return Err(MapError::NoReservedPages { length, total, free, needed });
        }
        Ok(())
    }

    /// Maps memory that is filled with zeros and is shared with processes that are forked later.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn shared(length: usize) -> Result<Self, SysError> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        Self::map(length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    }

    /// Maps `length` bytes of a file, beginning at `offset`, which must be a multiple of the page size. Writes to the
    /// mapping change the file.
    ///
    /// # Errors
    /// Fails if the kernel refuses the call; only regular files can be mapped.
    pub fn map_file(
        file: &File,
        offset: u64,
        length: usize,
        writable: bool,
    ) -> Result<Self, SysError> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let offset = offset as libc::off_t;
        Self::map(length, protection, libc::MAP_SHARED, file.as_raw_fd(), offset)
    }

    /// Checks that the first page of a file can be mapped for execution.
    ///
    /// # Errors
    /// Fails with `EPERM` on a file system mounted with `noexec`, and with `EACCES` if a security module refuses it.
    pub fn check_executable(file: &File) -> Result<(), SysError> {
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        Self::map(1, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0).map(drop)
    }

    fn map(
        length: usize,
        protection: i32,
        flags: i32,
        fd: i32,
        offset: libc::off_t,
    ) -> Result<Self, SysError> {
        // SAFETY: a new mapping at an address that the kernel chooses does not affect other memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, length }),
            _ => Err(SysError::last("mmap")),
        }
    }

    /// Shortens the mapping to `length` bytes, beginning at the first aligned address, and unmaps the rest.
    fn cut(&mut self, length: usize) {
        let before = self.start.align_offset(boundary(length));
        let after = self.length - before - length;
        let start = self.at(before, length);
        for (from, bytes) in [(self.start, before), (self.at(before + length, after), after)] {
            if bytes > 0 {
                // SAFETY: the range is an unused part of this mapping.
                unsafe { libc::munmap(from.as_ptr().cast(), bytes) };
            }
        }
        self.start = start;
        self.length = length;
    }

    fn advise(&self, pages: PageSize) -> Result<(), SysError> {
        let advice = match pages {
            PageSize::Base => libc::MADV_NOHUGEPAGE,
            PageSize::Transparent | PageSize::PreferHuge => libc::MADV_HUGEPAGE,
            PageSize::Reserved(_) => return Ok(()),
        };
        // SAFETY: the advice applies to this mapping and changes no data.
        let done = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, advice) };
        match check("madvise", done) {
            // A kernel without transparent huge pages refuses the advice and uses base pages. Base pages are acceptable
            // for the other requests.
            Err(error) if pages == PageSize::Transparent => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the address and the length in bytes, for system calls.
    pub fn address_and_length(&self) -> (usize, usize) {
        (self.start.as_ptr() as usize, self.length)
    }

    /// Returns the address of `bytes` bytes at `offset`; `None` if these bytes exceed the mapping.
    #[inline]
    pub fn get(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: the offset is within the mapping or at its end.
        (end <= self.length).then(|| unsafe { self.start.add(offset) })
    }

    /// Returns the address of `bytes` bytes at `offset`.
    ///
    /// # Panics
    /// Panics if these bytes exceed the mapping.
    #[inline]
    pub fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let Some(address) = self.get(offset, bytes) else {
            panic!("{bytes} bytes at {offset} of a mapping of {}", self.length)
        };
        address
    }

    /// Returns the value at `offset`.
    ///
    /// # Panics
    /// Panics if the value exceeds the mapping, or if `offset` is not aligned for the type.
    #[inline]
    pub fn view<T: SharedBytes>(&self, offset: usize) -> &T {
        let address = self.at(offset, size_of::<T>()).cast::<T>();
        assert!(address.is_aligned(), "a value at {offset} of a mapping is not aligned");
        // SAFETY: the address is aligned, and is mapped as long as `self` lives. Any bytes at this address are a valid
        // value of the type, as the trait of the type requires.
        unsafe { address.as_ref() }
    }

    /// Returns for each page size in bytes the share (0 to 1) of the resident memory on pages of this size, as the
    /// kernel reports it.
    ///
    /// # Errors
    /// Fails if `/proc/self/smaps` cannot be read.
    pub fn page_size_shares(&self) -> io::Result<BTreeMap<u64, f64>> {
        let (start, length) = self.address_and_length();
        smaps::page_size_shares(start..start + length)
    }

    /// Writes changes back to the file. With `wait`, the function returns when the changes are on the device.
    ///
    /// # Errors
    /// Fails if writing back fails.
    pub fn sync(&self, wait: bool) -> Result<(), SysError> {
        let flags = if wait { libc::MS_SYNC } else { libc::MS_ASYNC };
        // SAFETY: the range is that of the mapping.
        let done = unsafe { libc::msync(self.start.as_ptr().cast(), self.length, flags) };
        check("msync", done).map(drop)
    }

    /// Returns the number of pages of the mapping that are in memory, and the total number of its pages.
    ///
    /// # Errors
    /// Fails if the kernel does not report this.
    pub fn resident_pages(&self) -> Result<(usize, usize), SysError> {
        let mut pages = vec![0u8; self.length.div_ceil(page_bytes())];
        // SAFETY: the kernel writes one byte per page of the range, which is that of the mapping.
        let done = unsafe {
            libc::mincore(self.start.as_ptr().cast(), self.length, pages.as_mut_ptr().cast())
        };
        check("mincore", done)?;
        Ok((pages.iter().filter(|page| **page & 1 == 1).count(), pages.len()))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and every user of its memory borrows from this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Returns the total number and the number of free reserved huge pages of a size; zeros if the kernel does not support
/// that size.
fn reserved_pages(page: usize) -> (u64, u64) {
    let free = huge_page_count(page, "free_hugepages");
    let reserved = huge_page_count(page, "resv_hugepages");
    (huge_page_count(page, "nr_hugepages"), free.saturating_sub(reserved))
}

/// Returns the number of huge pages of `page` bytes in a file of the kernel; zero if there is no such file.
fn huge_page_count(page: usize, file: &str) -> u64 {
    let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{file}", page >> 10);
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Page-aligned byte buffer that dereferences to a slice. It is filled with zeros and touched, and is on huge pages if
/// the kernel provides them.
#[derive(Debug)]
pub struct Buffer {
    mapping: Mapping,
    length: usize,
}

impl Buffer {
    /// Allocates a buffer of `length` bytes; at least one page is mapped.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(length: usize) -> io::Result<Self> {
        let length = length.max(1);
        let mapping = Mapping::anonymous(length, PageSize::PreferHuge)?;
        let mut buffer = Self { mapping, length };
        buffer.fill(0);
        Ok(buffer)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.mapping.at(0, self.length);
        // SAFETY: `length` bytes are mapped, which the kernel has initialised, and live as long as `self`. They are
        // accessible only as slices of this type.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.mapping.at(0, self.length);
        // SAFETY: the bytes are mapped and initialised, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.length) }
    }
}

/// Type for memory that other threads or processes also write.
///
/// # Safety
/// Any bytes must be a valid value of the type, and the value must tolerate changes while it is shared. This holds for
/// atomic integers and structures of atomic integers.
pub unsafe trait SharedBytes: Sync {}

// SAFETY: any bytes are a valid value of an atomic integer.
unsafe impl SharedBytes for AtomicU64 {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn large_mappings_are_aligned_and_page_sizes_are_read_back() {
        let length = (4 << 20) + page_bytes();
        let mapping = Mapping::anonymous(length, PageSize::Base).unwrap();
        assert_eq!(
            (mapping.address_and_length().0 % boundary(length), mapping.address_and_length().1),
            (0, length)
        );
        assert_eq!(boundary(3 << 30), huge_page_bytes());
        assert!(mapping.get(0, length).is_some() && mapping.get(1, length).is_none());
        assert!(mapping.get(usize::MAX, 2).is_none());
        // SAFETY: the range is the whole mapping, which no other code uses.
        unsafe { mapping.at(0, length).write_bytes(1, length) };
        let got = mapping.page_size_shares().unwrap();
        assert!((got[&(page_bytes() as u64)] - 1.0).abs() < 1e-9, "{got:?}");
        assert_eq!(
            mapping.resident_pages().unwrap(),
            (length / page_bytes(), length / page_bytes())
        );
    }

    #[test]
    #[should_panic(expected = "2 bytes at 4095 of a mapping of 4096")]
    fn view_beyond_end_of_mapping_panics() {
        let _ = Mapping::shared(4096).unwrap().at(4095, 2);
    }

    #[test]
    fn mapping_larger_than_address_space_fails() {
        let huge = Mapping::anonymous(usize::MAX / 2, PageSize::Base);
        assert!(matches!(huge, Err(MapError::Refused(SysError { call: "mmap", .. }))));
        // No machine has this number of reserved pages.
        let reserved = Mapping::anonymous(1 << 60, PageSize::Reserved(2 << 20));
        assert!(
            matches!(reserved, Err(MapError::NoReservedPages { needed, .. }) if needed == 1 << 39)
        );
    }

    #[test]
    fn buffer_is_filled_with_zeros() {
        let mut buffer = Buffer::new(5000).unwrap();
        assert_eq!((buffer.len(), buffer.iter().any(|byte| *byte != 0)), (5000, false));
        buffer[4999] = 7;
        assert_eq!(buffer[4999], 7);
        assert_eq!(buffer.as_ptr() as usize % page_bytes(), 0);
    }

    #[test]
    fn writes_to_a_file_mapping_reach_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mapping = Mapping::map_file(&file, 0, 4096, true).unwrap();
        // SAFETY: no other code uses the file.
        unsafe { mapping.at(10, 1).write(9) };
        mapping.sync(true).unwrap();
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 10).unwrap();
        assert_eq!(byte, [9]);
    }

    #[test]
    fn shared_values_start_at_zero() {
        let mapping = Mapping::shared(4096).unwrap();
        let value: &AtomicU64 = mapping.view(4088);
        assert_eq!(value.fetch_add(3, Ordering::Relaxed), 0);
        assert_eq!(mapping.view::<AtomicU64>(4088).load(Ordering::Relaxed), 3);
        assert!(std::panic::catch_unwind(|| mapping.view::<AtomicU64>(4089)).is_err());
        assert!(std::panic::catch_unwind(|| mapping.view::<AtomicU64>(4081)).is_err());
    }
}
