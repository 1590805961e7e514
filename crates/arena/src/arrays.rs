//! Several arrays in one memory mapping, on pages of a chosen size. Their layout prevents two arrays from mapping to
//! the same cache sets or memory banks. Each thread is the first to touch the elements that it uses (first touch), so
//! that they are on its NUMA node.
//!
//! The requested page size is not guaranteed; [`Arrays::page_size_shares`] reads the actual sizes from the kernel.
//! Threads access the arrays only through [`Arrays::share`]; the shares of different threads are disjoint.

use crate::mapping::PagedMapping;
use crate::{ArenaError, ArrayError, RequestedPages, supply};
use nodegauge_kernels::{CACHE_LINE_BYTES, Element, LoopArgs, MAX_ARRAYS, SCALAR};
use nodegauge_measure::{Bytes, Fraction};
use nodegauge_placement::MemoryPolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// Position of the arrays relative to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrayLayout {
    /// Each array starts [`STAGGER`] bytes later within its page than the previous array.
    Staggered,
    /// The arrays are contiguous as in stream.c, with padding after each array.
    Sequential {
        /// Padding in elements, as OFFSET in stream.c.
        offset: u64,
    },
}

/// Distance between the starts of successive arrays modulo a huge page, bytes.
///
/// It is not a multiple of 4 KiB, so that simultaneous loads and stores of different arrays never have the same low
/// twelve address bits (4K aliasing, level-1 sets). It is an odd number of 256-byte blocks, so that memory controllers,
/// which interleave channels by 256 B or more, access the arrays through different channels.
pub const STAGGER: u64 = 64 * 1024 + 4096 / 4 + 256;

/// Number, length, type, pages and layout of the arrays of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArraysConfig {
    /// Number of arrays, from 1 to [`MAX_ARRAYS`].
    pub count: usize,
    /// Number of elements per array.
    pub elements: u64,
    /// Type of the array elements.
    pub element: Element,
    /// Requested kind of pages.
    pub pages: RequestedPages,
    /// Layout of the arrays.
    pub layout: ArrayLayout,
}

/// Position of one share among several equal shares of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayShare {
    /// Index of the share, below `count`.
    pub index: usize,
    /// Number of shares.
    pub count: usize,
}

/// Several arrays of equal length in one mapping.
#[derive(Debug)]
pub struct Arrays {
    mapping: PagedMapping,
    /// Address of the first element of each array.
    starts: Vec<NonNull<u8>>,
    /// Number of elements per array.
    elements: u64,
    element: Element,
}

// SAFETY: the addresses belong to a mapping that exists as long as the arrays. Every access to the mapping has its own
// safety comment.
unsafe impl Send for Arrays {}
// SAFETY: as for `Send`.
unsafe impl Sync for Arrays {}

impl Arrays {
    /// Maps the arrays without touching them. Each page is allocated when a thread first writes to the page.
    ///
    /// # Errors
    /// Fails if there are too few reserved huge pages, or not enough memory.
    ///
    /// # Panics
    /// Panics if the number of arrays is not from 1 to [`MAX_ARRAYS`].
    pub fn allocate(config: ArraysConfig) -> Result<Self, ArrayError> {
        assert!(
            (1..=MAX_ARRAYS).contains(&config.count),
            "the number of arrays must be 1 to {MAX_ARRAYS}, but is {}",
            config.count
        );
        let mapping = PagedMapping::map(config.mapped(), config.pages)?;
        let bytes = config.array_bytes() as usize;
        let starts = config.offsets().map(|offset| mapping.at(offset as usize, bytes)).collect();
        Ok(Self { mapping, starts, elements: config.elements, element: config.element })
    }

    /// Returns the number of arrays.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the number of elements per array.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Returns the type of the elements.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Returns the size of one array in bytes.
    pub fn array_bytes(&self) -> Bytes {
        Bytes(self.elements * self.element.bytes())
    }

    /// Returns the requested kind of pages.
    pub fn requested_pages(&self) -> RequestedPages {
        self.mapping.requested_pages()
    }

    /// Returns the start address and the length of each array, bytes.
    pub fn ranges(&self) -> Vec<(usize, usize)> {
        let bytes = self.array_bytes().0 as usize;
        self.starts.iter().map(|start| (start.addr().get(), bytes)).collect()
    }

    /// Sets the memory policy of the arrays. It must be set before the arrays are touched.
    ///
    /// # Errors
    /// Fails if the kernel refuses the policy, or if the nodes of the policy have too few reserved pages.
    pub fn apply_policy(&self, policy: &MemoryPolicy) -> Result<(), ArenaError> {
        supply::apply_policy(&self.mapping, policy)
    }

    /// Returns the start address and the length of the whole mapping, bytes.
    pub fn address_range(&self) -> (usize, usize) {
        self.mapping.address_and_length()
    }

