//! STREAM's table as programs print it and as documents show it. Columns are separated by spaces or by pipes (Markdown,
//! reStructuredText). There may be lines between rows, emphasis, any unit of rates, decimal commas and thousands
//! separators. An ambiguous number is refused. All functions are pure.

use super::unread::{StreamOutputError, first_line_part};
use nodegauge_measure::{BytesPerSec, Seconds, UnitPrefix, printed};

/// Names of the kernels in the table, in the order of `STREAM`.
pub(super) const KERNEL_NAMES: [&str; 4] = ["Copy", "Scale", "Add", "Triad"];
/// Units of rates in lower case, with their prefixes.
const UNITS: [(&str, UnitPrefix); 8] = [
    ("kb/s", UnitPrefix::Kilo),
    ("mb/s", UnitPrefix::Mega),
    ("gb/s", UnitPrefix::Giga),
    ("tb/s", UnitPrefix::Tera),
    ("kib/s", UnitPrefix::Kibi),
    ("mib/s", UnitPrefix::Mebi),
    ("gib/s", UnitPrefix::Gibi),
    ("tib/s", UnitPrefix::Tebi),
];
/// Units of times other than seconds.
const OTHER_TIMES: [&str; 7] = ["ms", "us", "\u{b5}s", "\u{3bc}s", "ns", "msec", "usec"];
/// Thousands separators in addition to point and comma.
const THOUSANDS: [char; 6] = [' ', '\u{a0}', '\u{202f}', '\u{2009}', '\'', '\u{2019}'];
/// Number of lines after the header that may contain the rows; separator lines do not count.
const WINDOW: usize = 6;

/// Line of the table, for one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelLine {
    /// Best rate of the kernel, B/s.
    pub rate: BytesPerSec,
    /// Resolution of the printed rate: 0.1 MB/s for one decimal.
    pub rate_step: BytesPerSec,
    /// Average, minimum and maximum time, seconds.
    pub times: [Seconds; 3],
    /// Resolution of the printed times: 1 us for six decimals.
    pub step: Seconds,
}

/// Parsed table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamTable {
    /// Lines of the four kernels, in STREAM's order.
    pub(super) lines: [KernelLine; 4],
    /// True if the header contains `Best Rate`, as since stream.c 5.10.
    pub(super) has_best_rate: bool,
}

/// Returns the lines of a text with their numbers, from 1.
pub(super) fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

/// Returns the numbers of the lines that begin a table; each run has one table.
pub fn header_lines(text: &str) -> Vec<usize> {
    numbered_lines(text).filter(|(_, line)| is_header(line)).map(|(number, _)| number).collect()
}

/// Parses the table of a text, which must be the only one.
pub(super) fn read(text: &str) -> Result<StreamTable, StreamOutputError> {
    let Some(whole) = numbered_lines(text).find(|(_, line)| is_header(line)) else {
        return Err(without_table(text));
    };
    let header = Header::read(whole.1, whole.0)?;
    if let Some(error) = repeated(header.lines_behind(text)) {
        return Err(error);
    }
    let window = header.lines_behind(text).filter(|(_, line)| has_words(line)).take(WINDOW);
    let found: Vec<Row<'_>> = window.filter_map(Row::parse).collect();
    let [copy, scale, add, triad] = KERNEL_NAMES.map(|kernel| header.kernel_row(kernel, &found));
    let rows = [copy?, scale?, add?, triad?];
    let decimal = decimal_mark(&rows)?;
    let unended = printed::unterminated_line(text);
    let [first, second, third, fourth] = rows.map(|row| {
        let is_unended = unended == Some(row.whole);
        row.read(decimal, header.unit, is_unended).ok_or_else(|| row.invalid())
    });
    let lines = [first?, second?, third?, fourth?];
    Ok(StreamTable { lines, has_best_rate: header.has_best_rate })
}

/// Returns the reason why a text without a STREAM header is refused.
fn without_table(text: &str) -> StreamOutputError {
    let Some(first) = text.lines().map(str::trim).find(|line| has_words(line)) else {
        return StreamOutputError::Nothing;
    };
    match numbered_lines(text).find(|(_, line)| plain(line).starts_with("function ")) {
        Some((line, header)) => {
            StreamOutputError::OtherTable { text: first_line_part(header.trim()), line }
        }
        None => StreamOutputError::NoTable(first_line_part(first)),
    }
}

