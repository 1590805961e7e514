//! Reader for perftest (ib_write_bw, ib_send_lat, ...): a table of sizes below the description of the connection, or
//! one size as JSON (`--out_json`).

use nodegauge_gauge::outputs::{NETWORK, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    lines, parse_document, parse_number, quote_text, rounding_error,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;
use serde_json::Value;

/// Reader for the output of perftest.
pub(crate) struct Perftest;

/// Operations in titles, with the corresponding part of program names.
const OPERATIONS: [(&str, &str); 8] = [
    ("Send", "send"),
    ("Send_imm", "send_imm"),
    ("RDMA_Write", "write"),
    ("RDMA_Read", "read"),
    ("Atomic FETCH_AND_ADD", "atomic"),
    ("Atomic CMP_AND_SWAP", "atomic"),
    ("RDMA_Write_imm", "write_imm"),
    ("Write_imm", "write_imm"),
];
/// Column names of bandwidth tables, with their units. In versions before 23.10, `MB` may also mean 2^20 bytes.
const RATES: [(&str, &str); 3] = [
    ("#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]", "mebi"),
    ("#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]", "mega"),
    ("#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]", "gigabits"),
];
/// Column names of latency tables.
const TIMES: &str = "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] \
                     99% percentile[usec] 99.9% percentile[usec]";

/// Column names of latency tables of tests with a duration (`-D`).
const MEAN_TIME: &str = "#bytes #iterations t_avg[usec] tps average";

impl Reader for Perftest {
    fn program(&self) -> &'static str {
        "perftest"
    }

    fn doubts(&self) -> &'static str {
        "a bandwidth that is not the size multiplied by the message rate is an error, and a mean \
         latency that contradicts the rate of transactions; the output has no final line"
    }

    fn first_characters(&self) -> &'static str {
        "SRAW#{\""
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if title(line).is_some() {
            return Some(RunMark::TITLE);
        }
        if line.contains("\"test_info\"") {
            return Some(RunMark::DOCUMENT);
        }
        (line.starts_with("#bytes") && header(line).is_some()).then_some(RunMark::once(1))
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        if text.trim_start().starts_with('{') {
            return Ok(json(text)?);
        }
        Ok(figures(text)?)
    }
}

/// Kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Rates(&'static str),
    Times,
    /// Mean latencies of tests with a duration.
    MeanTime,
}

impl Table {
    /// Returns the number of columns without the CPU utilisation.
    fn columns(self) -> usize {
        match self {
            Self::Rates(_) => 5,
            Self::Times => 9,
            Self::MeanTime => 4,
        }
    }
}

/// Returns the name of the program for a title: `RDMA_Write BW Test`, `Send Bidirectional BW Test`, `RDMA_Read Latency
/// Test`, `Send BW Multicast Test`.
fn title(line: &str) -> Option<String> {
    let words = line.strip_suffix(" Test")?;
    let (words, group) = match words.strip_suffix(" Multicast") {
        Some(words) => (words, "_multicast"),
        None => (words, ""),
    };
    let words =
        words.strip_suffix(" Post List BW").map_or(words.to_owned(), |words| format!("{words} BW"));
    let (words, kind) = match words.strip_suffix(" Latency") {
        Some(operation) => (operation, "lat"),
        None => (words.strip_suffix(" BW")?, "bw"),
    };
    let (words, both) = match words.strip_suffix(" Bidirectional") {
        Some(operation) => (operation, "_bidirectional"),
        None => (words, ""),
    };
    let (_, operation) = OPERATIONS.iter().find(|(name, _)| *name == words)?;
    Some(format!("ib_{operation}_{kind}{both}{group}"))
}

/// Returns the kind of table that a header belongs to; `None` for other lines.
fn header(line: &str) -> Option<Table> {
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.strip_suffix(" CPU_Util[%]").unwrap_or(&words);
    if words == TIMES {
        return Some(Table::Times);
    }
    if words == MEAN_TIME {
        return Some(Table::MeanTime);
    }
    RATES.iter().find(|(names, _)| *names == words).map(|(_, unit)| Table::Rates(unit))
}

