//! Reader for elbencho: a table with several rows for each operation. The figures are those of the column `LAST DONE`.

use nodegauge_gauge::outputs::{FILES, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{lines, parse_number, quote_text, slug};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::record::QuotedStatistic;
use nodegauge_measure::{Unit, UnitPrefix};

/// Reader for the output of elbencho.
pub(crate) struct Elbencho;

/// Header of the table, with single spaces between the words.
const HEADER: &str = "OPERATION RESULT TYPE FIRST DONE LAST DONE";
/// Bytes of a mebibyte.
const MEBI: f64 = 1_048_576.0;

impl Reader for Elbencho {
    fn program(&self) -> &'static str {
        "elbencho"
    }

    fn doubts(&self) -> &'static str {
        "a total that is not the rate multiplied by the time is an error; the output has no \
         final line"
    }

    fn first_characters(&self) -> &'static str {
        "O"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        let is_header = line.starts_with("OPERATION") && is_header(line);
        is_header.then_some(RunMark::TITLE)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut figures = OutputFigures::new("elbencho", None);
        let mut block = Block::default();
        for line in lines(text).skip(1) {
            if line == "---" {
                block.finish(&mut figures)?;
                block = Block::default();
                continue;
            }
            let Some((label, values)) = line.split_once(" : ").or_else(|| line.split_once(": "))
            else {
                continue;
            };
            let words: Vec<&str> = values.split_whitespace().collect();
            let [_, last] = words[..] else { continue };
            let label = label.trim();
            if let Some(operation) = label.strip_suffix("Elapsed time") {
                block.finish(&mut figures)?;
                block = Block {
                    operation: slug(operation),
                    seconds: seconds(last),
                    ..Block::default()
                };
            } else if !block.operation.is_empty() {
                block.row(label, last)?;
            }
        }
        block.finish(&mut figures)?;
        Ok(figures.finish(None))
    }
}

/// True if a line is the header of a table.
fn is_header(line: &str) -> bool {
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    words == HEADER
}

/// Parses a time and returns it in seconds: `1.234s`, `2m3.400s`, `350ms`, `1h2m3s`.
fn seconds(word: &str) -> Option<f64> {
    let milliseconds = word.strip_suffix('s').and_then(|rest| rest.strip_suffix('m'));
    if let Some(value) = milliseconds.and_then(parse_number) {
        return Some(value * UnitPrefix::Milli.factor());
    }
    let mut rest = word;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let value = parse_number(&rest[..end])?;
        let behind = &rest[end..];
        let unit = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        sum += value
            * match &behind[..unit] {
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &behind[unit..];
    }
    Some(sum)
}

/// Kind of data in the rows of a mix of writes and reads.
const KINDS: [&str; 3] = ["write", "read", "total"];

/// Rate of an operation.
#[derive(Debug)]
struct Rate {
    /// Case of the figure; `None` for the data of an operation without a mix.
    case: Option<String>,
    unit: Unit,
    value: f64,
}

/// Data that an operation writes or reads.
#[derive(Debug, Default)]
struct Data {
    /// Kind of data; empty for an operation without a mix.
    kind: &'static str,
    /// Rate, B/s.
    rate: f64,
    /// Unit of the printed rate, B/s.
    unit: f64,
}

/// Rows of an operation.
#[derive(Debug, Default)]
struct Block {
    operation: String,
    seconds: Option<f64>,
    rates: Vec<Rate>,
    data: Vec<Data>,
    totals: Vec<Total>,
}

/// Total data of an operation.
#[derive(Debug)]
struct Total {
    /// Kind of data, as in [`Data::kind`].
    kind: &'static str,
    mebibytes: f64,
}

/// Returns the kind of data that a label ends with, and the label without it. The kind is empty for other labels.
fn split_kind(label: &str) -> (&str, &'static str) {
    let found = KINDS.iter().find_map(|kind| {
        let rest = label.strip_suffix(kind)?.strip_suffix(' ')?;
        Some((rest, *kind))
    });
    found.unwrap_or((label, ""))
}

