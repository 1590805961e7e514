//! Tests of `sweep -- PROGRAM` with programs that print without end, hang, or outlive a killed sweep.

use crate::harness::{Harness, is_running, measurements, wait_for};
use std::path::Path;

#[test]
fn killed_programs_are_reported_and_the_other_program_is_measured() {
    let harness = Harness::new();
    let script =
        "case $A in 1) exec yes;; 2) exec sleep 300;; 3) read line || exit 0; exit 1;; esac";
    let words =
        ["sweep", "env:A=3,1,2", "--limit", "1", "--samples", "1", "--", "sh", "-c", script];
    harness
        .run(&words)
        .exits(1)
        .prints_words("env:A 1: killed for too much output")
        .prints_words("env:A 2: killed at its time limit");
    let record = harness.latest();
    let valid = measurements(&record).iter().filter(|m| m["value"].is_number());
    assert_eq!(valid.count(), 1, "{record:#}");
}

#[test]
fn killed_sweep_leaves_no_process_and_no_folder() {
    let harness = Harness::new();
    let temporary = harness.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let variables = [("TMPDIR", temporary.to_str().unwrap())];
    let log = harness.arg("processes");
    let daemon = format!("setsid sh -c 'echo $$ >>{log}; exec sleep 300' & echo $$ >>{log}; wait");
    for placed in [&["env:A=1,2"][..], &["--ranks", "1", "--launcher", "none"]] {
        let words = [&["sweep", "--no-save"], placed, &["--", "sh", "-c", &daemon]].concat();
        let running = harness.start_with(&variables, &words);
        let processes: Vec<u32> = wait_for("numbers of processes", || {
            let text = std::fs::read_to_string(&log).ok()?;
            let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            (text.ends_with('\n') && numbers.len() == 2).then_some(numbers)
        });
        running.signal("KILL");
        running.end();
        wait_for("the end of all processes", || {
            processes.iter().all(|process| !is_running(*process)).then_some(())
        });
        wait_for("an empty folder", || {
            Path::new(&temporary).read_dir().unwrap().next().is_none().then_some(())
        });
        std::fs::remove_file(&log).unwrap();
    }
}
