//! Reader for TransferBench: lines of transfers with rate, time and bytes, and the matrices of the preset `p2p`.

use nodegauge_gauge::outputs::{DEVICE, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    after_label, agree_within, lines, number_with_unit, parse_number, quote_text,
    unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of TransferBench.
pub(crate) struct TransferBench;

impl Reader for TransferBench {
    fn program(&self) -> &'static str {
        "TransferBench"
    }

    fn doubts(&self) -> &'static str {
        "a rate that is not the bytes divided by the time is an error; a matrix without its last rows: suspect; the \
         output has no final line"
    }

    fn first_characters(&self) -> &'static str {
        "T"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        version(line).map(|_| RunMark::TITLE)
    }

    fn version(&self, text: &str) -> Option<String> {
        lines(text).find_map(version)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        Ok(figures(text, self.version(text))?)
    }
}

/// First words of the lines that contain a rate.
const KINDS: [&str; 3] = ["Executor", "Transfer", "Aggregate"];

/// Parses the version in a title: `TransferBench v1.52`, `TransferBench v1.66.01 (with NIC support)`.
fn version(line: &str) -> Option<String> {
    let version = line.strip_prefix("TransferBench v")?.split_whitespace().next()?;
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("transferbench", version);
    let mut test = String::new();
    let mut tests = 0u32;
    let mut matrix: Option<Matrix> = None;
    let mut is_short = false;
    for line in lines(text) {
        if let Some(found) = Matrix::begin(line, text)? {
            is_short |= matrix.as_ref().is_some_and(Matrix::is_open);
            matrix = Some(found);
            continue;
        }
        if let Some(open) = matrix.as_mut().filter(|matrix| matrix.is_open()) {
            open.line(line, &mut figures)?;
            continue;
        }
        if let Some(number) = line.strip_prefix("Test ").and_then(|rest| rest.strip_suffix(':')) {
            tests += 1;
            if number.parse() != Ok(tests) {
                return Err(format!("its test {tests} is missing"));
            }
            test = format!("test {number}");
            continue;
        }
        if line.is_empty() {
            test.clear();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if cells.len() < 4 || !cells[1].ends_with("GB/s") {
            continue;
        }
        // With SHOW_ITERATIONS, the rates of the iterations follow the line of a transfer.
        if ["Iter ", "StandardDev"].iter().any(|begin| cells[0].starts_with(begin)) {
            continue;
        }
        if test.is_empty() {
            return Err(format!("a line belongs to no test: {}", quote_text(line)));
        }
        let rate =
            number_with_unit(cells[1], "GB/s").ok_or_else(|| unreadable_line_message(line))? * 1e9;
        let time =
            number_with_unit(cells[2], "ms").ok_or_else(|| unreadable_line_message(line))? * 1e-3;
        let bytes =
            number_with_unit(cells[3], "bytes").ok_or_else(|| unreadable_line_message(line))?;
        // Rates and times have three decimals.
        let error = 2e-3 + 6e5 / rate.max(1.0) + 6e-7 / time.max(1e-9);
        if !agree_within(rate, bytes / time, error) {
            return Err(format!(
                "a rate is not the bytes divided by the time: {}",
                quote_text(line)
            ));
        }
        let route = cells.get(4).copied().unwrap_or_default();
        let words: Vec<&str> = cells[0].split_whitespace().collect();
        if !words.first().is_some_and(|first| KINDS.contains(&first.trim_end_matches(':'))) {
            return Err(unreadable_line_message(line));
        }
        let what = words.join(" ").trim_end_matches(':').to_owned();
        let parts = [test.as_str(), what.as_str(), route];
        let case: Vec<&str> =
            parts.into_iter().filter(|part| !part.is_empty() && !is_result(part)).collect();
        let config = OutputConfig {
            case: Some(case.join(", ")),
            message_bytes: Some(bytes as u64),
            ..figures.config()
        };
        figures.push(
            OutputFigure {
                of: DEVICE,
                name: "copy".to_owned(),
                unit: Unit::BytesPerSecond,
                value: rate,
                quoted: QuotedStatistic::Mean,
            },
            &config,
        )?;
    }
    is_short |= matrix.as_ref().is_some_and(Matrix::is_open);
    Ok(figures.finish(is_short.then_some("the last rows of a matrix are missing")))
}

/// Access of the transfers of a matrix as printed in its title, with the first word of its header: for one direction,
/// and for both.
const ACCESSES: [(&str, [&str; 2]); 2] = [
    ("Local read / Remote write", ["SRC+EXE\\DST", "SRC\\DST"]),
    ("Remote read / Local write", ["SRC\\EXE+DST", "SRC\\DST"]),
];
/// Signs between the source of a row and its rates: from the source, to the source, and the sum of both.
const SIGNS: [&str; 3] = ["->", "<-", "<->"];

/// Matrix of the preset `p2p`.
#[derive(Debug)]
struct Matrix {
    /// Words of the title that begin the case of each figure.
    title: String,
    /// First word of the header.
    header: &'static str,
    /// Number of rows of a source: one, or three if data moves in both directions.
    signs: usize,
    bytes: Option<u64>,
    /// Devices of the columns, which are those of the rows.
    devices: Vec<String>,
    /// Number of rows that have been read.
    rows: usize,
    /// Rates of the two previous rows, GB/s.
    previous: [Vec<Option<f64>>; 2],
}

impl Matrix {
    /// Parses the title of a matrix; `None` for other lines.
    ///
    /// Fails if the words of the title are unknown.
    fn begin(line: &str, text: &str) -> Result<Option<Self>, String> {
        let Some((direction, rest)) = line.split_once("directional copy peak bandwidth GB/s [")
        else {
            return Ok(None);
        };
        let unknown = || unreadable_line_message(line);
        let (access, executor) = rest.split_once("] (GPU-Executor: ").ok_or_else(unknown)?;
        let executor = executor.strip_suffix(')').ok_or_else(unknown)?;
        let (_, headers) =
            ACCESSES.iter().find(|(words, _)| *words == access).ok_or_else(unknown)?;
        if !["GFX", "DMA"].contains(&executor) {
            return Err(unknown());
        }
        let (direction, header, signs) = match direction {
            "Uni" => ("unidirectional", headers[0], 1),
            "Bi" => ("bidirectional", headers[1], 3),
            _ => return Err(unknown()),
        };
        // Nothing else in the output confirms the size, so only powers of two are accepted.
        let bytes = after_label(text, "Bytes Per Direction ").and_then(|bytes| bytes.parse().ok());
        Ok(Some(Self {
            title: format!("{direction}, {}, {executor}", access.to_lowercase()),
            header,
            signs,
            bytes: bytes.filter(|bytes: &u64| bytes.is_power_of_two()),
            devices: Vec::new(),
            rows: 0,
            previous: Default::default(),
        }))
    }

    /// True if rows are missing.
    fn is_open(&self) -> bool {
        self.devices.is_empty() || self.rows < self.signs * self.devices.len()
    }

    /// Parses a line of the matrix. Ignores lines of other programs.
    ///
    /// Fails if a row is missing, or if it does not fit the header.
    fn line(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else { return Ok(()) };
        if first.starts_with("SRC") {
            let devices = devices(rest).filter(|_| *first == self.header);
            let devices = devices.ok_or_else(|| unreadable_line_message(line))?;
            if self.rows > 0 || !self.devices.is_empty() && self.devices != devices {
                return Err(unreadable_line_message(line));
            }
            self.devices = devices;
            return Ok(());
        }
        let ["CPU" | "GPU", number, sign, cells @ ..] = &words[..] else { return Ok(()) };
        // With SHOW_ITERATIONS, extremes and deviations follow each row.
        if ["min", "max", "sd"].contains(sign) {
            return Ok(());
        }
        let rates: Option<Vec<Option<f64>>> = cells.iter().map(|cell| rate(cell)).collect();
        let rates = rates.ok_or_else(|| unreadable_line_message(line))?;
        let source = self.devices.get(self.rows / self.signs);
        let is_next = source.is_some_and(|source| *source == format!("{first} {number}"))
            && SIGNS[self.rows % self.signs] == *sign
            && rates.len() == self.devices.len();
        let source = source.filter(|_| is_next).ok_or_else(|| unreadable_line_message(line))?;
        if *sign == "<->" && !is_sum(&rates, &self.previous) {
            let line = quote_text(line);
            return Err(format!("a sum of rates is not the sum of the rows above it: {line}"));
        }
        for (device, rate) in self.devices.iter().zip(&rates) {
            let Some(rate) = rate else { continue };
            let config = OutputConfig {
                case: Some(format!("{}, {source} {sign} {device}", self.title)),
                message_bytes: self.bytes,
                ..figures.config()
            };
            let figure = OutputFigure {
                of: DEVICE,
                name: "copy".to_owned(),
                unit: Unit::BytesPerSecond,
                value: rate * 1e9,
                quoted: QuotedStatistic::Mean,
            };
            figures.push(figure, &config)?;
        }
        self.rows += 1;
        self.previous.swap(0, 1);
        self.previous[1] = rates;
        Ok(())
    }
}

/// Parses the devices in the header of a matrix: `CPU 00 CPU 01 GPU 00`. The devices of each kind are numbered from 0.
fn devices(words: &[&str]) -> Option<Vec<String>> {
    let mut counts = [0u32; 2];
    let mut devices = Vec::new();
    for device in words.chunks(2) {
        let [kind, number] = device else { return None };
        let kind_at = ["CPU", "GPU"].iter().position(|known| known == kind)?;
        if number.parse() != Ok(counts[kind_at]) {
            return None;
        }
        counts[kind_at] += 1;
        devices.push(format!("{kind} {number}"));
    }
    Some(devices).filter(|devices| !devices.is_empty())
}

/// Parses a cell of a matrix; the rate is `None` for `N/A`.
fn rate(cell: &str) -> Option<Option<f64>> {
    if cell == "N/A" { Some(None) } else { parse_number(cell).map(Some) }
}

/// True if the last cell of a row is a result, e.g. the sum of rates or the overhead, and not a route.
fn is_result(cell: &str) -> bool {
    cell.contains(" GB/s") || cell.starts_with("Overhead:")
}

/// True if rates with two decimals are the sums of the rates in two other rows.
fn is_sum(sums: &[Option<f64>], rows: &[Vec<Option<f64>>; 2]) -> bool {
    let parts = rows[0].iter().zip(&rows[1]);
    rows.iter().all(|row| row.len() == sums.len())
        && sums.iter().zip(parts).all(|(sum, (one, other))| {
            let both = one.unwrap_or(0.0) + other.unwrap_or(0.0);
            (sum.unwrap_or(0.0) - both).abs() <= 0.016
        })
}
