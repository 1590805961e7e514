//! Reader for mbw: one line per copy, and one line with the mean of each method.

use nodegauge_gauge::outputs::{MEMORY, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    agree_within, lines, parse_number, quote_text, rounding_error, unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of mbw.
pub(crate) struct Mbw;

/// First words of the title, which `-q` leaves out.
const TITLE: &str = "Long uses ";
/// Bytes of a mebibyte.
const MEBI: f64 = 1_048_576.0;

impl Reader for Mbw {
    fn program(&self) -> &'static str {
        "mbw"
    }

    fn doubts(&self) -> &'static str {
        "a method without its line `AVG`: suspect; a mean that is not the mean of the lines above it is an error"
    }

    fn first_characters(&self) -> &'static str {
        "LA0123456789"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if line.starts_with(TITLE) && line.contains(" bytes. Allocating 2*") {
            return Some(RunMark::TITLE);
        }
        is_copy(line).then_some(RunMark::repeated(1))
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut figures = OutputFigures::new("mbw", None);
        let mut copies: Vec<Copy<'_>> = Vec::new();
        for line in lines(text).filter(|line| is_copy(line)) {
            let copy = Copy::parse(line).ok_or_else(|| unreadable_line_message(line))?;
            if copy.label != "AVG" {
                if copy.label != copies.len().to_string() {
                    return Err(format!("a copy is missing: {}", quote_text(line)).into());
                }
                copies.push(copy);
                continue;
            }
            if !copy.is_mean(&copies) {
                let line = quote_text(line);
                return Err(format!("a mean is not the mean of the copies above it: {line}").into());
            }
            copy.push(&copies, &mut figures)?;
            copies.clear();
        }
        let missing = (!copies.is_empty()).then_some("the mean of a method is missing");
        Ok(figures.finish(missing))
    }
}

/// True for a line of the table: `0 Method: MEMCPY Elapsed: 0.1 MiB: 32.0 Copy: 320.000 MiB/s`. The program prints a
/// tab before each label, which a terminal may have replaced with spaces.
fn is_copy(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.nth(1) == Some("Method:") && words.any(|word| word == "Copy:")
}

/// Line of the table: a copy, or the mean of all copies of a method.
struct Copy<'a> {
    /// Number of the copy, or `AVG`.
    label: &'a str,
    method: &'a str,
    seconds: f64,
    /// Rounding error of the time, seconds.
    error: f64,
    mebibytes: f64,
    /// Rate, MiB/s.
    rate: f64,
}

impl<'a> Copy<'a> {
    /// Parses a line; `None` for other lines, and if the rate is not the amount divided by the time.
    fn parse(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [
            label,
            "Method:",
            method,
            "Elapsed:",
            seconds,
            "MiB:",
            mebibytes,
            "Copy:",
            rate,
            "MiB/s",
        ] = words[..]
        else {
            return None;
        };
        let copy = Self {
            label,
            method,
            seconds: parse_number(seconds)?,
            error: rounding_error(seconds),
            mebibytes: parse_number(mebibytes)?,
            rate: parse_number(rate)?,
        };
        let error = 1e-4 + copy.error / copy.seconds.max(copy.error);
        agree_within(copy.rate, copy.mebibytes / copy.seconds, error).then_some(copy)
    }

    /// True if this line is the mean of the copies.
    fn is_mean(&self, copies: &[Copy<'_>]) -> bool {
        let mut sum = 0.0;
        for copy in copies {
            if copy.method != self.method || copy.mebibytes != self.mebibytes {
                return false;
            }
            sum += copy.seconds;
        }
        let mean = sum / copies.len() as f64;
        (mean - self.seconds).abs() <= 2.1 * self.error
    }

    /// Adds the mean of a method as a figure.
    fn push(&self, copies: &[Copy<'_>], figures: &mut OutputFigures) -> Result<(), String> {
        let rates = copies.iter().map(|copy| copy.rate * MEBI);
        let config = OutputConfig {
            case: Some(self.method.to_lowercase()),
            data_bytes: Some((self.mebibytes * MEBI) as u64),
            printed_min: rates.clone().reduce(f64::min),
            printed_max: rates.reduce(f64::max),
            ..figures.config()
        };
        let figure = OutputFigure {
            of: MEMORY,
            name: "copy".to_owned(),
            unit: Unit::BytesPerSecond,
            value: self.rate * MEBI,
            quoted: QuotedStatistic::HarmonicMean,
        };
        figures.push(figure, &config)
    }
}
