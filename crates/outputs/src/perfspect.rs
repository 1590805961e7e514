//! Reader for the JSON of `perfspect benchmark`: an object that contains a list of rows for each table.

use nodegauge_gauge::outputs::{MEMORY, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{parse_document, parse_number, quote_text};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;
use serde_json::Value;

/// Reader for the JSON of PerfSpect.
pub(crate) struct PerfSpect;

/// Tables with a matrix of NUMA nodes: name of the table, name of the figures, unit, and factor to the base unit.
const MATRICES: [(&str, &str, Unit, f64); 2] = [
    ("Memory NUMA Bandwidth Matrix (GB/s)", "bandwidth", Unit::BytesPerSecond, 1e9),
    ("Memory NUMA Latency Matrix (ns)", "latency", Unit::Seconds, 1e-9),
];
/// Tables with one row that has a column per cache level: name of the table, name of the figures, unit, and factor to
/// the base unit.
const CACHES: [(&str, &str, Unit, f64); 2] = [
    ("Cache Idle Latency (ns)", "latency", Unit::Seconds, 1e-9),
    ("Cache Maximum Bandwidth (GB/s)", "bandwidth", Unit::BytesPerSecond, 1e9),
];
/// Table of latencies under load.
const LOADED: &str = "Memory Loaded Latency";

impl Reader for PerfSpect {
    fn program(&self) -> &'static str {
        "PerfSpect"
    }

    fn doubts(&self) -> &'static str {
        "truncated JSON: no figures"
    }

    fn first_characters(&self) -> &'static str {
        "{\""
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        // Each name of a table begins with one of these words.
        if !["\"Memory ", "\"Cache "].iter().any(|word| line.contains(word)) {
            return None;
        }
        let names = MATRICES.iter().chain(&CACHES).map(|(name, ..)| *name).chain([LOADED]);
        let is_table = names.into_iter().any(|name| line.contains(&format!("\"{name}\"")));
        is_table.then_some(RunMark::DOCUMENT)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let document = parse_document(text)?;
        let mut figures = OutputFigures::new("perfspect", None);
        for (table, name, unit, factor) in MATRICES {
            for row in rows(&document, table) {
                let Some(node) = row.get("Node").and_then(Value::as_str) else { continue };
                if row.get(node).is_none() {
                    return Err(format!(
                        "{table:?} has no column for NUMA node {}",
                        quote_text(node)
                    )
                    .into());
                }
                for (column, cell) in row.as_object().into_iter().flatten() {
                    if column.parse::<u32>().is_ok() {
                        let case = format!("n{node}->n{column}");
                        push(&mut figures, name, unit, cell, factor, case)?;
                    }
                }
            }
        }
        for (table, name, unit, factor) in CACHES {
            for row in rows(&document, table) {
                for (level, cell) in row.as_object().into_iter().flatten() {
                    push(&mut figures, name, unit, cell, factor, level.clone())?;
                }
            }
        }
        for (at, row) in rows(&document, LOADED).iter().enumerate() {
            let known = [
                ("loaded_latency", Unit::Seconds, "Latency (ns)", 1e-9),
                ("loaded_bandwidth", Unit::BytesPerSecond, "Bandwidth (GB/s)", 1e9),
            ];
            for (name, unit, column, factor) in known {
                if let Some(cell) = row.get(column) {
                    push(&mut figures, name, unit, cell, factor, format!("load {}", at + 1))?;
                }
            }
        }
        Ok(figures.finish(None))
    }
}

/// Returns the rows of a table.
fn rows<'a>(document: &'a Value, table: &str) -> &'a [Value] {
    document.get(table).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds the figure in a cell; an empty cell is ignored.
fn push(
    figures: &mut OutputFigures,
    name: &str,
    unit: Unit,
    cell: &Value,
    factor: f64,
    case: String,
) -> Result<(), String> {
    let text = match cell {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    if text.is_empty() {
        return Ok(());
    }
    let value = parse_number(&text)
        .ok_or_else(|| format!("a cell of its tables is not a number: {text:?}"))?;
    let mut config = figures.config();
    config.case = Some(case);
    figures.push(
        OutputFigure {
            of: MEMORY,
            name: name.to_owned(),
            unit,
            value: value * factor,
            quoted: QuotedStatistic::Single,
        },
        &config,
    )
}
