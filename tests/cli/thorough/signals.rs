//! Tests of Ctrl-C, SIGTERM and closed terminals: the results so far are saved and marked incomplete.

use crate::harness::{Harness, Outcome, measurements};
use serde_json::Value;

/// Options for endless passes after a short trial.
const ENDLESS: [&str; 7] =
    ["--budget", "1", "--samples", "1000000", "--size", "1000000elements", "--dimms=1024x20000"];

/// Text in the progress bar after a measured pass.
const MEASURED: &str = "measuring: ";

/// Runs the program until it shows the text `shown`, and sends a signal.
fn interrupted(harness: &Harness, args: &[&str], shown: &str, signal: &str) -> Outcome {
    let running = harness.start(args).shows_times(if shown == MEASURED { 10 } else { 1 }, shown);
    running.signal(signal);
    running.end()
}

#[test]
fn results_before_an_interrupt_are_saved() {
    let harness = Harness::new();
    let args = [&["stream"], &ENDLESS[..]].concat();
    let outcome = interrupted(&harness, &args, MEASURED, "INT").exits(130);
    let outcome = outcome.prints("\ntriad ").prints("\nsaved ");
    assert_eq!(outcome.stderr, "interrupted: the results so far are saved and marked incomplete\n");
    let record = harness.latest();
    assert_eq!(record["complete"], false);
    assert_eq!(measurements(&record).len(), 4);
    assert!(measurements(&record).iter().all(|m| m["value"].is_number()), "{record:#}");
    harness.run(&["history", "list"]).exits(0).prints_words("(incomplete) stream");
    harness
        .run(&["history", "show", "latest"])
        .exits(0)
        .prints_words("incomplete the run ended before everything was measured");
}

#[test]
fn signal_ends_a_blocked_write() {
    let harness = Harness::new();
    assert_eq!(harness.run_other(&["mkfifo", &harness.arg("pipe")], &[]).code, Some(0));
    // The pipe is full, and it stays open. The program replaces the shell.
    let full = "exec 3<>pipe; dd if=/dev/zero bs=65536 count=1 >&3 2>dd.err; exec";
    let to_output = format!("{full} \"$@\" >&3");
    let to_file = format!("{full} \"$@\"");
    let nobody_reads = "no program reads it";
    for (script, json, code) in
        [(&to_output, "out.json", 143), (&to_output, "-", 143), (&to_file, "pipe", 3)]
    {
        let args = [&["stream", "--json", json], &ENDLESS[..]].concat();
        let words = ["sh", "-c", script, "sh"];
        let running = harness.start_under(&words, &[], &args).shows_times(10, MEASURED);
        running.signal("TERM");
        running.end().exits(code).warns(nobody_reads);
        assert_eq!(harness.latest()["complete"], false, "the run is saved");
    }
}

#[test]
fn unsaved_run_is_not_reported_as_saved() {
    let harness = Harness::new();
    let args = [&["stream", "--no-save"], &ENDLESS[..]].concat();
    let outcome = interrupted(&harness, &args, MEASURED, "INT").exits(130);
    assert_eq!(outcome.stderr, "interrupted: the results so far are marked incomplete\n");
}

#[test]
fn sigterm_has_its_own_exit_code() {
    let harness = Harness::new();
    let args = [&["stream", "--json", "-"], &ENDLESS[..]].concat();
    let outcome = interrupted(&harness, &args, MEASURED, "TERM").exits(143);
    let record = outcome.json();
    assert_eq!(record["complete"], false);
    assert_eq!(harness.latest()["id"], record["id"]);
}

#[test]
fn closed_terminal_ends_the_run_with_a_record() {
    let harness = Harness::new();
    let args = [&["stream"], &ENDLESS[..]].concat();
    let running = harness.start_on_terminal(&[], &args).shows_times(10, MEASURED);
    assert_eq!(running.hang_up(), Some(129));
    let record = harness.latest();
    assert_eq!((&record["complete"], measurements(&record).len()), (&Value::Bool(false), 4));
}

#[test]
fn second_hangup_does_not_prevent_saving() {
    let harness = Harness::new();
    let args = [&["stream"], &ENDLESS[..]].concat();
    let running = harness.start(&args).shows_times(10, MEASURED);
    // When a window is closed, both the kernel and the shell send the signal.
    running.signal("HUP");
    running.signal("HUP");
    running.end().exits(129).prints("\nsaved ");
    assert_eq!(harness.latest()["complete"], false);
}

#[test]
fn nohup_run_continues_after_hangup() {
    let harness = Harness::new();
    let args = [&["stream"], &ENDLESS[..]].concat();
    let ignoring = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    let running = harness.start_on_terminal(&ignoring, &args).shows_times(10, MEASURED);
    running.signal("HUP");
    let running = running.shows_times(40, MEASURED);
    running.signal("INT");
    running.end().exits(130);
    assert_eq!(harness.latest()["complete"], false);
}

#[test]
fn interrupt_before_the_first_sample_leaves_an_empty_record() {
    let harness = Harness::new();
    let outcome =
        interrupted(&harness, &["stream", "--budget", "30"], "loops for each kernel", "INT")
            .exits(130);
    outcome.warns("interrupted: nothing was measured; the record is saved and marked incomplete\n");
    let record = harness.latest();
    assert_eq!((&record["complete"], measurements(&record).len()), (&Value::Bool(false), 0));
}

#[test]
fn interrupted_run_and_explain_commands_save_incomplete_records() {
    let harness = Harness::new();
    for (args, shown, signal, code) in [
        (&["run"][..], "loops for each kernel", "INT", 130),
        (&["explain", "--memory-fraction", "0.2"], "choosing the best loops", "TERM", 143),
    ] {
        let command = args[0];
        let args = [args, &["--budget", "30"]].concat();
        interrupted(&harness, &args, shown, signal).exits(code);
        let record = harness.latest();
        assert_eq!(
            (&record["complete"], &record["command"][0]),
            (&Value::Bool(false), &command.into())
        );
    }
}
