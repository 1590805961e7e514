//! Tests of `nodegauge io`: operations and records. Faults of devices and kernels are in `io_faults`.

use crate::harness::{Harness, Outcome, Part, has_keys, measurements, names, skip, texts};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Creates a folder for measurements that contains a file of the user.
pub fn folder(harness: &Harness, name: &str) -> PathBuf {
    harness.write(&format!("{name}/thesis.tex"), "mine");
    harness.path(name)
}

/// Checks that the folder contains only the file of the user, unchanged.
#[track_caller]
pub fn assert_untouched(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["thesis.tex"], "in {folder:?}");
    assert_eq!(std::fs::read(folder.join("thesis.tex")).unwrap(), b"mine");
}

/// Runs `io` with these arguments, and checks that no files are left. By default, each cell has one pass.
#[track_caller]
pub fn io(harness: &Harness, args: &[&str]) -> Outcome {
    let path = folder(harness, "data");
    let is_limited = args.iter().any(|arg| ["--samples", "--budget"].contains(arg));
    let once: &[&str] = if is_limited { &[] } else { &["--samples", "1"] };
    let outcome = harness.run(&[&["io", "--path", path.to_str().unwrap()], args, once].concat());
    assert_untouched(&path);
    outcome
}

#[track_caller]
pub fn record(harness: &Harness, args: &[&str]) -> Value {
    io(harness, &[&["--json", "-"], args].concat()).exits(0).json()
}

/// Sizes for a measurement that takes a few milliseconds.
pub const SMALL: [&str; 4] = ["--file-sizes", "256KiB", "--block-sizes", "16KiB"];

#[test]
fn default_grid_has_the_cells_of_iozone() {
    let harness = Harness::new();
    let record = record(&harness, &["--max-size", "1MiB", "--label", "disk=old"]);
    let all = measurements(&record);
    // The numbers of block sizes for files of 64 KiB to 1 MiB are 5, 6, 7, 8 and 9.
    assert_eq!(all.len(), (5 + 6 + 7 + 8 + 9) * 13);
    let of_iozone = [
        "write",
        "rewrite",
        "read",
        "reread",
        "random_read",
        "random_write",
        "bkwd_read",
        "record_rewrite",
        "stride_read",
        "fwrite",
        "frewrite",
        "fread",
        "freread",
    ];
    assert_eq!(names(&record)[..13], of_iozone);
    let mut cells = BTreeSet::new();
    for m in all {
        assert_eq!(
            (&m["gauge"], &m["test"], &m["unit"]),
            (&"files".into(), &"io".into(), &"B/s".into())
        );
        assert_eq!(
            (&m["category"], &m["samples"].as_array().unwrap().len()),
            (&"variant".into(), &1)
        );
        assert!(m["value"].as_f64().unwrap() > 0.0);
        let config = &m["config"];
        has_keys(
            config,
            &[
                "file_bytes",
                "block_bytes",
                "engine",
                "iops",
                "latency_s",
                "operations",
                "direct",
                "depth",
                "volume",
                "clock",
                "include_close",
                "include_fsync",
                "cache",
            ],
        );
        has_keys(&config["volume"], &["path"]);
        let quantile = |name: &str| config["latency_s"][name].as_f64().unwrap();
        let quantiles = ["p50", "p90", "p99", "p99.9", "max"].map(quantile);
        assert!(quantiles.windows(2).all(|w| w[0] <= w[1]) && quantiles[0] > 0.0, "{config:#}");
        let (file, block) =
            (config["file_bytes"].as_u64().unwrap(), config["block_bytes"].as_u64().unwrap());
        assert_eq!(config["operations"].as_u64().unwrap(), file / block);
        // Rate, operations and time are consistent.
        let rate = m["value"].as_f64().unwrap();
        assert!((config["iops"].as_f64().unwrap() * block as f64 / rate - 1.0).abs() < 1e-6);
        if let Some(share) = config["device_share"].as_f64() {
            assert!((0.0..=1.0).contains(&share));
        }
        cells.insert((file, block));
    }
    assert_eq!(cells.len(), 35);
    assert_eq!(record["complete"], true);
}

