//! Tests of `nodegauge stream`: limits of the machine, and `--expect`.

use crate::harness::{Harness, Part, measurements, skip, texts};
use crate::machine::control_group;
use crate::stream::check_measurement;
use serde_json::Value;

#[test]
fn rate_above_the_theoretical_limit_is_invalid() {
    let harness = Harness::new();
    let args = ["stream", "--samples", "3", "--size", "1000000elements", "--budget", "0.5"];
    let args = [&args[..], &["--dimms", "1x200"]].concat();
    let record =
        harness.run(&[&args[..], &["--json", "-"]].concat()).exits(1).warns_nothing().json();
    for m in measurements(&record) {
        check_measurement(m);
        assert_eq!(m["value"], Value::Null);
        assert_eq!(m["traffic"], Value::Null);
        assert_eq!(m["validity"]["status"], "invalid");
        assert_eq!(m["limit"]["value"], 1.6e9);
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(reasons.contains("exceeds the theoretical 1.600 GB/s (option)"), "{reasons}");
    }
    let outcome = harness.run(&args).exits(1).warns_nothing();
    for kernel in ["copy", "scale", "add", "triad"] {
        let row = outcome.stdout.lines().find(|line| line.starts_with(kernel)).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        if cells[1] != "invalid" || cells.iter().any(|cell| cell.parse::<f64>().is_ok()) {
            outcome.fail(&format!("{kernel} shows a figure"));
        }
    }
    harness.run(&["history", "list"]).exits(0).prints("triad no result");
    harness
        .run(&[&args[..], &["--stream-text"]].concat())
        .exits(1)
        .prints_nothing()
        .warns("error: no valid result: ");
    let expect = ["--quiet", "--accept-suspect", "--expect", "triad>=1B/s"];
    harness
        .run(&[&args[..], &expect].concat())
        .exits(1)
        .only_error("expected triad >= 1 B/s, but there is no valid result");
}

#[test]
fn arrays_beyond_memory_are_refused_with_the_needed_and_available_memory() {
    let harness = Harness::new();
    let outcome = harness.run(&["stream", "--size", "100TiB"]).exits(3).prints_nothing();
    outcome
        .warns("error: 3 arrays of 100 TiB need 300 TiB, but only ")
        .warns(" of memory is available, of which 80 % may be used\nhint: use --size ")
        .warns("MiB or less, or a larger --memory-fraction\n");
    assert!(!harness.path(".local").exists(), "nothing is measured, nothing is saved");
}

#[test]
fn small_control_group_reduces_default_arrays_and_refuses_large_arrays() {
    let harness = Harness::new();
    let shown = control_group(&harness, 131_000_000, 100_000_000);
    let shown: Vec<(&str, &str)> = shown.iter().map(|(what, at)| (what.as_str(), *at)).collect();
    let args = ["stream", "--samples", "1", "--budget", "0.3", "--dimms", "1024x20000"];
    let args = [&args[..], &["--no-save", "--json", "-"]].concat();
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    let record = outcome.exits(0).json();
    let m = &measurements(&record)[0];
    let bytes = m["config"]["array_bytes"].as_u64().unwrap();
    assert!(3 * bytes <= 31_000_000 * 8 / 10 && bytes >= 8_000_000, "{bytes}");
    let notices = texts(&record["notices"]).join("\n");
    assert!(notices.contains("arrays reduced from "), "{notices}");
    assert_eq!(m["validity"]["status"], "suspect");
    let shown_outcome = harness.run_where(&shown, &["stream", "--size", "1GiB"]).unwrap().exits(3);
    shown_outcome.prints_nothing().warns(
        "error: 3 arrays of 1 GiB need 3 GiB, but only 29.6 MiB of memory is available, of which 80 % may be used\n\
         hint: use --size 7MiB or less, or a larger --memory-fraction\n",
    );
}

