//! Parser of IOzone's output: the table of automatic mode and of single sizes, the Excel part, and throughput mode. The
//! banner contains the unit of the figures (KiB/s, operations per second or microseconds per operation); in throughput
//! mode, each line repeats it. All figures are converted to B/s.

use nodegauge_gauge::readers::RunMark;
use nodegauge_gauge::readers::text::{parse_number, quote_text};
use nodegauge_measure::printed;
use std::collections::BTreeSet;

/// Title of IOzone's output.
const TITLE: &str = "Iozone: Performance Test of File I/O";
/// Title of the first table of the Excel part.
const EXCEL: &str = "\"Writer report\"";
/// First words of the first line of a test in throughput mode.
const CHILDREN: &str = "Children see throughput for";
/// Completion message of IOzone.
const END: &str = "iozone test complete.";

/// Names of IOzone's tests: the operation, the title of its table in the Excel part, and the word for the workers in
/// throughput mode. The order is that of the columns of the table; the last test has no column.
pub(crate) const TESTS: [(&str, &str, Option<&str>); 22] = [
    ("write", "Writer report", Some("initial writers")),
    ("rewrite", "Re-writer report", Some("rewriters")),
    ("read", "Reader report", Some("readers")),
    ("reread", "Re-Reader report", Some("re-readers")),
    ("random_read", "Random read report", Some("random readers")),
    ("random_write", "Random write report", Some("random writers")),
    ("bkwd_read", "Backward read report", Some("reverse readers")),
    ("record_rewrite", "Record rewrite report", None),
    ("stride_read", "Stride read report", Some("stride readers")),
    ("fwrite", "Fwrite report", Some("fwriters")),
    ("frewrite", "Re-Fwrite report", Some("re-fwriters")),
    ("fread", "Fread report", Some("freaders")),
    ("freread", "Re-Fread report", Some("re-freaders")),
    ("pwrite", "Pwrite report", Some("pwrite writers")),
    ("repwrite", "Re-Pwrite report", None),
    ("pread", "Pread report", Some("pread readers")),
    ("repread", "Re-Pread report", None),
    ("pwritev", "Pwritev report", None),
    ("repwritev", "Re-Pwritev report", None),
    ("preadv", "Preadv report", None),
    ("repreadv", "Re-Preadv report", None),
    ("random_mix", "", Some("mixed workload")),
];
/// Maximum number of columns of the table. Columns after the first [`MIN_COLUMNS`] exist only if their tests ran.
pub(crate) const MAX_COLUMNS: usize = TESTS.len() - 1;
/// Number of columns that the table always has.
pub(crate) const MIN_COLUMNS: usize = 13;
/// Number of bytes in a kB, the unit of IOzone's sizes and rates.
const KIB: u64 = 1024;

/// True if the column of an operation is one character wider than the other columns.
pub(crate) fn is_wide(name: &str) -> bool {
    matches!(name, "record_rewrite" | "stride_read")
}

/// Names of the first columns in the header of a table.
const HEADER: [&str; MIN_COLUMNS] = [
    "write", "rewrite", "read", "reread", "read", "write", "read", "rewrite", "read", "fwrite",
    "frewrite", "fread", "freread",
];
/// Range of the columns of the stdio tests. One of them is a character narrower if its test did not run; which of them
/// is unknown.
const STDIO_COLUMNS: std::ops::Range<usize> = 9..MIN_COLUMNS;

/// Widths of the columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnWidths {
    /// Widths of older versions (up to 3.42 or later), in whose headers three spaces are before `write`.
    Narrow,
    /// Widths of later versions, in whose headers four spaces are before `write`.
    Wide,
}

impl ColumnWidths {
    /// Returns the width of the column of a test that ran.
    fn width(self, column: usize) -> usize {
        /// Widths of narrow columns, in the order of [`TESTS`].
        const NARROW: [usize; MIN_COLUMNS] = [8, 8, 9, 9, 8, 8, 8, 9, 9, 9, 9, 8, 9];
        match self {
            Self::Narrow => NARROW.get(column).copied().unwrap_or(9),
            Self::Wide if is_wide(TESTS[column].0) => 10,
            Self::Wide => 9,
        }
    }

