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
    /// Number of words of a row.
    count: usize,
    /// True if a row ends with a time stamp, which has two words.
    has_time_stamp: bool,
    /// True if the times are those of the CPU.
    is_cpu_time: bool,
    /// Position of the reduction operation; `None` if the table has no such column.
    operation: Option<usize>,
    /// Position of the root; `None` if the table has no such column.
    root: Option<usize>,
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
        let is_cpu_time = names.contains(&"cputime");
        let time = positions(&names, &[if is_cpu_time { "cputime" } else { "time" }]);
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
        let has_time_stamp = names.last() == Some(&"timestamp");
        Ok(Self {
            count: names.len() + usize::from(has_time_stamp),
            has_time_stamp,
            is_cpu_time,
            operation: names.iter().position(|name| *name == "redop"),
            root: names.iter().position(|name| *name == "root"),
            halves,
        })
    }

    /// True if the words are those of a row: one per column, the time stamp as `2026-07-09 16:03:21`, and a root.
    fn fit(&self, words: &[&str]) -> bool {
        if words.len() != self.count {
            return false;
        }
        let has_root = self.root.is_none_or(|root| is_root(words[root]));
        let is_stamp = match words {
            [.., date, time] if self.has_time_stamp => is_date(date) && is_clock_time(time),
            _ => !self.has_time_stamp,
        };
        has_root && is_stamp
    }

    /// Returns the operation of a row.
    fn operation<'a>(&self, words: &[&'a str]) -> Operation<'a> {
        Operation {
            element: words[2],
            reduction: self.operation.map_or("none", |column| words[column]),
            root: self.root.map_or("-1", |column| words[column]),
            is_cpu_time: self.is_cpu_time,
        }
    }
}

/// Returns the positions of the columns with one of these names.
fn positions(columns: &[&str], names: &[&str]) -> Vec<usize> {
    (0..columns.len()).filter(|at| names.contains(&columns[*at])).collect()
}

/// Operation of a row. The rows of one operation have different sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Operation<'a> {
    element: &'a str,
    reduction: &'a str,
    root: &'a str,
    /// True if the times are those of the CPU.
    is_cpu_time: bool,
}

impl Operation<'_> {
    /// Returns the case of a figure: the place, and what differs from the default of the program, which is a sum and
    /// root 0.
    fn case(&self, place: &str) -> String {
        let mut case = place.to_owned();
        if !["sum", "none"].contains(&self.reduction) {
            case.push_str(&format!(", {}", self.reduction));
        }
        if !["-1", "0"].contains(&self.root) {
            case.push_str(&format!(", root {}", self.root));
        }
        if self.is_cpu_time {
            case.push_str(", cputime");
        }
        case
    }
}

/// Sizes of the rows of all operations.
#[derive(Debug, Default)]
struct RowSizes<'a> {
    groups: Vec<OperationSizes<'a>>,
}

/// Sizes of the rows of an operation.
#[derive(Debug)]
struct OperationSizes<'a> {
    operation: Operation<'a>,
    sizes: Vec<f64>,
}

impl<'a> RowSizes<'a> {
    /// Adds the size of a row.
    ///
    /// Fails if the operation has an earlier row with this size.
    fn add(&mut self, operation: &Operation<'a>, size: f64) -> Result<(), String> {
        let Some(known) = self.groups.iter_mut().find(|group| group.operation == *operation) else {
            let operation = operation.clone();
            self.groups.push(OperationSizes { operation, sizes: vec![size] });
            return Ok(());
        };
        if known.sizes.contains(&size) && known.sizes.last() != Some(&size) {
            return Err(format!("it has {size} B twice for one operation"));
        }
        known.sizes.push(size);
        Ok(())
    }

    /// Returns the first missing size. All operations with elements of one type have the same sizes.
    fn missing(&self) -> Option<u64> {
        let own = self.groups.iter().find_map(|group| missing_size(&group.sizes));
        own.or_else(|| self.groups.iter().find_map(|group| self.missing_in(group)))
    }

    /// Returns the first size that another operation has and this one lacks.
    fn missing_in(&self, group: &OperationSizes<'_>) -> Option<u64> {
        let element = group.operation.element;
        let others = self.groups.iter().filter(|other| other.operation.element == element);
        let mut sizes = others.flat_map(|other| &other.sizes);
        sizes.find(|size| !group.sizes.contains(size)).map(|size| *size as u64)
    }
}

