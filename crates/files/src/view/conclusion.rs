//! The sentence that a page of files begins with.

use super::{Row, rows};
use crate::task::CacheMode;
use nodegauge_gauge::view::sentence::{capital, joined, quoted};
use nodegauge_gauge::view::{distinct, grouped};
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Category, Record};

/// Returns the sentence with the highest rate of writing and of reading of each kind of access.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let all = rows(record);
    let mut shown: Vec<&Row<'_>> =
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
    let modes = grouped(shown, |row| row.config.cache);
    let mut parts = Vec::new();
    for (mode, group) in modes {
        let rates: Vec<String> = ["written", "read"]
            .into_iter()
            .filter_map(|done| Some(format!("{done} at up to {}", best(&group, done)?)))
            .collect();
        let other = group.iter().filter(|_| rates.is_empty());
        let other = other.max_by(|a, b| a.m.by_value(b.m));
        if let Some((row, rate)) = other.and_then(|row| Some((row, quoted(row.m)?))) {
            let name = row.m.name.replace('_', " ");
            parts.push(format!("accessed ({name}) at up to {rate}{}", through(mode)));
        }
        if !rates.is_empty() {
            parts.push(format!("{}{}", joined(&rates), through(mode)));
        }
    }
    let by = programs.first().filter(|_| is_foreign).map(|name| format!(" by {name}"));
    (!parts.is_empty())
        .then(|| capital(&format!("files are {}{}", parts.join("; "), by.unwrap_or_default())))
}

/// Returns the highest rate of writing or reading, whose maps come first on the page.
fn best(rows: &[&Row<'_>], done: &str) -> Option<String> {
    let word = if done == "read" { "read" } else { "write" };
    let usable = || rows.iter().filter(|row| quoted(row.m).is_some());
    let plain = usable().filter(|row| row.m.name == word);
    // Runs of other operations only are represented by these.
    let other = usable().filter(|row| row.m.name.ends_with(word));
    let highest = plain.max_by(|a, b| a.m.by_value(b.m));
    quoted(highest.or_else(|| other.max_by(|a, b| a.m.by_value(b.m)))?.m)
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
