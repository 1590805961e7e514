//! Tests of measurements that cannot be saved at their end, because the history cannot be written. Nothing may be lost.

use crate::harness::{Harness, Outcome, Running, wait_for};
use rusqlite::Connection;
use serde_json::Value;
use std::path::Path;

const STREAM: [&str; 7] =
    ["stream", "--size", "1000000elements", "--budget", "2", "--dimms", "1024x20000"];

/// Creates a history and starts a measurement. Waits until the measurement has opened the history.
fn measuring(harness: &Harness, args: &[&str]) -> Running {
    harness.stream(&["-q", "--db", "h.db"]).exits(0);
    let running = harness.start(&[&STREAM[..], &["--db", "h.db"], args].concat());
    running.shows("measuring")
}

/// Takes the write lock of the history, as a long import by an older version does.
fn lock(harness: &Harness) -> Connection {
    let connection = Connection::open(harness.path("h.db")).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// Returns the path of the file that contains the record, because it could not be saved in the history.
fn unsaved(harness: &Harness) -> Option<String> {
    let mut entries = std::fs::read_dir(harness.path("")).unwrap();
    entries.find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        (name.starts_with("nodegauge-unsaved-") && name.ends_with(".jsonl")).then_some(name)
    })
}

fn saved(harness: &Harness) -> usize {
    harness.run(&["history", "list", "-q", "--db", "h.db"]).exits(0).stdout.lines().count()
}

/// Checks that standard output contains the figures, and no message that they were saved.
fn assert_shown(outcome: Outcome) -> Outcome {
    outcome.prints("\ntriad ").never_prints("\nsaved ")
}

#[test]
fn run_waits_for_a_history_locked_by_another_program() {
    let harness = Harness::new();
    let running = measuring(&harness, &[]);
    let other = lock(&harness);
    let running = running.shows("waiting for at most 30 s: another program is writing to history");
    // While the program waits for the lock, the record is in a file.
    let file = wait_for("the record in a file", || unsaved(&harness));
    let record: Value =
        serde_json::from_slice(&std::fs::read(harness.path(&file)).unwrap()).unwrap();
    assert!(record["measurements"].as_array().unwrap().len() >= 4);
    other.execute_batch("COMMIT").unwrap();
    running.end().exits(0).prints("\ntriad ").prints("\nsaved ");
    assert_eq!((saved(&harness), unsaved(&harness)), (2, None));
}

#[test]
fn unsaved_record_is_written_to_a_file() {
    let harness = Harness::new();
    let running = measuring(&harness, &["--csv", "run.csv"]);
    let other = lock(&harness);
    let running = running.shows("waiting for at most 30 s");
    // A signal ends the wait, which otherwise takes half a minute.
    running.signal("INT");
    let outcome = assert_shown(running.end()).exits(3);
    let file = unsaved(&harness).unwrap_or_else(|| outcome.fail("expected a file"));
    let outcome = outcome
        .warns(" is not saved: cannot write history database h.db: another program has been")
        .warns(&format!("; the record is in {file}"))
        .warns(&format!("hint: nodegauge history import {file} --db h.db"));
    if outcome.stderr.contains("saved and marked") {
        outcome.fail("it is not saved");
    }
    assert_eq!(std::fs::read_to_string(harness.path("run.csv")).unwrap().lines().count(), 5);
    drop(other);
    harness.run(&["history", "import", &file, "--db", "h.db"]).exits(0).prints("1 run saved");
    assert_eq!(saved(&harness), 2);
}

#[test]
fn json_output_replaces_the_copy_of_an_unsaved_record() {
    let harness = Harness::new();
    let running = measuring(&harness, &["--json", "run 1.json"]);
    // SQLite does not write to a database that was moved.
    std::fs::rename(harness.path("h.db"), harness.path("moved.db")).unwrap();
    assert_shown(running.end())
        .exits(3)
        .warns("; the record is in run 1.json")
        .warns("hint: nodegauge history import 'run 1.json' --db h.db");
    assert_eq!(unsaved(&harness), None);
    let db = ["--db", "moved.db"];
    harness.run(&[&["history", "import", "run 1.json"], &db[..]].concat()).exits(0);
    harness.run(&[&["history", "show", "latest"], &db[..]].concat()).exits(0).prints("\ntriad ");
}

#[test]
fn unwritable_output_does_not_prevent_saving() {
    let harness = Harness::new();
    let quick = [&STREAM[..3], &["--samples", "2", "--db", "h.db"]].concat();
    let full = |args: &[&str]| harness.run(&[&quick[..], args].concat()).exits(3);
    let outcome = full(&["--json", "/dev/full", "--csv", "run.csv"]);
    outcome.prints("\ntriad ").prints("\nsaved ").warns("cannot write /dev/full: No space left");
    assert!(Path::new(&harness.arg("run.csv")).is_file());
    let to_full = ["sh", "-c", "exec \"$0\" \"$@\" > /dev/full", crate::program::path()];
    let other_outcome = harness.run_other(&[&to_full[..], &quick].concat(), &[]).exits(3);
    other_outcome.warns("cannot write to standard output: No space left on device");
    assert_eq!(saved(&harness), 2);
}

#[test]
fn missing_home_is_not_created() {
    let harness = Harness::new();
    for home in [harness.path("absent").to_str().unwrap(), "relative", "/"] {
        let variables = [("HOME", home), ("XDG_DATA_HOME", ""), ("NODEGAUGE_DB", "")];
        let refused = harness.run_with(&variables, &STREAM).exits(3);
        refused.warns("no home folder for the history").warns("--no-save");
        harness.run_with(&variables, &[&STREAM[..], &["-q", "--no-save"]].concat()).exits(0);
        assert!(!harness.path("absent").exists() && !harness.path("relative").exists());
    }
}