#[test]
fn figures_of_small_files_are_precise_or_suspect() {
    let harness = Harness::new();
    let sizes = [
        "--file-sizes",
        "64KiB",
        "--block-sizes",
        "4KiB",
        "--operations",
        "write,read",
        "--budget",
        "5",
    ];
    let passes = |m: &Value| m["summary"]["n"].as_u64().unwrap();
    for m in measurements(&record(&harness, &sizes)) {
        // A pass has sixteen calls of several microseconds. Two passes are never enough; several hundred always are.
        assert!((3..=240).contains(&passes(m)), "{m:#}");
        match m["validity"]["status"].as_str() {
            Some("valid") => {
                let range = &m["summary"]["ci95"];
                let off = |end: usize| range[end].as_f64().unwrap() / m["value"].as_f64().unwrap();
                assert!(off(0) >= 0.949 && off(1) <= 1.051, "{m:#}");
            }
            _ => assert!(
                texts(&m["validity"]["reasons"])[0].contains("is uncertain by more than 5 %"),
                "{m:#}"
            ),
        }
    }
    // The requested number of passes is measured, even if it is one, which has no spread.
    let once = record(&harness, &[&sizes[..], &["--samples", "1"]].concat());
    let first = &measurements(&once)[0];
    assert_eq!((passes(first), &first["validity"]["status"]), (1, &"suspect".into()));
    let reason = &texts(&first["validity"]["reasons"])[0];
    assert!(
        reason.starts_with("1 sample counts: too few, the median needs at least 6"),
        "{reason}"
    );
}

