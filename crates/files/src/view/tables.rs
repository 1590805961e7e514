//! Tables of file measurements.

use super::{Row, cells, only, size};
use crate::config::Latencies;
use nodegauge_blocks::latency::Quantiles;
use nodegauge_gauge::view::{Section, Table, TableCell, distinct};
use nodegauge_measure::quantity::significant;
use nodegauge_measure::stats::median;
use nodegauge_measure::{Fraction, Seconds, Unit};

/// Minimum file size for comparisons of operations. For smaller files, the overhead of the calls and of the clock
/// dominates.
const COUNTED: u64 = 1 << 20;

fn names<'a>(rows: &[&Row<'a>]) -> Vec<&'a str> {
    distinct(rows.iter().map(|row| row.m.name.as_str()))
}

fn named<'r, 'a>(rows: &[&'r Row<'a>], name: &str) -> Vec<&'r Row<'a>> {
    only(rows, |row| row.m.name == name)
}

fn is_counted(row: &Row<'_>) -> bool {
    row.sizes().is_some_and(|(file, _)| file >= COUNTED)
}

fn or_dash(cell: Option<TableCell>) -> TableCell {
    cell.unwrap_or_else(|| "-".into())
}

/// Formats a quantile of the latency: `1.23us`.
fn latency(row: &Row<'_>, quantile: fn(&Quantiles) -> Option<Seconds>) -> TableCell {
    let seconds = match &row.config.latency_s {
        Some(Latencies::All(quantiles)) => quantile(quantiles),
        _ => None,
    };
    or_dash(seconds.map(|seconds| {
        let text = seconds.to_string();
        let (value, unit) = text.split_once(' ').unwrap_or((&text, ""));
        let short = format!("{}{unit}", three(value.parse().unwrap_or(0.0), (99.5, 9.95)));
        TableCell::figure(seconds.0, Unit::Seconds, short)
    }))
}

/// Formats operations per second: `12.3k`.
fn operations(row: &Row<'_>) -> TableCell {
    or_dash(row.config.iops.map(|iops| {
        let (scaled, unit) = match iops {
            n if n >= 999_500.0 => (n / 1e6, "M"),
            n if n >= 999.5 => (n / 1e3, "k"),
            n => (n, ""),
        };
        let short = format!("{}{unit}", three(scaled, (99.95, 9.995)));
        TableCell::figure(iops, Unit::OperationsPerSecond, short)
    }))
}

