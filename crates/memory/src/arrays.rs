//! The three arrays of STREAM in one mapping: on pages of a chosen size, laid out so that no two
//! streams meet in the same cache sets or banks, touched first by the thread that will use them.
//!
//! What pages were asked for is a wish; [`Arrays::pages_got`] reads from the kernel what became of
//! it. Nothing here is shared between threads but through [`Arrays::share`], whose shares are
//! disjoint.

use crate::kernels::{Args, Element, Prefetch};
use nodegauge_measure::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Which pages the arrays are asked to lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pages {
    /// The base page, and transparent huge pages refused.
    Base,
    /// Transparent huge pages.
    Transparent,
    /// Reserved huge pages of 2 MiB.
    Huge2M,
    /// Reserved huge pages of 1 GiB.
    Huge1G,
}

impl Pages {
    /// All of them, smallest first.
    pub const ALL: [Self; 4] = [Self::Base, Self::Transparent, Self::Huge2M, Self::Huge1G];

    /// The name in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "4k",
            Self::Transparent => "thp",
            Self::Huge2M => "2m",
            Self::Huge1G => "1g",
        }
    }

    /// Size of a reserved huge page; `None` for the kinds that need no reservation.
    pub fn reserved(self) -> Option<Bytes> {
        match self {
            Self::Base | Self::Transparent => None,
            Self::Huge2M => Some(Bytes::mib(2)),
            Self::Huge1G => Some(Bytes::gib(1)),
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pages {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|pages| pages.name() == text)
            .ok_or_else(|| format!("unknown kind of page '{text}': expected 4k, thp, 2m or 1g"))
    }
}

/// Where the arrays start relative to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Layout {
    /// Each array starts [`STAGGER`] bytes later within its page than the one before.
    Staggered,
    /// One array after another, each padded by this many elements, as stream.c declares them.
    Sequential {
        /// stream.c's OFFSET.
        offset: u64,
    },
}

/// By how much the starts of successive arrays differ modulo a huge page, bytes.
///
/// Not a multiple of 4 KiB, so that loads and stores of different streams never share their low
/// twelve address bits (4K aliasing, level-1 sets); an odd number of 256-byte blocks, so that
/// memory controllers, which interleave channels by 256 B or more, see the streams on different
/// channels.
pub const STAGGER: u64 = 64 * 1024 + 4096 / 4 + 256;

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

/// Three arrays of equal length.
#[derive(Debug)]
pub struct Arrays {
    /// Start and length of the mapping.
    mapping: (usize, usize),
    /// Address of the first element of `a`, `b`, `c`.
    starts: [usize; 3],
    /// Elements an array.
    elements: u64,
    element: Element,
    pages: Pages,
}

impl Arrays {
    /// Maps three arrays of `elements` elements. Nothing is touched: pages appear where the first
    /// thread writes them.
    ///
    /// # Errors
    /// No such huge pages reserved, or no memory.
    pub fn map(
        elements: u64,
        element: Element,
        pages: Pages,
        layout: Layout,
    ) -> Result<Self, ArrayError> {
        let bytes = elements * element.bytes();
        let granule = pages.reserved().unwrap_or(Bytes::mib(2)).0;
        let mut offsets = [0u64; 3];
        for i in 1..3 {
            offsets[i] = match layout {
                Layout::Staggered => {
                    (offsets[i - 1] + bytes).next_multiple_of(2 << 20) + i as u64 * STAGGER
                }
                Layout::Sequential { offset } => offsets[i - 1] + bytes + offset * element.bytes(),
            };
        }
        let length = (offsets[2] + bytes).next_multiple_of(granule) as usize;
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
        let arrays = Self {
            mapping: (start, length),
            starts: offsets.map(|offset| start + offset as usize),
            elements,
            element,
            pages,
        };
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
        Ok(arrays)
    }

    /// Elements an array.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The type of the elements.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Bytes of one array.
    pub fn array_bytes(&self) -> Bytes {
        Bytes(self.elements * self.element.bytes())
    }

    /// What pages were asked for.
    pub fn pages_asked(&self) -> Pages {
        self.pages
    }

    /// Start address and length of each array, for questions to the kernel.
    pub fn ranges(&self) -> [(usize, usize); 3] {
        self.starts.map(|start| (start, self.array_bytes().0 as usize))
    }