    /// Returns the possible widths of the column of a test that did not run.
    fn blank_widths(self, column: usize) -> [usize; 2] {
        let width = self.width(column);
        if STDIO_COLUMNS.contains(&column) {
            return [width, width - 1];
        }
        match self {
            Self::Narrow if is_wide(TESTS[column].0) => [8; 2],
            _ => [width; 2],
        }
    }
}

/// True if a line is the header of a table.
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    matches!(words.next(), Some("KB" | "kB")) && words.next() == Some("reclen")
}

/// Header of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TableHeader {
    /// Number of columns after the sizes; 0 if the header has an unknown column.
    columns: usize,
    /// Widths of the columns; `None` if the header does not have IOzone's spacing.
    widths: Option<ColumnWidths>,
}

impl TableHeader {
    /// Parses the header of a table; `None` for other lines.
    fn parse(line: &str) -> Option<Self> {
        if !is_header(line) {
            return None;
        }
        let (_, names) = line.split_once("reclen")?;
        let words: Vec<&str> = names.split_whitespace().collect();
        let is_known = words.iter().zip(HEADER).all(|(word, name)| *word == name);
        let columns = if is_known && words.len() <= MAX_COLUMNS { words.len() } else { 0 };
        let widths = match names.len() - names.trim_start_matches(' ').len() {
            3 => Some(ColumnWidths::Narrow),
            4 => Some(ColumnWidths::Wide),
            _ => None,
        };
        Some(Self { columns, widths })
    }

    /// Returns the maximum number of columns of a row. The header has no names for the columns that exist only if their
    /// tests ran.
    fn max_columns(self) -> usize {
        match self {
            Self { columns: MIN_COLUMNS, widths: Some(ColumnWidths::Wide) | None } => MAX_COLUMNS,
            Self { columns, .. } => columns,
        }
    }
}

/// Figure in a row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ColumnFigure<'t> {
    column: usize,
    figure: &'t str,
}

/// Splits the part of a row after the sizes into fields of fixed width. Returns the fields that are not blank; the
/// field of a test that did not run is blank. Returns `None` if a field is not a number that ends at the right edge of
/// its column, because such a line does not have IOzone's spacing, or if the columns of the figures are ambiguous.
fn figures_by_column<'t>(
    rest: &'t str,
    widths: ColumnWidths,
    columns: usize,
) -> Option<Vec<ColumnFigure<'t>>> {
    let splitter = RowSplitter { widths, columns };
    let mut found = Vec::new();
    splitter.split(rest, 0, &mut Vec::new(), &mut found);
    let first = found.pop()?;
    found.iter().all(|other| *other == first).then_some(first)
}

/// Splitter of the rows of a table into their fields.
struct RowSplitter {
    widths: ColumnWidths,
    columns: usize,
}

impl RowSplitter {
    /// Adds to `found` the figures of each possible split of `rest`, which begins with a column. `before` contains the
    /// figures of the columns before it.
    fn split<'t>(
        &self,
        rest: &'t str,
        column: usize,
        before: &mut Vec<ColumnFigure<'t>>,
        found: &mut Vec<Vec<ColumnFigure<'t>>>,
    ) {
        if rest.is_empty() {
            found.push(before.clone());
            return;
        }
        if column == self.columns {
            return;
        }
        if let Some((field, more)) = rest.split_at_checked(self.widths.width(column)) {
            let figure = field.trim_start_matches(' ');
            if !figure.is_empty() && figure.bytes().all(|byte| byte.is_ascii_digit()) {
                before.push(ColumnFigure { column, figure });
                self.split(more, column + 1, before, found);
                before.pop();
            }
        }
        for width in self.widths.blank_widths(column) {
            if let Some((field, more)) = rest.split_at_checked(width)
                && field.bytes().all(|byte| byte == b' ')
            {
                self.split(more, column + 1, before, found);
            }
        }
    }
}

/// Returns the part of a line after its first two words, which are the sizes. Because IOzone right-aligns the sizes,
/// the other columns begin at this position, regardless of the indentation of the text.
fn after_sizes(line: &str) -> &str {
    after_number(after_number(line))
}

/// Returns the part of a text after its first number.
fn after_number(text: &str) -> &str {
    text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit())
}

