//! Reader for nccl-tests and rccl-tests: a table of sizes with time, algorithm bandwidth and bus bandwidth, out of
//! place and in place, or the same values as JSON (`-J`).

use nodegauge_gauge::outputs::{NETWORK, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    agree_within, lines, parse_document, parse_number, quote_text, unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::record::{QuotedStatistic, Validity};
use nodegauge_measure::{Bytes, Unit};
use serde_json::Value;

/// Reader for the output of nccl-tests and rccl-tests.
pub(crate) struct Nccl;

/// Phase of the final line of a run.
const END_PHASE: u8 = 5;
/// First words of the final line of a run.
const END: &str = "# Avg bus bandwidth";
/// First words of the line with the operation, which old versions do not print.
const TITLE: &str = "# Collective test starting:";
/// Name of the figures of an unknown operation.
const UNNAMED: &str = "collective";

impl Reader for Nccl {
    fn program(&self) -> &'static str {
        "nccl-tests"
    }

    fn doubts(&self) -> &'static str {
        "no line `Avg bus bandwidth`: suspect; wrong data: invalid; a bandwidth that is not the size divided by the time is an error"
    }

    fn first_characters(&self) -> &'static str {
        "#{\""
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if !line.starts_with('#') {
            return line.contains("\"nccl_version\":").then_some(RunMark::DOCUMENT);
        }
        let phases = [
            ("# nccl-tests version", 0),
            ("# rccl-tests version", 0),
            (TITLE, 1),
            ("# nThread", 2),
            ("# Using devices", 3),
        ];
        if let Some((_, phase)) = phases.iter().find(|(start, _)| line.starts_with(start)) {
            return Some(RunMark::once(*phase));
        }
        if line.starts_with(END) {
            return Some(RunMark::once(END_PHASE));
        }
        is_header(line).then_some(RunMark::once(4))
    }

    fn last_phase(&self) -> Option<u8> {
        Some(END_PHASE)
    }

    fn version(&self, text: &str) -> Option<String> {
        lines(text).find_map(|line| {
            let (_, version) = line.split_once("-tests version ")?;
            Some(version.split_whitespace().next()?.to_owned())
        })
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        if text.trim_start().starts_with('{') {
            return Ok(json(text)?);
        }
        Ok(figures(text, self.version(text))?)
    }
}

/// True if a line is the header of a table.
fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
    words.starts_with(&["size", "count", "type"]) && words.contains(&"busbw")
}

/// Columns of a table, found by their names.
struct Columns {
    count: usize,
    /// Positions of time, algorithm bandwidth, bus bandwidth and number of errors: first for out of place, then for in
    /// place.
    halves: Vec<[usize; 4]>,
}

impl Columns {
    fn parse(header: &str, units: &str) -> Result<Self, String> {
        let names: Vec<&str> = header.trim_start_matches('#').split_whitespace().collect();
        let units: Vec<&str> = units.trim_start_matches('#').split_whitespace().collect();
        let times = units.iter().filter(|unit| **unit == "(us)").count();
        let rates = units.iter().filter(|unit| **unit == "(GB/s)").count();
        let time = positions(&names, &["time"]);
        let algorithm = positions(&names, &["algbw"]);
        let bus = positions(&names, &["busbw"]);
        let wrong = positions(&names, &["#wrong", "error"]);
        let halves = time.len();
        let is_known = (1..=2).contains(&halves)
            && [&algorithm, &bus, &wrong].iter().all(|of| of.len() == halves)
            && units.first() == Some(&"(B)")
            && times >= halves
            && rates == 2 * halves;
        if !is_known {
            return Err(format!("the columns of its table are unknown: {}", quote_text(header)));
        }
        let halves = (0..halves).map(|at| [time[at], algorithm[at], bus[at], wrong[at]]).collect();
        Ok(Self { count: names.len(), halves })
    }
}