/// True for the number of a rank, and for -1, which marks an operation without a root.
fn is_root(word: &str) -> bool {
    word.parse::<i64>().is_ok_and(|root| root >= -1)
}

/// True for a date as in `2026-07-09`.
fn is_date(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}

/// True for a time of day as in `16:03:21`.
fn is_clock_time(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}

/// True for the line of a rank: `#  Rank  0 Group  0 Pid 100 on n01 device  0 [0x02] NVIDIA A100`.
fn is_rank(line: &str) -> bool {
    let mut words = line.trim_start_matches('#').split_whitespace();
    line.starts_with('#')
        && words.next() == Some("Rank")
        && words.next().is_some_and(|rank| rank.parse::<u64>().is_ok())
}

/// Returns the name of the operation of a program: `all_reduce` for `all_reduce_perf`, and for `all_reduce_perf_mpi`.
fn operation_name(program: &str) -> Option<&str> {
    let (name, suffix) = program.split_once("_perf")?;
    (suffix.is_empty() || suffix.starts_with('_')).then_some(name)
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let all: Vec<&str> = lines(text).collect();
    let program = all.iter().find_map(|line| line.strip_prefix(TITLE));
    let name = program
        .map(str::trim)
        .map_or(UNNAMED, |program| operation_name(program).unwrap_or(program));
    // Each version that prints its number prints the operation.
    let has_lost_title = program.is_none() && version.is_some();
    let mut figures = OutputFigures::new("nccl-tests", version);
    let base = OutputConfig {
        processes: Some(all.iter().filter(|line| is_rank(line)).count() as u64)
            .filter(|ranks| *ranks > 0),
        ..figures.config()
    };
    let mut columns: Option<Columns> = None;
    let mut sizes = RowSizes::default();
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
        if !columns.fit(&words) {
            // A line of another program may also begin with a number.
            if words.len() < 4 || words[1].parse::<u64>().is_err() {
                continue;
            }
            return Err(unreadable_line_message(line));
        }
        let size = parse_number(words[0]).ok_or_else(|| unreadable_line_message(line))?;
        let operation = columns.operation(&words);
        if operation.element.contains(char::is_control) {
            return Err(unreadable_line_message(line));
        }
        sizes.add(&operation, size)?;
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
                element: Some(operation.element.to_owned()),
                case: Some(operation.case(place)),
                ..base.clone()
            };
            result.push(name, &config, &mut figures)?;
        }
    }
    let gap = sizes.missing().map(|size| format!("the table has no line for {}", Bytes(size)));
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
    let name = operation_name(program).ok_or("its program is unknown")?;
    let mut figures = OutputFigures::new("nccl-tests", None);
    let devices = document["config"]["devices"].as_array();
    let base =
        OutputConfig { processes: devices.map(|devices| devices.len() as u64), ..figures.config() };
    let rows = document["results"].as_array().ok_or("it has no results")?;
    let mut sizes = RowSizes::default();
    for row in rows {
        let size = row["size"].as_f64().ok_or("a result has no size")?;
        let operation = json_operation(row);
        if !is_root(operation.root) {
            return Err(format!(
                "the root of a result cannot be read: {}",
                quote_text(operation.root)
            ));
        }
        sizes.add(&operation, size)?;
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
                case: Some(operation.case(place)),
                ..base.clone()
            };
            half.push(name, &config, &mut figures)?;
        }
    }
    let gap = sizes.missing().map(|size| format!("the results have no row for {}", Bytes(size)));
    Ok(figures.finish(gap.as_deref()))
}

/// Returns the operation of a result in JSON.
fn json_operation(row: &Value) -> Operation<'_> {
    let halves = ["out_of_place", "in_place"];
    Operation {
        element: row["type"].as_str().unwrap_or_default(),
        reduction: row["redop"].as_str().unwrap_or("none"),
        root: row["root"].as_str().map_or("-1", str::trim),
        is_cpu_time: halves.iter().any(|half| !row[*half]["cpu_time"].is_null()),
    }
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
