//! Tests of `nodegauge io --metadata`: operations and records, refusals, and runs that end early. No test asserts a
//! rate.

use crate::harness::{Harness, Outcome, has_keys, measurements};
use crate::io::{assert_untouched, folder};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Runs `io --metadata` in a folder, and checks that no files remain.
#[track_caller]
fn metadata(harness: &Harness, args: &[&str]) -> Outcome {
    let path = folder(harness, "data");
    let outcome =
        harness.run(&[&["io", "--metadata", "--path", path.to_str().unwrap()], args].concat());
    assert_untouched(&path);
    outcome
}

fn text<'m>(m: &'m Value, key: &str) -> &'m str {
    m["config"][key].as_str().unwrap_or_default()
}

#[test]
fn every_operation_is_measured_by_workers_in_own_and_shared_directories() {
    let harness = Harness::new();
    let args = ["--files", "20", "--threads", "1,2", "--samples", "2", "--fsync", "--bytes", "10B"];
    let record = metadata(&harness, &[&args[..], &["--json", "-"]].concat()).exits(0).json();
    let mut cells = BTreeSet::new();
    for m in measurements(&record) {
        assert_eq!((&m["gauge"], &m["test"]), (&"files".into(), &"metadata".into()));
        assert_eq!((&m["unit"], &m["quoted"]), (&"op/s".into(), &"median".into()));
        assert!(m["value"].as_f64().unwrap() > 0.0);
        let config = &m["config"];
        has_keys(
            config,
            &["directories", "fsync", "dropped", "written_bytes", "files", "threads", "volume"],
        );
        has_keys(config, &["engine", "operations", "latency_s", "batch", "clock", "stopped"]);
        let threads = config["threads"].as_u64().unwrap();
        // Two turns count. Each contains all files of all workers.
        assert_eq!(config["operations"].as_u64().unwrap(), 2 * 20 * threads);
        let quantile = |name: &str| config["latency_s"][name].as_f64().unwrap();
        let quantiles = ["p50", "p90", "p99", "p99.9", "max"].map(quantile);
        assert!(quantiles.windows(2).all(|w| w[0] <= w[1]) && quantiles[0] > 0.0, "{config:#}");
        let name = m["name"].as_str().unwrap();
        assert_eq!(config["fsync"], name == "create_fsync");
        cells.insert((name.to_owned(), threads, text(m, "directories").to_owned()));
    }
    let names = ["create", "stat", "open", "rename", "remove", "create_fsync"];
    for name in names {
        for (threads, layout) in [(1, "own"), (2, "own"), (2, "shared")] {
            assert!(cells.contains(&(name.to_owned(), threads, layout.to_owned())), "{cells:?}");
        }
    }
    assert_eq!(cells.len(), 18);
    assert_eq!(record["complete"], true);
}

#[test]
fn processes_and_a_single_layout_can_be_selected() {
    let harness = Harness::new();
    let args = ["--files", "10", "--processes", "2", "--layout", "shared", "--samples", "1"];
    let record = metadata(&harness, &[&args[..], &["--json", "-"]].concat()).exits(0).json();
    assert_eq!(measurements(&record).len(), 5);
    for m in measurements(&record) {
        assert_eq!((&m["config"]["processes"], text(m, "directories")), (&2.into(), "shared"));
        assert_eq!(m["validity"]["status"], "suspect", "one sample is too few");
    }
}

#[test]
fn page_shows_latencies_of_files_while_conditions_set_the_exit_code() {
    let harness = Harness::new();
    let args = ["--files", "20", "--threads", "2", "--samples", "2", "--no-save"];
    let outcome = metadata(&harness, &args).exits(0);
    outcome
        .prints_words("20 files per worker, empty")
        .prints_words("existing files are in the caches")
        .prints_words("latencies")
        .prints_words("shared")
        .prints_words("Small files are created");
    let expected = ["--expect", "create>=1op/s", "--accept-suspect"];
    metadata(&harness, &[&args[..], &expected].concat()).exits(0);
    let unmet = ["--expect", "create>=1000000000000op/s", "--accept-suspect"];
    metadata(&harness, &[&args[..], &unmet].concat()).exits(1);
    metadata(&harness, &[&args[..], &["--expect", "read>=1op/s"]].concat()).exits(2);
}

