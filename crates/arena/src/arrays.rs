//! The three arrays of STREAM in one mapping: on pages of a chosen size, laid out so that no two
//! streams meet in the same cache sets or banks, touched first by the thread that will use them.
//!
//! What pages were asked for is a request; [`Arrays::pages_got`] reads from the kernel what became of
//! it. Nothing here is shared between threads but through [`Arrays::share`], whose shares are
//! disjoint.

use crate::mapping::PagedMapping;
use crate::{ArrayError, Pages};
use nodegauge_kernels::{Args, Element, SCALAR};
use nodegauge_measure::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;

/// Where the arrays start relative to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
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

/// Three arrays of equal length.
#[derive(Debug)]
pub struct Arrays {
    mapping: PagedMapping,
    /// The first element of `a`, `b`, `c`.
    starts: [NonNull<u8>; 3],
    /// Elements an array.
    elements: u64,
    element: Element,
}

// SAFETY: the addresses are of a mapping that lives as long as the arrays; whoever reads or writes
// there says why it may.
unsafe impl Send for Arrays {}
// SAFETY: as above.
unsafe impl Sync for Arrays {}

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
        let (bytes, offsets) = (elements * element.bytes(), offsets(elements, element, layout));
        let mapping = PagedMapping::map(Bytes(offsets[2] + bytes), pages)?;
        let starts = offsets.map(|offset| mapping.at(offset as usize, bytes as usize));
        Ok(Self { starts, mapping, elements, element })
    }

    /// Whether there are enough reserved huge pages for such arrays of each of `processes`.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn check(
        elements: u64,
        element: Element,
        (pages, layout): (Pages, Layout),
        processes: u64,
    ) -> Result<(), ArrayError> {
        let end = offsets(elements, element, layout)[2] + elements * element.bytes();
        PagedMapping::check(Bytes(end), pages, processes)
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
        self.mapping.pages_asked()
    }

    /// Start address and length of each array, for questions to the kernel.
    pub fn ranges(&self) -> [(usize, usize); 3] {
        self.starts.map(|start| (start.addr().get(), self.array_bytes().0 as usize))
    }

    /// Start address and length of the whole mapping.
    pub fn mapping(&self) -> (usize, usize) {
        self.mapping.range()
    }

    /// The share of thread `index` of `count`: contiguous, whole cache lines, sizes that differ by
    /// a line at most. There is no fourth array.
    ///
    /// # Panics
    /// When `index` is not below `count`.
    pub fn share(&self, index: usize, count: usize) -> Args {
        assert!(index < count, "share {index} of {count}");
        let (first, n) = share_of(self.elements, 64 / self.element.bytes(), index, count);
        // SAFETY: `first` is at most the number of elements, and each array has as many.
        let [a, b, c] =
            self.starts.map(|start| unsafe { start.add((first * self.element.bytes()) as usize) });
        Args { at: [a, b, c, NonNull::dangling()], n: n as usize, scalar: SCALAR, repeats: 1 }
    }

    /// Part `part` of `parts` of the share of thread `index` of `count`, in whole lines but for the end.
    ///
    /// # Panics
    /// When `index` is not below `count`, or `part` not below `parts`.
    pub fn part(&self, (index, count): (usize, usize), (part, parts): (usize, usize)) -> Args {
        let share = self.share(index, count);
        assert!(part < parts, "part {part} of {parts}");
        let (first, n) = share_of(share.n as u64, 64 / self.element.bytes(), part, parts);
        // SAFETY: `first` is at most the number of elements of the share in each of the three arrays;
        // the fourth is not there, and its address is not used.
        let [a, b, c] = [0, 1, 2]
            .map(|array| unsafe { share.at[array].add((first * self.element.bytes()) as usize) });
        Args { at: [a, b, c, share.at[3]], n: n as usize, ..share }
    }

    /// The share of the mapping that lies on pages of each size; see [`nodegauge_os::Mapping::pages_got`].
    ///
    /// # Errors
    /// When `/proc/self/smaps` cannot be read.
    pub fn pages_got(&self) -> io::Result<BTreeMap<u64, f64>> {
        self.mapping.pages_got()
    }
}

/// Where each array starts, bytes.
fn offsets(elements: u64, element: Element, layout: Layout) -> [u64; 3] {
    let bytes = elements * element.bytes();
    let mut offsets = [0u64; 3];
    for i in 1..3 {
        offsets[i] = match layout {
            Layout::Staggered => {
                (offsets[i - 1] + bytes).next_multiple_of(2 << 20) + i as u64 * STAGGER
            }
            Layout::Sequential { offset } => offsets[i - 1] + bytes + offset * element.bytes(),
        };
    }
    offsets
}

/// First element and number of elements of share `index` of `count`, in whole lines of `line`
/// elements but for the end.
fn share_of(elements: u64, line: u64, index: usize, count: usize) -> (u64, u64) {
    let lines = elements.div_ceil(line);
    let bound = |i: usize| (lines * i as u64 / count as u64 * line).min(elements);
    (bound(index), bound(index + 1) - bound(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_of_base_pages_are_read_back_as_base_pages() {
        let arrays = Arrays::map(1 << 18, Element::F64, Pages::Base, Layout::Staggered).unwrap();
        let args = arrays.share(0, 1);
        for array in &args.at[..3] {
            // SAFETY: each array has 2^18 elements of 8 bytes, and nobody else uses them.
            unsafe { array.write_bytes(1, (1 << 18) * 8) };
        }
        let got = arrays.pages_got().unwrap();
        assert_eq!(got.keys().collect::<Vec<_>>(), [&4096], "{got:?}");
        assert!((got[&4096] - 1.0).abs() < 1e-9);
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

    #[test]
    fn parts_of_shares_follow_each_other() {
        let n = 12_345_u64;
        let arrays = Arrays::map(n, Element::F64, Pages::Base, Layout::Staggered).unwrap();
        let (mut next, mut all) = (arrays.share(0, 3).at, 0);
        for index in 0..3 {
            for part in 0..4 {
                let args = arrays.part((index, 3), (part, 4));
                assert_eq!(args.at[..3], next[..3]);
                for (next, at) in next.iter_mut().zip(&args.at[..3]) {
                    // SAFETY: the part ends within its array or at its end.
                    *next = unsafe { at.add(8 * args.n) };
                }
                all += args.n as u64;
            }
        }
        assert_eq!(all, n);
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