/// Returns an error if a second line for a kernel occurs after the header, because it may belong to another table whose
/// header is missing.
fn repeated<'a>(behind: impl Iterator<Item = (usize, &'a str)>) -> Option<StreamOutputError> {
    let mut seen: Vec<&str> = Vec::new();
    for row in behind.filter_map(Row::parse).filter(|row| row.is_certain) {
        if seen.contains(&row.kernel) {
            return Some(StreamOutputError::Repeated { kernel: row.kernel, line: row.line });
        }
        seen.push(row.kernel);
    }
    None
}

/// True if a line contains words, i.e. is not a separator.
fn has_words(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

/// Returns the words of a line in lower case, without pipes, brackets and emphasis.
fn plain(line: &str) -> String {
    let words = line.split(|c: char| c.is_whitespace() || "|*`>()[]".contains(c));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// True if a line is the header of a table of STREAM.
pub(super) fn is_header(line: &str) -> bool {
    let words = plain(line);
    words.starts_with("function ") && words.contains(" rate") && words.contains("/s")
}

/// Header of a table.
struct Header {
    /// Unit of the rates, B/s.
    unit: f64,
    has_best_rate: bool,
    /// Number of the line.
    line: usize,
}

impl Header {
    fn read(whole: &str, line: usize) -> Result<Self, StreamOutputError> {
        let words = plain(whole);
        let text = first_line_part(whole.trim());
        let columns = ["rate", "avg", "min", "max"].map(|column| words.find(column));
        if columns.contains(&None) || !columns.is_sorted() {
            return Err(StreamOutputError::OtherTable { text, line });
        }
        let mut words_of = words.split(' ').map(|word| word.trim_matches([',', ';', ':']));
        let unit = words_of.by_ref().skip_while(|word| *word != "rate").nth(1);
        let unit = UNITS.iter().find(|(name, _)| Some(*name) == unit);
        let unit = unit.map(|(_, prefix)| prefix.factor());
        let Some(unit) = unit else { return Err(StreamOutputError::Unit { text, line }) };
        if words_of.any(|word| OTHER_TIMES.contains(&word)) {
            return Err(StreamOutputError::TimeUnit { text, line });
        }
        Ok(Self { unit, has_best_rate: words.contains("best rate"), line })
    }

    /// Returns the lines after the header with their numbers.
    fn lines_behind<'a>(&self, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let header = self.line;
        numbered_lines(text).skip_while(move |(number, _)| *number <= header)
    }

    /// Returns the row of a kernel.
    fn kernel_row<'r, 'a>(
        &self,
        kernel: &'static str,
        found: &'r [Row<'a>],
    ) -> Result<&'r Row<'a>, StreamOutputError> {
        let row = found.iter().find(|row| row.kernel == kernel);
        row.ok_or(StreamOutputError::NoLine { kernel, line: self.line })
    }
}

/// Row of a table.
struct Row<'a> {
    kernel: &'static str,
    /// Cells after the name.
    numbers: Vec<&'a str>,
    /// True if the line is a row at any position; false if it may be a sentence that begins with the name of a kernel.
    is_certain: bool,
    /// Number of the line.
    line: usize,
    whole: &'a str,
}

impl<'a> Row<'a> {
    /// Returns the row of a kernel; `None` for other lines.
    fn parse((line, whole): (usize, &'a str)) -> Option<Self> {
        let text = whole.trim().trim_start_matches('>').trim();
        let is_piped = text.contains('|');
        let cells: Vec<&str> = if is_piped {
            text.trim_matches('|').split('|').map(|cell| cell.trim_matches(is_edge)).collect()
        } else {
            text.split_whitespace().map(|cell| cell.trim_matches(is_edge)).collect()
        };
        let (name, numbers) = cells.split_first()?;
        let bare = name.trim_end_matches(':').trim_matches(is_edge);
        let kernel = KERNEL_NAMES.into_iter().find(|kernel| *kernel == bare)?;
        let (numbers, has_colon) = match numbers {
            [":", rest @ ..] => (rest, true),
            all => (all, name.contains(':')),
        };
        let is_all_numbers = numbers.len() == 4
            && numbers.iter().all(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let is_certain = has_colon || is_all_numbers;
        let is_row = is_certain || is_piped;
        let numbers = numbers.to_vec();
        is_row.then_some(Self { kernel, numbers, is_certain, line, whole })
    }

    /// Parses the numbers of the row; `None` if they are not a rate and three times, or if the last one may be cut off.
    fn read(&self, decimal: char, unit: f64, is_unended: bool) -> Option<KernelLine> {
        let numbers: Option<Vec<Number>> =
            self.numbers.iter().map(|word| Number::read(word, decimal)).collect();
        let [rate, average, least, greatest] = <[Number; 4]>::try_from(numbers?).ok()?;
        let all = [rate.value * unit, average.value, least.value, greatest.value];
        // A program prints all times with the same number of decimals; a truncated number has fewer.
        let may_be_cut = is_unended && greatest.decimals != least.decimals;
        if may_be_cut || !all.into_iter().all(printed::can_be_figure) {
            return None;
        }
        Some(KernelLine {
            rate: BytesPerSec(all[0]),
            rate_step: BytesPerSec(rate.step() * unit),
            times: [all[1], all[2], all[3]].map(Seconds),
            step: Seconds(least.step()),
        })
    }

    fn invalid(&self) -> StreamOutputError {
        StreamOutputError::BadLine { text: first_line_part(self.whole.trim()), line: self.line }
    }
}

/// True for a character around a cell that does not belong to it.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || "*`_".contains(c)
}

/// A printed number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Number {
    value: f64,
    decimals: u32,
}

