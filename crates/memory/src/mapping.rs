//! Memory of our own on pages of a chosen size. What pages were asked for is a wish;
//! [`Mapping::pages_got`] reads from the kernel what became of it.

use crate::arrays::Pages;
use nodegauge_measure::Bytes;
use std::collections::BTreeMap;
use std::io;

/// Why arrays could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// Reserved huge pages are missing.
    #[error(
        "cannot put {wanted} on {pages} pages: {free} of the {total} reserved pages of {page} are free, {needed} are needed\nhint: as root, echo {needed} > /sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages; or use --pages thp",
        kib = page.0 >> 10
    )]
    NoHugePages {
        /// What was to be mapped.
        wanted: Bytes,
        /// The kind.
        pages: Pages,
        /// The size of one.
        page: Bytes,
        /// Reserved.
        total: u64,
        /// Reserved and free.
        free: u64,
        /// Needed.
        needed: u64,
    },
    /// The kernel refused.
    #[error("cannot map {wanted} of memory: {cause}\nhint: use a smaller --size")]
    Map {
        /// What was to be mapped.
        wanted: Bytes,
        /// What the system said.
        cause: io::Error,
    },
    /// A page size could not be asked for.
    #[error("the kernel does not take advice on {pages} pages: {cause}\nhint: use --pages 4k")]
    Advice {
        /// The kind.
        pages: Pages,
        /// What the system said.
        cause: io::Error,
    },
}

/// A private mapping on pages of one kind, which nothing has touched yet.
#[derive(Debug)]
pub struct Mapping {
    start: usize,
    length: usize,
    pages: Pages,
}

impl Mapping {
    /// Maps at least `wanted` bytes, whole pages, starting on a boundary of 2 MiB or of the page if
    /// that is larger. Nothing is touched: pages appear where a thread first writes them.
    ///
    /// # Errors
    /// No such huge pages reserved, or no memory.
    pub fn map(wanted: Bytes, pages: Pages) -> Result<Self, ArrayError> {
        let granule = pages.reserved().unwrap_or(Bytes::mib(2)).0;
        let length = wanted.0.next_multiple_of(granule) as usize;
        let wanted = Bytes(length as u64);
        let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // Alignment: reserve a granule more, and cut the ends off.
        let mut slack = granule as usize;
        if let Some(page) = pages.reserved() {
            let needed = length as u64 / page.0;
            let (total, free) = reserved_pages(page);
            if free < needed {
                return Err(ArrayError::NoHugePages { wanted, pages, page, total, free, needed });
            }
            // The pages are reserved now: a pool that others empty meanwhile would end the program
            // at first touch.
            flags |= libc::MAP_HUGETLB | (page.0.trailing_zeros() as i32) << libc::MAP_HUGE_SHIFT;
            slack = 0;
        } else {
            // The size was held against the memory that can be had; strict accounting of address
            // space would refuse what fits.
            flags |= libc::MAP_NORESERVE;
        }
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing else.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length + slack,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(ArrayError::Map { wanted, cause: io::Error::last_os_error() });
        }
        let base = base as usize;
        let start = if slack == 0 { base } else { base.next_multiple_of(granule as usize) };
        for (from, to) in [(base, start), (start + length, base + length + slack)] {
            if to > from {
                // SAFETY: the range is a part of the mapping made above that nobody uses.
                unsafe { libc::munmap(from as *mut libc::c_void, to - from) };
            }
        }
        let mapping = Self { start, length, pages };
        let advice = match pages {
            Pages::Base => Some(libc::MADV_NOHUGEPAGE),
            Pages::Transparent => Some(libc::MADV_HUGEPAGE),
            Pages::Huge2M | Pages::Huge1G => None,
        };
        if let Some(advice) = advice {
            // SAFETY: advice on a mapping of our own changes no data.
            let rc = unsafe { libc::madvise(start as *mut libc::c_void, length, advice) };
            // A kernel without transparent huge pages has base pages only, so refusing them
            // there is no failure.
            if rc != 0 && pages == Pages::Transparent {
                return Err(ArrayError::Advice { pages, cause: io::Error::last_os_error() });
            }
        }
        Ok(mapping)
    }

    /// Start address and length in bytes.
    pub fn range(&self) -> (usize, usize) {
        (self.start, self.length)
    }

    /// What pages were asked for.
    pub fn pages_asked(&self) -> Pages {
        self.pages
    }

    /// The share of the mapping that lies on pages of each size, as the kernel reports it:
    /// page size in bytes to share (0 to 1) of what is resident. Transparent huge pages below
    /// 2 MiB are not told apart from base pages by the kernel and count as such.
    ///
    /// # Errors
    /// When `/proc/self/smaps` cannot be read.
    pub fn pages_got(&self) -> io::Result<BTreeMap<u64, f64>> {
        let text = std::fs::read_to_string("/proc/self/smaps")?;
        Ok(pages_in_smaps(&text, self.start, self.start + self.length))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever runs on it borrows from threads that have
        // finished: loops run only inside `Team::run`, which the owner of the mapping waits for.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.length) };
    }
}