/// Returns the positions of the columns with one of these names.
fn positions(columns: &[&str], names: &[&str]) -> Vec<usize> {
    (0..columns.len()).filter(|at| names.contains(&columns[*at])).collect()
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let all: Vec<&str> = lines(text).collect();
    let program = all.iter().find_map(|line| line.strip_prefix(TITLE));
    let name = program.map_or(UNNAMED, |program| program.trim().trim_end_matches("_perf"));
    // Each version that prints its number prints the operation.
    let has_lost_title = program.is_none() && version.is_some();
    let mut figures = OutputFigures::new("nccl-tests", version);
    let base = OutputConfig {
        processes: Some(all.iter().filter(|line| line.starts_with("#  Rank ")).count() as u64)
            .filter(|ranks| *ranks > 0),
        ..figures.config()
    };
    let mut columns: Option<Columns> = None;
    let mut sizes: Vec<f64> = Vec::new();
    for (at, line) in all.iter().enumerate() {
        if is_header(line) {
            if columns.is_some() {
                return Err("it has several tables".to_owned());
            }
            columns = Some(Columns::parse(line, all.get(at + 1).copied().unwrap_or_default())?);
            continue;
        }
        let Some(columns) = &columns else { continue };
        if !line.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != columns.count {
            // A line of another program may also begin with a number.
            if words.len() < 4 || words[1].parse::<u64>().is_err() {
                continue;
            }
            return Err(unreadable_line_message(line));
        }
        let size = parse_number(words[0]).ok_or_else(|| unreadable_line_message(line))?;
        if words[2].contains(char::is_control) {
            return Err(unreadable_line_message(line));
        }
        if sizes.contains(&size) && sizes.last() != Some(&size) {
            return Err(format!("its table has {size} B twice"));
        }
        sizes.push(size);
        for (half, place) in columns.halves.iter().zip(["out of place", "in place"]) {
            let cells = half.map(|column| words[column]);
            if cells[0] == "N/A" {
                continue;
            }
            let [time, algorithm, bus] = [0, 1, 2].map(|cell| parse_number(cells[cell]));
            let (Some(time), Some(algorithm), Some(bus)) = (time, algorithm, bus) else {
                return Err(unreadable_line_message(line));
            };
            let wrong = match cells[3] {
                "N/A" => None,
                word => Some(parse_number(word).ok_or_else(|| unreadable_line_message(line))?),
            };
            // The time has four digits, and the bandwidth has two decimals.
            let error = 6e-3 + 0.006 / algorithm.max(1e-9);
            let result = Half { size, time, algorithm, bus, wrong, error };
            result.check(line)?;
            let config = OutputConfig {
                message_bytes: Some(size as u64),
                element: Some(words[2].to_owned()),
                case: Some(place.to_owned()),
                ..base.clone()
            };
            result.push(name, &config, &mut figures)?;
        }
    }
    let gap = missing_size(&sizes).map(|size| format!("the table has no line for {}", Bytes(size)));
    let end = !all.iter().any(|line| line.starts_with(END));
    let missing = if has_lost_title {
        Some("the line \"Collective test starting\" is missing".to_owned())
    } else if end {
        Some("the line \"Avg bus bandwidth\" is missing".to_owned())
    } else {
        gap
    };
    let mut run = figures.finish(missing.as_deref());
    if program.is_none() {
        run.assumption = Some("the output does not name the collective operation");
    }
    Ok(run)
}

/// Half of a row: the results out of place or in place.
struct Half {
    /// Size, bytes.
    size: f64,
    /// Time, microseconds.
    time: f64,
    /// Algorithm bandwidth, GB/s.
    algorithm: f64,
    /// Bus bandwidth, GB/s.
    bus: f64,
    /// Number of wrong elements; `None` if they were not counted.
    wrong: Option<f64>,
    /// Relative error of the bandwidth due to rounding.
    error: f64,
}

impl Half {
    /// Checks that the algorithm bandwidth is the size divided by the time.
    ///
    /// Fails if it is not.
    fn check(&self, line: &str) -> Result<(), String> {
        if agree_within(self.algorithm * 1e9, self.size / (self.time * 1e-6), self.error) {
            return Ok(());
        }
        Err(format!("a bandwidth is not the size divided by the time: {}", quote_text(line)))
    }

