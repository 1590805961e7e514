//! Sizes of files and blocks: IOzone's automatic grid, sizes as a user gives them, and the order in
//! which cells are measured.

use nodegauge_measure::Bytes;
use nodegauge_measure::grammar::{Cursor, SyntaxError};
use nodegauge_measure::quantity::read_bytes;
use std::str::FromStr;

/// A size of files and a size of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellSize {
    /// Of the file.
    pub file: Bytes,
    /// Of each operation's block.
    pub block: Bytes,
}

impl CellSize {
    /// Whole blocks in the file.
    pub fn blocks(self) -> u64 {
        self.file.0 / self.block.0.max(1)
    }
}

/// Smallest and largest file of the automatic mode.
const FILES: (Bytes, Bytes) = (Bytes::kib(64), Bytes::mib(512));
/// Smallest and largest block of the automatic mode.
const BLOCKS: (Bytes, Bytes) = (Bytes::kib(4), Bytes::mib(16));
/// Files beyond this are not measured with blocks below the next.
const CROSSOVER: Bytes = Bytes::mib(16);
const LARGE_BLOCK: Bytes = Bytes::kib(64);

/// File sizes of the automatic mode, ascending.
pub fn automatic_files() -> Vec<Bytes> {
    doubling(FILES.0, FILES.1)
}

/// Block sizes of the automatic mode, ascending.
pub fn automatic_blocks() -> Vec<Bytes> {
    doubling(BLOCKS.0, BLOCKS.1)
}

fn doubling(first: Bytes, last: Bytes) -> Vec<Bytes> {
    std::iter::successors(Some(first), |size| size.0.checked_mul(2).map(Bytes))
        .take_while(|size| *size <= last)
        .collect()
}

/// All cells whose block is no longer than the file. With `skip`, small blocks of large files are
/// left out, as IOzone does because they take long and say little.
pub fn cells(files: &[Bytes], blocks: &[Bytes], skip: bool) -> Vec<CellSize> {
    let mut cells: Vec<CellSize> = files
        .iter()
        .flat_map(|file| blocks.iter().map(|block| CellSize { file: *file, block: *block }))
        .filter(|cell| cell.block <= cell.file)
        .filter(|cell| !(skip && cell.file > CROSSOVER && cell.block < LARGE_BLOCK))
        .collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// Orders cells so that a part of them shows the whole: first every fourth size of files and blocks,
/// then every second, then the others; in each of these small files, which take no time, first.
pub fn coarse_to_fine(mut cells: Vec<CellSize>) -> Vec<CellSize> {
    let unique = |of: fn(&CellSize) -> Bytes| {
        let mut sizes: Vec<Bytes> = cells.iter().map(of).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    let (files, blocks) = (unique(|cell| cell.file), unique(|cell| cell.block));
    let level = |sizes: &[Bytes], size: Bytes| match sizes.binary_search(&size).unwrap_or(0) {
        i if i.is_multiple_of(4) => 0,
        i if i.is_multiple_of(2) => 1,
        _ => 2,
    };
    cells.sort_by_key(|cell| {
        (level(&files, cell.file).max(level(&blocks, cell.block)), cell.file, cell.block)
    });
    cells
}

/// Sizes as a user gives them: one, several with commas, or `FIRST-LAST` in steps of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeList(pub Vec<Bytes>);

impl FromStr for SizeList {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("sizes", "64KiB-512MiB or 4KiB,64KiB,1MiB", text);
        let mut sizes = Vec::new();
        loop {
            let start = cursor.position();
            let first = read_bytes(&mut cursor)?;
            let last = if cursor.eat('-') { read_bytes(&mut cursor)? } else { first };
            if first.0 == 0 {
                return Err(cursor.error_at(start, "a size of 0 measures nothing"));
            }
            if last < first {
                return Err(cursor.error_at(start, "the range ends before it begins"));
            }
            sizes.extend(doubling(first, last));
            if !cursor.eat(',') {
                break;
            }
        }
        cursor.finish("expected ',' or '-' or the end")?;
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self(sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn automatic(skip: bool) -> Vec<CellSize> {
        cells(&automatic_files(), &automatic_blocks(), skip)
    }

    #[test]
    fn the_automatic_grid_has_the_cells_of_iozone() {
        assert_eq!((automatic_files().len(), automatic_blocks().len()), (14, 13));
        assert_eq!((automatic(true).len(), automatic(false).len()), (126, 146));
        let cell = |file, block| CellSize { file: Bytes::mib(file), block: Bytes::kib(block) };
        assert!(automatic(true).contains(&cell(16, 4)));
        assert!(
            !automatic(true).contains(&cell(32, 32)) && automatic(true).contains(&cell(32, 64))
        );
    }

    #[test]
    fn a_part_of_the_grid_spans_the_whole() {
        let ordered = coarse_to_fine(automatic(true));
        assert_eq!(ordered.len(), 126);
        let first = &ordered[..12];
        let files: Vec<u64> = first.iter().map(|cell| cell.file.0 >> 10).collect();
        assert!(files.contains(&64) && files.contains(&(256 << 10)), "{files:?}");
        assert!(first.iter().any(|cell| cell.block == Bytes::mib(16)));
    }

    #[test]
    fn sizes_are_lists_and_ranges() {
        let sizes = |text: &str| text.parse::<SizeList>().map(|sizes| sizes.0);
        assert_eq!(sizes("4KiB-16KiB"), Ok([4, 8, 16].map(Bytes::kib).to_vec()));
        assert_eq!(sizes("1MiB,4KiB,4KiB"), Ok(vec![Bytes::kib(4), Bytes::mib(1)]));
        let at = |text: &str| sizes(text).unwrap_err().at;
        assert_eq!((at("8KiB-4KiB"), at("0"), at("4KiB;"), at("")), (0, 0, 4, 0));
    }

    proptest! {
        #[test]
        fn ordering_loses_no_cell(files in proptest::collection::vec(1u64..1000, 1..20),
                                  blocks in proptest::collection::vec(1u64..1000, 1..20)) {
            let sizes = |list: Vec<u64>| list.into_iter().map(Bytes).collect::<Vec<_>>();
            let all = cells(&sizes(files), &sizes(blocks), false);
            let mut ordered = coarse_to_fine(all.clone());
            ordered.sort_unstable();
            prop_assert_eq!(ordered, all);
        }
    }
}
