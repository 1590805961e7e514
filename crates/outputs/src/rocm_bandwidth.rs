//! Reader for rocm_bandwidth_test: matrices of bandwidths between devices, and tables for single pairs of devices.

use nodegauge_gauge::outputs::{DEVICE, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{lines, parse_number, unreadable_line_message};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of rocm_bandwidth_test.
pub(crate) struct RocmBandwidth;

/// Titles of the bandwidth matrices, with direction and statistic.
const MATRICES: [(&str, &str, QuotedStatistic); 4] = [
    ("Unidirectional copy peak bandwidth GB/s", "unidirectional", QuotedStatistic::Best),
    ("Unidirectional copy average bandwidth GB/s", "unidirectional", QuotedStatistic::Mean),
    ("Bidirectional copy peak bandwidth GB/s", "bidirectional", QuotedStatistic::Best),
    ("Bidirectional copy average bandwidth GB/s", "bidirectional", QuotedStatistic::Mean),
];

impl Reader for RocmBandwidth {
    fn program(&self) -> &'static str {
        "rocm_bandwidth_test"
    }

    fn doubts(&self) -> &'static str {
        "a matrix with fewer rows than columns: suspect"
    }

    fn first_characters(&self) -> &'static str {
        "RUB"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if version(line).is_some() {
            return Some(RunMark::TITLE);
        }
        MATRICES.iter().any(|(title, ..)| *title == line).then_some(RunMark::repeated(1))
    }

    fn version(&self, text: &str) -> Option<String> {
        lines(text).find_map(version)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        Ok(figures(text, self.version(text))?)
    }
}

/// Parses the version in a title: `RocmBandwidthTest Version: 2.6.0`.
fn version(line: &str) -> Option<String> {
    let rest = line.strip_prefix("RocmBandwidthTest Version:")?.trim();
    Some(rest.to_owned()).filter(|version| !version.is_empty())
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("rocm_bandwidth_test", version);
    let mut matrix: Option<(&str, QuotedStatistic)> = None;
    let mut columns: Vec<u64> = Vec::new();
    let mut rows = 0;
    let mut is_short = false;
    for line in lines(text) {
        if let Some((_, direction, quoted)) = MATRICES.iter().find(|(title, ..)| *title == line) {
            is_short |= matrix.is_some() && rows < columns.len();
            matrix = Some((direction, *quoted));
            columns.clear();
            rows = 0;
            continue;
        }
        let Some((direction, statistic)) = matrix else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(numbers) = line.strip_prefix("D/D") {
            if !columns.is_empty() {
                // This header belongs to a matrix of another quantity, so the matrix of bandwidths has ended.
                is_short |= rows < columns.len();
                matrix = None;
                continue;
            }
            let numbers: Option<Vec<u64>> =
                numbers.split_whitespace().map(|word| word.parse().ok()).collect();
            columns = numbers.ok_or("the header of a matrix cannot be read")?;
            continue;
        }
        let Some((row, cells)) = words.split_first().filter(|_| !columns.is_empty()) else {
            continue;
        };
        if rows == columns.len() {
            matrix = None;
            continue;
        }
        let row: u64 = row.parse().map_err(|_| unreadable_line_message(line))?;
        if cells.len() != columns.len() || columns.get(rows) != Some(&row) {
            return Err(unreadable_line_message(line));
        }
        rows += 1;
        for (column, cell) in columns.iter().zip(cells) {
            if *cell == "N/A" {
                continue;
            }
            let value = parse_number(cell).ok_or_else(|| unreadable_line_message(line))? * 1e9;
            let mut config = figures.config();
            config.case = Some(format!("{direction}, {row}->{column}, {}", statistic.name()));
            figures.push(
                OutputFigure {
                    of: DEVICE,
                    name: "copy".to_owned(),
                    unit: Unit::BytesPerSecond,
                    value,
                    quoted: statistic,
                },
                &config,
            )?;
        }
    }
    is_short |= matrix.is_some() && rows < columns.len();
    Ok(figures.finish(is_short.then_some("a matrix has fewer rows than columns")))
}