fn figures(text: &str) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("perftest", None);
    let program = lines(text).find_map(title).ok_or("its title is missing")?;
    let mut config = figures.config();
    config.device_name = lines(text).find_map(|line| {
        let (_, device) = line.split_once("Device")?;
        Some(device.trim_start_matches([' ', '\t', ':']).trim().to_owned())
    });
    let mut table: Option<Table> = None;
    let mut last = -1.0;
    for line in lines(text) {
        if line.starts_with("#bytes") {
            let found = header(line).ok_or_else(|| {
                format!("the columns of its table are unknown: {}", quote_text(line))
            })?;
            if table.is_some_and(|known| known != found) {
                return Err("it has several tables".to_owned());
            }
            table = Some(found);
            continue;
        }
        let Some(table) = table else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_long = words.len() >= table.columns().min(5);
        let is_row = is_long && words.iter().all(|word| parse_number(word).is_some());
        if !is_row {
            if line.starts_with(|c: char| c.is_ascii_digit()) && is_long {
                return Err(format!("a row of its table cannot be read: {}", quote_text(line)));
            }
            continue;
        }
        let values: Vec<f64> = words.iter().filter_map(|word| parse_number(word)).collect();
        if values[0] <= last {
            return Err(format!(
                "its table has {} B after {last} B, so it is not a single table",
                values[0]
            ));
        }
        last = values[0];
        let own = OutputConfig { message_bytes: Some(values[0] as u64), ..config.clone() };
        match table {
            Table::Rates(unit) => {
                let [.., average, messages] = words[..5] else { continue };
                let row = RateRow {
                    values: values.get(..5).unwrap_or_default(),
                    errors: [rounding_error(average), rounding_error(messages)],
                    columns: values.len(),
                    line,
                };
                rates(&program, possible_units(unit), &row, &own, &mut figures)?
            }
            Table::Times => times(&program, &values, line, &own, &mut figures)?,
            Table::MeanTime => {
                let [_, _, mean, transactions] = words[..4] else { continue };
                let row = MeanTimeRow {
                    mean: values[2],
                    transactions: values[3],
                    errors: [rounding_error(mean), rounding_error(transactions)],
                    line,
                };
                if values.len() > 5 {
                    return Err(row.unreadable());
                }
                row.push(&program, &own, &mut figures)?;
            }
        }
    }
    Ok(figures.finish(None))
}

/// Row of a table of mean latencies.
struct MeanTimeRow<'a> {
    /// Mean latency, microseconds.
    mean: f64,
    /// Number of transactions per second.
    transactions: f64,
    /// Rounding errors of both.
    errors: [f64; 2],
    line: &'a str,
}

impl MeanTimeRow<'_> {
    /// Returns the message that the row cannot be read.
    fn unreadable(&self) -> String {
        let line = quote_text(self.line);
        format!("a row of its table does not have one number per column: {line}")
    }

    /// Adds the mean latency.
    ///
    /// Fails if it contradicts the rate of transactions.
    fn push(
        &self,
        program: &str,
        config: &OutputConfig,
        figures: &mut OutputFigures,
    ) -> Result<(), String> {
        // A transaction of these programs is one message, and of the others a message and its answer.
        let is_one_way = ["ib_read", "ib_atomic"].iter().any(|begin| program.starts_with(begin));
        let messages = if is_one_way { 1.0 } else { 2.0 };
        let [of_mean, of_transactions] = self.errors;
        let product = self.mean * self.transactions * messages;
        let error = messages * (of_mean * self.transactions + of_transactions * self.mean) * 1.2;
        if (product - 1e6).abs() > error + 10.0 {
            return Err(format!(
                "a mean latency contradicts the rate of transactions: {}",
                quote_text(self.line)
            ));
        }
        let figure = OutputFigure {
            of: NETWORK,
            name: program.to_owned(),
            unit: Unit::Seconds,
            value: self.mean * 1e-6,
            quoted: QuotedStatistic::Mean,
        };
        figures.push(figure, config)
    }
}

/// Returns the numbers of bytes that a unit may denote.
fn possible_units(unit: &str) -> &'static [f64] {
    match unit {
        "mebi" => &[1_048_576.0],
        "mega" => &[1_048_576.0, 1e6],
        "any" => &[1_048_576.0, 1e6, 0.125e9],
        _ => &[0.125e9],
    }
}

/// Row of a table of bandwidths.
struct RateRow<'a> {
    /// Size, iterations, peak bandwidth, mean bandwidth, message rate.
    values: &'a [f64],
    /// Rounding errors of the mean bandwidth and of the message rate.
    errors: [f64; 2],
    /// Number of columns; the last column may be the CPU utilisation.
    columns: usize,
    line: &'a str,
}

