//! Reader for the memory test of sysbench.

use nodegauge_gauge::outputs::{MEMORY, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    after_any_label, after_label, agree_within, lines, number_with_unit, parse_count, parse_size,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of sysbench.
pub(crate) struct Sysbench;

impl Reader for Sysbench {
    fn program(&self) -> &'static str {
        "sysbench"
    }

    fn doubts(&self) -> &'static str {
        "no line with the amount of transferred data: no figures; tests other than the memory test are not read"
    }

    fn first_characters(&self) -> &'static str {
        "s"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        version(line).map(|_| RunMark::TITLE)
    }

    fn version(&self, text: &str) -> Option<String> {
        version(text.lines().next()?.trim())
    }

    fn read(&self, text: &str, context: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let _ = context;
        Ok(figures(text, self.version(text))?)
    }
}

/// Parses the version in a title: `sysbench 1.0.20 (using system LuaJIT 2.1.0)`, `sysbench 0.4.12:  multi-threaded
/// ...`.
fn version(line: &str) -> Option<String> {
    let mut words = line.strip_prefix("sysbench ")?.split_whitespace();
    let version = words.next()?.trim_end_matches(':');
    let is_version = version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.');
    is_version.then(|| version.to_owned())
}

/// Returns the number in parentheses at the end of a line, with one of these units.
fn inside(line: &str, units: &[&str]) -> Option<f64> {
    let (_, rest) = line.split_once('(')?;
    let words = rest.strip_suffix(')')?;
    units.iter().find_map(|unit| number_with_unit(words, unit))
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let is_memory = lines(text).any(|line| {
        line.to_lowercase().contains("memory speed test")
            || line == "Doing memory operations speed test"
    });
    if !is_memory {
        return Err("its test is not the memory test".to_owned());
    }
    let block = after_any_label(text, &["block size:", "Memory block size:"]).and_then(parse_size);
    let block = block.ok_or("it does not print the size of its blocks")?;
    let operation = after_any_label(text, &["operation:", "Memory operations type:"]);
    let operation = operation.ok_or("it does not print its operation")?;
    let scope = after_any_label(text, &["scope:", "Memory scope type:"]);
    let scope = scope.ok_or("it does not print its scope")?;
    let rates: Vec<&str> = lines(text).filter(|line| line.contains(" transferred (")).collect();
    let counts: Vec<&str> = lines(text)
        .filter(|line| {
            line.starts_with("Total operations:") || line.starts_with("Operations performed:")
        })
        .collect();
    let [rate] = rates[..] else {
        return Err("it does not have exactly one data rate".to_owned());
    };
    let [operations] = counts[..] else {
        return Err("it does not have exactly one number of operations".to_owned());
    };
    let mebi = (1u64 << 20) as f64;
    let rate =
        inside(rate, &["MiB/sec", "MB/sec"]).ok_or("the unit of its rate is unknown")? * mebi;
    let operations = inside(operations, &["per second", "ops/sec"])
        .ok_or("the unit of its number of operations is unknown")?;
    if !agree_within(rate, operations * block as f64, 2e-3 + 0.01 * mebi / rate) {
        return Err("its rate contradicts its operations and block size".to_owned());
    }
    let mut figures = OutputFigures::new("sysbench", version);
    let mut config = figures.config();
    config.threads = after_label(text, "Number of threads:").and_then(parse_count);
    config.block_bytes = Some(block);
    config.case = Some(format!("{operation}, {scope}"));
    let known = [
        ("bandwidth", Unit::BytesPerSecond, rate),
        ("operations", Unit::OperationsPerSecond, operations),
    ];
    for (name, unit, value) in known {
        let figure = OutputFigure {
            of: MEMORY,
            name: name.to_owned(),
            unit,
            value,
            quoted: QuotedStatistic::Mean,
        };
        figures.push(figure, &config)?;
    }
    Ok(figures.finish(None))
}