/// Returns the rest of the first line that begins with `mark`.
fn after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.trim().strip_prefix(mark))
}

/// Unit of the figures of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RateUnit {
    KibPerSecond,
    OperationsPerSecond,
    MicrosecondsPerOperation,
}

impl RateUnit {
    /// Returns the unit of the figures of a text, which the banner contains; `None` if the text does not state it.
    ///
    /// # Errors
    /// Fails if the unit is unknown, or if the text states several units.
    fn from_text(text: &str) -> Result<Option<Self>, String> {
        let mut unit = None;
        for line in text.lines() {
            let Some(stated) = Self::from_banner(line)? else { continue };
            if unit.is_some_and(|other| other != stated) {
                return Err(
                    "the lines with the unit of its figures contradict each other".to_owned()
                );
            }
            unit = Some(stated);
        }
        Ok(unit)
    }

    /// Returns the unit that a line of the banner states; `None` for other lines. The Excel part has such lines in
    /// quotation marks.
    ///
    /// # Errors
    /// Fails if the unit is unknown.
    fn from_banner(line: &str) -> Result<Option<Self>, String> {
        let line = line.trim().trim_matches('"').trim();
        if line.starts_with("OPS Mode.") {
            return Ok(Some(Self::OperationsPerSecond));
        }
        if line.starts_with("Microseconds/op Mode.") {
            return Ok(Some(Self::MicrosecondsPerOperation));
        }
        let Some(unit) = line.strip_prefix("Output is in ") else { return Ok(None) };
        match unit.trim().trim_end_matches('.') {
            "kBytes/sec" | "Kbytes/sec" => Ok(Some(Self::KibPerSecond)),
            "operations per second" | "ops/sec" => Ok(Some(Self::OperationsPerSecond)),
            "microseconds per operation" | "microseconds/op" => {
                Ok(Some(Self::MicrosecondsPerOperation))
            }
            _ => Err(unknown_unit_message(unit)),
        }
    }

    /// Returns the unit of a line of throughput mode.
    ///
    /// # Errors
    /// Fails if the unit is unknown.
    fn from_worker_line(unit: &str) -> Result<Self, String> {
        match unit {
            "kB/sec" | "KB/sec" => Ok(Self::KibPerSecond),
            "ops/sec" => Ok(Self::OperationsPerSecond),
            "usec/op" => Ok(Self::MicrosecondsPerOperation),
            _ => Err(unknown_unit_message(unit)),
        }
    }

    /// Converts a figure to a rate in B/s. `block` is the record size in bytes.
    fn rate(self, figure: f64, block: f64) -> f64 {
        match self {
            Self::KibPerSecond => figure * KIB as f64,
            Self::OperationsPerSecond => figure * block,
            Self::MicrosecondsPerOperation => block / (figure * 1e-6),
        }
    }
}

/// Returns the message that a unit is unknown.
fn unknown_unit_message(unit: &str) -> String {
    format!("the unit of its figures is unknown: {}", quote_text(unit))
}

/// Line of the table, with the sizes in bytes and the rates of the operations in B/s.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct IozoneLine {
    pub(super) file: u64,
    pub(super) block: u64,
    pub(super) rates: Vec<(&'static str, f64)>,
}

/// Results of a test in throughput mode; the rates are in B/s.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct IozoneThroughput {
    pub(super) name: &'static str,
    pub(super) workers: u32,
    pub(super) sizes: WorkerSizes,
    /// Sum of the rates of all workers.
    pub(super) children: f64,
    /// Rate of the parent process: the total amount of data divided by its elapsed time.
    pub(super) parent: Option<f64>,
    /// Rate of the slowest worker.
    pub(super) min: Option<f64>,
    /// Rate of the fastest worker.
    pub(super) max: Option<f64>,
    /// Minimum number of bytes that a worker transferred.
    pub(super) min_bytes: Option<f64>,
}

/// Sizes in throughput mode, bytes; `None` if they are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WorkerSizes {
    /// File size per worker.
    pub(super) file: Option<u64>,
    /// Record size.
    pub(super) block: Option<u64>,
}