/// Reserved and free huge pages of a size; zero when the kernel has no such size.
fn reserved_pages(page: Bytes) -> (u64, u64) {
    let read = |file: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{file}", page.0 >> 10);
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    (read("nr_hugepages"), read("free_hugepages").saturating_sub(read("resv_hugepages")))
}

/// Sums up the mappings of `smaps` that lie in `start..end`.
fn pages_in_smaps(text: &str, start: usize, end: usize) -> BTreeMap<u64, f64> {
    let mut inside = false;
    let mut kernel_page = 0u64;
    let mut by_size: BTreeMap<u64, u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((head, rest)) = line.split_once(' ') else { continue };
        if let Some((from, to)) = head.split_once('-') {
            let parse = |hex: &str| usize::from_str_radix(hex, 16).unwrap_or(0);
            inside = parse(from) < end && parse(to) > start;
            continue;
        }
        if !inside {
            continue;
        }
        let kib: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
        let mut add = |size: u64, kib: u64| *by_size.entry(size).or_default() += kib;
        match head {
            "KernelPageSize:" => kernel_page = kib << 10,
            // Resident memory counts as kernel pages first, and moves to 2 MiB pages below.
            "Rss:" => add(kernel_page, kib),
            "Private_Hugetlb:" | "Shared_Hugetlb:" => add(kernel_page, kib),
            "AnonHugePages:" if kib > 0 => {
                add(2 << 20, kib);
                let base = by_size.entry(kernel_page).or_default();
                *base = base.saturating_sub(kib);
            }
            _ => {}
        }
    }
    let total: u64 = by_size.values().sum();
    by_size
        .into_iter()
        .filter(|(_, kib)| *kib > 0)
        .map(|(size, kib)| (size, kib as f64 / total as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_of_transparent_and_reserved_huge_pages_are_told_apart() {
        let text = "\
7f0000000000-7f0000c00000 rw-p 00000000 00:00 0
Size:              12288 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                8192 kB
AnonHugePages:      6144 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr mr mw me ac sd hg
7f0040000000-7f0040400000 rw-p 00000000 00:0f 1 /anon_hugepage (deleted)
KernelPageSize:     2048 kB
Rss:                   0 kB
AnonHugePages:         0 kB
Private_Hugetlb:    4096 kB
";
        let thp = pages_in_smaps(text, 0x7f00_0000_0000, 0x7f00_00c0_0000);
        assert_eq!(thp, BTreeMap::from([(4096, 0.25), (2 << 20, 0.75)]));
        let reserved = pages_in_smaps(text, 0x7f00_4000_0000, 0x7f00_4040_0000);
        assert_eq!(reserved, BTreeMap::from([(2 << 20, 1.0)]));
    }
}