impl Number {
    fn read(word: &str, decimal: char) -> Option<Self> {
        let (whole, decimals) = word.split_once(decimal).unwrap_or((word, ""));
        let whole = if whole.is_empty() { "0".to_owned() } else { digits(whole, decimal)? };
        let is_digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
        let value = format!("{whole}.{decimals}0").parse().ok();
        let decimals = u32::try_from(decimals.len()).ok()?;
        Some(Self { value: value.filter(|_| is_digits)?, decimals })
    }

    /// Returns the resolution of the printed number.
    fn step(&self) -> f64 {
        0.1f64.powi(i32::try_from(self.decimals).unwrap_or(i32::MAX))
    }
}

/// Returns the digits of an integer; its thousands separators must all be the same.
fn digits(word: &str, decimal: char) -> Option<String> {
    let mark = word.chars().find(|c| !c.is_ascii_digit());
    let Some(mark) = mark else { return (!word.is_empty()).then(|| word.to_owned()) };
    let is_mark = THOUSANDS.contains(&mark) || ".,".contains(mark) && mark != decimal;
    let groups: Vec<&str> = word.split(mark).collect();
    let are_digits = groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_digit()));
    let first = groups.first().map_or(0, |group| group.len());
    let are_whole = groups.iter().skip(1).all(|group| group.len() == 3);
    let is_sound = is_mark && (1..=3).contains(&first) && are_whole && are_digits;
    is_sound.then(|| groups.concat())
}

/// Parses an integer with optional thousands separators; `None` for any other text.
pub(super) fn parse_count(word: &str) -> Option<u64> {
    digits(word, '\0')?.parse().ok()
}

/// Returns the decimal mark of a table: the mark that the numbers prove, or a point if no number contains a comma.
/// Fails if the numbers prove both marks, and if they contain a comma but prove neither mark.
fn decimal_mark(rows: &[&Row<'_>; 4]) -> Result<char, StreamOutputError> {
    let mut proven: Option<char> = None;
    let mut with_comma: Option<StreamOutputError> = None;
    for row in rows {
        for word in &row.numbers {
            let ambiguous =
                StreamOutputError::Ambiguous { text: first_line_part(word), line: row.line };
            match proven_mark(word) {
                Some(mark) if proven.is_some_and(|other| other != mark) => return Err(ambiguous),
                Some(mark) => proven = Some(mark),
                None if word.contains(',') && with_comma.is_none() => with_comma = Some(ambiguous),
                None => {}
            }
        }
    }
    match (proven, with_comma) {
        (Some(mark), _) => Ok(mark),
        (None, None) => Ok('.'),
        (None, Some(ambiguous)) => Err(ambiguous),
    }
}

/// Returns the decimal mark that a number proves. `12.345` proves none, because its mark may separate thousands.
fn proven_mark(word: &str) -> Option<char> {
    let last = word.chars().rev().find(|c| ".,".contains(*c))?;
    let other = if last == '.' { ',' } else { '.' };
    if word.contains(other) {
        return Some(last);
    }
    if word.matches(last).count() > 1 {
        return Some(other);
    }
    let (whole, decimals) = word.split_once(last)?;
    let may_be_thousands =
        decimals.len() == 3 && (1..=3).contains(&whole.len()) && !whole.starts_with('0');
    (!may_be_thousands).then_some(last)
}

#[cfg(test)]
mod tests;
