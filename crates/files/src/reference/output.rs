//! Parser of IOzone's output: the table of automatic mode and of single sizes, the Excel part, and throughput mode. The
//! banner contains the unit of the figures (KiB/s, operations per second or microseconds per operation). All figures
//! are converted to B/s.

use nodegauge_gauge::readers::RunMark;
use nodegauge_measure::printed;
use std::collections::BTreeSet;

/// Title of IOzone's output.
const TITLE: &str = "Iozone: Performance Test of File I/O";
/// Title of the first table of the Excel part.
const EXCEL: &str = "\"Writer report\"";
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

/// Widths of the columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnWidths {
    /// Widths of older versions (up to 3.42 or later), whose table headers begin with `KB`.
    Narrow,
    /// Widths of later versions, whose table headers begin with `kB`.
    Wide,
}

impl ColumnWidths {
    /// Returns the widths according to the header of a table; `None` for other lines.
    fn from_header(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let widths = match words.next()? {
            "KB" => Self::Narrow,
            "kB" => Self::Wide,
            _ => return None,
        };
        (words.next() == Some("reclen")).then_some(widths)
    }

    /// Returns the number of columns.
    fn count(self) -> usize {
        match self {
            Self::Narrow => MIN_COLUMNS,
            Self::Wide => MAX_COLUMNS,
        }
    }

    /// Returns the width of a column.
    fn width(self, column: usize) -> usize {
        /// Widths of narrow columns, in the order of [`TESTS`].
        const NARROW: [usize; MIN_COLUMNS] = [8, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 8, 9];
        match self {
            Self::Narrow => NARROW[column],
            Self::Wide if is_wide(TESTS[column].0) => 10,
            Self::Wide => 9,
        }
    }
}

