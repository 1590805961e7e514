//! Heat maps: file sizes downwards, block sizes to the right.

use super::{Row, cells, distinct, size};
use nodegauge_gauge::view::{HeatMap, HeatMaps, Section};
use nodegauge_measure::Unit;
use nodegauge_measure::quantity::significant;

/// Operations that are shown if they were measured; else the first ones.
const FIRST: [&str; 4] = ["write", "read", "random_read", "random_write"];

/// Maps of up to four operations.
pub(super) fn maps(rows: &[&Row<'_>], section: &mut Section) {
    let measured = distinct(rows.iter().map(|row| row.m.name.as_str()));
    let usual = FIRST.into_iter().filter(|name| measured.contains(name));
    let others = measured.iter().copied().filter(|name| !FIRST.contains(name));
    let chosen: Vec<&str> = usual.chain(others).take(FIRST.len()).collect();
    let cells = cells(rows);
    let files = distinct(cells.iter().map(|(file, _)| *file));
    let mut blocks = distinct(cells.iter().map(|(_, block)| *block));
    blocks.sort_unstable();
    let ([_, _, ..], [first, .., last]) = (&files[..], &blocks[..]) else { return };
    let map = |name: &str| {
        let rate = |file: u64, block: u64| {
            let here = |row: &&&Row<'_>| row.m.name == name && row.sizes() == Some((file, block));
            rows.iter().filter(here).filter_map(|row| row.m.value).rfind(|rate| *rate > 0.0)
        };
        let row = |file: &u64| blocks.iter().map(|block| rate(*file, *block)).collect();
        HeatMap { title: name.to_owned(), values: files.iter().map(row).collect() }
    };
    let maps: Vec<HeatMap> = chosen.into_iter().map(map).collect();
    let mut legend = format!(
        "files downwards, blocks from {} to {} rightwards, GB/s:",
        size(*first),
        size(*last)
    );
    for map in &maps {
        let (least, most) = map.range().unwrap_or((f64::INFINITY, 0.0));
        let gb = |rate: f64| significant(rate / 1e9);
        legend.push_str(&format!(" {} 0 = {}, 9 = {};", map.title, gb(least), gb(most)));
    }
    section.push(HeatMaps {
        axes: ["file", "block"],
        rows: files.iter().map(|file| size(*file)).collect(),
        columns: blocks.iter().map(|block| size(*block)).collect(),
        maps,
        unit: Unit::BytesPerSecond,
    });
    section.note("map", legend.trim_end_matches(';'));
}
