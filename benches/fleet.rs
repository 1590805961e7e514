//! Measures the time and the memory of `fleet rank` with the records of many nodes.
//!
//! `NODES` is the number of nodes (default 10000), each with ten figures. `SAMPLES` is the number of samples per figure
//! (default 12), and `ROUNDS` the number of executions (default 3). Prints Markdown for docs/benchmarks.md.

mod common;

use common::{print, variable};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Recorded run of `stream`, from which all records are made.
const RECORDED: &str = include_str!("../tests/golden/stream/record.json");
/// Number of figures per record.
const FIGURES: usize = 10;

fn main() {
    let nodes: usize = variable("NODES").unwrap_or(10_000);
    let samples: usize = variable("SAMPLES").unwrap_or(12);
    let rounds: usize = variable("ROUNDS").unwrap_or(3);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut lines = String::new();
    std::fs::create_dir(folder.path().join("records")).expect("a writable folder");
    for i in 0..nodes {
        let text = record(i, samples).to_string();
        let file = folder.path().join(format!("records/n{i:05}.json"));
        std::fs::write(file, &text).expect("room for the records");
        lines.push_str(&text);
        lines.push('\n');
    }
    std::fs::write(folder.path().join("all.jsonl"), &lines).expect("room for the records");
    let per_record = lines.len() / nodes.max(1) / 1000;
    print(&format!("{nodes} records of {FIGURES} figures, {per_record} kB per record:\n"));
    print("| command | seconds, best | memory, MB |\n| --- | ---: | ---: |");
    for words in [
        &["fleet", "rank", "records", "--all-figures", "--format", "exclude"][..],
        &["fleet", "rank", "all.jsonl", "--all-figures", "--format", "exclude"],
        &["fleet", "rank", "records", "--format", "html", "--output", "fleet.html"],
    ] {
        let runs: Vec<(f64, f64)> = (0..rounds).map(|_| timed(folder.path(), words)).collect();
        let seconds = runs.iter().map(|run| run.0).fold(f64::INFINITY, f64::min);
        let memory = runs.iter().map(|run| run.1).fold(0.0, f64::max);
        print(&format!("| `{}` | {seconds:.2} | {memory:.0} |", words.join(" ")));
    }
    let page = std::fs::metadata(folder.path().join("fleet.html")).map_or(0, |page| page.len());
    print(&format!("\nThe page has {} kB.", page / 1000));
}

/// Runs a command; returns its time in seconds and its peak memory in MB.
fn timed(folder: &Path, words: &[&str]) -> (f64, f64) {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("nodegauge runs");
    let mut memory = 0.0;
    let status = loop {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
        memory = peak.map_or(memory, |kib| kib * 1024.0 / 1e6);
        if let Some(status) = child.try_wait().expect("a child process") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.code().is_some_and(|code| code < 2), "{words:?}: {status}");
    (began.elapsed().as_secs_f64(), memory)
}

/// Returns the record of node `i`. One node in a hundred is 20 % slower.
fn record(i: usize, samples: usize) -> Value {
    let mut record: Value = serde_json::from_str(RECORDED).expect("the golden record");
    record["id"] = json!(format!("01M7ZV{i:020}"));
    record["machine"]["host"] = json!(format!("n{i:05}"));
    let spread = 1.0 + 0.01 * ((i * 7919 % 1000) as f64 / 500.0 - 1.0);
    let factor = if i.is_multiple_of(100) { 0.8 } else { spread };
    let known = record["measurements"].as_array().expect("figures").clone();
    let figures = (0..FIGURES).map(|number| {
        let mut one = known[number % known.len()].clone();
        if number >= known.len() {
            one["name"] = json!(format!("kernel{number}"));
        }
        let value = one["value"].as_f64().unwrap_or(1e9) * factor;
        one["value"] = json!(value);
        one["samples"] = (0..samples).map(|k| json!(value * (1.0 - 0.001 * k as f64))).collect();
        one["samples_at_s"] = (0..samples).map(|k| json!(k as f64 * 0.1)).collect();
        one["samples_round_trip_s"] = json!([]);
        one["disturbed"] = json!([]);
        one
    });
    record["measurements"] = figures.collect();
    record
}
