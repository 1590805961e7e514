//! Reader for multichase with `-v`, and for multiload and pingpong of the same collection.

use nodegauge_gauge::outputs::{MEMORY, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    after_label, agree_within, lines, parse_count, parse_number, quote_text,
    unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of multichase, multiload and pingpong.
pub(crate) struct Multichase;

/// First line of multichase with `-v`.
const CHASE: &str = "nr_mixer_indices =";
/// Line before the samples.
const SAMPLES: &str = "samples (one column per thread, one row per sample):";
/// Column names of multiload.
const LOAD: [&str; 12] = [
    "Samples",
    "Byte/thd",
    "ChaseThds",
    "ChaseNS",
    "ChaseMibs",
    "ChDeviate",
    "LoadThds",
    "LdMaxMibs",
    "LdAvgMibs",
    "LdDeviate",
    "ChaseArg",
    "MemLdArg",
];
/// First words of pingpong.
const PING: &str = "avg latency to communicate a modified line from one core to another";

impl Reader for Multichase {
    fn program(&self) -> &'static str {
        "multichase"
    }

    fn doubts(&self) -> &'static str {
        "without `-v`, multichase prints only a number, which is not recognised; no final number: no figures"
    }

    fn first_characters(&self) -> &'static str {
        "naS"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        let is_title = line.starts_with(CHASE) || line == PING || cells(line)[..] == LOAD;
        is_title.then_some(RunMark::TITLE)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let first = text.lines().next().unwrap_or_default().trim();
        if first == PING {
            return Ok(ping(text)?);
        }
        Ok(if first.starts_with(CHASE) { chase(text)? } else { load(text)? })
    }
}

/// Splits a line at its commas.
fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

/// Parses the samples of multichase and the number after them, which is the minimum or the mean of the averages of all
/// samples.
fn chase(text: &str) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("multichase", None);
    let mut config = figures.config();
    let kind = after_label(text, "chase =").ok_or("it does not name its chase")?;
    config.case = Some(kind.to_owned());
    config.threads = after_label(text, "nr_threads =").and_then(parse_count);
    config.data_bytes = after_label(text, "total_memory =").and_then(parse_count);
    let mut averages = Vec::new();
    let mut last = None;
    for line in lines(text).skip_while(|line| *line != SAMPLES).skip(1) {
        if let Some((_, average)) = line.split_once("avg=") {
            let average = parse_number(average)
                .ok_or_else(|| format!("a sample cannot be read: {}", quote_text(line)))?;
            if last.is_some() {
                return Err("it has samples after its result".to_owned());
            }
            averages.push(average);
        } else if let Some(value) =
            parse_number(line).filter(|_| !averages.is_empty() && last.is_none())
        {
            last = Some(value);
        }
    }
    let last = last.ok_or("it has no result after its samples")?;
    let least = averages.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = averages.iter().sum::<f64>() / averages.len() as f64;
    let quoted = match last {
        _ if agree_within(last, least, 1e-3) => QuotedStatistic::Best,
        _ if agree_within(last, mean, 1e-2) => QuotedStatistic::Mean,
        _ => return Err("its result is neither the minimum nor the mean of its samples".to_owned()),
    };
    let figure = OutputFigure {
        of: MEMORY,
        name: "latency".to_owned(),
        unit: Unit::Seconds,
        value: last * 1e-9,
        quoted,
    };
    figures.push(figure, &config)?;
    Ok(figures.finish(None))
}

/// Parses the table of multiload, which has one row.
fn load(text: &str) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("multiload", None);
    let rows: Vec<Vec<&str>> =
        lines(text).skip(1).map(cells).filter(|row| row.len() == LOAD.len()).collect();
    if rows.is_empty() {
        return Err("its table has no row".to_owned());
    }
    for row in rows {
        let values: Option<Vec<f64>> = row[..10].iter().map(|cell| parse_number(cell)).collect();
        let values = values.ok_or_else(|| unreadable_line_message(&row.join(", ")))?;
        let [bytes, chasers, chase, load, most, mean] = [1, 2, 3, 6, 7, 8].map(|at| values[at]);
        if mean > most {
            return Err(unreadable_line_message(&row.join(", ")));
        }
        let mut config = figures.config();
        config.data_bytes = Some(bytes as u64);
        config.threads = Some((chasers + load) as u64);
        config.case = Some(format!("{} with {}", row[10], row[11]));
        let mebi = (1u64 << 20) as f64;
        let known = [
            ("loaded_latency", Unit::Seconds, chase * 1e-9),
            ("loaded_bandwidth", Unit::BytesPerSecond, mean * mebi),
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
    }
    Ok(figures.finish(None))
}

/// Parses the matrix of pingpong: the numbers of its columns, and rows such as `0: 52.3`.
fn ping(text: &str) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("pingpong", None);
    if !lines(text).any(|line| line == "times are in ns") {
        return Err("the unit of its times is missing".to_owned());
    }
    let mut columns: Vec<u64> = Vec::new();
    for line in lines(text).skip(2) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((row, cells)) = words.split_first() else { continue };
        if let Some(row) = row.strip_suffix(':').and_then(|row| row.parse::<u64>().ok()) {
            // The matrix is triangular, so a row contains only the last columns.
            let begin = columns.len().checked_sub(cells.len());
            let begin = begin.ok_or("its matrix has a row that is longer than its header")?;
            if columns.get(begin).is_some_and(|first| *first <= row) {
                return Err("its matrix has a row that does not fit its header".to_owned());
            }
            for (column, cell) in columns[begin..].iter().zip(cells) {
                let value = parse_number(cell)
                    .ok_or_else(|| format!("a cell cannot be read: {}", quote_text(cell)))?;
                let mut config = figures.config();
                config.case = Some(format!("c{row}->c{column}"));
                figures.push(
                    OutputFigure {
                        of: MEMORY,
                        name: "core_to_core".to_owned(),
                        unit: Unit::Seconds,
                        value: value * 1e-9,
                        quoted: QuotedStatistic::Best,
                    },
                    &config,
                )?;
            }
        } else if columns.is_empty() {
            let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
            columns = numbers.unwrap_or_default();
        }
    }
    Ok(figures.finish(None))
}