#[test]
fn io_page_shows_operations_latencies_and_a_map_in_eighty_columns() {
    let harness = Harness::new();
    let outcome = io(&harness, &["--max-size", "1MiB"]).exits(0).warns_nothing();
    let outcome = outcome
        .prints("\nwrite ")
        .prints("\nfreread ")
        .prints("p99.9")
        .prints("\nmap ")
        .prints("files ");
    for line in outcome.stdout.lines().filter(|line| !line.starts_with("saved ")) {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
    let shown = harness.run(&["history", "show", "latest"]).exits(0);
    shown.prints("\nwrite ").prints("\nmap ");
    // With few cells, the text lists each of them.
    for workers in [&[][..], &["--threads", "2"]] {
        let unsaved = io(&harness, &[&SMALL[..], workers, &["--no-save"]].concat()).exits(0);
        for line in unsaved.stdout.lines() {
            assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
        }
        let rows = unsaved.stdout.lines().filter(|line| line.contains("256 KiB  16 KiB")).count();
        assert_eq!(rows, 13, "{}", unsaved.stdout);
    }
    io(&harness, &[&SMALL[..], &["--no-save"]].concat())
        .exits(0)
        .prints("256 KiB")
        .never_prints("\nmap ");
}

#[test]
fn all_operations_can_be_selected() {
    let harness = Harness::new();
    let all = record(
        &harness,
        &[&SMALL[..], &["--operations", "all", "--mix", "30,70", "--verify"]].concat(),
    );
    let refused = io(&harness, &["--operations", "reed"]).exits(2);
    let refused = refused.warns("expected usual, all, write, rewrite");
    let (_, listed) = refused.stderr.split_once("expected usual, all, ").unwrap();
    let listed: Vec<&str> = listed.lines().next().unwrap().split(", ").collect();
    assert_eq!(names(&all).len(), listed.len() + 1, "the mix counts twice");
    assert!(listed.iter().all(|name| names(&all).contains(name)), "{listed:?}");
    let mixes: Vec<&Value> =
        measurements(&all).iter().filter(|m| m["name"] == "random_mix").collect();
    assert_eq!(
        mixes.iter().map(|m| m["config"]["read_percent"].as_u64().unwrap()).collect::<Vec<_>>(),
        [30, 70]
    );
    assert!(measurements(&all).iter().all(|m| m["config"]["verified"] == true));
    // If an operation needs a file, the file is written first.
    let alone = record(&harness, &[&SMALL[..], &["--operations", "stride_read,read"]].concat());
    assert_eq!(names(&alone), ["read", "stride_read"]);
    assert!(measurements(&alone).iter().all(|m| m["config"]["stride_blocks"].is_null()));
    let stride = ["--operations", "stride_read,read", "--stride", "5", "--verify"];
    let apart = record(&harness, &[&SMALL[..], &stride].concat());
    let strides: Vec<&Value> =
        measurements(&apart).iter().map(|m| &m["config"]["stride_blocks"]).collect();
    assert_eq!(strides, [&Value::Null, &5.into()]);
    io(&harness, &["--stride", "0"]).exits(2).warns("--stride");
    // This is the distance between two blocks. If the block size does not divide it, there is no strided operation.
    let bytes =
        ["--operations", "stride_read,read", "--stride", "128KiB", "--block-sizes", "4KiB,48KiB"];
    let skipped = io(&harness, &[&["--file-sizes", "1MiB", "--samples", "1"], &bytes[..]].concat());
    skipped
        .exits(0)
        .prints_words("stride_read is left out for blocks of 48 KiB: 128 KiB is not a whole");
    let distances: Vec<Value> = measurements(&harness.latest())
        .iter()
        .filter(|m| m["name"] == "stride_read")
        .map(|m| m["config"]["stride_blocks"].clone())
        .collect();
    assert_eq!(distances, [Value::from(33)]);
    io(&harness, &["--operations", "stride_read", "--stride", "10KiB"])
        .exits(2)
        .warns("--stride 10 KiB is not a whole number of blocks of any requested size");
    io(&harness, &["--operations", "aio_read,write"])
        .exits(2)
        .warns("aio_read and write require different engines")
        .warns("hint: measure them in two runs, or all with --engine uring -o read,write");
}

#[test]
fn engines_perform_the_same_operations() {
    let harness = Harness::new();
    let plain = [
        "--operations",
        "write,rewrite,read,random_read,random_write,random_mix,bkwd_read",
        "--verify",
    ];
    let cases: [(&str, &[&str]); 4] = [
        ("sync", &["--sync-writes", "dsync"]),
        ("mmap", &["--engine", "mmap", "--msync", "async"]),
        ("mmap", &["--engine", "mmap", "--msync", "sync", "--include-fsync"]),
        ("uring", &["--engine", "uring", "--depth", "8", "--include-close"]),
    ];
    for (engine, options) in cases {
        let outcome = io(&harness, &[&["--json", "-"], &SMALL[..], &plain[..], options].concat());
        if outcome.code == Some(3) && outcome.stderr.contains("io_uring is unavailable") {
            skip(Part::Uring, "the kernel refuses io_uring");
            continue;
        }
        let record = outcome.exits(0).json();
        assert_eq!(names(&record).len(), 7);
        for m in measurements(&record) {
            assert_eq!(m["config"]["engine"], engine);
            assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
        }
    }
    // Operations that use other system calls are left out, with a notice.
    let mmap = record(&harness, &[&SMALL[..], &["--engine", "mmap"]].concat());
    assert_eq!(names(&mmap).len(), 9);
    assert!(texts(&mmap["notices"])[0].starts_with("fwrite, frewrite, fread, freread left out"));
    io(&harness, &["--depth", "4"])
        .exits(2)
        .warns("a depth above 1 requires an engine that queues requests");
    io(&harness, &["--engine", "mmap", "--cache", "direct"]).exits(2).warns("never direct I/O");
}

#[test]
fn workers_can_be_threads_or_processes() {
    let harness = Harness::new();
    let sizes = [
        "--file-sizes",
        "1MiB",
        "--block-sizes",
        "64KiB",
        "--operations",
        "write,reread,random_write,fread",
    ];
    for kind in ["threads", "processes"] {
        let option = format!("--{kind}");
        let record = record(&harness, &[&[option.as_str(), "3"], &sizes[..]].concat());
        assert_eq!(names(&record), ["write", "reread", "random_write", "fread"]);
        for m in measurements(&record) {
            let config = &m["config"];
            assert_eq!((&config[kind], &config["stonewall"]), (&3.into(), &true.into()));
            let of = |key: &str| config[key].as_f64().unwrap();
            let children = m["value"].as_f64().unwrap();
            assert!((of("worker_rate_mean") * 3.0 / children - 1.0).abs() < 1e-9);
            assert!(of("worker_rate_min") <= of("worker_rate_max") && of("parent_rate") > 0.0);
            assert!(of("worker_bytes_min") <= 1048576.0);
        }
    }
    let all = record(&harness, &[&["--threads", "2", "--no-stonewall"], &sizes[..]].concat());
    assert!(measurements(&all).iter().all(|m| m["config"]["worker_bytes_min"] == 1048576));
    let text =
        io(&harness, &[&["--processes", "2", "--iozone-text"], &sizes[..]].concat()).exits(0);
    text.prints("\tChildren see throughput for  2 initial writers \t=").prints("\tMin xfer ");
}

#[test]
fn reads_from_the_cache_and_from_the_device_are_distinguished() {
    let harness = Harness::new();
    let sizes = ["--file-sizes", "4MiB", "--block-sizes", "256KiB", "--operations", "write,read"];
    let cached = record(&harness, &sizes);
    let read = &measurements(&cached)[1];
    assert_eq!(
        (&read["config"]["cache"], &read["config"]["dropped_before_reads"]),
        (&"cached".into(), &false.into())
    );
    if let Some(share) = read["config"]["device_share"].as_f64() {
        assert!(share < 0.05 && read["config"]["served"] == "cached", "{read:#}");
    }
    let dropped = record(&harness, &[&["--cache", "fsync"], &sizes[..]].concat());
    let dropped_read = &measurements(&dropped)[1];
    assert_eq!(
        (&dropped_read["config"]["dropped_before_reads"], &dropped_read["config"]["include_fsync"]),
        (&true.into(), &true.into())
    );
    let volume = &dropped_read["config"]["volume"];
    if volume["device"].is_string() {
        assert!(dropped_read["config"]["device_share"].as_f64().unwrap() > 0.9, "{dropped_read:#}");
        assert_eq!(dropped_read["traffic"]["basis"], "counters");
    } else {
        skip(Part::Device, &format!("no device is known for {volume}"));
    }
}

#[test]
fn direct_io_is_used_or_refused() {
    let harness = Harness::new();
    let sizes = ["--file-sizes", "1MiB", "--block-sizes", "64KiB", "--cache", "direct"];
    let outcome = io(&harness, &[&["--json", "-"], &sizes[..]].concat());
    if outcome.code == Some(3) {
        outcome.warns("does not support direct I/O").prints_nothing();
    } else {
        let record = outcome.exits(0).json();
        assert_eq!(names(&record).len(), 9, "the C library's buffers have no part");
        assert!(measurements(&record).iter().all(|m| m["config"]["direct"] == true));
    }
    // A file system in memory has no device, so direct I/O is impossible.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return skip(Part::Device, "no /dev/shm");
    };
    let path = memory.path().to_str().unwrap();
    let refused = harness.run(&[&["io", "--path", path, "--no-save"], &sizes[..]].concat());
    refused.exits(3).warns("tmpfs at").warns("does not support direct I/O: ").prints_nothing();
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
    // If direct I/O was not requested, a notice reports that it is unsupported.
    let quick = harness
        .run(&["io", "--path", path, "--quick", "--operations", "write", "--no-save"])
        .exits(0);
    harness.run(&["io", "--path", path, "--file-sizes", "1MiB", "--no-save"]).exits(0);
    quick.prints_words("does not support direct I/O").never_prints("how        direct");
}

