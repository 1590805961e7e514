//! Reader for core-to-core-latency: matrices of means with their errors, which the program prints to standard error.

use nodegauge_gauge::outputs::{MEMORY, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    agree_within, lines, parse_number, rounding_error, unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of core-to-core-latency.
pub(crate) struct CoreToCore;

/// First words of the line before the matrices.
const TITLE: &str = "Num iterations per samples:";
/// Titles of the benchmarks, and their names in figures.
const BENCHES: [(&str, &str); 3] = [
    ("1) CAS latency on a single shared cache line", "compare and swap"),
    ("2) Single-writer single-reader latency on two shared cache lines", "read and write"),
    ("3) Message passing. One writer and one reader on many cache line", "messages"),
];

impl Reader for CoreToCore {
    fn program(&self) -> &'static str {
        "core-to-core-latency"
    }

    fn doubts(&self) -> &'static str {
        "a matrix without `Mean latency`: suspect; a mean that differs from the mean of the matrix: no figures"
    }

    fn first_characters(&self) -> &'static str {
        "N"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        line.contains(TITLE).then_some(RunMark::TITLE)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        Ok(figures(text)?)
    }
}

fn figures(text: &str) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("core-to-core-latency", None);
    let mut bench: Option<&str> = None;
    let mut columns: Vec<u64> = Vec::new();
    let mut values: Vec<f64> = Vec::new();
    let mut is_open = false;
    for line in lines(text) {
        if let Some((_, name)) = BENCHES.iter().find(|(title, _)| *title == line) {
            bench = Some(name);
            columns.clear();
            values.clear();
            is_open = true;
            continue;
        }
        let Some(bench) = bench else { continue };
        if let Some(mean) = line.strip_prefix("Mean latency:") {
            let mean = mean
                .trim()
                .strip_suffix("ns")
                .and_then(parse_number)
                .ok_or("its mean cannot be read")?;
            let own = values.iter().sum::<f64>() / values.len() as f64;
            // Cells are rounded to nanoseconds.
            if values.is_empty() || !agree_within(mean, own, 0.6 / own) {
                return Err("its mean contradicts the matrix".to_owned());
            }
            is_open = false;
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
        match (columns.is_empty(), numbers) {
            (true, Some(numbers)) if numbers.len() > 1 => columns = numbers,
            _ if columns.is_empty() || !line.contains('\u{b1}') || line.contains("latency") => {}
            _ => row(line, bench, &columns, &mut values, &mut figures)?,
        }
    }
    Ok(figures.finish(is_open.then_some("the end of the matrix is missing")))
}

/// Parses a row of a matrix: the number of a core, and cells such as `52±0`.
fn row(
    line: &str,
    bench: &str,
    columns: &[u64],
    values: &mut Vec<f64>,
    figures: &mut OutputFigures,
) -> Result<(), String> {
    let (core, rest) =
        line.split_once(char::is_whitespace).ok_or_else(|| unreadable_line_message(line))?;
    let core: u64 = core.parse().map_err(|_| unreadable_line_message(line))?;
    let position = columns
        .iter()
        .position(|column| *column == core)
        .ok_or_else(|| unreadable_line_message(line))?;
    let parts: Vec<&str> = rest.split('\u{b1}').collect();
    let cells = parts.len() - 1;
    let is_triangle = cells == position;
    let is_full = cells + 1 == columns.len();
    if !is_triangle && !is_full {
        return Err(unreadable_line_message(line));
    }
    let others: Vec<u64> = if is_full && !is_triangle {
        columns.iter().copied().filter(|column| *column != core).collect()
    } else {
        columns[..position].to_vec()
    };
    for (other, part) in others.into_iter().zip(&parts) {
        let word =
            part.split_whitespace().next_back().ok_or_else(|| unreadable_line_message(line))?;
        let value = parse_number(word)
            .filter(|_| rounding_error(word) == 0.5)
            .ok_or_else(|| unreadable_line_message(line))?;
        values.push(value);
        let mut config = figures.config();
        config.case = Some(format!("{bench}, c{core}->c{other}"));
        let figure = OutputFigure {
            of: MEMORY,
            name: "core_to_core".to_owned(),
            unit: Unit::Seconds,
            value: value * 1e-9,
            quoted: QuotedStatistic::Mean,
        };
        figures.push(figure, &config)?;
    }
    Ok(())
}
