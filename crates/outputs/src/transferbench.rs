//! Reader for TransferBench: lines of transfers with rate, time and bytes, and the matrices of the preset `p2p`.

use nodegauge_gauge::outputs::{DEVICE, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    agree_within, lines, number_with_unit, quote_text, unreadable_line_message,
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
        "a rate that is not the bytes divided by the time is an error; the output has no final line"
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
    for line in lines(text) {
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
        let case: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
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
    Ok(figures.finish(None))
}
