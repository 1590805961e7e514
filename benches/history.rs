//! Measures the time of commands that list, filter, find and compare runs in a large history.
//!
//! `RUNS` is the number of runs (default 10000), `SAMPLES` the number of samples per figure (default 100), `ROUNDS` the
//! number of executions of each command (default 5). Prints Markdown for docs/benchmarks.md.

mod common;

use common::{print, variable};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Recorded run of `stream`, from which all runs are made.
const RECORDED: &str = include_str!("../tests/golden/stream/record.json");

fn main() {
    let runs: usize = variable("RUNS").unwrap_or(10_000);
    let samples: usize = variable("SAMPLES").unwrap_or(100);
    let rounds: usize = variable("ROUNDS").unwrap_or(5);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("runs.jsonl");
    let lines: String = (0..runs).map(|i| record(i, samples).to_string() + "\n").collect();
    std::fs::write(&file, &lines).expect("room for the records");
    let file = file.to_str().expect("a temporary path is text");
    let per_run = lines.len() / runs.max(1) / 1000;
    print(&format!(
        "{runs} runs of `stream`, {samples} samples per figure, {per_run} kB per record:\n"
    ));
    print("| command | seconds, best run |\n| --- | ---: |");
    let id = id(runs / 2);
    let date = &started(runs / 2)[..10];
    let nodegauge = |words: &[&str]| timed(folder.path(), words);
    let import = nodegauge(&["history", "import", file]);
    print(&format!("| `history import runs.jsonl` | {import:.2} |"));
    for words in [
        &["history", "list"][..],
        &["history", "list", "--all"],
        &["history", "list", "--all", "--json"],
        &["history", "list", "--host", "n07", "--label", "nps=4", "--since", date],
        &["history", "list", "--gauge", "hpl"],
        &["history", "list", "-q", "--label", "batch=7"],
        &["history", "show", &id],
        &["history", "show", "batch=7"],
        &["compare", "batch=7", "batch=8"],
        &["history", "export", "--output", "/dev/null"],
    ] {
        let best = (0..rounds).map(|_| nodegauge(words)).fold(f64::INFINITY, f64::min);
        print(&format!("| `{}` | {best:.3} |", words.join(" ")));
    }
}

/// Runs a command and returns its time in seconds.
fn timed(folder: &Path, words: &[&str]) -> f64 {
    let began = Instant::now();
    let output: Output = Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .args(words)
        .env("NODEGAUGE_DB", folder.join("history.db"))
        .stdin(Stdio::null())
        .output()
        .expect("nodegauge runs");
    let seconds = began.elapsed().as_secs_f64();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    seconds
}

fn id(i: usize) -> String {
    format!("01M7ZV{i:020}")
}

/// Returns the start time of run `i`, ten minutes after the previous run.
fn started(i: usize) -> String {
    let days = i / 144;
    let minutes = i % 144 * 10;
    let month = 1 + days / 28 % 12;
    let day = 1 + days % 28;
    format!("2026-{month:02}-{day:02}T{:02}:{:02}:00Z", minutes / 60, minutes % 60)
}

/// Returns the record of run `i`, on one of twenty hosts. Ten consecutive runs share a label `batch`.
fn record(i: usize, samples: usize) -> Value {
    let mut record: Value = serde_json::from_str(RECORDED).expect("a record");
    record["id"] = json!(id(i));
    record["started"] = json!(started(i));
    record["machine"]["host"] = json!(format!("n{:02}", i % 20));
    record["labels"] = json!({"nps": (1 << (i % 3)).to_string(), "batch": (i / 10).to_string()});
    for m in record["measurements"].as_array_mut().into_iter().flatten() {
        // Samples vary, like measured ones.
        let value = m["value"].as_f64().unwrap_or(1e9);
        let all: Vec<f64> =
            (0..samples).map(|j| value * (1.0 - (i * 31 + j * 17) as f64 % 97.0 / 1e4)).collect();
        m["samples"] = json!(all);
    }
    record
}