    /// Returns pointers to the share of one thread, and its length. Shares are contiguous, consist of whole cache
    /// lines, and differ in size by at most one line. Pointers to arrays beyond [`ArraysConfig::count`] are dangling.
    ///
    /// # Panics
    /// Panics if the index is not below the count.
    pub fn share(&self, thread: ArrayShare) -> LoopArgs {
        let elements = self.part_elements(self.elements, thread);
        let mut at = [NonNull::dangling(); MAX_ARRAYS];
        for (address, start) in at.iter_mut().zip(&self.starts) {
            // SAFETY: the share begins within the elements of each array, or at their end.
            *address = unsafe { start.add(self.mapped_bytes(elements.start)) };
        }
        let n = (elements.end - elements.start) as usize;
        LoopArgs { at, n, scalar: SCALAR, repeats: 1 }
    }

    /// Returns pointers to one part of the share of one thread, and its length. Parts consist of whole cache lines,
    /// except the last part.
    ///
    /// # Panics
    /// Panics if an index is not below its count.
    pub fn part(&self, thread: ArrayShare, part: ArrayShare) -> LoopArgs {
        let share = self.share(thread);
        let elements = self.part_elements(share.n as u64, part);
        let mut at = share.at;
        for address in &mut at[..self.count()] {
            // SAFETY: the part begins within the elements of the share in each array, or at their end.
            *address = unsafe { address.add(self.mapped_bytes(elements.start)) };
        }
        LoopArgs { at, n: (elements.end - elements.start) as usize, ..share }
    }

    /// Divides `elements` elements into equal parts of whole cache lines, and returns the range of one part.
    fn part_elements(&self, elements: u64, part: ArrayShare) -> Range<u64> {
        let ArrayShare { index, count } = part;
        assert!(index < count, "the index {index} must be below the count {count}");
        part_range(elements, CACHE_LINE_BYTES as u64 / self.element.bytes(), part)
    }

    fn mapped_bytes(&self, elements: u64) -> usize {
        (elements * self.element.bytes()) as usize
    }

    /// Returns the share of the mapping on pages of each size; see [`nodegauge_os::Mapping::page_size_shares`].
    ///
    /// # Errors
    /// Fails if `/proc/self/smaps` cannot be read.
    pub fn page_size_shares(&self) -> io::Result<BTreeMap<u64, Fraction>> {
        self.mapping.page_size_shares()
    }
}

impl ArraysConfig {
    /// Checks that enough huge pages are reserved for these arrays in each of `processes` processes.
    ///
    /// # Errors
    /// Fails if fewer huge pages are reserved.
    pub fn check(self, processes: u64) -> Result<(), ArrayError> {
        PagedMapping::check(self.mapped(), self.pages, processes)
    }

    /// Checks that the NUMA nodes to which `policy` binds memory have enough reserved pages for the arrays of
    /// `processes` processes.
    ///
    /// # Errors
    /// Fails if fewer huge pages are free on these NUMA nodes.
    pub fn check_bound(self, policy: &MemoryPolicy, processes: u64) -> Result<(), ArrayError> {
        PagedMapping::check_bound(self.mapped(), self.pages, policy, processes)
    }

    /// Returns the size of one array in bytes.
    fn array_bytes(self) -> u64 {
        self.elements * self.element.bytes()
    }

    /// Returns the number of bytes from the start of the first array to the end of the last one.
    fn mapped(self) -> Bytes {
        Bytes(self.offsets().last().unwrap_or(0) + self.array_bytes())
    }

    /// Returns the offset of each array from the first array, bytes.
    fn offsets(self) -> impl Iterator<Item = u64> {
        let bytes = self.array_bytes();
        let mut next = 0;
        (1..=self.count as u64).map(move |following| {
            let start = next;
            let end = start + bytes;
            next = match self.layout {
                ArrayLayout::Staggered => end.next_multiple_of(2 << 20) + following * STAGGER,
                ArrayLayout::Sequential { offset } => end + offset * self.element.bytes(),
            };
            start
        })
    }
}

