//! Reads what IOzone prints: the table of automatic mode and of single sizes, the Excel part, and
//! throughput mode. Rates come in KiB/s, operations per second or microseconds an operation, which
//! its banner says; all are turned into B/s.

use std::fmt;

/// Operations of the table's columns, in order; the second row of names only where such tests ran.
pub(crate) const COLUMNS: [&str; 21] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random_read",
    "random_write",
    "bkwd_read",
    "record_rewrite",
    "stride_read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
    "pwrite",
    "repwrite",
    "pread",
    "repread",
    "pwritev",
    "repwritev",
    "preadv",
    "repreadv",
];
/// Width of the two columns of sizes together.
const SIZES: usize = 24;

/// Width of a column of rates: two are wider.
fn width(column: usize) -> usize {
    if matches!(COLUMNS.get(column), Some(&("record_rewrite" | "stride_read"))) { 10 } else { 9 }
}

/// The figures of a line by their places; those of tests that did not run are blank.
fn by_place(mut rest: &str) -> Vec<(usize, &str)> {
    let mut figures = Vec::new();
    for column in 0.. {
        if rest.is_empty() {
            break;
        }
        let (figure, more) = rest.split_at(rest.len().min(width(column)));
        rest = more;
        if !figure.trim().is_empty() {
            figures.push((column, figure.trim()));
        }
    }
    figures
}

/// The Excel part's names of tables.
const REPORTS: [(&str, &str); 21] = [
    ("Writer report", "write"),
    ("Re-writer report", "rewrite"),
    ("Reader report", "read"),
    ("Re-Reader report", "reread"),
    ("Random read report", "random_read"),
    ("Random write report", "random_write"),
    ("Backward read report", "bkwd_read"),
    ("Record rewrite report", "record_rewrite"),
    ("Stride read report", "stride_read"),
    ("Fwrite report", "fwrite"),
    ("Re-Fwrite report", "frewrite"),
    ("Fread report", "fread"),
    ("Re-Fread report", "freread"),
    ("Pwrite report", "pwrite"),
    ("Re-Pwrite report", "repwrite"),
    ("Pread report", "pread"),
    ("Re-Pread report", "repread"),
    ("Pwritev report", "pwritev"),
    ("Re-Pwritev report", "repwritev"),
    ("Preadv report", "preadv"),
    ("Re-Preadv report", "repreadv"),
];
/// Throughput mode's names of tests, as they follow the number of workers.
pub(crate) const THROUGHPUT: [(&str, &str); 15] = [
    ("initial writers", "write"),
    ("rewriters", "rewrite"),
    ("readers", "read"),
    ("re-readers", "reread"),
    ("reverse readers", "bkwd_read"),
    ("stride readers", "stride_read"),
    ("random readers", "random_read"),
    ("mixed workload", "random_mix"),
    ("random writers", "random_write"),
    ("pwrite writers", "pwrite"),
    ("pread readers", "pread"),
    ("fwriters", "fwrite"),
    ("freaders", "fread"),
    ("re-fwriters", "frewrite"),
    ("re-freaders", "freread"),
];

/// A line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct IozoneLine {
    /// Size of the file, bytes.
    pub file: u64,
    /// Size of a record, bytes.
    pub block: u64,
    /// Operation and its rate in B/s.
    pub rates: Vec<(&'static str, f64)>,
}

/// A test of throughput mode.
#[derive(Debug, Clone, PartialEq)]
pub struct IozoneThroughput {
    /// The operation.
    pub name: &'static str,
    /// Workers.
    pub workers: u32,
    /// Sum of the workers' own rates, B/s.
    pub children: f64,
    /// All data over the parent's time, B/s.
    pub parent: Option<f64>,
    /// Slowest and fastest worker, B/s.
    pub least: Option<f64>,
    /// See above.
    pub most: Option<f64>,
    /// Fewest bytes that a worker moved.
    pub least_bytes: Option<f64>,
}

