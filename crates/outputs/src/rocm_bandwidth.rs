//! Reader for rocm_bandwidth_test: matrices of bandwidths between devices, and tables for single pairs of devices.

use nodegauge_gauge::outputs::{DEVICE, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    lines, may_be_cell, parse_number, quote_text, rounding_error, unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of rocm_bandwidth_test.
pub(crate) struct RocmBandwidth;

/// First words of the titles of bandwidth matrices, with the direction. Old versions print a misspelled word.
const DIRECTIONS: [(&str, &str); 3] = [
    ("Unidirectional ", "unidirectional"),
    ("Bidirectional ", "bidirectional"),
    ("Bdirectional ", "bidirectional"),
];
/// Other words of these titles, with the statistic.
const STATISTICS: [(&str, QuotedStatistic); 2] = [
    ("peak bandwidth GB/s", QuotedStatistic::Best),
    ("average bandwidth GB/s", QuotedStatistic::Mean),
];
/// Header of the table of a pair, with single spaces between the words.
const PAIR_HEADER: &str = "Data Size Avg Time(us) Avg BW(GB/s) Min Time(us) Peak BW(GB/s)";

impl Reader for RocmBandwidth {
    fn program(&self) -> &'static str {
        "rocm_bandwidth_test"
    }

    fn doubts(&self) -> &'static str {
        "a matrix with fewer rows than columns: suspect; a bandwidth of a pair that is not the size \
         divided by the time is an error"
    }

    fn first_characters(&self) -> &'static str {
        "RUB"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if version(line).is_some() {
            return Some(RunMark::TITLE);
        }
        matrix_title(line).map(|_| RunMark::repeated(1))
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

/// Title of a bandwidth matrix.
#[derive(Debug, Clone, Copy)]
struct MatrixTitle {
    direction: &'static str,
    statistic: QuotedStatistic,
}

/// Parses the title of a bandwidth matrix: `Unidirectional copy peak bandwidth GB/s`. Old versions leave out `copy`.
fn matrix_title(line: &str) -> Option<MatrixTitle> {
    let (rest, direction) = DIRECTIONS
        .iter()
        .find_map(|(begin, direction)| Some((line.strip_prefix(begin)?, *direction)))?;
    let rest = rest.strip_prefix("copy ").unwrap_or(rest);
    let (_, statistic) = STATISTICS.iter().find(|(words, _)| *words == rest)?;
    Some(MatrixTitle { direction, statistic: *statistic })
}

/// Returns the figure of a bandwidth.
fn copy_figure(value: f64, statistic: QuotedStatistic) -> OutputFigure {
    OutputFigure {
        of: DEVICE,
        name: "copy".to_owned(),
        unit: Unit::BytesPerSecond,
        value,
        quoted: statistic,
    }
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("rocm_bandwidth_test", version);
    let mut matrix: Option<MatrixTitle> = None;
    let mut pair: Option<PairTable> = None;
    let launched = launched_devices(text);
    let mut columns: Vec<u64> = Vec::new();
    let mut rows = 0;
    let mut is_short = false;
    for line in lines(text) {
        if let Some(title) = matrix_title(line) {
            is_short |= matrix.is_some() && rows < columns.len();
            matrix = Some(title);
            pair = None;
            columns.clear();
            rows = 0;
            continue;
        }
        if let Some(banner) = pair_banner(line) {
            is_short |= matrix.is_some() && rows < columns.len();
            matrix = None;
            PairTable::add_banner(&mut pair, banner)?;
            continue;
        }
        if line.split_whitespace().eq(PAIR_HEADER.split_whitespace()) {
            let table = pair.as_mut().filter(|table| table.is_described());
            let table = table.ok_or("the devices of a table are missing")?;
            table.check_devices(&launched)?;
            table.has_header = true;
            continue;
        }
        if let Some(table) = pair.as_mut().filter(|table| table.has_header) {
            table.row(line, &mut figures)?;
            continue;
        }
        let Some(MatrixTitle { direction, statistic }) = matrix else { continue };
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
        // Lines of other programs may be between the rows.
        let Ok(row) = row.parse::<u64>() else { continue };
        if cells.len() != columns.len() && !cells.iter().any(|cell| may_be_cell(cell, "N/A")) {
            continue;
        }
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
            figures.push(copy_figure(value, statistic), &config)?;
        }
    }
    is_short |= matrix.is_some() && rows < columns.len();
    Ok(figures.finish(is_short.then_some("a matrix has fewer rows than columns")))
}

/// Line of the banner of the table of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PairBanner {
    Direction(&'static str),
    Source(u64),
    Destination(u64),
}