/// Parsed output of one run of IOzone.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct IozoneOutput {
    /// Version of IOzone, e.g. `3.489`.
    pub(super) version: Option<String>,
    pub(super) command: Option<String>,
    pub(super) lines: Vec<IozoneLine>,
    pub(super) throughput: Vec<IozoneThroughput>,
    /// True if the text does not state the unit of its figures, so that KiB/s are assumed. Only the Excel part may lack
    /// the unit.
    pub(super) has_assumed_unit: bool,
    /// True if the output ends with IOzone's completion message.
    pub(super) complete: bool,
    /// True if IOzone reports a poor resolution of its clock.
    pub(super) has_poor_resolution: bool,
}

/// Parses a figure and returns the rate with the name of the operation. Returns `None` for an invalid figure, and
/// `Some(None)` for zero, which IOzone prints for a figure that was not measured.
fn parse_rate(
    name: &'static str,
    figure: &str,
    block: u64,
    unit: RateUnit,
) -> Option<Option<(&'static str, f64)>> {
    let figure: f64 = figure.parse().ok()?;
    if figure <= 0.0 {
        return Some(None);
    }
    let rate = unit.rate(figure, block as f64);
    printed::can_be_figure(rate).then_some(Some((name, rate)))
}

/// Parses a size in KiB and returns it in bytes.
fn kib(digits: &str) -> Option<u64> {
    digits.parse::<u64>().ok()?.checked_mul(KIB)
}

/// Returns the kind of a line that marks a run: title, figures, completion message or Excel part, in this order. A
/// saved Excel part may have no title.
pub(super) fn mark(line: &str) -> Option<RunMark> {
    // Among lines that begin with a quotation mark are most lines of JSON documents.
    if line.starts_with('"') {
        return (line == EXCEL).then_some(RunMark::once(3));
    }
    if line.contains(TITLE) {
        return Some(RunMark::TITLE);
    }
    if line.contains(END) {
        return Some(RunMark::once(2));
    }
    let is_figures = is_header(line) || line.starts_with(CHILDREN);
    is_figures.then_some(RunMark::repeated(1))
}

/// Returns the version of IOzone in its output.
pub(super) fn version(text: &str) -> Option<String> {
    after(text, "Version $Revision:").map(|rest| rest.trim_matches([' ', '$']).to_owned())
}

/// Sizes that the user requested, bytes; IOzone prints each of them.
#[derive(Debug, Default)]
struct RequestedSizes {
    files: Vec<u64>,
    blocks: Vec<u64>,
}

impl RequestedSizes {
    /// Parses the lines of a text with sizes.
    fn from_text(text: &str) -> Self {
        let mut sizes = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("File size set to") {
                sizes.files.extend(size_with_unit(rest));
            } else if let Some(rest) = line.strip_prefix("Record Size") {
                sizes.blocks.extend(size_with_unit(rest));
            }
        }
        sizes
    }

    /// Returns the sizes if there is only one of each.
    fn unique(&self) -> WorkerSizes {
        let only = |sizes: &[u64]| match sizes {
            [size] => Some(*size),
            _ => None,
        };
        WorkerSizes { file: only(&self.files), block: only(&self.blocks) }
    }

    /// Returns the sizes in a line before the figures: `Each process writes a 65536 kByte file in 1024 kByte records`.
    /// Returns `None` for other lines.
    ///
    /// # Errors
    /// Fails if the line cannot be read, or if the sizes differ from those that the user requested.
    fn written(&self, line: &str) -> Result<Option<WorkerSizes>, String> {
        let marks = ["Each process writes a", "Each thread writes a"];
        let Some(rest) = marks.iter().find_map(|mark| line.strip_prefix(mark)) else {
            return Ok(None);
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let sizes = match words[..] {
            [file, file_unit, "file", "in", block, block_unit, ..]
                if [file_unit, block_unit]
                    .iter()
                    .all(|unit| unit.eq_ignore_ascii_case("kbyte")) =>
            {
                kib(file).zip(kib(block))
            }
            _ => None,
        };
        let (file, block) = sizes.ok_or("the line with the sizes of its workers cannot be read")?;
        let is_requested =
            |size: u64, requested: &[u64]| requested.is_empty() || requested.contains(&size);
        if !is_requested(file, &self.files) || !is_requested(block, &self.blocks) {
            return Err("its sizes contradict each other".to_owned());
        }
        Ok(Some(WorkerSizes { file: Some(file), block: Some(block) }))
    }
}