/// Formats a value with about three digits: no decimals if it is at least the first of `steps`, one decimal if it is at
/// least the second, otherwise two decimals.
fn three(value: f64, steps: (f64, f64)) -> String {
    let digits = match value {
        v if v >= steps.0 => 0,
        v if v >= steps.1 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Returns the cell with the origin or destination of the data: the page cache or the device.
fn served(rows: &[&Row<'_>]) -> TableCell {
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

fn gb(rate: f64) -> TableCell {
    TableCell::figure(rate, Unit::BytesPerSecond, significant(rate / 1e9))
}

fn rate(row: &Row<'_>) -> TableCell {
    row.m.value.map_or_else(|| row.m.validity.status.name().into(), gb)
}

/// Title of a column, with the function that formats its cell for a measurement.
type Column = (&'static str, fn(&Row<'_>) -> TableCell);

const NAME: Column = ("GB/s", |row| {
    let percent = row.config.read_percent.map(|percent| format!(" {} %", percent.0));
    let stride = row.config.stride_blocks.map(|blocks| format!(", stride {blocks}"));
    format!("{}{}", row.m.name, percent.or(stride).unwrap_or_default()).into()
});
const FILE: Column = (">file", |row| size(row.sizes().unwrap_or_default().0).into());
const BLOCK: Column = (">block", |row| size(row.sizes().unwrap_or_default().1).into());
const P99: Column = (">p99", |row| latency(row, |q| q.p99));
const FROM: Column = ("from", |row| served(&[row]));

/// Columns for one worker.
pub(super) const ONE_BY_ONE: [Column; 9] = [
    NAME,
    FILE,
    BLOCK,
    (">rate", rate),
    (">op/s", operations),
    (">p50", |row| latency(row, |q| q.p50)),
    P99,
    (">max", |row| latency(row, |q| q.max)),
    FROM,
];
/// Columns for several workers: the rates of the workers, and the rate of the parent process.
pub(super) const WORKERS: [Column; 9] = [
    NAME,
    FILE,
    BLOCK,
    (">children", rate),
    (">parent", |row| or_dash(row.config.parent_rate.map(gb))),
    (">least", |row| or_dash(row.config.worker_rate_min.map(gb))),
    (">most", |row| or_dash(row.config.worker_rate_max.map(gb))),
    P99,
    FROM,
];

/// Adds a table with one row per measurement.
pub(super) fn of_columns(columns: &[Column], rows: &[&Row<'_>], section: &mut Section) {
    let mut table = Table::new(&columns.iter().map(|(title, _)| *title).collect::<Vec<_>>());
    for row in rows {
        table.row(columns.iter().map(|(_, cell)| cell(row)));
    }
    section.push(table).note("latencies", calls(rows));
}

fn has_latencies(rows: &[&Row<'_>]) -> bool {
    rows.iter().any(|row| matches!(row.config.latency_s, Some(Latencies::All(_))))
}

/// Returns a text that states for which calls latencies are shown.
fn calls(rows: &[&Row<'_>]) -> &'static str {
    if has_latencies(rows) {
        "percentiles of all calls of the row's operation, one block per call"
    } else {
        "the program printed no latency percentiles"
    }
}

/// Adds a table with one row per operation. The rates are over all larger files; the latencies are for the smallest
/// blocks.
pub(super) fn by_operation(rows: &[&Row<'_>], section: &mut Section) {
    let counted = only(rows, is_counted);
    let counted = if counted.is_empty() { rows } else { &counted };
    let probe = smallest_block(counted);
    let mut table = Table::new(&[
        "GB/s", ">median", ">best", ">op/s", ">p50", ">p99", ">p99.9", ">max", "from",
    ]);
    for name in names(rows) {
        let of = named(counted, name);
        let rates: Vec<f64> = of.iter().filter_map(|row| row.m.value).collect();
        let most = rates.iter().copied().fold(f64::NAN, f64::max);
        let show = |rate: f64| or_dash(rate.is_finite().then(|| gb(rate)));
        let at = of.iter().copied().find(|row| row.sizes() == probe);
        let quantile = |statistic: fn(&Quantiles) -> Option<Seconds>| {
            or_dash(at.map(|row| latency(row, statistic)))
        };
        table.row([
            name.into(),
            show(median(&rates)),
            show(most),
            or_dash(at.map(operations)),
            quantile(|q| q.p50),
            quantile(|q| q.p99),
            quantile(|q| q.p99_9),
            quantile(|q| q.max),
            served(&of),
        ]);
    }
    let mut text = format!(
        "median and best of {} cells with files of {} and more",
        cells(counted).len(),
        size(COUNTED)
    );
    if let Some((file, block)) = probe.filter(|_| has_latencies(rows)) {
        let (block, file) = (size(block), size(file));
        text += &format!("; op/s and latencies for blocks of {block} in the file of {file}");
    }
    section.push(table).note("rows", text).note("latencies", calls(rows));
}

/// Returns the cell whose latencies are shown: the smallest block size, in the largest file that was measured with this
/// block size.
fn smallest_block(rows: &[&Row<'_>]) -> Option<(u64, u64)> {
    let cells = cells(rows);
    let block = cells.iter().map(|(_, block)| *block).min()?;
    cells.into_iter().rfind(|(_, b)| *b == block)
}

/// Adds a table with one row per cell and cache mode, and one column per operation. The cells contain rates; one column
/// has the latency of random reads.
pub(super) fn brief(rows: &[&Row<'_>], section: &mut Section) {
    let names = names(rows);
    let measured = |name: &&&str| **name == "random_read";
    let Some(probed) = names.iter().find(measured).or(names.first()) else { return };
    let mut titles = vec!["GB/s".to_owned(), ">block".to_owned()];
    titles.extend(names.iter().map(|name| format!(">{name}")));
    titles.extend([">p50".to_owned(), ">p99".to_owned()]);
    let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    for cache in distinct(rows.iter().map(|row| row.config.cache)) {
        let here = only(rows, |row| row.config.cache == cache);
        for cell in cells(&here) {
            let at = |name: &str| super::at(&here, name, cell);
            let probe = at(probed);
            let cache = cache.map_or("?", |cache| cache.name());
            let mut row: Vec<TableCell> = vec![cache.into(), size(cell.1).into()];
            row.extend(names.iter().map(|name| or_dash(at(name).map(rate))));
            row.push(or_dash(probe.map(|at_cell| latency(at_cell, |q| q.p50))));
            row.push(or_dash(probe.map(|at_cell| latency(at_cell, |q| q.p99))));
            table.row(row);
        }
    }
    section
        .push(table)
        .note("latencies", format!("percentiles of all calls of {probed}, one block per call"));
}

/// Adds a table that compares nodegauge's figures with those of reference programs for the same cells.
pub(super) fn comparison(own: &[&Row<'_>], others: &[&Row<'_>], section: &mut Section) {
    let mut table = Table::new(&["GB/s", ">nodegauge", ">beside", ">ratio", ">cells", "program"]);
    for program in distinct(others.iter().filter_map(|row| row.config.engine.as_deref())) {
        let theirs =
            only(others, |row| is_counted(row) && row.config.engine.as_deref() == Some(program));
        for name in names(&theirs) {
            let ours = named(own, name);
            let pair = |row: &Row<'_>| {
                Some((ours.iter().find(|same| same.is_like(row))?.m.value?, row.m.value?))
            };
            let pairs: Vec<(f64, f64)> =
                named(&theirs, name).into_iter().filter_map(pair).collect();
            if pairs.is_empty() {
                continue;
            }
            let of =
                |f: &dyn Fn(&(f64, f64)) -> f64| median(&pairs.iter().map(f).collect::<Vec<_>>());
            let ratio = of(&|(own_rate, peer_rate)| own_rate / peer_rate);
            table.row([
                name.into(),
                gb(of(&|(own_rate, _)| *own_rate)),
                gb(of(&|(_, peer_rate)| *peer_rate)),
                TableCell::figure(ratio, Unit::Factor, significant(ratio)),
                pairs.len().to_string().into(),
                program.into(),
            ]);
        }
    }
    if table.rows.is_empty() {
        return;
    }
    section.push(table).note(
        "ratio",
        format!(
            "medians over cells with files of {} and more; the ratio is the median of the cells' ratios",
            size(COUNTED)
        ),
    );
}