/// Adds the bandwidth and the message rate of a row. The unit of the bandwidth is the possible unit
/// for which the bandwidth equals the size multiplied by the message rate.
fn rates(
    program: &str,
    units: &[f64],
    row: &RateRow<'_>,
    config: &OutputConfig,
    figures: &mut OutputFigures,
) -> Result<(), String> {
    let [bytes, _, peak, average, messages] = *row.values else {
        return Err("a row of its table does not have one number per column".to_owned());
    };
    if row.columns > 6 {
        return Err("a row of its table does not have one number per column".to_owned());
    }
    let [of_average, of_messages] = row.errors;
    let exact = bytes * messages * 1e6;
    let error = bytes * of_messages * 1.2e6;
    let mut known = units.to_vec();
    known.retain(|factor| {
        let slack = error + factor * of_average * 1.2 + exact * 1e-4;
        (average * factor - exact).abs() <= slack
    });
    let rate = match known[..] {
        [factor] => Some(factor),
        [] => {
            return Err(format!(
                "a bandwidth is not the size multiplied by the rate of messages: {}",
                quote_text(row.line)
            ));
        }
        // Several units fit the printed digits.
        _ => None,
    };
    if let Some(factor) = rate {
        let own = OutputConfig {
            printed_max: Some(peak * factor).filter(|peak| *peak > 0.0),
            ..config.clone()
        };
        let symbol = Unit::BytesPerSecond;
        let figure = OutputFigure {
            of: NETWORK,
            name: program.to_owned(),
            unit: symbol,
            value: average * factor,
            quoted: QuotedStatistic::Mean,
        };
        figures.push(figure, &own)?;
    }
    figures.push(
        OutputFigure {
            of: NETWORK,
            name: program.to_owned(),
            unit: Unit::MessagesPerSecond,
            value: messages * 1e6,
            quoted: QuotedStatistic::Mean,
        },
        config,
    )
}

/// Adds the typical latency of a row. perftest's typical latency is the median.
fn times(
    program: &str,
    values: &[f64],
    line: &str,
    config: &OutputConfig,
    figures: &mut OutputFigures,
) -> Result<(), String> {
    let [_, _, least, most, typical, mean, _, p99, p99_9] = values[..] else {
        return Err(format!(
            "a row of its table does not have one number per column: {}",
            quote_text(line)
        ));
    };
    let is_ordered =
        least <= typical && typical <= p99 && p99 <= p99_9 && p99_9 <= most && mean <= most;
    if !is_ordered {
        return Err(format!("its latencies contradict each other: {}", quote_text(line)));
    }
    let own = OutputConfig {
        printed_min: Some(least * 1e-6),
        printed_max: Some(most * 1e-6),
        ..config.clone()
    };
    figures.push(
        OutputFigure {
            of: NETWORK,
            name: program.to_owned(),
            unit: Unit::Seconds,
            value: typical * 1e-6,
            quoted: QuotedStatistic::Median,
        },
        &own,
    )
}

/// Returns the name of the program for a test in JSON: `RDMA_Write_Bidirectional_BW_Test`.
fn json_title(test: &str) -> Option<String> {
    OPERATIONS.iter().find_map(|(operation, _)| {
        let rest = test.strip_prefix(&operation.replace(' ', "_"))?;
        title(&format!("{operation}{}", rest.replace('_', " ")))
    })
}

/// Parses the JSON of one size. It does not contain the unit of its bandwidths.
fn json(text: &str) -> Result<PrintedRun, String> {
    /// Keys of a bandwidth test.
    const RATE: [&str; 5] = ["MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate"];
    /// Keys of a latency test.
    const TIME: [&str; 9] = [
        "MsgSize",
        "n_iterations",
        "t_min",
        "t_max",
        "t_typical",
        "t_avg",
        "t_stdev",
        "percentile_99",
        "percentile_99.9",
    ];
    /// Keys of a latency test with a duration.
    const MEAN: [&str; 4] = ["MsgSize", "n_iterations", "t_avg", "tps_average"];
    let document = parse_document(text)?;
    let [info, results] = ["test_info", "results"].map(|key| &document[key]);
    let program = info["test"].as_str().and_then(json_title).ok_or("its test is unknown")?;
    let mut figures = OutputFigures::new("perftest", None);
    let mut config = figures.config();
    config.device_name = info["Device"].as_str().map(str::to_owned);
    // The digits of the bandwidth confirm the size only roughly, so only powers of two are accepted.
    config.message_bytes = results["MsgSize"].as_u64().filter(|bytes| bytes.is_power_of_two());
    if let Some(values) = numbers(results, &RATE) {
        // The bandwidth has two decimals, the message rate has six.
        let row =
            RateRow { values: &values, errors: [5e-3, 5e-7], columns: RATE.len(), line: text };
        rates(&program, possible_units("any"), &row, &config, &mut figures)?;
    } else if let Some(values) = numbers(results, &TIME) {
        times(&program, &values, text, &config, &mut figures)?;
    } else {
        let values = numbers(results, &MEAN).ok_or("its results have no bandwidth or latency")?;
        // Both values have two decimals.
        let [.., mean, transactions] = values[..] else {
            return Err("its results have no latency".to_owned());
        };
        let row = MeanTimeRow { mean, transactions, errors: [5e-3, 5e-3], line: text };
        row.push(&program, &config, &mut figures)?;
    }
    Ok(figures.finish(None))
}

/// Returns the numbers of these keys; `None` if one is missing.
fn numbers(object: &Value, keys: &[&str]) -> Option<Vec<f64>> {
    keys.iter().map(|key| object[*key].as_f64().filter(|number| *number >= 0.0)).collect()
}