/// Parses a size in KiB with its unit, and returns it in bytes: `1024 kB`.
fn size_with_unit(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [size, "kB" | "KB"] => kib(size),
        _ => None,
    }
}

impl IozoneOutput {
    /// True if a text looks like output of IOzone.
    pub(super) fn recognises(text: &str) -> bool {
        text.contains(TITLE)
            || text.contains(CHILDREN)
            || text.contains(EXCEL)
            || text.lines().any(is_header)
    }

    /// Parses the output of one run. The error is the reason why the output is refused: it is from another program,
    /// contains no figures, has figures of an unknown unit, or has an invalid line in the table.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if !Self::recognises(text) {
            return Err("this is not the output of iozone".to_owned());
        }
        let unit = RateUnit::from_text(text)?;
        if unit.is_none() {
            if text.contains(TITLE) {
                return Err("the line with the unit of its figures is missing".to_owned());
            }
            if text.lines().any(is_header) {
                return Err("it is a table without the banner, which iozone prints before the table and which \
                            contains the unit of the figures"
                    .to_owned());
            }
        }
        let mut output = Self {
            version: version(text),
            command: after(text, "Command line used:").map(|rest| rest.trim().to_owned()),
            complete: text.contains(END),
            has_poor_resolution: text.contains("Timer resolution is poor"),
            ..Self::default()
        };
        // A number in a last line without a line end may be truncated.
        let whole = printed::whole_lines(text);
        output.throughput = throughput(whole, unit)?;
        let unit_or_kib = unit.unwrap_or(RateUnit::KibPerSecond);
        output.table(whole, unit_or_kib)?;
        if output.lines.is_empty() {
            output.excel(whole, unit_or_kib)?;
            output.has_assumed_unit = unit.is_none() && !output.lines.is_empty();
        }
        if output.lines.is_empty() && output.throughput.is_empty() {
            return Err("the output of iozone contains no figures".to_owned());
        }
        Ok(output)
    }

    /// Parses the table lines below the header `kB reclen`.
    fn table(&mut self, text: &str, unit: RateUnit) -> Result<(), String> {
        let mut below: Option<TableHeader> = None;
        let mut seen = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let words = line.trim_start();
            if let Some(header) = TableHeader::parse(line) {
                below = Some(header);
            } else if words.is_empty() {
                below = None;
            } else if let Some(header) = below
                && words.starts_with(|c: char| c.is_ascii_digit())
            {
                let line = row(line, header, unit).ok_or_else(|| {
                    format!("line {} of the output of iozone cannot be read", number + 1)
                })?;
                if !seen.insert((line.file, line.block)) {
                    return Err(format!(
                        "line {} of the output of iozone has the sizes of an earlier line",
                        number + 1
                    ));
                }
                self.lines.push(line);
            }
        }
        Ok(())
    }

    /// Parses the tables of the Excel part of a text that does not contain the main table.
    fn excel(&mut self, text: &str, unit: RateUnit) -> Result<(), String> {
        let mut name = None;
        let mut blocks: Vec<u64> = Vec::new();
        let mut files: Vec<u64> = Vec::new();
        for line in text.lines().map(str::trim) {
            let title = line.trim_matches('"');
            if let Some((ours, ..)) =
                TESTS[..MAX_COLUMNS].iter().find(|(_, report, _)| *report == title)
            {
                name = Some(*ours);
                blocks.clear();
                continue;
            }
            let Some(name) = name.filter(|_| line.starts_with('"')) else { continue };
            let mut words = line.split_whitespace();
            if blocks.is_empty() {
                blocks = words.filter_map(quoted_size).collect();
                files.clear();
                if !grows_evenly(&blocks) {
                    return Err(format!(
                        "the block sizes of the table of {name} do not grow \
                         evenly"
                    ));
                }
                continue;
            }
            let Some(file) = words.next().and_then(quoted_size) else { continue };
            files.push(file);
            if !grows_evenly(&files) {
                return Err(format!("the file sizes of the table of {name} do not grow evenly"));
            }
            for (&block, figure) in blocks.iter().zip(words) {
                let Some(rate) = parse_rate(name, figure, block, unit).flatten() else { continue };
                match self.lines.iter_mut().find(|known| (known.file, known.block) == (file, block))
                {
                    Some(known) => known.rates.push(rate),
                    None => self.lines.push(IozoneLine { file, block, rates: vec![rate] }),
                }
            }
        }
        Ok(())
    }
}

