//! Heat maps of rates: rows are file sizes, columns are block sizes.

use super::{FilesRow, cells, size};
use nodegauge_gauge::view::{HeatMap, HeatMaps, Section, distinct};
use nodegauge_measure::Unit;

/// Operations whose heat maps come first, if they were measured.
const FIRST: [&str; 4] = ["write", "read", "random_read", "random_write"];

/// Adds heat maps of at most four operations to a section.
pub(super) fn add_maps(rows: &[&FilesRow<'_>], setup: String, section: &mut Section) {
    let measured = distinct(rows.iter().map(|row| row.m.name.as_str()));
    let usual = FIRST.into_iter().filter(|name| measured.contains(name));
    let others = measured.iter().copied().filter(|name| !FIRST.contains(name));
    let chosen: Vec<&str> = usual.chain(others).take(FIRST.len()).collect();
    let cells = cells(rows);
    let files = distinct(cells.iter().map(|(file, _)| *file));
    let mut blocks = distinct(cells.iter().map(|(_, block)| *block));
    blocks.sort_unstable();
    if files.len() < 2 || blocks.len() < 2 {
        return;
    }
    let maps = chosen.into_iter().map(|name| HeatMap {
        title: name.to_owned(),
        values: files
            .iter()
            .map(|file| blocks.iter().map(|block| rate(rows, name, (*file, *block))).collect())
            .collect(),
    });
    section.push(HeatMaps {
        setup,
        axes: ["file", "block"],
        rows: files.iter().map(|file| size(*file)).collect(),
        columns: blocks.iter().map(|block| size(*block)).collect(),
        maps: maps.collect(),
        unit: Unit::BytesPerSecond,
    });
    section.note("map", "rows: file sizes; columns: block sizes; digits: logarithmic scale");
}

/// Returns the last positive rate of an operation in a cell, B/s.
fn rate(rows: &[&FilesRow<'_>], name: &str, cell: (u64, u64)) -> Option<f64> {
    let here = rows.iter().filter(|row| row.m.name == name && row.sizes() == Some(cell));
    here.filter_map(|row| row.m.value).rfind(|rate| *rate > 0.0)
}
