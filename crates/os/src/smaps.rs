//! Page sizes of memory, as reported by `/proc/self/smaps`.

use crate::system::huge_page_bytes;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Returns for each page size in bytes the share (0 to 1) of an address range's resident memory on pages of this size.
/// The kernel reports transparent huge pages of less than the largest size as base pages.
pub(crate) fn page_size_shares(range: Range<usize>) -> io::Result<BTreeMap<u64, f64>> {
    Ok(pages_in(&std::fs::read_to_string("/proc/self/smaps")?, range, huge_page_bytes() as u64))
}

/// Sums up the page sizes of those mappings in the text of `smaps` that overlap the range. Transparent huge pages
/// have `huge` bytes.
fn pages_in(text: &str, range: Range<usize>, huge: u64) -> BTreeMap<u64, f64> {
    let mut inside = false;
    let mut kernel_page = 0u64;
    let mut by_size: BTreeMap<u64, u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((head, rest)) = line.split_once(' ') else { continue };
        if let Some((from, to)) = head.split_once('-') {
            inside = address(from) < range.end && address(to) > range.start;
            continue;
        }
        if !inside {
            continue;
        }
        let kib: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
        let mut add = |size: u64| *by_size.entry(size).or_default() += kib;
        match head {
            "KernelPageSize:" => kernel_page = kib << 10,
            // Resident memory is first counted as kernel pages; the lines below move a part of it to huge pages.
            "Rss:" => add(kernel_page),
            "Private_Hugetlb:" | "Shared_Hugetlb:" => add(kernel_page),
            "AnonHugePages:" if kib > 0 => {
                add(huge);
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

/// Parses an address in hexadecimal digits.
fn address(hex: &str) -> usize {
    usize::from_str_radix(hex, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transparent_and_reserved_pages_are_distinguished() {
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
        let transparent = pages_in(text, 0x7f00_0000_0000..0x7f00_00c0_0000, 2 << 20);
        assert_eq!(transparent, BTreeMap::from([(4096, 0.25), (2 << 20, 0.75)]));
        let reserved = pages_in(text, 0x7f00_4000_0000..0x7f00_4040_0000, 2 << 20);
        assert_eq!(reserved, BTreeMap::from([(2 << 20, 1.0)]));
        // With base pages of 64 KiB, huge pages have 512 MiB.
        let arm = text.replace(" 4 kB", " 64 kB");
        let large = pages_in(&arm, 0x7f00_0000_0000..0x7f00_00c0_0000, 512 << 20);
        assert_eq!(large, BTreeMap::from([(64 << 10, 0.25), (512 << 20, 0.75)]));
        assert_eq!(pages_in(text, 0x1000..0x2000, 2 << 20), BTreeMap::new());
    }
}