/// Number with a unit at the end of a line of throughput mode.
#[derive(Debug, Clone, Copy)]
struct WorkerNumber<'t> {
    number: f64,
    unit: &'t str,
}

impl<'t> WorkerNumber<'t> {
    /// Parses the part of a line after the last equals sign; `None` if it is not a number with a unit.
    fn parse(line: &'t str) -> Option<Self> {
        let (_, right) = line.rsplit_once('=')?;
        let words: Vec<&str> = right.split_whitespace().collect();
        let [number, unit] = words[..] else { return None };
        Some(Self { number: parse_number(number)?, unit })
    }
}

/// Lines of a test in throughput mode.
#[derive(Debug)]
struct WorkerLines<'t> {
    name: &'static str,
    workers: u32,
    sizes: WorkerSizes,
    children: WorkerNumber<'t>,
    parent: Option<WorkerNumber<'t>>,
    min: Option<WorkerNumber<'t>>,
    max: Option<WorkerNumber<'t>>,
    average: Option<WorkerNumber<'t>>,
    min_transfer: Option<WorkerNumber<'t>>,
}

impl<'t> WorkerLines<'t> {
    /// Parses the first line of a test; `None` for a test that is unknown, and for one that measured nothing.
    fn begin(line: &'t str, sizes: WorkerSizes) -> Option<Self> {
        let (head, _) = line.strip_prefix(CHILDREN)?.split_once('=')?;
        let (workers, label) = head.trim().split_once(' ')?;
        let (name, ..) = TESTS.iter().find(|(.., theirs)| *theirs == Some(label.trim()))?;
        Some(Self {
            name,
            workers: workers.parse().ok().filter(|workers| *workers > 0)?,
            sizes,
            children: WorkerNumber::parse(line).filter(|sum| printed::can_be_figure(sum.number))?,
            parent: None,
            min: None,
            max: None,
            average: None,
            min_transfer: None,
        })
    }

    /// Adds a line of the test; other lines are ignored.
    fn add(&mut self, line: &'t str) {
        let fields = [
            ("Parent sees throughput", &mut self.parent),
            ("Min throughput", &mut self.min),
            ("Max throughput", &mut self.max),
            ("Avg throughput", &mut self.average),
            ("Min xfer", &mut self.min_transfer),
        ];
        for (mark, field) in fields {
            if line.starts_with(mark) && field.is_none() {
                *field = WorkerNumber::parse(line);
            }
        }
    }

