//! Tables of file measurements.

use super::{FilesRow, cells, select_rows, size};
use crate::keys::Latencies;
use nodegauge_blocks::latency::Quantiles;
use nodegauge_blocks::task::CacheMode;
use nodegauge_gauge::view::{ColumnList, ColumnUnit, Section, TableCell, distinct, group_by_key};
use nodegauge_measure::stats::median;
use nodegauge_measure::{Fraction, Seconds, Unit};

/// Minimum file size for comparisons of operations. For smaller files, the overhead of the calls and of the clock
/// dominates.
const COUNTED: u64 = 1 << 20;

fn names<'a>(rows: &[&FilesRow<'a>]) -> Vec<&'a str> {
    distinct(rows.iter().map(|row| row.m.name.as_str()))
}

fn named<'r, 'a>(rows: &[&'r FilesRow<'a>], name: &str) -> Vec<&'r FilesRow<'a>> {
    select_rows(rows, |row| row.m.name == name)
}

fn is_counted(row: &FilesRow<'_>) -> bool {
    row.sizes().is_some_and(|(file, _)| file >= COUNTED)
}

/// Formats a quantile of the latency of a row.
fn latency(row: &FilesRow<'_>, quantile: fn(&Quantiles) -> Option<Seconds>) -> Option<TableCell> {
    latency_cell(row.config.latency_s.as_ref(), quantile)
}

