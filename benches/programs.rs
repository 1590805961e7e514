//! Measures the overhead of `sweep -- PROGRAM` per run of the program. The time of a sweep with few rounds is
//! subtracted from that of a sweep with many rounds. The difference is divided by the number of additional runs, and
//! the median time of a run is subtracted.
//!
//! `PROGRAM` is the program (default `true`), and `ROUNDS` the number of additional rounds, each with two runs (default
//! 200). Prints Markdown for docs/benchmarks.md.

mod common;

use common::{nodegauge_program, print, variable};
use nodegauge_measure::record::Record;
use std::time::Instant;

/// Number of rounds of the short sweep.
const FEW: usize = 5;

fn main() {
    let program: String = variable("PROGRAM").unwrap_or_else(|| "true".to_owned());
    let rounds: usize = variable("ROUNDS").unwrap_or(200);
    let (_, few) = sweep(&program, FEW);
    let (record, many) = sweep(&program, FEW + rounds);
    let per_run = (many - few) / (2 * rounds) as f64;
    let elapsed = record.measurements.iter().find(|m| m.name == "elapsed");
    let elapsed = elapsed.and_then(|m| m.summary.as_ref()).map_or(0.0, |summary| summary.median);
    let millis = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    print("| program | elapsed, run | elapsed, sweep per run | overhead |");
    print("| --- | ---: | ---: | ---: |");
    print(&format!(
        "| `{program}` | {} | {} | {} |",
        millis(elapsed),
        millis(per_run),
        millis(per_run - elapsed)
    ));
}

/// Sweeps a program over two values of a variable; returns the record and the elapsed time in seconds.
fn sweep(program: &str, rounds: usize) -> (Record, f64) {
    let rounds = rounds.to_string();
    let options = ["sweep", "env:X=1,2", "--samples", &rounds];
    let began = Instant::now();
    let record = nodegauge_program(&options, &["--", program]);
    (record, began.elapsed().as_secs_f64())
}