impl Block {
    fn row(&mut self, label: &str, last: &str) -> Result<(), String> {
        let value = || {
            parse_number(last)
                .ok_or_else(|| format!("a number cannot be read: {}", quote_text(last)))
        };
        let (of, kind) = split_kind(label);
        let is_mix = !kind.is_empty();
        match of {
            "Throughput MiB/s" | "Throughput MB/s" if !is_mix => self.data(of, "", value()?),
            "MiB/s" | "MB/s" if is_mix => self.data(of, kind, value()?),
            "IOPS" | "Files/s" | "Dirs/s" | "Entries/s" | "Objects/s" | "Buckets/s" => {
                let name = format!("{} {kind}", of.trim_end_matches("/s"));
                let unit = Unit::OperationsPerSecond;
                self.rates.push(Rate { case: Some(slug(&name)), unit, value: value()? });
            }
            "Total MiB" if !is_mix => self.totals.push(Total { kind, mebibytes: value()? }),
            "MiB" if is_mix => self.totals.push(Total { kind, mebibytes: value()? }),
            _ => {}
        }
        Ok(())
    }

    /// Adds a rate of data. `label` ends with its unit.
    fn data(&mut self, label: &str, kind: &'static str, value: f64) {
        let unit = if label.ends_with("MiB/s") { MEBI } else { 1e6 };
        let rate = value * unit;
        self.data.push(Data { kind, rate, unit });
        let case = Some(kind.to_owned()).filter(|kind| !kind.is_empty());
        self.rates.push(Rate { case, unit: Unit::BytesPerSecond, value: rate });
    }

    /// Checks the rates of data against the total data and the time, and the rates of a mix against their sum.
    ///
    /// Fails if they contradict each other.
    fn check(&self) -> Result<(), String> {
        for data in &self.data {
            let total = self.totals.iter().find(|total| total.kind == data.kind);
            if let (Some(total), Some(seconds)) = (total, self.seconds)
                && !data.is_total_divided_by(total.mebibytes, seconds)
            {
                let operation = &self.operation;
                return Err(format!("the rate of {operation} is not its data divided by its time"));
            }
        }
        for total in &self.rates {
            let Some(name) = total.case.as_ref().and_then(|case| case.strip_suffix("total")) else {
                continue;
            };
            let [write, read] = ["write", "read"].map(|kind| self.rate(&format!("{name}{kind}")));
            let (Some(write), Some(read)) = (write, read) else { continue };
            // The rates of data are rounded down.
            let is_exact = total.unit == Unit::OperationsPerSecond;
            let error = if is_exact { 0.5 } else { 1.5 * MEBI };
            if (total.value - write.value - read.value).abs() > error {
                let operation = &self.operation;
                return Err(format!("the rates of {operation} are not the parts of their total"));
            }
        }
        Ok(())
    }

    /// Returns the rate with this case.
    fn rate(&self, case: &str) -> Option<&Rate> {
        self.rates.iter().find(|rate| rate.case.as_deref() == Some(case))
    }

    /// Adds the figures of the operation.
    ///
    /// Fails if they contradict each other.
    fn finish(&self, figures: &mut OutputFigures) -> Result<(), String> {
        self.check()?;
        for Rate { case, unit, value } in &self.rates {
            let config = OutputConfig { case: case.clone(), ..figures.config() };
            let figure = OutputFigure {
                of: FILES,
                name: self.operation.clone(),
                unit: *unit,
                value: *value,
                quoted: QuotedStatistic::Mean,
            };
            figures.push(figure, &config)?;
        }
        Ok(())
    }
}

impl Data {
    /// True if the rate is the total data in MiB divided by the time. All three values are rounded down, to integers or
    /// to milliseconds.
    fn is_total_divided_by(&self, mebibytes: f64, seconds: f64) -> bool {
        let least = (mebibytes - 1.0) * MEBI / (seconds + 0.01) - 2.0 * self.unit;
        let most = (mebibytes + 1.0) * MEBI / (seconds - 0.01).max(1e-9) + 2.0 * self.unit;
        (least * 0.99..=most * 1.01).contains(&self.rate)
    }
}