/// Returns the range of elements that belong to one part. Parts consist of whole cache lines of `line` elements, except
/// the last part.
fn part_range(elements: u64, line: u64, part: ArrayShare) -> Range<u64> {
    let lines = elements.div_ceil(line);
    let [start, end] = [part.index, part.index + 1]
        .map(|i| (lines * i as u64 / part.count as u64 * line).min(elements));
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn three(elements: u64, layout: ArrayLayout) -> ArraysConfig {
        ArraysConfig {
            count: 3,
            elements,
            element: Element::F64,
            pages: RequestedPages::Base,
            layout,
        }
    }

    fn of(index: usize, count: usize) -> ArrayShare {
        ArrayShare { index, count }
    }

    #[test]
    fn array_pages_are_read_from_the_kernel() {
        let arrays = Arrays::allocate(three(1 << 18, ArrayLayout::Staggered)).unwrap();
        let args = arrays.share(of(0, 1));
        for array in &args.at[..3] {
            // SAFETY: each array has 2^18 elements of 8 bytes, and no other thread uses them.
            unsafe { array.write_bytes(1, (1 << 18) * 8) };
        }
        let got = arrays.page_size_shares().unwrap();
        assert_eq!(got.keys().collect::<Vec<_>>(), [&4096], "{got:?}");
        assert!((got[&4096] - Fraction(1.0)).0.abs() < 1e-9);
    }

    #[test]
    fn staggered_arrays_have_distinct_page_offsets() {
        for elements in [1, 1000, 1 << 18, (1 << 20) - 8, 1 << 20, (1 << 20) + 512, 10_000_000] {
            let staggered = three(elements, ArrayLayout::Staggered);
            let mut starts: Vec<u64> = ArraysConfig { count: 4, ..staggered }
                .offsets()
                .map(|start| start % 4096)
                .collect();
            starts.sort_unstable();
            starts.dedup();
            assert_eq!(starts.len(), 4, "{elements} elements");
        }
        let sequential =
            Arrays::allocate(three(1 << 20, ArrayLayout::Sequential { offset: 8 })).unwrap();
        let ranges = sequential.ranges();
        let length = ranges[0].1;
        let distance = |i: usize| ranges[i + 1].0 - ranges[i].0;
        assert_eq!((distance(0), distance(1)), (length + 64, length + 64));
    }

    #[test]
    fn fourth_array_does_not_change_the_layout_of_the_other_arrays() {
        for layout in [ArrayLayout::Staggered, ArrayLayout::Sequential { offset: 3 }] {
            let config = three(12_345, layout);
            let offsets: Vec<u64> = config.offsets().collect();
            let four: Vec<u64> = ArraysConfig { count: 4, ..config }.offsets().collect();
            assert_eq!((offsets.len(), four.len()), (3, 4));
            assert_eq!(offsets, four[..3]);
        }
        // The layout of STREAM's three arrays must not change, because it affects figures.
        let offsets: Vec<u64> = three(1 << 18, ArrayLayout::Staggered).offsets().collect();
        assert_eq!(offsets, [0, (2 << 20) + STAGGER, (6 << 20) + 2 * STAGGER]);
    }

    #[test]
    fn missing_fourth_array_has_no_share() {
        let three = three(1000, ArrayLayout::Staggered);
        let share = Arrays::allocate(three).unwrap().share(of(1, 2));
        assert_eq!(share.at[3], NonNull::dangling());
        let arrays = Arrays::allocate(ArraysConfig { count: 4, ..three }).unwrap();
        let one_of_two = arrays.share(of(1, 2));
        for (at, (start, bytes)) in one_of_two.at.into_iter().zip(arrays.ranges()) {
            assert!((start..start + bytes).contains(&at.addr().get()));
        }
    }

    #[test]
    fn parts_of_shares_are_consecutive() {
        let n = 12_345_u64;
        for count in [3, 4] {
            let config = ArraysConfig { count, ..three(n, ArrayLayout::Staggered) };
            let arrays = Arrays::allocate(config).unwrap();
            let mut next = arrays.share(of(0, 3)).at;
            let mut all = 0;
            for index in 0..3 {
                for part in 0..4 {
                    let args = arrays.part(of(index, 3), of(part, 4));
                    assert_eq!(args.at[..count], next[..count]);
                    for (next_address, at) in next.iter_mut().zip(&args.at[..count]) {
                        // SAFETY: the part ends within its array or at its end.
                        *next_address = unsafe { at.add(8 * args.n) };
                    }
                    all += args.n as u64;
                }
            }
            assert_eq!(all, n);
        }
    }

    proptest! {
        #[test]
        fn arrays_never_overlap(n in 1u64..400_000, offset in 0u64..100, count in 1usize..=4) {
            for layout in [ArrayLayout::Staggered, ArrayLayout::Sequential { offset }] {
                let arrays = Arrays::allocate(ArraysConfig { count, ..three(n, layout) }).unwrap();
                let (start, length) = arrays.address_range();
                let mut free = start;
                for (array, bytes) in arrays.ranges() {
                    prop_assert!(free <= array);
                    free = array + bytes;
                }
                prop_assert!(free <= start + length);
            }
        }

        #[test]
        fn shares_are_disjoint_complete_and_even(n in 0u64..1_000_000, count in 1usize..300) {
            let mut next = 0;
            let mut sizes = Vec::new();
            for index in 0..count {
                let share = part_range(n, 8, of(index, count));
                prop_assert_eq!(share.start, next);
                next = share.end;
                sizes.push(share.end - share.start);
            }
            prop_assert_eq!(next, n);
            let (min, max) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            prop_assert!(max - min <= 16, "{} to {}", min, max);
        }
    }
}