    /// Adds the time and the bus bandwidth.
    fn push(
        &self,
        name: &str,
        config: &OutputConfig,
        figures: &mut OutputFigures,
    ) -> Result<(), String> {
        let mut validity = Validity::valid();
        if self.wrong.is_some_and(|wrong| wrong > 0.0) {
            validity.mark_invalid("the program reports wrong data");
        }
        let known = [(Unit::Seconds, self.time * 1e-6), (Unit::BytesPerSecond, self.bus * 1e9)];
        for (unit, value) in known {
            let figure = OutputFigure {
                of: NETWORK,
                name: name.to_owned(),
                unit,
                value,
                quoted: QuotedStatistic::Mean,
            };
            figures.push_with_validity(figure, config, validity.clone())?;
        }
        Ok(())
    }
}

/// Parses the JSON. It contains the version of NCCL, but not that of the tests.
fn json(text: &str) -> Result<PrintedRun, String> {
    let document = parse_document(text)?;
    let program = document["args"][0].as_str().ok_or("its arguments are missing")?;
    let program = program.rsplit('/').next().unwrap_or(program);
    let name = program.strip_suffix("_perf").ok_or("its program is unknown")?;
    let mut figures = OutputFigures::new("nccl-tests", None);
    let devices = document["config"]["devices"].as_array();
    let base =
        OutputConfig { processes: devices.map(|devices| devices.len() as u64), ..figures.config() };
    let rows = document["results"].as_array().ok_or("it has no results")?;
    let mut sizes: Vec<f64> = Vec::new();
    for row in rows {
        let size = row["size"].as_f64().ok_or("a result has no size")?;
        if sizes.contains(&size) && sizes.last() != Some(&size) {
            return Err(format!("its results have {size} B twice"));
        }
        sizes.push(size);
        for (key, place) in [("out_of_place", "out of place"), ("in_place", "in place")] {
            let cells = &row[key];
            if cells.is_null() {
                continue;
            }
            let half = json_half(size, cells)
                .ok_or_else(|| format!("the result of {size} B {place} cannot be read"))?;
            half.check(&cells.to_string())?;
            let config = OutputConfig {
                message_bytes: Some(size as u64),
                element: row["type"].as_str().map(str::to_owned),
                case: Some(place.to_owned()),
                ..base.clone()
            };
            half.push(name, &config, &mut figures)?;
        }
    }
    let gap =
        missing_size(&sizes).map(|size| format!("the results have no row for {}", Bytes(size)));
    Ok(figures.finish(gap.as_deref()))
}

/// Parses one half of a result in JSON.
fn json_half(size: f64, cells: &Value) -> Option<Half> {
    let time = cells["time"].as_f64().or(cells["cpu_time"].as_f64())?;
    let algorithm = cells["alg_bw"].as_f64()?;
    let bus = cells["bus_bw"].as_f64()?;
    // All values have six decimals.
    let error = 1e-5 + 1e-6 / algorithm.max(1e-9) + 1e-6 / time.max(1e-9);
    Some(Half { size, time, algorithm, bus, wrong: cells["nwrong"].as_f64(), error })
}

/// Returns the first missing size of a table whose sizes grow by a constant factor or step.
fn missing_size(sizes: &[f64]) -> Option<u64> {
    if sizes.len() < 3 || !sizes.windows(2).all(|two| two[0] > 0.0 && two[1] > two[0]) {
        return None;
    }
    let factor = sizes[1] / sizes[0];
    let step = sizes[1] - sizes[0];
    let is_factor = sizes.windows(2).all(|two| agree_within(two[1] / two[0], factor, 1e-3));
    let is_step = sizes.windows(2).all(|two| agree_within(two[1] - two[0], step, 1e-3));
    if is_factor || is_step {
        return None;
    }
    let least = sizes.windows(2).map(|two| two[1] / two[0]).fold(f64::INFINITY, f64::min);
    let at = sizes.windows(2).position(|two| two[1] / two[0] > least * 1.5)?;
    Some((sizes[at] * least) as u64)
}
