//! Rate to which an operation settles as files grow: the plateau beyond the caches.

use super::{FilesRow, cells, select_rows, size};
use nodegauge_gauge::view::{Section, distinct};
use nodegauge_measure::legible::join_lines;
use nodegauge_measure::{BytesPerSec, stats};

/// Maximum relative difference between the rates of a plateau and their median.
const MAX_DEVIATION: f64 = 0.1;
/// Maximum ratio of a plateau's rate to the rate of the fastest smaller file. With a larger ratio, the operation does
/// not slow down.
const MAX_PLATEAU_RATIO: f64 = 0.7;
/// Minimum number of file sizes in a plateau, and minimum number of smaller file sizes.
const SIZES: usize = 2;

/// Rate that no longer depends on the file size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plateau {
    /// Smallest file of the plateau, bytes.
    from: u64,
    /// Median rate of the plateau, B/s.
    rate: f64,
    /// Rate of the fastest smaller file, B/s.
    before: f64,
}

/// Returns the plateau of rates, which are sorted by file size. Returns `None` if the rates of the largest files
/// differ, or if they are not lower than the rates of smaller files.
fn plateau(rates: &[(u64, f64)]) -> Option<Plateau> {
    let last = rates.len().checked_sub(SIZES)?;
    (SIZES..=last).find_map(|start| {
        let tail: Vec<f64> = rates[start..].iter().map(|point| point.1).collect();
        let rate = stats::median(&tail);
        let before = rates[..start].iter().map(|point| point.1).fold(0.0, f64::max);
        let is_even = tail.iter().all(|one| (one / rate - 1.0).abs() <= MAX_DEVIATION);
        let is_lower = rate <= before * MAX_PLATEAU_RATIO;
        (is_even && is_lower).then(|| Plateau { from: rates[start].0, rate, before })
    })
}

/// Returns the median rate over all block sizes for each file size.
fn by_file_size(rows: &[&FilesRow<'_>]) -> Vec<(u64, f64)> {
    let mut files: Vec<u64> = cells(rows).into_iter().map(|(file, _)| file).collect();
    files.dedup();
    let rates = files.into_iter().filter_map(|file| {
        let of_file = rows.iter().filter(|row| row.config.file_bytes == Some(file));
        let values: Vec<f64> = of_file.filter_map(|row| row.m.value).collect();
        (!values.is_empty()).then(|| (file, stats::median(&values)))
    });
    rates.collect()
}

/// Adds a note for each operation of one setup whose rate settles at a lower value for large files. `memory` is the
/// memory of the node in bytes.
pub(super) fn add_notes(rows: &[&FilesRow<'_>], memory: Option<u64>, section: &mut Section) {
    let mut settled = Vec::new();
    for name in distinct(rows.iter().map(|row| row.m.name.as_str())) {
        let rates = by_file_size(&select_rows(rows, |row| row.m.name == name));
        let Some(Plateau { from, rate, before }) = plateau(&rates) else { continue };
        let beyond = memory.filter(|memory| from >= *memory).map_or("", |_| ", beyond memory");
        settled.push(format!(
            "{name} at {} from files of {}{beyond} (smaller files: up to {})",
            BytesPerSec(rate),
            size(from),
            BytesPerSec(before)
        ));
    }
    if !settled.is_empty() {
        section.push_lines("settles", join_lines(settled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn plateau_begins_where_rates_stop_falling() {
        let rates = [(1, 5e9), (2, 5.2e9), (4, 2e9), (8, 660e6), (16, 670e6), (32, 655e6)];
        let found = plateau(&rates.map(|(file, rate)| (file * GIB, rate))).unwrap();
        assert_eq!(found, Plateau { from: 8 * GIB, rate: 660e6, before: 5.2e9 });
    }

    #[test]
    fn falling_or_constant_rates_have_no_plateau() {
        assert_eq!(plateau(&[(1, 8e9), (2, 4e9), (4, 2e9), (8, 1e9)]), None);
        assert_eq!(plateau(&[(1, 5e9), (2, 5.1e9), (4, 4.9e9), (8, 5e9)]), None);
        assert_eq!(plateau(&[(1, 5e9), (2, 1e9)]), None);
        assert_eq!(plateau(&[]), None);
    }
}