    /// Converts the test to rates. `stated` is the unit in the banner.
    ///
    /// # Errors
    /// Fails if a unit is unknown, if the lines contradict each other or the banner, or if a rate cannot be computed.
    fn finish(&self, stated: Option<RateUnit>) -> Result<IozoneThroughput, String> {
        let Self { name, workers, sizes, children, .. } = *self;
        let unit = RateUnit::from_worker_line(children.unit)?;
        for other in [self.parent, self.min, self.max, self.average].into_iter().flatten() {
            if RateUnit::from_worker_line(other.unit)? != unit {
                return Err(format!("the lines of {name} have different units"));
            }
        }
        if stated.is_some_and(|stated| stated != unit) {
            return Err(format!("the unit of {name} is not that of the banner: {}", children.unit));
        }
        if unit == RateUnit::MicrosecondsPerOperation && workers > 1 {
            return Err(format!(
                "the rate of {name} cannot be computed from a time per operation of {workers} workers"
            ));
        }
        self.check_sum()?;
        let block = match sizes.block {
            Some(block) => block as f64,
            None if unit == RateUnit::KibPerSecond => 0.0,
            None => {
                return Err(format!(
                    "the record size is missing, without which {name} has no rate"
                ));
            }
        };
        let rate = |number: WorkerNumber<'_>| {
            Some(unit.rate(number.number, block)).filter(|rate| printed::can_be_figure(*rate))
        };
        Ok(IozoneThroughput {
            name,
            workers,
            sizes,
            children: unit.rate(children.number, block),
            parent: self.parent.and_then(rate),
            min: self.min.and_then(rate),
            max: self.max.and_then(rate),
            min_bytes: self.min_transfer.map(|least| self.transferred(least)).transpose()?,
        })
    }

    /// Checks that the sum over all workers agrees with their average, minimum and maximum.
    fn check_sum(&self) -> Result<(), String> {
        let sum = self.children.number;
        let workers = f64::from(self.workers);
        // Numbers have two decimals, and IOzone adds the rates of the workers with limited precision. The figures of a
        // single worker are equal.
        let slack = if self.workers == 1 { 0.0 } else { 0.005 * (workers + 1.0) + 1e-6 * sum };
        let is_average = self.average.is_none_or(|one| (one.number * workers - sum).abs() <= slack);
        let is_above_min = self.min.is_none_or(|one| one.number * workers <= sum + slack);
        let is_below_max = self.max.is_none_or(|one| one.number * workers >= sum - slack);
        if is_average && is_above_min && is_below_max {
            return Ok(());
        }
        Err(format!("the sum of the workers of {} contradicts their figures", self.name))
    }

    /// Converts the amount of data of a worker to bytes.
    fn transferred(&self, amount: WorkerNumber<'_>) -> Result<f64, String> {
        match (amount.unit, self.sizes.block) {
            ("kB" | "KB", _) => Ok(amount.number * KIB as f64),
            ("ops", Some(block)) => Ok(amount.number * block as f64),
            ("ops", None) => Err(format!(
                "the record size is missing, without which {} has no amount",
                self.name
            )),
            _ => Err(unknown_unit_message(amount.unit)),
        }
    }
}

/// Parses the tests of throughput mode. `unit` is the unit in the banner.
///
/// # Errors
/// Fails if the sizes, units or figures of the workers are missing, unknown or contradictory.
fn throughput(text: &str, unit: Option<RateUnit>) -> Result<Vec<IozoneThroughput>, String> {
    let requested = RequestedSizes::from_text(text);
    let mut sizes = requested.unique();
    let mut tests = Vec::new();
    let mut open: Option<WorkerLines<'_>> = None;
    for line in text.lines().map(str::trim) {
        if let Some(written) = requested.written(line)? {
            sizes = written;
        } else if line.starts_with(CHILDREN) {
            tests.extend(open.take());
            open = WorkerLines::begin(line, sizes);
        } else if let Some(test) = &mut open {
            test.add(line);
        }
    }
    tests.extend(open);
    tests.iter().map(|test| test.finish(unit)).collect()
}

/// True if sizes grow by a constant factor, as in IOzone's automatic mode.
fn grows_evenly(sizes: &[u64]) -> bool {
    let mut factors = sizes.windows(2).map(|two| two[1] as f64 / two[0] as f64);
    let Some(first) = factors.next() else { return true };
    first > 1.0 && factors.all(|factor| factor == first)
}

/// Parses a size of the Excel part, which is in quotes.
fn quoted_size(word: &str) -> Option<u64> {
    kib(word.trim_matches('"'))
}

/// Parses a line of the table. Fields of tests that did not run are blank, so the column of a figure follows only from
/// its position after the sizes. There is no space between a figure of nine digits and the previous figure.
fn row(line: &str, header: TableHeader, unit: RateUnit) -> Option<IozoneLine> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [file, block, figures @ ..] = &words[..] else { return None };
    let file = kib(file)?;
    let block = kib(block)?;
    let most = header.max_columns();
    let by_place = header
        .widths
        .and_then(|widths| figures_by_column(after_sizes(line).trim_end(), widths, most));
    let figures = match by_place {
        Some(by_place) => by_place,
        // Lines whose spacing differs from IOzone's are accepted if no column is missing.
        None if figures.len() == header.columns || figures.len() == most => {
            let numbered = figures.iter().copied().enumerate();
            numbered.map(|(column, figure)| ColumnFigure { column, figure }).collect()
        }
        None => return None,
    };
    let mut rates = Vec::new();
    for ColumnFigure { column, figure } in figures {
        rates.extend(parse_rate(TESTS[column].0, figure, block, unit)?);
    }
    Some(IozoneLine { file, block, rates })
}

#[cfg(test)]
mod tests;