/// What one run printed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IozoneOutput {
    /// E.g. `3.489`.
    pub version: Option<String>,
    /// The command as it says it.
    pub command: Option<String>,
    /// Cells of the table.
    pub lines: Vec<IozoneLine>,
    /// Tests of throughput mode.
    pub throughput: Vec<IozoneThroughput>,
    /// Size of a worker's file and of a record in throughput mode, bytes.
    pub sizes: (Option<u64>, Option<u64>),
    /// Whether it ends as it should.
    pub complete: bool,
    /// Whether it doubts its own clock.
    pub poor_resolution: bool,
}

/// Why a text is not taken for IOzone's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputError {
    /// Nothing of it reads as such.
    NotIozone,
    /// It has a banner and no figures.
    NoFigures,
    /// A line of the table cannot be read; its number from 1.
    Line(usize),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotIozone => f.write_str("this is not the output of iozone"),
            Self::NoFigures => f.write_str("the output of iozone holds no figures"),
            Self::Line(n) => write!(f, "line {n} of the output of iozone cannot be read"),
        }
    }
}

impl std::error::Error for OutputError {}

/// The unit of the figures.
#[derive(Clone, Copy, PartialEq)]
enum RateUnit {
    Kib,
    Operations,
    Microseconds,
}

impl RateUnit {
    /// A figure in B/s; zero says that nothing was measured.
    fn rate(self, figure: f64, block: f64) -> Option<f64> {
        (figure > 0.0).then(|| match self {
            Self::Kib => figure * 1024.0,
            Self::Operations => figure * block,
            Self::Microseconds => block / (figure * 1e-6),
        })
    }
}

impl IozoneOutput {
    /// Whether a text looks like IOzone's.
    pub fn recognises(text: &str) -> bool {
        text.contains("Iozone: Performance Test of File I/O")
            || text.contains("Children see throughput for")
            || (text.contains(" report\"\n") && text.contains("\"Writer report\""))
    }

