//! First sentence of the page for files.

use super::{FilesRow, rows, size};
use nodegauge_blocks::task::CacheMode;
use nodegauge_gauge::view::sentence::{self, capitalise, enumeration, quotable_figures};
use nodegauge_gauge::view::{distinct, group_by_key};
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Category, Record};

/// Returns the conclusion: the highest write and read rates for each kind of access, with the cell in which each was
/// measured. Valid figures take precedence over suspect figures.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let all = rows(record);
    let mut shown: Vec<&FilesRow<'_>> =
        all.iter().filter(|row| row.m.unit == Unit::BytesPerSecond).collect();
    // Figures of other programs are named only in their own records.
    if shown.iter().any(|row| row.m.category == Category::Variant) {
        shown.retain(|row| row.m.category == Category::Variant);
    }
    let programs = distinct(
        all.iter()
            .filter(|row| row.m.category != Category::Variant)
            .map(|row| row.config.engine.clone().unwrap_or_default()),
    );
    let is_foreign = shown.iter().all(|row| row.m.category != Category::Variant);
    let modes = group_by_key(shown, |row| row.config.cache);
    let mut parts = Vec::new();
    for (mode, group) in modes {
        let rates = rates(&group);
        let other = highest(group.iter().copied().filter(|_| rates.is_empty()));
        if let Some((row, rate)) = other.and_then(|row| Some((row, rate_in_words(row)?))) {
            let name = row.m.name.replace('_', " ");
            parts.push(format!("accessed ({name}) at {rate}{}", through(mode)));
        }
        if !rates.is_empty() {
            parts.push(format!("{}{}", enumeration(&rates), through(mode)));
        }
    }
    let by = programs.first().filter(|_| is_foreign).map(|name| format!(" by {name}"));
    (!parts.is_empty())
        .then(|| capitalise(&format!("files are {}{}", parts.join("; "), by.unwrap_or_default())))
}

/// Returns texts with the highest write and the highest read rate, each with its cell. If both are from the same cell,
/// the cell is named only once.
fn rates(rows: &[&FilesRow<'_>]) -> Vec<String> {
    let [written, read] = ["written", "read"].map(|done| best(rows, done));
    let [cell_of_written, cell_of_read] = [written, read].map(|row| row.and_then(FilesRow::sizes));
    let is_same = cell_of_written.is_some() && cell_of_written == cell_of_read;
    let written = written.and_then(|row| {
        if is_same { sentence::highest_in_words(row.m) } else { rate_in_words(row) }
    });
    let read = read.and_then(rate_in_words);
    let both = [(written, "written"), (read, "read")].into_iter();
    both.filter_map(|(rate, done)| Some(format!("{done} at {}", rate?))).collect()
}

/// Returns the row with the highest rate of plain writes or reads, as `done` selects; if none was measured, of the
/// other operations that write or read.
fn best<'r, 'a>(rows: &[&'r FilesRow<'a>], done: &str) -> Option<&'r FilesRow<'a>> {
    let word = if done == "read" { "read" } else { "write" };
    let plain = highest(rows.iter().copied().filter(|row| row.m.name == word));
    // If neither was measured, the other operations that read or write are used.
    plain.or_else(|| highest(rows.iter().copied().filter(|row| row.m.name.ends_with(word))))
}

/// Returns the row with the highest rate that may be quoted.
fn highest<'r, 'a>(rows: impl Iterator<Item = &'r FilesRow<'a>>) -> Option<&'r FilesRow<'a>> {
    quotable_figures(rows, |row| row.m).into_iter().max_by(|a, b| a.m.cmp_value(b.m))
}

/// Formats the rate of a row with the sizes of its cell: `6.231 GB/s (file of 1 MiB, blocks of 64 KiB)`.
fn rate_in_words(row: &FilesRow<'_>) -> Option<String> {
    let rate = sentence::highest_in_words(row.m)?;
    Some(match row.sizes() {
        Some((file, block)) => {
            format!("{rate} (file of {}, blocks of {})", size(file), size(block))
        }
        None => rate,
    })
}

fn through(mode: Option<CacheMode>) -> &'static str {
    match mode {
        Some(CacheMode::Cached) => " through the page cache",
        Some(CacheMode::Direct) => " with direct I/O",
        Some(CacheMode::Fsync) => " with the time of the write-out",
        Some(CacheMode::Beyond) => " in a file larger than memory",
        None => "",
    }
}
