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

/// Rows of an operation.
#[derive(Debug, Default)]
struct Block {
    operation: String,
    seconds: Option<f64>,
    /// Rates: name, unit, value.
    rates: Vec<(String, Unit, f64)>,
    /// Rate of the data in MiB/s, and total data in MiB.
    rate: Option<f64>,
    total: Option<f64>,
}

impl Block {
    fn row(&mut self, label: &str, last: &str) -> Result<(), String> {
        let value = || {
            parse_number(last)
                .ok_or_else(|| format!("a number cannot be read: {}", quote_text(last)))
        };
        let mebi = (1u64 << 20) as f64;
        match label {
            "Throughput MiB/s" => {
                self.rate = Some(value()?);
                self.rates.push((String::new(), Unit::BytesPerSecond, value()? * mebi));
            }
            "Throughput MB/s" => {
                self.rates.push((String::new(), Unit::BytesPerSecond, value()? * 1e6))
            }
            "MiB/s write" | "MiB/s read" => {
                let name = label.rsplit(' ').next().unwrap_or_default();
                self.rates.push((name.to_owned(), Unit::BytesPerSecond, value()? * mebi));
            }
            "IOPS" => self.rates.push(("iops".to_owned(), Unit::OperationsPerSecond, value()?)),
            "IOPS write" | "IOPS read" => {
                let name = slug(label);
                self.rates.push((name, Unit::OperationsPerSecond, value()?));
            }
            "Files/s" | "Dirs/s" | "Entries/s" | "Objects/s" | "Buckets/s" => {
                let name = slug(label.trim_end_matches("/s"));
                self.rates.push((name, Unit::OperationsPerSecond, value()?));
            }
            "Total MiB" => self.total = Some(value()?),
            _ => {}
        }
        Ok(())
    }

    /// Adds the figures of the operation.
    fn finish(&self, figures: &mut OutputFigures) -> Result<(), String> {
        if let (Some(rate), Some(total), Some(seconds)) = (self.rate, self.total, self.seconds) {
            // All three values are rounded down, to integers or to milliseconds.
            let least = (total - 1.0) / (seconds + 0.01) - 2.0;
            let most = (total + 1.0) / (seconds - 0.01).max(1e-9) + 2.0;
            if !(least * 0.99..=most * 1.01).contains(&rate) {
                return Err(format!(
                    "the rate of {} is not its data divided by its time",
                    self.operation
                ));
            }
        }
        for (name, unit, value) in &self.rates {
            let config = OutputConfig {
                case: Some(name.clone()).filter(|name| !name.is_empty()),
                ..figures.config()
            };
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