#[test]
fn incompatible_options_and_existing_files_are_refused() {
    let harness = Harness::new();
    for other in [&["--quick"][..], &["--block-sizes", "4KiB"], &["--cache", "direct"]] {
        metadata(&harness, other).exits(2).prints_nothing();
    }
    harness.run(&["io", "--files", "5"]).exits(2).prints_nothing();
    harness.run(&["io", "--threads", "1,2"]).exits(2).warns("takes one number without --metadata");
    let file = harness.write("file", "mine");
    let refused = harness.run(&["io", "--metadata", "--path", &file]).exits(2);
    refused.warns("existing files are never changed").prints_nothing();
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn short_budget_is_refused_and_sufficient_budget_is_kept() {
    let harness = Harness::new();
    let many = ["--files", "2000000", "--threads", "2", "--budget", "1", "--no-save"];
    let refused = metadata(&harness, &many).exits(2).prints_nothing();
    refused.warns("--budget 1 is too short").warns("fewer files (--files)");
    let kept = metadata(&harness, &["--budget", "2", "--json", "-"]);
    if kept.code == Some(2) {
        // If other tests use the device, a round may take longer than the budget.
        kept.warns("--budget 2 is too short");
        return;
    }
    let record = kept.exits(0).json();
    assert!(record["seconds"].as_f64().unwrap() < 4.0, "{}", record["seconds"]);
    assert!(!measurements(&record).is_empty());
}

#[test]
fn dropping_caches_of_a_file_system_in_memory_is_refused() {
    let path = Path::new("/dev/shm");
    let is_memory = std::fs::read_to_string("/proc/self/mounts")
        .is_ok_and(|mounts| mounts.lines().any(|line| line.starts_with("tmpfs /dev/shm ")));
    if !is_memory {
        return crate::harness::skip(crate::harness::Part::Namespaces, "/dev/shm is no tmpfs");
    }
    let harness = Harness::new();
    let args = ["io", "--metadata", "--drop", "--path", path.to_str().unwrap()];
    harness.run(&args).exits(2).warns("keeps its entries in memory only").prints_nothing();
}

#[test]
fn interrupted_runs_leave_no_files_and_save_a_record() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for workers in ["--threads", "--processes"] {
            let harness = Harness::new();
            let folder = folder(&harness, "data");
            let path = folder.to_str().unwrap();
            let args =
                ["io", "--metadata", "--files", "50", "--samples", "1000000", "--path", path];
            let running = harness.start(&[&args[..], &[workers, "2"]].concat());
            let running = running.shows("op/s");
            running.signal(signal);
            // Only the warm-up may have been measured.
            running.end().exits(code).warns("saved and marked incomplete");
            assert_untouched(&folder);
            let record = harness.latest();
            assert_eq!(
                (&record["complete"], &record["command"][1]),
                (&false.into(), &"--metadata".into())
            );
        }
    }
}

#[test]
fn tree_of_a_killed_run_is_removed_on_request() {
    let harness = Harness::new();
    let folder = folder(&harness, "data");
    let path = folder.to_str().unwrap();
    // The first turn lasts long.
    let args = ["io", "--metadata", "--samples", "9", "--files", "1000000", "--path", path];
    let running =
        harness.start(&[&args[..], &["--threads", "2"]].concat()).shows("files per worker");
    running.signal("KILL");
    running.end();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "a killed run leaves its folder");
    let again = ["io", "--metadata", "--files", "5", "--samples", "1", "--path", path, "--no-save"];
    harness.run(&again).exits(0).prints_words("--remove-leftovers");
    harness.run(&[&again[..], &["--remove-leftovers"]].concat()).exits(0).warns("removed ");
    assert_untouched(&folder);
}

/// Tests with faults of file systems.
mod thorough {
    use super::*;

    #[test]
    fn free_inodes_and_space_limit_the_number_of_files() {
        let harness = Harness::new();
        let folder = folder(&harness, "small");
        let path = folder.to_str().unwrap();
        let shown = [("tmpfs:size=2m,nr_inodes=200", path)];
        let args = ["io", "--metadata", "--path", path, "--no-save", "--samples", "1"];
        let two = [&args[..], &["--threads", "2"]].concat();
        let Some(outcome) = harness.run_where(&shown, &two) else { return };
        outcome.exits(0).prints_words("files per worker: room for").prints_words("free inodes");
        let many = [&args[..], &["--files", "500"]].concat();
        let Some(refused) = harness.run_where(&shown, &many) else { return };
        refused.exits(3).warns("(free inodes); ").warns("hint: remove files").prints_nothing();
        // Space is checked only if files have data.
        let data = [&args[..], &["--files", "100", "--bytes", "1MiB"]].concat();
        let Some(full) = harness.run_where(&shown, &data) else { return };
        full.exits(3).warns("(free space); ").prints_nothing();
    }

    #[test]
    fn exhausted_inodes_are_reported_with_a_hint() {
        let harness = Harness::new();
        let folder = folder(&harness, "small");
        let path = folder.to_str().unwrap();
        // The file system has enough inodes for the files, but not for the directories.
        let shown = [("tmpfs:size=2m,nr_inodes=101", path)];
        let args = ["io", "--metadata", "--path", path, "--samples", "1", "--files", "98"];
        let one = [&args[..], &["--threads", "1"]].concat();
        let Some(outcome) = harness.run_where(&shown, &one) else { return };
        outcome.warns("No space left on device").warns("hint: free inodes (df -i) or space (df)");
    }

    #[test]
    fn read_only_folder_is_refused() {
        let harness = Harness::new();
        let folder = folder(&harness, "small");
        let path = folder.to_str().unwrap();
        let args = ["io", "--metadata", "--path", path, "--no-save"];
        let Some(outcome) = harness.run_where(&[("tmpfs:ro,size=1m", path)], &args) else { return };
        outcome.exits(3).warns("Read-only file system").prints_nothing();
    }
}
