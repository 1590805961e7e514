//! Reader for nccl-tests and rccl-tests: a table of sizes with time, algorithm bandwidth and bus bandwidth, out of
//! place and in place.

use crate::text::{agree, lines, number, quoted, unread};
use nodegauge_gauge::outputs::{NETWORK, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RunMark, UnreadOutput};
use nodegauge_measure::record::{Quoted, Validity};
use nodegauge_measure::{Bytes, Unit};

/// Reader for the output of nccl-tests and rccl-tests.
pub(crate) struct Nccl;

/// Phase of the final line of a run.
const END_PHASE: u8 = 5;
/// First words of the final line of a run.
const END: &str = "# Avg bus bandwidth";

impl Reader for Nccl {
    fn program(&self) -> &'static str {
        "nccl-tests"
    }

    fn doubts(&self) -> &'static str {
        "no line `Avg bus bandwidth`: suspect; wrong data: invalid; a bandwidth that is not the size divided by the time is an error"
    }

    fn first_characters(&self) -> &'static str {
        "#"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if !line.starts_with('#') {
            return None;
        }
        let phases = [
            ("# nccl-tests version", 0),
            ("# rccl-tests version", 0),
            ("# Collective test starting:", 1),
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

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
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
    /// Positions of time, algorithm bandwidth, bus bandwidth and number of errors, for out of place and in place.
    halves: Vec<[usize; 4]>,
}

impl Columns {
    fn parse(header: &str, units: &str) -> Result<Self, String> {
        let names: Vec<&str> = header.trim_start_matches('#').split_whitespace().collect();
        let units: Vec<&str> = units.trim_start_matches('#').split_whitespace().collect();
        let times = units.iter().filter(|unit| **unit == "(us)").count();
        let rates = units.iter().filter(|unit| **unit == "(GB/s)").count();
        let positions = |name: &str| -> Vec<usize> {
            (0..names.len()).filter(|at| names[*at] == name).collect()
        };
        let [time, algorithm, bus] = ["time", "algbw", "busbw"].map(positions);
        let mut wrong = positions("#wrong");
        wrong.extend(positions("error"));
        let halves = time.len();
        let is_known = (1..=2).contains(&halves)
            && [&algorithm, &bus, &wrong].iter().all(|of| of.len() == halves)
            && units.first() == Some(&"(B)")
            && times >= halves
            && rates == 2 * halves;
        if !is_known {
            return Err(format!("the columns of its table are unknown: {}", quoted(header)));
        }
        let halves = (0..halves).map(|at| [time[at], algorithm[at], bus[at], wrong[at]]).collect();
        Ok(Self { count: names.len(), halves })
    }
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let all: Vec<&str> = lines(text).collect();
    let program = all.iter().find_map(|line| line.strip_prefix("# Collective test starting:"));
    let name = program.map_or("collective", |program| program.trim().trim_end_matches("_perf"));
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
            // Lines of other programs may also begin with a number.
            if words.len() < 4 || words[1].parse::<u64>().is_err() {
                continue;
            }
            return Err(unread(line));
        }
        let size = number(words[0]).ok_or_else(|| unread(line))?;
        if sizes.contains(&size) && sizes.last() != Some(&size) {
            return Err(format!("its table has {size} B twice"));
        }
        sizes.push(size);
        for (half, place) in columns.halves.iter().zip(["out of place", "in place"]) {
            let cells = half.map(|column| words[column]);
            if cells[0] == "N/A" {
                continue;
            }
            let [time, algorithm, bus] = [0, 1, 2].map(|cell| number(cells[cell]));
            let (Some(time), Some(algorithm), Some(bus)) = (time, algorithm, bus) else {
                return Err(unread(line));
            };
            // The time has four digits, the bandwidth two decimals.
            let error = 6e-3 + 0.006 / algorithm.max(1e-9);
            if !agree(algorithm * 1e9, size / (time * 1e-6), error) {
                return Err(format!(
                    "a bandwidth is not the size divided by the time: {}",
                    quoted(line)
                ));
            }
            let mut validity = Validity::valid();
            if cells[3] != "N/A" && number(cells[3]).ok_or_else(|| unread(line))? > 0.0 {
                validity.invalid("the program reports wrong data");
            }
            let config = OutputConfig {
                message_bytes: Some(size as u64),
                element: Some(words[2].to_owned()),
                case: Some(place.to_owned()),
                ..base.clone()
            };
            let known = [
                (name.to_owned(), Unit::Seconds, time * 1e-6),
                (name.to_owned(), Unit::BytesPerSecond, bus * 1e9),
            ];
            for (figure_name, unit, value) in known {
                let figure = OutputFigure {
                    of: NETWORK,
                    name: figure_name,
                    unit,
                    value,
                    quoted: Quoted::Mean,
                };
                figures.push_with_validity(figure, &config, validity.clone())?;
            }
        }
    }
    let gap = missing_size(&sizes).map(|size| format!("the table has no line for {}", Bytes(size)));
    let end = !all.iter().any(|line| line.starts_with(END));
    let missing = end.then(|| "the line \"Avg bus bandwidth\" is missing".to_owned()).or(gap);
    Ok(figures.finish(missing.as_deref()))
}

/// Returns the first missing size in a table whose sizes grow by a constant factor or a constant step.
fn missing_size(sizes: &[f64]) -> Option<u64> {
    let grows = |two: &[f64]| two[0] > 0.0 && two[1] > two[0];
    if sizes.len() < 3 || !sizes.windows(2).all(grows) {
        return None;
    }
    let factor = sizes[1] / sizes[0];
    let step = sizes[1] - sizes[0];
    let is_factor = sizes.windows(2).all(|two| agree(two[1] / two[0], factor, 1e-3));
    let is_step = sizes.windows(2).all(|two| agree(two[1] - two[0], step, 1e-3));
    if is_factor || is_step {
        return None;
    }
    let least = sizes.windows(2).map(|two| two[1] / two[0]).fold(f64::INFINITY, f64::min);
    let at = sizes.windows(2).position(|two| two[1] / two[0] > least * 1.5)?;
    Some((sizes[at] * least) as u64)
}