/// Formats a quantile of the latency: `1.23us`.
pub(crate) fn latency_cell(
    latencies: Option<&Latencies>,
    quantile: fn(&Quantiles) -> Option<Seconds>,
) -> Option<TableCell> {
    let Some(Latencies::All(quantiles)) = latencies else { return None };
    let seconds = quantile(quantiles)?;
    let text = seconds.to_string();
    let (value, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let short = format!("{}{unit}", three_digits(value.parse().unwrap_or(0.0), (99.5, 9.95)));
    Some(TableCell::figure(seconds.0, Unit::Seconds, short))
}

/// Formats operations per second: `12.3k`.
fn operations(row: &FilesRow<'_>) -> Option<TableCell> {
    let iops = row.config.iops?;
    let (scaled, unit) = match iops {
        n if n >= 999_500.0 => (n / 1e6, "M"),
        n if n >= 999.5 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let short = format!("{}{unit}", three_digits(scaled, (99.95, 9.995)));
    Some(TableCell::figure(iops, Unit::OperationsPerSecond, short))
}

/// Formats a value with about three digits: no decimals from the first of `steps` on, one decimal from the second on,
/// otherwise two decimals.
fn three_digits(value: f64, steps: (f64, f64)) -> String {
    let digits = match value {
        v if v >= steps.0 => 0,
        v if v >= steps.1 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Returns the cell with the origin or destination of the data: the page cache or the device.
fn served(rows: &[&FilesRow<'_>]) -> TableCell {
    let known: Vec<(f64, &str)> = rows
        .iter()
        .filter_map(|row| {
            let served = row.config.served.as_ref().and_then(Option::as_deref);
            Some((row.config.device_share.flatten()?, served.unwrap_or("?")))
        })
        .collect();
    let labels = distinct(known.iter().map(|(_, label)| *label));
    match labels[..] {
        [] => "unknown".into(),
        [label] if label != "mixed" => label.into(),
        _ => {
            let sum: f64 = known.iter().map(|(share, _)| share).sum();
            format!("{} dev", Fraction(sum / known.len() as f64).in_whole_percent()).into()
        }
    }
}

/// Unit of rates in tables of files.
const RATE: ColumnUnit = ColumnUnit::GB_PER_S;

/// Returns the first columns of a table of cells: the operation, the file size and the block size.
fn cell_columns<'c, 'a: 'c>() -> ColumnList<'c, FilesRow<'a>> {
    ColumnList::new()
        .left("GB/s", |row: &FilesRow<'_>| {
            let percent = row.config.read_percent.map(|percent| format!(" {} %", percent.0));
            let stride = row.config.stride_blocks.map(|blocks| format!(", stride {blocks}"));
            format!("{}{}", row.m.name, percent.or(stride).unwrap_or_default())
        })
        .right("file", |row| size(row.sizes().unwrap_or_default().0))
        .right("block", |row| size(row.sizes().unwrap_or_default().1))
}

/// Adds the table for a single worker, with one row per measurement.
pub(super) fn add_single_worker_table(rows: &[&FilesRow<'_>], section: &mut Section) {
    let columns = cell_columns()
        .value_or_status("rate", RATE)
        .right_or_dash("op/s", operations)
        .right_or_dash("p50", |row| latency(row, |q| q.p50))
        .right_or_dash("p99", |row| latency(row, |q| q.p99))
        .right_or_dash("max", |row| latency(row, |q| q.max))
        .left("from", |row| served(&[row]));
    section.push(columns.table(rows.iter().copied())).note("latencies", calls(rows));
}

/// Adds the table for several workers, with the rates of the workers and the rate of the parent process.
pub(super) fn add_workers_table(rows: &[&FilesRow<'_>], section: &mut Section) {
    let columns = cell_columns()
        .value_or_status("children", RATE)
        .values("parent", RATE, |row| row.config.parent_rate)
        .values("least", RATE, |row| row.config.worker_rate_min)
        .values("most", RATE, |row| row.config.worker_rate_max)
        .right_or_dash("p99", |row| latency(row, |q| q.p99))
        .left("from", |row| served(&[row]));
    section.push(columns.table(rows.iter().copied())).note("latencies", calls(rows));
}

fn has_latencies(rows: &[&FilesRow<'_>]) -> bool {
    rows.iter().any(|row| matches!(row.config.latency_s, Some(Latencies::All(_))))
}

/// Returns a text that states which calls the latencies are about.
fn calls(rows: &[&FilesRow<'_>]) -> &'static str {
    if has_latencies(rows) {
        "percentiles of all calls of the row's operation, one block per call"
    } else {
        "the program printed no latency percentiles"
    }
}

/// Row of the table of operations.
struct OperationRow<'r, 'a> {
    name: &'a str,
    of: Vec<&'r FilesRow<'a>>,
    /// Measurement whose latencies the row shows.
    probe: Option<&'r FilesRow<'a>>,
}

impl OperationRow<'_, '_> {
    fn rates(&self) -> Vec<f64> {
        self.of.iter().filter_map(|row| row.m.value).collect()
    }
}

/// Adds a table with one row per operation. The rates are the median and the best over all files that are large enough;
/// the latencies are those of the smallest blocks.
pub(super) fn add_operation_table(rows: &[&FilesRow<'_>], section: &mut Section) {
    let counted = select_rows(rows, is_counted);
    let counted = if counted.is_empty() { rows } else { &counted };
    let probe = smallest_block(counted);
    let columns = ColumnList::<OperationRow<'_, '_>>::new()
        .left("GB/s", |row| row.name)
        .values("median", RATE, |row| Some(median(&row.rates())).filter(|rate| rate.is_finite()))
        .values("best", RATE, |row| row.rates().into_iter().reduce(f64::max))
        .right_or_dash("op/s", |row| operations(row.probe?))
        .right_or_dash("p50", |row| latency(row.probe?, |q| q.p50))
        .right_or_dash("p99", |row| latency(row.probe?, |q| q.p99))
        .right_or_dash("p99.9", |row| latency(row.probe?, |q| q.p99_9))
        .right_or_dash("max", |row| latency(row.probe?, |q| q.max))
        .left("from", |row| served(&row.of));
    let table = columns.table(names(rows).into_iter().map(|name| {
        let of = named(counted, name);
        OperationRow { name, probe: of.iter().copied().find(|row| row.sizes() == probe), of }
    }));
    let mut text = format!(
        "median and best of {} with files of {} and more",
        nodegauge_measure::quantity::count_in_words(cells(counted).len(), "cell"),
        size(COUNTED)
    );
    if let Some((file, block)) = probe.filter(|_| has_latencies(rows)) {
        text += &format!(
            "; op/s and latencies for blocks of {} in the file of {}",
            size(block),
            size(file)
        );
    }
    section.push(table).note("rows", text).note("latencies", calls(rows));
}

/// Returns the cell whose latencies are shown: the smallest block size, and the largest file that was measured with
/// this block size.
fn smallest_block(rows: &[&FilesRow<'_>]) -> Option<(u64, u64)> {
    let cells = cells(rows);
    let block = cells.iter().map(|(_, block)| *block).min()?;
    cells.into_iter().rfind(|(_, b)| *b == block)
}

/// Row of the brief table: a cell in a cache mode.
struct CacheRow<'r, 'a> {
    cache: Option<CacheMode>,
    cell: (u64, u64),
    here: Vec<&'r FilesRow<'a>>,
}

impl<'r, 'a> CacheRow<'r, 'a> {
    fn at(&self, name: &str) -> Option<&'r FilesRow<'a>> {
        super::find_row(&self.here, name, self.cell)
    }
}

/// Adds a table with one row per cell and cache mode, and one column with the rate of each operation. Two more columns
/// have the latencies of random reads or, if these were not measured, of the first operation.
pub(super) fn add_brief_table(rows: &[&FilesRow<'_>], section: &mut Section) {
    let names = names(rows);
    let random = names.iter().find(|name| **name == "random_read");
    let Some(probed) = random.or(names.first()).copied() else { return };
    let mut of_caches = Vec::new();
    for (cache, here) in group_by_key(rows.iter().copied(), |row| row.config.cache) {
        for cell in cells(&here) {
            of_caches.push(CacheRow { cache, cell, here: here.clone() });
        }
    }
    let columns = ColumnList::<CacheRow<'_, '_>>::new()
        .left("GB/s", |row| row.cache.map_or("?", |cache| cache.name()))
        .right("block", |row| size(row.cell.1))
        .columns_for_each(
            &names,
            |name| name.to_string(),
            |row, name| row.at(name).map_or_else(|| "-".into(), |own| RATE.value(own.m)),
        )
        .right_or_dash("p50", |row| latency(row.at(probed)?, |q| q.p50))
        .right_or_dash("p99", |row| latency(row.at(probed)?, |q| q.p99));
    section
        .push(columns.table(of_caches))
        .note("latencies", format!("percentiles of all calls of {probed}, one block per call"));
}

/// Rate of a cell by the gauge, and by a reference program.
struct RatePair {
    own: f64,
    other: f64,
}

/// Row of the comparison with a reference program.
struct ComparedRow<'a> {
    name: &'a str,
    program: &'a str,
    pairs: Vec<RatePair>,
}

impl ComparedRow<'_> {
    fn median(&self, of: impl Fn(&RatePair) -> f64) -> f64 {
        median(&self.pairs.iter().map(of).collect::<Vec<_>>())
    }
}

/// Adds a table that compares nodegauge's figures with those of reference programs for the same cells.
pub(super) fn add_comparison_table(
    own: &[&FilesRow<'_>],
    others: &[&FilesRow<'_>],
    section: &mut Section,
) {
    let mut compared = Vec::new();
    for program in distinct(others.iter().filter_map(|row| row.config.engine.as_deref())) {
        let theirs = select_rows(others, |row| {
            is_counted(row) && row.config.engine.as_deref() == Some(program)
        });
        for name in names(&theirs) {
            let ours = named(own, name);
            let pairs = named(&theirs, name).into_iter().filter_map(|row| {
                let own_rate = ours.iter().find(|same| same.is_comparable(row))?.m.value?;
                Some(RatePair { own: own_rate, other: row.m.value? })
            });
            let pairs: Vec<RatePair> = pairs.collect();
            if !pairs.is_empty() {
                compared.push(ComparedRow { name, program, pairs });
            }
        }
    }
    if compared.is_empty() {
        return;
    }
    let columns = ColumnList::<ComparedRow<'_>>::new()
        .left("GB/s", |row| row.name)
        .values("nodegauge", RATE, |row| Some(row.median(|pair| pair.own)))
        .values("reference", RATE, |row| Some(row.median(|pair| pair.other)))
        .values("ratio", ColumnUnit::from_unit(Unit::Factor), |row| {
            Some(row.median(|pair| pair.own / pair.other))
        })
        .right("cells", |row| row.pairs.len().to_string())
        .left("program", |row| row.program);
    section.push(columns.table(compared)).note(
        "ratio",
        format!(
            "medians over cells with files of {} and more; the ratio is the median of the cells' ratios",
            size(COUNTED)
        ),
    );
}