#[test]
fn expectations_determine_the_exit_code() {
    let harness = Harness::new();
    let stream =
        |args: &[&str]| harness.stream(&[&["--no-save", "--accept-suspect"], args].concat());
    // On every machine, arrays with fewer than a million elements violate STREAM's rule.
    let small =
        ["stream", "-q", "--no-save", "--size", "1000elements", "--samples", "3", "--expect"];
    harness
        .run(&[&small[..], &["triad>=1B/s"]].concat())
        .exits(1)
        .warns("which is suspect: ")
        .warns("hint: use --accept-suspect to accept suspect figures as results");
    harness.run(&[&small[..], &["triad>=1B/s", "--accept-suspect"]].concat()).exits(0);
    let strict = &[&small[..small.len() - 1], &["--strict", "--json", "small.json"]].concat();
    harness.run(strict).exits(1).warns("error: --strict: copy is suspect (and 3 more): ");
    harness
        .run(&["compare", "small.json", "small.json", "--strict"])
        .exits(1)
        .warns("error: --strict: B: copy is suspect (and 3 more): ");
    stream(&["-q", "--expect", "triad>=1MB/s"]).exits(0).warns_nothing().prints_nothing();
    stream(&["-v", "--expect", "stream.triad>=1MB/s"])
        .exits(0)
        .warns("expectation met: stream.triad >= 1 MB/s, measured ");
    stream(&["-q", "--expect", "triad>=900TB/s", "--expect", "copy>=1MB/s"])
        .exits(1)
        .warns("error: expected triad >= 900 TB/s, measured ");
    stream(&["-q", "--expect", "tirad>=1MB/s"])
        .exits(2)
        .only_error("expected tirad >= 1 MB/s, but there is no such measurement; available: triad, scale, add, copy\nhint: did you mean triad?");
    stream(&["-q", "--kernels", "copy", "--expect", "triad>=1MB/s"])
        .exits(2)
        .warns("there is no such measurement; available: copy\n");
    stream(&["-q", "--expect", "triad>=1us"])
        .exits(2)
        .only_error("expected triad >= 1 us, but triad is in B/s\nhint: give a bound in B/s");
    stream(&["-q", "--expect", "triad<=100%"]).exits(0).warns_nothing();
    stream(&["-q", "--expect", "triad>=99%"])
        .exits(1)
        .warns("error: expected triad >= 99 % of the limit, measured ");
    stream(&["-q", "--expect", "triad>=1MB/s@8000000B"]).exits(0).warns_nothing();
    stream(&["-q", "--expect", "triad>=1MB/s@1KiB"]).exits(1).warns("no such measurement");
}

#[test]
fn expected_share_of_an_unknown_limit_is_refused() {
    let harness = Harness::new();
    let record = harness.run(&["machine", "--json"]).exits(0).json();
    if !record["machine"]["memory"]["theoretical"].is_null() {
        return skip(Part::Memory, "the theoretical bandwidth of this machine is known");
    }
    let args = ["stream", "--samples", "1", "--size", "1000000elements", "-q", "--no-save"];
    harness.run(&[&args[..], &["--expect", "triad>=1%"]].concat()).exits(2).only_error(
        "expected triad >= 1 % of the limit, but the limit is unknown\n\
         hint: give a bound with a unit such as GB/s; for memory, --dimms COUNTxMT/s also makes \
         the limit known",
    );
}

#[test]
fn size_in_percent_is_the_share_of_memory_that_all_arrays_take() {
    let harness = Harness::new();
    let args = [
        "stream",
        "--samples",
        "1",
        "--size",
        "1%",
        "--budget",
        "1",
        "-q",
        "--no-save",
        "--json",
        "-",
    ];
    let record = harness.run(&args).exits(0).json();
    let array_bytes = measurements(&record)[0]["config"]["array_bytes"].as_f64().unwrap();
    let machine_available = record["machine"]["memory"]["available"].as_f64().unwrap();
    let limit = record["machine"]["memory"]["cgroup_limit"].as_f64().unwrap_or(f64::INFINITY);
    let share = 3.0 * array_bytes / machine_available.min(limit);
    // Other programs may allocate or free memory between the two readings.
    assert!((0.008..0.0125).contains(&share), "{share}");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    /// Arrays of 1 MiB fit in a cache or violate STREAM's rule. Every mode reports this.
    #[test]
    fn figures_of_arrays_in_a_cache_are_suspect_in_every_mode() {
        let harness = Harness::new();
        let size: &[&str] = &["--size", "1MiB"];
        let modes: [(&[&str], &[&str]); 7] = [
            (&["stream"], size),
            (&["stream", "--threads", "1", "--ranks", "2"], size),
            (&["stream", "--sweep", "threads=1"], size),
            (&["stream", "--sweep", "size=512KiB,1MiB"], &[]),
            (&["stream", "--tune"], size),
            (&["stream", "--compiler", "gcc -O2"], size),
            (&["explain"], size),
        ];
        for (mode, mode_size) in modes {
            if mode.contains(&"--ranks") && !harness.has_cpus(2) {
                continue;
            }
            let fast = ["--samples", "3", "--budget", "0.5", "--dimms", "1024x20000", "--no-save"];
            let args = [mode, mode_size, &fast, &["--json", "-"]].concat();
            let record = harness.run(&args).exits(0).json();
            let figures = measurements(&record).iter().filter(|m| m["test"] != "tune");
            let mut count = 0;
            for m in figures {
                let reasons = texts(&m["validity"]["reasons"]).join("\n");
                assert_eq!(m["validity"]["status"], "suspect", "{mode:?}: {m:#}");
                assert!(
                    reasons.contains("STREAM's rule requires")
                        || reasons.contains("a cache holds part of the arrays")
                );
                count += 1;
            }
            assert!(count >= 4, "{mode:?}: {count} figures");
        }
    }
}
