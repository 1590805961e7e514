//! Tests of `nodegauge io` with failing devices, file systems and kernels. Failures that cannot be produced here are
//! injected into the C library.

use crate::harness::{Harness, Outcome, Part, measurements, skip};
use crate::io::{SMALL, assert_untouched, folder};
use std::path::PathBuf;
use std::process::Command;

/// Compiles the library that injects failures.
pub fn faults(harness: &Harness) -> PathBuf {
    let source = harness.write("faults.c", include_str!("faults.c"));
    let library = harness.path("faults.so");
    let library_arg = library.to_str().unwrap();
    let args = ["-shared", "-fPIC", "-O1", "-o", library_arg, &source, "-ldl"];
    assert!(Command::new("gcc").args(args).status().unwrap().success());
    library
}

/// Runs `io` with a fault, and checks that no files are left, and that other files are unchanged.
#[track_caller]
fn io_with_fault(harness: &Harness, fault: &str, args: &[&str]) -> Outcome {
    let library = faults(harness);
    let folder = folder(harness, "data");
    let variables = [("LD_PRELOAD", library.to_str().unwrap()), ("FAULT", fault)];
    let path = folder.to_str().unwrap();
    let outcome = harness.run_with(&variables, &[&["io", "--path", path], args].concat());
    assert_untouched(&folder);
    outcome
}

#[test]
fn full_file_system_ends_the_run_and_keeps_earlier_results() {
    let harness = Harness::new();
    for (fault, hint) in
        [("enospc=3000000", "free some space"), ("edquot=3000000", "the quota is used up")]
    {
        let outcome =
            io_with_fault(&harness, fault, &["--max-size", "1MiB", "--operations", "write,read"]);
        let outcome = outcome.exits(1).warns("cannot write").warns(hint);
        // Earlier results are printed and saved, and the record is marked as incomplete.
        outcome.prints_words("incomplete").warns("data-file-");
        let record = harness.latest();
        assert_eq!(record["complete"], false);
        let invalid: Vec<_> =
            measurements(&record).iter().filter(|m| m["validity"]["status"] == "invalid").collect();
        // Only cells with failing writes are lost.
        assert!(!invalid.is_empty() && invalid.iter().all(|m| m["name"] == "write"));
        assert!(measurements(&record).len() > 2);
    }
}

#[test]
fn small_file_system_limits_the_grid() {
    let harness = Harness::new();
    let folder = folder(&harness, "small");
    let path = folder.to_str().unwrap();
    let shown = [("tmpfs:size=2m", path)];
    let args = ["io", "--path", path, "--no-save", "--operations", "write"];
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    outcome.exits(0).prints_words("cells left out: only").prints_words("left (free space)");
    let large = ["io", "--path", path, "--no-save", "--file-sizes", "4MiB"];
    let Some(large_outcome) = harness.run_where(&shown, &large) else { return };
    large_outcome
        .exits(3)
        .warns("files of 4 MiB do not fit")
        .warns("hint: use a smaller --max-size")
        .prints_nothing();
    let beyond = ["io", "--path", path, "--no-save", "--cache", "beyond"];
    let Some(beyond_outcome) = harness.run_where(&shown, &beyond) else { return };
    beyond_outcome.exits(3).warns("do not fit").prints_nothing();
    let workers = ["io", "--path", path, "--no-save", "--file-sizes", "1MiB", "--threads", "3"];
    let Some(workers_outcome) = harness.run_where(&shown, &workers) else { return };
    workers_outcome.exits(3).warns("files of 3 MiB do not fit");
}

#[test]
fn read_only_folder_is_refused() {
    let harness = Harness::new();
    let outcome = io_with_fault(&harness, "readonly", &SMALL);
    outcome
        .exits(3)
        .warns("cannot write in")
        .warns("hint: give a folder that you can write to")
        .prints_nothing();
    let folder = folder(&harness, "ro");
    let path = folder.to_str().unwrap();
    let Some(tmpfs_outcome) =
        harness.run_where(&[("tmpfs:ro,size=1m", path)], &["io", "--path", path])
    else {
        return;
    };
    tmpfs_outcome.exits(3).warns("Read-only file system").prints_nothing();
}