    /// Start address and length of the whole mapping.
    pub fn mapping(&self) -> (usize, usize) {
        self.mapping
    }

    /// The share of thread `index` of `count`: contiguous, whole cache lines, sizes that differ by
    /// a line at most.
    pub fn share(&self, index: usize, count: usize, scalar: f64, prefetch: Prefetch) -> Args {
        let (first, n) = share_of(self.elements, 64 / self.element.bytes(), index, count);
        let at = |array: usize| {
            (self.starts[array] + (first * self.element.bytes()) as usize) as *mut u8
        };
        let (near, far) = prefetch.bytes();
        Args { a: at(0), b: at(1), c: at(2), n: n as usize, scalar, near, far }
    }

    /// The share of the mapping that lies on pages of each size, as the kernel reports it:
    /// page size in bytes to share (0 to 1) of what is resident. Transparent huge pages below
    /// 2 MiB are not told apart from base pages by the kernel and count as such.
    ///
    /// # Errors
    /// When `/proc/self/smaps` cannot be read.
    pub fn pages_got(&self) -> io::Result<BTreeMap<u64, f64>> {
        let text = std::fs::read_to_string("/proc/self/smaps")?;
        Ok(pages_in_smaps(&text, self.mapping.0, self.mapping.0 + self.mapping.1))
    }
}

impl Drop for Arrays {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and shares borrow from threads that have finished: kernels
        // run only inside `Team::run`, which the owner of the arrays waits for.
        unsafe { libc::munmap(self.mapping.0 as *mut libc::c_void, self.mapping.1) };
    }
}

/// First element and number of elements of share `index` of `count`, in whole lines of `line`
/// elements but for the end.
fn share_of(elements: u64, line: u64, index: usize, count: usize) -> (u64, u64) {
    let lines = elements.div_ceil(line);
    let bound = |i: usize| (lines * i as u64 / count as u64 * line).min(elements);
    (bound(index), bound(index + 1) - bound(index))
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
    use proptest::prelude::*;

    #[test]
    fn shares_of_base_pages_are_read_back_as_base_pages() {
        let arrays = Arrays::map(1 << 18, Element::F64, Pages::Base, Layout::Staggered).unwrap();
        let args = arrays.share(0, 1, 3.0, Prefetch::Off);
        for array in [args.a, args.b, args.c] {
            // SAFETY: each array has 2^18 elements of 8 bytes, and nobody else uses them.
            unsafe { array.write_bytes(1, (1 << 18) * 8) };
        }
        let got = arrays.pages_got().unwrap();
        assert_eq!(got.keys().collect::<Vec<_>>(), [&4096], "{got:?}");
        assert!((got[&4096] - 1.0).abs() < 1e-9);
    }

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

    #[test]
    fn arrays_are_staggered_unless_they_follow_each_other() {
        let staggered = Arrays::map(1 << 20, Element::F64, Pages::Base, Layout::Staggered).unwrap();
        let [a, b, c] = staggered.ranges().map(|(start, _)| start % 4096);
        assert!(a != b && b != c && a != c);
        let layout = Layout::Sequential { offset: 8 };
        let sequential = Arrays::map(1 << 20, Element::F64, Pages::Base, layout).unwrap();
        let [(a, length), (b, _), (c, _)] = sequential.ranges();
        assert_eq!((b - a, c - b), (length + 64, length + 64));
    }

    proptest! {
        #[test]
        fn arrays_never_overlap(n in 1u64..400_000, offset in 0u64..100) {
            for layout in [Layout::Staggered, Layout::Sequential { offset }] {
                let arrays = Arrays::map(n, Element::F64, Pages::Base, layout).unwrap();
                let (start, length) = arrays.mapping();
                let [(a, bytes), (b, _), (c, _)] = arrays.ranges();
                prop_assert!(start <= a && a + bytes <= b && b + bytes <= c);
                prop_assert!(c + bytes <= start + length);
            }
        }

        #[test]
        fn shares_are_disjoint_whole_and_even(n in 0u64..1_000_000, count in 1usize..300) {
            let mut next = 0;
            let mut sizes = Vec::new();
            for index in 0..count {
                let (first, n) = share_of(n, 8, index, count);
                prop_assert_eq!(first, next);
                next = first + n;
                sizes.push(n);
            }
            prop_assert_eq!(next, n);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            prop_assert!(most - least <= 16, "{} to {}", least, most);
        }
    }
}
