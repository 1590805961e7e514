//! Sizes of files and blocks: IOzone's automatic grid, a parser of the sizes that a user gives, and the order in which
//! the combinations are measured.

use nodegauge_blocks::task::CellSize;
use nodegauge_measure::Bytes;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use nodegauge_measure::quantity::read_bytes;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Smallest and largest file size of the automatic mode.
pub(crate) const FILE_SIZES: RangeInclusive<Bytes> = Bytes::kib(64)..=Bytes::mib(512);
/// Smallest and largest block size of the automatic mode.
pub(crate) const BLOCK_SIZES: RangeInclusive<Bytes> = Bytes::kib(4)..=Bytes::mib(16);
/// File size above which blocks smaller than `LARGE_BLOCK` are not measured.
const CROSSOVER: Bytes = Bytes::mib(16);
const LARGE_BLOCK: Bytes = Bytes::kib(64);

/// Returns the sizes of a range; each size is twice the previous size.
pub(crate) fn doubling_sizes(range: RangeInclusive<Bytes>) -> Vec<Bytes> {
    std::iter::successors(Some(*range.start()), |size| size.0.checked_mul(2).map(Bytes))
        .take_while(|size| size <= range.end())
        .collect()
}

/// Returns all cells whose block is at most as large as the file. If `skip` is true, small blocks of large files are
/// left out, as in IOzone, because they take long and add little information.
pub(crate) fn cells(files: &[Bytes], blocks: &[Bytes], skip: bool) -> Vec<CellSize> {
    let pairs = files.iter().flat_map(|file| blocks.iter().map(|block| (*file, *block)));
    let cells: BTreeSet<CellSize> = pairs
        .filter(|(file, block)| block <= file)
        .filter(|(file, block)| !(skip && *file > CROSSOVER && *block < LARGE_BLOCK))
        .map(|(file, block)| CellSize { file, block })
        .collect();
    cells.into_iter().collect()
}

/// Sorts cells so that the first ones span the grid: first every fourth file size and block size, then every second,
/// then the others. Within each of these groups, small files come first, because they take little time.
pub(crate) fn sort_coarse_to_fine(mut cells: Vec<CellSize>) -> Vec<CellSize> {
    let files: BTreeSet<Bytes> = cells.iter().map(|cell| cell.file).collect();
    let blocks: BTreeSet<Bytes> = cells.iter().map(|cell| cell.block).collect();
    cells.sort_by_key(|cell| {
        (level(&files, cell.file).max(level(&blocks, cell.block)), cell.file, cell.block)
    });
    cells
}

/// Returns the group of a size for [`sort_coarse_to_fine`]: 0 for every fourth size, 1 for every second, 2 for the
/// others.
fn level(sizes: &BTreeSet<Bytes>, size: Bytes) -> u8 {
    match sizes.range(..size).count() {
        i if i.is_multiple_of(4) => 0,
        i if i.is_multiple_of(2) => 1,
        _ => 2,
    }
}

/// Sizes that a user gives: one size, several sizes separated by commas, or `FIRST-LAST` for doubling sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeList(pub Vec<Bytes>);

impl FromStr for SizeList {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("sizes", "64KiB-512MiB or 4KiB,1MiB", text);
        let mut sizes = BTreeSet::new();
        loop {
            let start = cursor.position();
            let first = read_bytes(&mut cursor)?;
            // `A:B` is the former syntax of a range.
            let is_range = cursor.eat('-') || cursor.eat(':');
            let last = if is_range { read_bytes(&mut cursor)? } else { first };
            if first.0 == 0 {
                return Err(cursor.error_at(start, "a size of 0 is invalid"));
            }
            if last < first {
                return Err(
                    cursor.error_at(start, "the end of the range is smaller than its start")
                );
            }
            sizes.extend(doubling_sizes(first..=last));
            if !cursor.eat(',') {
                break;
            }
        }
        cursor.finish("expected ',', '-' or the end")?;
        Ok(Self(sizes.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn automatic(skip: bool) -> Vec<CellSize> {
        cells(&doubling_sizes(FILE_SIZES), &doubling_sizes(BLOCK_SIZES), skip)
    }

    #[test]
    fn automatic_grid_has_the_cells_of_iozone() {
        assert_eq!((doubling_sizes(FILE_SIZES).len(), doubling_sizes(BLOCK_SIZES).len()), (14, 13));
        assert_eq!((automatic(true).len(), automatic(false).len()), (126, 146));
        let cell = |file, block| CellSize { file: Bytes::mib(file), block: Bytes::kib(block) };
        assert!(automatic(true).contains(&cell(16, 4)));
        assert!(
            !automatic(true).contains(&cell(32, 32)) && automatic(true).contains(&cell(32, 64))
        );
    }

    #[test]
    fn first_cells_span_the_grid() {
        let ordered = sort_coarse_to_fine(automatic(true));
        assert_eq!(ordered.len(), 126);
        let first = &ordered[..12];
        let files: Vec<u64> = first.iter().map(|cell| cell.file.0 >> 10).collect();
        assert!(files.contains(&64) && files.contains(&(256 << 10)), "{files:?}");
        assert!(first.iter().any(|cell| cell.block == Bytes::mib(16)));
    }

    #[test]
    fn sizes_are_lists_or_ranges() {
        let sizes = |text: &str| text.parse::<SizeList>().map(|sizes| sizes.0);
        assert_eq!(sizes("4KiB-16KiB"), Ok([4, 8, 16].map(Bytes::kib).to_vec()));
        assert_eq!(sizes("1MiB,4KiB,4KiB"), Ok(vec![Bytes::kib(4), Bytes::mib(1)]));
        let at = |text: &str| sizes(text).unwrap_err().at;
        assert_eq!((at("8KiB-4KiB"), at("0"), at("4KiB;"), at("")), (0, 0, 4, 0));
    }

    proptest! {
        #[test]
        fn sorting_keeps_all_cells(files in proptest::collection::vec(1u64..1000, 1..20),
                                  blocks in proptest::collection::vec(1u64..1000, 1..20)) {
            let sizes = |list: Vec<u64>| list.into_iter().map(Bytes).collect::<Vec<_>>();
            let all = cells(&sizes(files), &sizes(blocks), false);
            let mut ordered = sort_coarse_to_fine(all.clone());
            ordered.sort_unstable();
            prop_assert_eq!(ordered, all);
        }
    }
}
