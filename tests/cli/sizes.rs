//! Tests of automatic sizes on a machine that reports larger caches than it has.

use crate::harness::Harness;
use serde_json::Value;

/// Environment variable with the size of the last-level cache that the machine reports.
const REPORTED: &str = "NODEGAUGE_REPORTED_CACHE";
const MIB: u64 = 1 << 20;

/// Returns the largest array size of the figures in a record; 0 if there are no arrays.
fn largest_array(record: &Value) -> u64 {
    let all = record["measurements"].as_array().unwrap().iter();
    all.filter_map(|m| m["config"]["array_bytes"].as_u64()).max().unwrap_or(0)
}

#[test]
fn array_size_follows_the_measured_cache_and_page_shows_both_sizes() {
    let harness = Harness::new();
    let reporting = [(REPORTED, "2GiB")];
    let arguments = ["stream", "--samples", "5", "--json", "stream.json"];
    let page = harness.run_with(&reporting, &arguments).exits(0);
    let record: Value =
        serde_json::from_slice(&std::fs::read(harness.path("stream.json")).unwrap()).unwrap();
    let measured = &record["machine"]["measured_cache"];
    let Some(bytes) = measured["bytes"].as_u64() else {
        // The capacity may be unknown: some processors cannot flush cache lines, and some caches hold more than the
        // memory that the measurement may touch.
        assert!(measured.is_null(), "{measured}");
        return;
    };
    let reported = measured["reported"].as_u64().unwrap();
    assert!(reported >= 2048 * MIB && bytes <= 2 * reported, "{measured}");
    // If the check of the arrays finds that a cache holds a part of them, the arrays are larger.
    let array = largest_array(&record);
    let least = (4 * bytes).max(8_000_000);
    assert!(array >= least.min(4 * reported), "{array} for {bytes}");
    if bytes == reported {
        return;
    }
    assert!(array < 4 * reported, "{array} for {bytes} of {reported}");
    page.prints("found by measuring; 2 GiB are reported")
        .prints_words("automatic sizes use the measured value");
    // The capacity is saved only if the node was not busy.
    for command in [&["explain"][..], &["memory", "mix"], &["roofline"]] {
        let more = [command, &["--samples", "3", "--json", "-"]].concat();
        let later = harness.run_with(&reporting, &more).json();
        let known = later["machine"]["measured_cache"]["bytes"].as_u64().unwrap();
        let largest = largest_array(&later);
        assert!(largest < 4 * reported, "{command:?}: {largest} for {known}");
    }
}

#[test]
fn stream_rule_uses_the_reported_caches() {
    let harness = Harness::new();
    let reporting = [(REPORTED, "16MiB")];
    let arguments = ["stream", "--size", "4xLLC", "--samples", "5", "--json", "-"];
    let record = harness.run_with(&reporting, &arguments).exits(0).json();
    let triad = record["measurements"].as_array().unwrap().iter().find(|m| m["name"] == "triad");
    let config = &triad.unwrap()["config"];
    let reported = config["reported_cache_bytes"].as_u64().unwrap();
    // If the threads use several caches, the capacity is a multiple.
    assert!(reported.is_multiple_of(16 * MIB), "{config}");
    assert!(config["array_bytes"].as_u64().unwrap() >= 4 * reported, "{config}");
    let page =
        harness.run_with(&reporting, &["stream", "--size", "4xLLC", "--samples", "5"]).exits(0);
    page.prints("of last-level cache reported");
}