/// Parses a line of the banner of the table of a pair: `==== Unidirectional Benchmark Result ====`,
/// `==== Src Device Id: 0 Src Device Type: Cpu ====`.
fn pair_banner(line: &str) -> Option<PairBanner> {
    let words = line.strip_prefix("====")?.strip_suffix("====")?.trim_matches(['=', ' ']);
    let direction = words
        .strip_suffix("Benchmark Result")
        .and_then(|direction| DIRECTIONS.iter().find(|(known, _)| *known == direction));
    if let Some((_, direction)) = direction {
        return Some(PairBanner::Direction(direction));
    }
    let device = |end: &str| {
        let rest = words.strip_prefix(end)?.strip_prefix(" Device Id: ")?;
        rest.split(' ').next()?.parse().ok()
    };
    let source = device("Src").map(PairBanner::Source);
    source.or_else(|| device("Dst").map(PairBanner::Destination))
}

/// Returns the numbers in the command of the program; empty if the output lacks it.
fn launched_devices(text: &str) -> Vec<u64> {
    let command = lines(text).find_map(|line| line.strip_prefix("Launch Command is:"));
    let numbers = command.unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Table of the bandwidths between two devices.
#[derive(Debug)]
struct PairTable {
    direction: &'static str,
    source: Option<u64>,
    destination: Option<u64>,
    has_header: bool,
    last_bytes: u64,
}

impl PairTable {
    /// Adds a line of the banner to a table. The first line begins a new table.
    ///
    /// Fails if the table has another line with the same meaning, or no first line.
    fn add_banner(table: &mut Option<Self>, banner: PairBanner) -> Result<(), String> {
        const MISSING: &str = "a line above a table of two devices is missing";
        if let PairBanner::Direction(direction) = banner {
            *table = Some(Self {
                direction,
                source: None,
                destination: None,
                has_header: false,
                last_bytes: 0,
            });
            return Ok(());
        }
        let open = table.as_mut().filter(|table| !table.has_header).ok_or(MISSING)?;
        let (end, device) = match banner {
            PairBanner::Source(device) => (&mut open.source, device),
            PairBanner::Destination(device) => (&mut open.destination, device),
            PairBanner::Direction(_) => return Ok(()),
        };
        if end.is_some_and(|known| known != device) {
            return Err(MISSING.to_owned());
        }
        *end = Some(device);
        Ok(())
    }

    /// True if both devices are known.
    fn is_described(&self) -> bool {
        self.source.is_some() && self.destination.is_some()
    }

    /// Checks that the command of the program names the devices.
    ///
    /// Fails if it names other devices.
    fn check_devices(&self, launched: &[u64]) -> Result<(), String> {
        let mut devices = self.source.iter().chain(&self.destination);
        if launched.is_empty() || devices.all(|device| launched.contains(device)) {
            return Ok(());
        }
        Err("the devices of a table are not those of the command of the program".to_owned())
    }

    /// Parses a row: `1 MB 45.120 23.240 44.800 23.406`. Ignores lines of other programs.
    fn row(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [size, unit, cells @ ..] = &words[..] else { return Ok(()) };
        let unit = match *unit {
            "Bytes" => 1,
            "KB" => 1 << 10,
            "MB" => 1 << 20,
            _ => return Ok(()),
        };
        let Ok(size) = size.parse::<u64>() else { return Ok(()) };
        let numbers: Option<Vec<f64>> = cells.iter().map(|cell| parse_number(cell)).collect();
        let numbers = numbers.filter(|numbers| numbers.len() == 4);
        let numbers = numbers.ok_or_else(|| unreadable_line_message(line))?;
        let (Some(source), Some(destination)) = (self.source, self.destination) else {
            return Ok(());
        };
        let bytes = size.checked_mul(unit).ok_or_else(|| unreadable_line_message(line))?;
        if bytes < self.last_bytes {
            let last = self.last_bytes;
            return Err(format!(
                "a table has {bytes} B after {last} B, so it is not a single table"
            ));
        }
        self.last_bytes = bytes;
        // Each direction moves the data, and a copy within a device reads and writes it there.
        let directions = if self.direction == "bidirectional" { 2.0 } else { 1.0 };
        let moved = directions * if source == destination { 2.0 } else { 1.0 } * bytes as f64;
        for (at, statistic) in [(0, QuotedStatistic::Mean), (2, QuotedStatistic::Best)] {
            let [time, rate] = [numbers[at], numbers[at + 1]];
            let [of_time, of_rate] = [cells[at], cells[at + 1]].map(rounding_error);
            // 1 GB/s is 1000 B/us.
            let error = 1.2e3 * (of_time * rate + of_rate * time) + 1e-4 * moved;
            if (1e3 * time * rate - moved).abs() > error {
                return Err(format!(
                    "a bandwidth is not the size divided by the time: {}",
                    quote_text(line)
                ));
            }
            let pair = format!("{}, {source}->{destination}", self.direction);
            let config = OutputConfig {
                case: Some(format!("{pair}, {}", statistic.name())),
                message_bytes: Some(bytes),
                ..figures.config()
            };
            figures.push(copy_figure(rate * 1e9, statistic), &config)?;
        }
        Ok(())
    }
}