/// Splits the part of a line after the sizes into fields of fixed width. Returns the fields that are not blank, with
/// their column numbers; the field of a test that did not run is blank. Returns `None` if a field is not a number that
/// ends at the right edge of its column, because such a line does not have IOzone's spacing.
fn fields_by_column(mut rest: &str, widths: ColumnWidths) -> Option<Vec<(usize, &str)>> {
    let mut figures = Vec::new();
    for column in 0..widths.count() {
        let width = widths.width(column);
        let (field, more) = rest.split_at_checked(rest.len().min(width))?;
        rest = more;
        let figure = field.trim_start_matches(' ');
        if figure.is_empty() {
            continue;
        }
        if field.len() != width || !figure.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        figures.push((column, figure));
    }
    rest.is_empty().then_some(figures)
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

/// Returns the size after `mark`, in bytes.
fn size_after(text: &str, mark: &str) -> Option<u64> {
    kib(after(text, mark)?.split_whitespace().next()?)
}

/// Returns the value in a line of throughput mode, in bytes per second or bytes.
fn throughput_figure(line: &str) -> Option<f64> {
    let (_, right) = line.rsplit_once('=')?;
    let figure = right.split_whitespace().next()?.parse::<f64>().ok()? * KIB as f64;
    Some(figure).filter(|figure| printed::can_be_figure(*figure))
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
    pub(super) sizes: WorkerSizes,
    /// True if the output ends with IOzone's completion message.
    pub(super) complete: bool,
    /// True if IOzone reports a poor resolution of its clock.
    pub(super) has_poor_resolution: bool,
}

/// Function that converts a figure to a rate in B/s. The second argument is the block size in bytes.
type ToRate = fn(f64, f64) -> f64;

/// Parses a figure and returns the rate with the name of the operation. Returns `None` for an invalid figure, and
/// `Some(None)` for zero, which IOzone prints for a figure that was not measured.
fn parse_rate(
    name: &'static str,
    figure: &str,
    block: u64,
    to_rate: ToRate,
) -> Option<Option<(&'static str, f64)>> {
    let figure: f64 = figure.parse().ok()?;
    if figure <= 0.0 {
        return Some(None);
    }
    let rate = to_rate(figure, block as f64);
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
    let is_table = ColumnWidths::from_header(line).is_some();
    let is_figures = is_table || line.starts_with("Children see throughput for");
    is_figures.then_some(RunMark::repeated(1))
}

/// Returns the version of IOzone in its output.
pub(super) fn version(text: &str) -> Option<String> {
    after(text, "Version $Revision:").map(|rest| rest.trim_matches([' ', '$']).to_owned())
}

/// Returns the unit of the figures, which the banner contains. A text without banner, e.g. the Excel part, is in KiB/s.
fn rate_unit(text: &str) -> Result<ToRate, String> {
    if text.contains("Microseconds/op Mode") {
        return Ok(|microseconds, block| block / (microseconds * 1e-6));
    }
    if text.contains("OPS Mode") || text.contains("operations per second") {
        return Ok(|operations, block| operations * block);
    }
    let is_stated = ["Output is in Kbytes/sec", "Output is in kBytes/sec"];
    if text.contains(TITLE) && !is_stated.iter().any(|unit| text.contains(unit)) {
        return Err("the line with the unit of its figures is missing".to_owned());
    }
    Ok(|kib, _| kib * KIB as f64)
}

/// Returns the sizes in throughput mode. IOzone prints them when it sets them, and again before the figures: `Each
/// process writes a 65536 kByte file in 1024 kByte records`.
///
/// # Errors
/// Fails if the two lines differ.
fn worker_sizes(text: &str) -> Result<WorkerSizes, String> {
    let requested = WorkerSizes {
        file: size_after(text, "File size set to"),
        block: size_after(text, "Record Size"),
    };
    let line = after(text, "Each process writes a").or(after(text, "Each thread writes a"));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    let [file, _, "file", "in", block, ..] = words[..] else { return Ok(requested) };
    let written = WorkerSizes { file: kib(file), block: kib(block) };
    let is_other_file = requested.file.is_some() && requested.file != written.file;
    let is_other_block = requested.block.is_some() && requested.block != written.block;
    if is_other_file || is_other_block {
        return Err("its sizes contradict each other".to_owned());
    }
    Ok(written)
}

impl IozoneOutput {
    /// True if a text looks like output of IOzone.
    pub(super) fn recognises(text: &str) -> bool {
        text.contains(TITLE) || text.contains("Children see throughput for") || text.contains(EXCEL)
    }

    /// Parses the output of one run. The error is the reason why the output is refused: it is from another program,
    /// contains no figures, or has an invalid line in the table.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if !Self::recognises(text) {
            return Err("this is not the output of iozone".to_owned());
        }
        let unit = rate_unit(text)?;
        let mut output = Self {
            version: version(text),
            command: after(text, "Command line used:").map(|rest| rest.trim().to_owned()),
            sizes: worker_sizes(text)?,
            complete: text.contains(END),
            has_poor_resolution: text.contains("Timer resolution is poor"),
            ..Self::default()
        };
        // A number in a last line without a line end may be truncated.
        let whole = printed::whole_lines(text);
        output.table(whole, unit)?;
        output.throughput(whole);
        if output.lines.is_empty() {
            output.excel(whole, unit)?;
        }
        if output.lines.is_empty() && output.throughput.is_empty() {
            return Err("the output of iozone contains no figures".to_owned());
        }
        Ok(output)
    }

    /// Parses the table lines below the header `kB reclen`.
    fn table(&mut self, text: &str, unit: ToRate) -> Result<(), String> {
        let mut below: Option<ColumnWidths> = None;
        let mut seen = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let words = line.trim_start();
            if let Some(widths) = ColumnWidths::from_header(line) {
                below = Some(widths);
            } else if words.is_empty() {
                below = None;
            } else if let Some(widths) = below
                && words.starts_with(|c: char| c.is_ascii_digit())
            {
                let line = row(line, widths, unit).ok_or_else(|| {
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

    /// Parses the groups of lines that begin with `Children see throughput for`.
    fn throughput(&mut self, text: &str) {
        for line in text.lines().map(str::trim) {
            if let Some(test) = IozoneThroughput::parse_begin(line) {
                self.throughput.push(test);
                continue;
            }
            let Some(last) = self.throughput.last_mut() else { continue };
            for (mark, field) in [
                ("Parent sees throughput", &mut last.parent),
                ("Min throughput", &mut last.min),
                ("Max throughput", &mut last.max),
                ("Min xfer", &mut last.min_bytes),
            ] {
                if line.starts_with(mark) && field.is_none() {
                    *field = throughput_figure(line);
                }
            }
        }
    }

    /// Parses the tables of the Excel part of a text that does not contain the main table.
    fn excel(&mut self, text: &str, unit: ToRate) -> Result<(), String> {
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

impl IozoneThroughput {
    /// Parses the first line of a test's group of lines; `None` for other lines.
    fn parse_begin(line: &str) -> Option<Self> {
        let (head, _) = line.strip_prefix("Children see throughput for")?.split_once('=')?;
        let (workers, label) = head.trim().split_once(' ')?;
        let (name, ..) = TESTS.iter().find(|(.., theirs)| *theirs == Some(label.trim()))?;
        let workers = workers.parse().ok()?;
        let children = throughput_figure(line)?;
        Some(Self { name, workers, children, ..Self::default() })
    }
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
fn row(line: &str, widths: ColumnWidths, unit: ToRate) -> Option<IozoneLine> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [file, block, figures @ ..] = &words[..] else { return None };
    let file = kib(file)?;
    let block = kib(block)?;
    let by_place = fields_by_column(after_sizes(line).trim_end(), widths);
    let figures = match by_place {
        Some(by_place) if by_place.len() >= figures.len() => by_place,
        // Lines whose spacing differs from IOzone's are accepted if no column is missing.
        _ if [MIN_COLUMNS, MAX_COLUMNS].contains(&figures.len()) => {
            figures.iter().copied().enumerate().collect()
        }
        _ => return None,
    };
    let mut rates = Vec::new();
    for (column, figure) in figures {
        rates.extend(parse_rate(TESTS[column].0, figure, block, unit)?);
    }
    Some(IozoneLine { file, block, rates })
}

#[cfg(test)]
mod tests;