#[test]
fn quick_mode_has_twelve_cells() {
    let harness = Harness::new();
    let record = record(&harness, &["--quick", "--operations", "write,read", "--runtime", "0.1"]);
    let cells: BTreeSet<String> = measurements(&record)
        .iter()
        .map(|m| {
            format!(
                "{} {} {}",
                m["config"]["cache"], m["config"]["file_bytes"], m["config"]["block_bytes"]
            )
        })
        .collect();
    // Two cells per file use direct I/O. If the file system does not support it, a notice reports this.
    let notices = record["notices"].to_string();
    assert!(
        cells.len() == 12 || notices.contains("does not support direct I/O"),
        "{cells:?} {notices}"
    );
}

#[test]
fn short_budget_measures_part_of_the_grid_and_reports_it() {
    let harness = Harness::new();
    let record = record(&harness, &["--budget", "0.3", "--max-size", "64MiB"]);
    let cells: BTreeSet<(u64, u64)> = measurements(&record)
        .iter()
        .map(|m| {
            (
                m["config"]["file_bytes"].as_u64().unwrap(),
                m["config"]["block_bytes"].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(cells.len() < 99, "a budget of 0.3 s is too short for 99 cells");
    assert!(
        record["notices"].to_string().contains("the time budget ended before"),
        "{}",
        record["notices"]
    );
}

#[test]
fn expectations_and_csv_support_file_figures() {
    let harness = Harness::new();
    let args = [
        "--operations",
        "write,read",
        "--expect",
        "read>=1kB/s@16KiB",
        "--accept-suspect",
        "--csv",
        "-",
    ];
    let csv = io(&harness, &[&SMALL[..], &args[..]].concat()).exits(0).stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].contains(",file_bytes,block_bytes,") && lines[1].contains(",262144,16384,"));
    let unmeasured = ["--operations", "read", "--expect", "read>=1kB/s@3KiB"];
    io(&harness, &[&SMALL[..], &unmeasured].concat())
        .exits(2)
        .warns("this size is not measured; available: @16KiB");
    let unmet = ["--operations", "read", "--expect", "io.read>=900TB/s"];
    io(&harness, &[&SMALL[..], &unmet[..]].concat()).exits(1).warns("900 TB/s");
}
