//! Reader for perftest (ib_write_bw, ib_send_lat, ...): a table of sizes below the description of the connection.

use crate::text::{lines, number, quoted, rounding};
use nodegauge_gauge::outputs::{NETWORK, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RunMark, UnreadOutput};
use nodegauge_measure::Unit;
use nodegauge_measure::record::Quoted;

/// Reader for the output of perftest.
pub(crate) struct Perftest;

/// Operations in titles, with the corresponding part of program names.
const OPERATIONS: [(&str, &str); 7] = [
    ("Send", "send"),
    ("RDMA_Write", "write"),
    ("RDMA_Read", "read"),
    ("Atomic FETCH_AND_ADD", "atomic"),
    ("Atomic CMP_AND_SWAP", "atomic"),
    ("RDMA_Write_imm", "write_imm"),
    ("Write_imm", "write_imm"),
];
/// Column names of bandwidth tables, with their unit. In versions before 23.10, `MB` means 2^20 bytes, too.
const RATES: [(&str, &str); 3] = [
    ("#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]", "mebi"),
    ("#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]", "mega"),
    ("#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]", "gigabits"),
];
/// Column names of latency tables.
const TIMES: &str = "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] \
                     99% percentile[usec] 99.9% percentile[usec]";

impl Reader for Perftest {
    fn program(&self) -> &'static str {
        "perftest"
    }

    fn doubts(&self) -> &'static str {
        "a bandwidth that is not the size multiplied by the message rate is an error; the output \
         has no final line"
    }

    fn first_characters(&self) -> &'static str {
        "SRAW#"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if title(line).is_some() {
            return Some(RunMark::TITLE);
        }
        (line.starts_with("#bytes") && header(line).is_some()).then_some(RunMark::once(1))
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        Ok(figures(text)?)
    }
}

/// Kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Rates(&'static str),
    Times,
}

/// Returns the program for a title: `RDMA_Write BW Test`, `Send Bidirectional BW Test`, `RDMA_Read Latency Test`.
fn title(line: &str) -> Option<String> {
    let words = line.strip_suffix(" Test")?;
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
    Some(format!("ib_{operation}_{kind}{both}"))
}

/// Returns the kind of table for a header; `None` for other lines.
fn header(line: &str) -> Option<Table> {
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.strip_suffix(" CPU_Util[%]").unwrap_or(&words);
    if words == TIMES {
        return Some(Table::Times);
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
            let found = header(line)
                .ok_or_else(|| format!("the columns of its table are unknown: {}", quoted(line)))?;
            if table.is_some_and(|known| known != found) {
                return Err("it has several tables".to_owned());
            }
            table = Some(found);
            continue;
        }
        let Some(table) = table else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = words.len() >= 5 && words.iter().all(|word| number(word).is_some());
        if !is_row {
            if line.starts_with(|c: char| c.is_ascii_digit()) && words.len() >= 5 {
                return Err(format!("a row of its table cannot be read: {}", quoted(line)));
            }
            continue;
        }
        let values: Vec<f64> = words.iter().filter_map(|word| number(word)).collect();
        if values[0] <= last {
            return Err(format!("its table has {} B after {last} B", values[0]));
        }
        last = values[0];
        let own = OutputConfig { message_bytes: Some(values[0] as u64), ..config.clone() };
        match table {
            Table::Rates(unit) => rates(&program, unit, &words, &values, &own, &mut figures)?,
            Table::Times => times(&program, &values, line, &own, &mut figures)?,
        }
    }
    Ok(figures.finish(None))
}

/// Adds the bandwidth and the message rate of a row.
fn rates(
    program: &str,
    unit: &str,
    words: &[&str],
    values: &[f64],
    config: &OutputConfig,
    figures: &mut OutputFigures,
) -> Result<(), String> {
    if !(5..=6).contains(&values.len()) {
        return Err("a row of its table does not have one number per column".to_owned());
    }
    let [bytes, peak, average, messages] = [0, 2, 3, 4].map(|at| values[at]);
    let exact = bytes * messages * 1e6;
    let error = bytes * rounding(words[4]) * 1.2e6;
    let units: &[f64] = match unit {
        "mebi" => &[1_048_576.0],
        "mega" => &[1_048_576.0, 1e6],
        _ => &[0.125e9],
    };
    let fits = |factor: &&f64| {
        let slack = error + **factor * rounding(words[3]) * 1.2 + exact * 1e-4;
        (average * **factor - exact).abs() <= slack
    };
    let known: Vec<f64> = units.iter().filter(fits).copied().collect();
    let rate = match known[..] {
        [factor] => Some(factor),
        [] => {
            let row = quoted(&words.join(" "));
            return Err(format!(
                "a bandwidth is not the size multiplied by the message rate: {row}"
            ));
        }
        // The printed digits do not determine the unit.
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
            quoted: Quoted::Mean,
        };
        figures.push(figure, &own)?;
    }
    figures.push(
        OutputFigure {
            of: NETWORK,
            name: program.to_owned(),
            unit: Unit::MessagesPerSecond,
            value: messages * 1e6,
            quoted: Quoted::Mean,
        },
        config,
    )
}

/// Adds the typical latency of a row, which is the median.
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
            quoted(line)
        ));
    };
    let is_ordered =
        least <= typical && typical <= p99 && p99 <= p99_9 && p99_9 <= most && mean <= most;
    if !is_ordered {
        return Err(format!("its latencies contradict each other: {}", quoted(line)));
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
            quoted: Quoted::Median,
        },
        &own,
    )
}
