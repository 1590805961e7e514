//! Tests of the folders that `nodegauge io` measures, and of runs that end early. Files of users must not change.

use crate::harness::{Harness, Part, Running, measurements, skip};
use crate::io::{SMALL, assert_untouched, folder};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[test]
fn folders_with_spaces_and_non_utf8_names_are_measured() {
    let harness = Harness::new();
    let one = folder(&harness, "a b");
    let odd = harness.path("x").join(OsStr::from_bytes(b"odd\xff\xfe name"));
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::write(odd.join("thesis.tex"), "mine").unwrap();
    let mut command = harness.command(crate::program::path());
    command
        .arg("io")
        .args(SMALL)
        .args(["--operations", "write,read", "--json", "-", "--path"])
        .arg(&one)
        .arg("--path")
        .arg(&odd);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths: Vec<&str> = measurements(&record)
        .iter()
        .map(|m| m["config"]["volume"]["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 4);
    assert!(
        paths[0].ends_with("a b") && paths[2].ends_with("name") && paths[2].contains('\u{fffd}')
    );
    assert_untouched(&one);
    assert_untouched(&odd);
}

#[test]
fn only_folders_are_accepted_as_path() {
    let harness = Harness::new();
    let file = harness.write("file", "mine");
    let refused = |path: &str| harness.run(&["io", "--path", path]).exits(2).prints_nothing();
    refused(&file).warns("existing files are never changed");
    refused("/nowhere/at/all").warns("is missing\nhint: give a folder that exists");
    refused("/dev/null").warns("is not a folder");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let named = |entry: std::fs::DirEntry| Path::new("/dev").join(entry.file_name());
    let devices = std::fs::read_dir("/sys/class/block").unwrap().flatten().map(named);
    match devices.into_iter().find(|device| device.exists()) {
        Some(device) => {
            refused(device.to_str().unwrap()).warns("a block device, which is never opened");
        }
        None => skip(Part::Device, "there is no block device"),
    }
    assert!(!harness.path(".local").exists(), "a refusal touches no history");
}

/// Starts a run without end, and waits until it has measured a part.
fn endless(harness: &Harness, folder: &Path) -> (Running, PathBuf) {
    let args =
        ["io", "--samples", "100000", "--max-size", "1MiB", "--path", folder.to_str().unwrap()];
    let inside = || -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        entries.filter(|path| path.is_dir() && path.join("lock").exists()).collect()
    };
    let before = inside();
    let running = harness.start(&args).shows("B/s");
    let own = inside().difference(&before).next().cloned().unwrap();
    (running, own)
}

#[test]
fn interrupted_runs_save_their_results_and_remove_their_files() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let harness = Harness::new();
        let folder = folder(&harness, "data");
        let (running, _) = endless(&harness, &folder);
        running.signal(signal);
        running
            .end()
            .exits(code)
            .warns("interrupted: the results so far are saved and marked incomplete");
        assert_untouched(&folder);
        let record = harness.latest();
        assert_eq!(record["complete"], false);
        assert!(!measurements(&record).is_empty());
    }
}

#[test]
fn leftovers_of_a_killed_run_are_reported_with_an_option_to_remove_them() {
    let harness = Harness::new();
    let folder = folder(&harness, "data");
    let path = folder.to_str().unwrap();
    let (dead, left) = endless(&harness, &folder);
    dead.signal("KILL");
    dead.end();
    assert!(left.is_dir(), "a killed run leaves its folder");
    let (alive, busy) = endless(&harness, &folder);
    assert_ne!(left, busy);
    let args = [&["io", "--path", path, "--no-save", "--operations", "write"], &SMALL[..]].concat();
    let outcome = harness.run(&args).exits(0);
    let shown = outcome.stdout.split_whitespace().collect::<String>();
    assert!(shown.contains(left.file_name().unwrap().to_str().unwrap()), "{shown}");
    assert!(!shown.contains(busy.file_name().unwrap().to_str().unwrap()), "{shown}");
    outcome.prints_words("--remove-leftovers");
    assert!(left.is_dir(), "it is offered, not done");
    harness.run(&[&args[..], &["--remove-leftovers"]].concat()).exits(0).warns("removed ");
    assert!(!left.exists() && busy.is_dir());
    // The other run continues.
    alive.signal("INT");
    alive.end().exits(130);
    assert_untouched(&folder);
}

#[test]
fn folder_removed_during_a_run_is_an_error() {
    let harness = Harness::new();
    let folder = folder(&harness, "data");
    let (running, own) = endless(&harness, &folder);
    // The run creates files in the folder as long as the folder exists.
    while own.exists() {
        let _ = std::fs::remove_dir_all(&own);
    }
    // A figure was measured before, so the exit code is that of an invalid result.
    let outcome = running.end().exits(1);
    outcome.warns("hint: the file system or the folder disappeared during the measurement");
    assert_untouched(&folder);
    let record = harness.latest();
    assert_eq!(record["complete"], false, "what was measured before is kept");
}