    /// Reads all that one run printed.
    ///
    /// # Errors
    /// When it is something else, has no figures, or a line of the table is broken.
    pub fn read(text: &str) -> Result<Self, OutputError> {
        if !Self::recognises(text) {
            return Err(OutputError::NotIozone);
        }
        let after = |mark: &str| text.lines().find_map(|line| line.trim().strip_prefix(mark));
        let unit = if text.contains("Microseconds/op Mode") {
            RateUnit::Microseconds
        } else if text.contains("OPS Mode") || text.contains("operations per second") {
            RateUnit::Operations
        } else {
            RateUnit::Kib
        };
        let size = |mark: &str| {
            after(mark)?.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        let mut output = Self {
            version: after("Version $Revision:")
                .map(|rest| rest.trim_matches([' ', '$']).to_owned()),
            command: after("Command line used:").map(|rest| rest.trim().to_owned()),
            sizes: (size("File size set to"), size("Record Size")),
            complete: text.contains("iozone test complete."),
            poor_resolution: text.contains("Timer resolution is poor"),
            ..Self::default()
        };
        output.table(text, unit)?;
        output.throughput(text);
        if output.lines.is_empty() {
            output.excel(text, unit);
        }
        if output.lines.is_empty() && output.throughput.is_empty() {
            return Err(OutputError::NoFigures);
        }
        Ok(output)
    }

    /// The lines below the header `kB reclen`.
    fn table(&mut self, text: &str, unit: RateUnit) -> Result<(), OutputError> {
        let mut below = false;
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            if words.next() == Some("kB") && words.next() == Some("reclen") {
                below = true;
            } else if below {
                if line.trim().is_empty() {
                    below = false;
                } else if line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                    self.lines.push(row(line, unit).ok_or(OutputError::Line(number + 1))?);
                }
            }
        }
        Ok(())
    }

    /// The groups of lines `Children see throughput for`.
    fn throughput(&mut self, text: &str) {
        let figure = |line: &str| -> Option<f64> {
            let (_, right) = line.rsplit_once('=')?;
            Some(right.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
        };
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("Children see throughput for") {
                let Some((head, _)) = rest.split_once('=') else { continue };
                let mut words = head.split_whitespace();
                let workers = words.next().and_then(|word| word.parse().ok());
                let label = words.collect::<Vec<_>>().join(" ");
                let name = THROUGHPUT.iter().find(|(theirs, _)| *theirs == label);
                if let (Some(workers), Some((_, name)), Some(children)) =
                    (workers, name, figure(line))
                {
                    self.throughput.push(IozoneThroughput {
                        name,
                        workers,
                        children,
                        parent: None,
                        least: None,
                        most: None,
                        least_bytes: None,
                    });
                }
                continue;
            }
            let Some(last) = self.throughput.last_mut() else { continue };
            for (mark, field) in [
                ("Parent sees throughput", &mut last.parent),
                ("Min throughput", &mut last.least),
                ("Max throughput", &mut last.most),
                ("Min xfer", &mut last.least_bytes),
            ] {
                if line.starts_with(mark) && field.is_none() {
                    *field = figure(line);
                }
            }
        }
    }

    /// The tables of the Excel part, for a text that holds nothing else.
    fn excel(&mut self, text: &str, unit: RateUnit) {
        let mut name = None;
        let mut blocks: Vec<u64> = Vec::new();
        let unquoted = |word: &str| word.trim_matches('"').parse::<u64>().ok();
        for line in text.lines().map(str::trim) {
            if let Some((_, ours)) =
                REPORTS.iter().find(|(theirs, _)| line.trim_matches('"') == *theirs)
            {
                name = Some(*ours);
                blocks.clear();
                continue;
            }
            let Some(name) = name.filter(|_| line.starts_with('"')) else { continue };
            let mut words = line.split_whitespace();
            if blocks.is_empty() {
                blocks = words.filter_map(unquoted).collect();
                continue;
            }
            let Some(file) = words.next().and_then(unquoted) else { continue };
            for (block, figure) in blocks.iter().zip(words) {
                let rate = figure.parse().ok().and_then(|f| unit.rate(f, (block * 1024) as f64));
                if let Some(rate) = rate {
                    self.put(file * 1024, block * 1024, name, rate);
                }
            }
        }
    }

    fn put(&mut self, file: u64, block: u64, name: &'static str, rate: f64) {
        match self.lines.iter_mut().find(|line| (line.file, line.block) == (file, block)) {
            Some(line) => line.rates.push((name, rate)),
            None => self.lines.push(IozoneLine { file, block, rates: vec![(name, rate)] }),
        }
    }
}

/// A line of the table. Tests that did not run are blank, so a figure's place tells its column; one
/// of nine digits touches the one before it.
fn row(line: &str, unit: RateUnit) -> Option<IozoneLine> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (file, block) =
        (words.first()?.parse::<u64>().ok()? * 1024, words.get(1)?.parse::<u64>().ok()? * 1024);
    let rest = line.get(SIZES..).filter(|rest| rest.is_ascii()).unwrap_or("").trim_end();
    let by_place = by_place(rest);
    let is_figure = |(_, figure): &(usize, &str)| figure.bytes().all(|b| b.is_ascii_digit());
    // A line whose blanks were changed can still be read when no column is missing.
    let count = words.len() - 2;
    let figures: Vec<(usize, &str)> = if by_place.len() >= count && by_place.iter().all(is_figure) {
        by_place
    } else if count == 13 || count == COLUMNS.len() {
        words[2..].iter().copied().enumerate().collect()
    } else {
        return None;
    };
    let mut rates = Vec::new();
    for (column, figure) in figures {
        let rate = unit.rate(figure.parse().ok()?, block as f64);
        if let Some(rate) = rate {
            rates.push((*COLUMNS.get(column)?, rate));
        }
    }
    Some(IozoneLine { file, block, rates })
}

#[cfg(test)]
mod tests;