#[test]
fn quota_limits_the_available_space() {
    let harness = Harness::new();
    let outcome = io_with_fault(&harness, "quota=3000", &["--file-sizes", "4MiB", "--no-save"]);
    if outcome.code == Some(0) {
        return skip(Part::Device, "the folder is on no device of its own");
    }
    outcome.exits(3).warns("has 2.9 MiB left (quota); files of 4 MiB do not fit");
}

#[test]
fn device_error_invalidates_the_affected_figures() {
    let harness = Harness::new();
    let args = [&["--operations", "write,read,reread,random_read"], &SMALL[..]].concat();
    let outcome = io_with_fault(&harness, "eio=20", &args);
    // The second read operation fails. Each operation has 16 blocks.
    outcome
        .exits(1)
        .warns("cannot read")
        .warns("at offset 49152: Input/output error")
        .warns("hint: the device reports an error");
    let record = harness.latest();
    let states: Vec<_> = measurements(&record)
        .iter()
        .map(|m| (m["name"].as_str().unwrap(), m["validity"]["status"].as_str().unwrap()))
        .collect();
    // One pass of each other operation is complete.
    assert_eq!(states, [("write", "suspect"), ("read", "suspect"), ("reread", "invalid")]);
    assert!(measurements(&record)[2]["value"].is_null());
    for workers in ["--threads", "--processes"] {
        let args = [&args[..], &[workers, "2", "--no-save"]].concat();
        // Each process counts its own calls.
        let failing_outcome = io_with_fault(&harness, "eio=10", &args);
        failing_outcome.exits(1).warns("Input/output error");
    }
}

#[test]
fn wrong_byte_is_found_and_located() {
    let harness = Harness::new();
    let args = [&["--operations", "write,read", "--verify"], &SMALL[..]].concat();
    let outcome = io_with_fault(&harness, "flip=70000", &args);
    let outcome =
        outcome.exits(1).warns("data-file-0\" has a wrong byte at offset 70000: expected 0x");
    let reported: Vec<&str> = outcome.stderr.split("0x").skip(1).collect();
    let byte = |text: &str| u8::from_str_radix(&text[..2], 16).unwrap();
    assert_eq!(byte(reported[0]), !byte(reported[1]), "{}", outcome.stderr);
    // Without verification, the fault is not detected.
    let blind = [&["--operations", "write,read", "--no-save"], &SMALL[..]].concat();
    io_with_fault(&harness, "flip=70000", &blind).exits(0);
    // A lost write is detected even if no read operation was requested.
    let lost = [&["--operations", "write,rewrite", "--verify", "--no-save"], &SMALL[..]].concat();
    io_with_fault(&harness, "lost=70000", &lost).exits(1).warns("has a wrong byte at offset 65536");
}

#[test]
fn unavailable_io_uring_is_refused() {
    let harness = Harness::new();
    let uring = [&["--engine", "uring"], &SMALL[..]].concat();
    let outcome = io_with_fault(&harness, "uring", &uring);
    outcome
        .exits(3)
        .warns("io_uring is unavailable: Function not implemented")
        .warns("--engine sync")
        .prints_nothing();
    assert!(!harness.path(".local").exists(), "a refusal touches no history");
}

#[test]
fn direct_io_is_refused_if_the_first_transfer_fails() {
    let harness = Harness::new();
    let args = [&["--cache", "direct"], &SMALL[..]].concat();
    let outcome = io_with_fault(&harness, "direct", &args);
    outcome
        .exits(3)
        .warns("does not support direct I/O: ")
        .warns("refused at the first transfer")
        .prints_nothing();
}
