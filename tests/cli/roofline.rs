//! Tests of `nodegauge roofline`: ceilings, points, and errors.

use crate::harness::{Harness, has_keys, measurements, names};
use serde_json::Value;

/// Options for a measurement with little time and memory.
const SHORT: [&str; 6] = ["--samples", "2", "--budget", "1", "--size", "8MiB"];

fn record(harness: &Harness, args: &[&str]) -> Value {
    let all = [&["roofline"], &SHORT[..], &["--json", "-"], args].concat();
    harness.run(&all).exits(0).json()
}

fn named<'a>(record: &'a Value, name: &str) -> &'a Value {
    measurements(record).iter().find(|m| m["name"] == name).unwrap()
}

#[test]
fn point_in_a_cache_level_that_the_node_lacks_is_refused() {
    let harness = Harness::new();
    let refused = harness.run(&["roofline", "--point", "x,1e9,1e9,1,L7"]).exits(2);
    refused.warns("--point x: this node has no L7 cache").warns("levels of this node are ");
}

#[test]
fn roofline_has_ceilings_kernels_and_points_with_limits() {
    let harness = Harness::new();
    // The point has eight operations per byte, and its rate is below the bandwidth limit of every machine.
    let points = ["--point", "slow,8e6,1e6,1", "--point", "solver:a,1e6,8e6,1,L1"];
    let record = record(&harness, &[&["--threads", "1"], &points[..]].concat());
    let all = measurements(&record);
    assert!(all.iter().all(|m| m["gauge"] == "roofline" && m["value"].as_f64().unwrap() > 0.0));
    let names = names(&record);
    for name in
        ["memory_read", "memory_triad", "memory_axpy", "scalar", "dgemm", "slow", "solver:a"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    // With one thread, the roof of all threads is also that of a single thread.
    assert!(!names.iter().any(|name| name.ends_with("_one")), "{names:?}");
    let [read, slow] = ["memory_read", "slow"].map(|name| named(&record, name));
    assert_eq!((&read["test"], &read["unit"]), (&"bandwidth".into(), &"B/s".into()));
    has_keys(&read["config"], &["isa", "thread_bytes", "level"]);
    assert_eq!(
        (&slow["category"], slow["config"]["flops_per_byte"].as_f64()),
        (&"reference".into(), Some(8.0))
    );
    // The roof is the minimum of bandwidth x intensity and the highest peak.
    let value = |m: &Value| m["value"].as_f64().unwrap();
    let of = |test: &'static str, level: &'static str| {
        let of = move |m: &&Value| {
            m["test"] == test && (level.is_empty() || m["config"]["level"] == level)
        };
        all.iter().filter(of).map(value).fold(0.0, f64::max)
    };
    let (peak, memory) = (of("peak", ""), of("bandwidth", "memory"));
    let limit = slow["limit"]["value"].as_f64().unwrap();
    assert!((limit / peak.min(8.0 * memory) - 1.0).abs() < 1e-9, "{slow:#}");
    let shown = harness.run(&["history", "show", "latest"]).exits(0);
    shown
        .prints(" over FLOP/B, logarithmic")
        .prints("\nbandwidth ")
        .prints("next ceiling")
        .prints("solver:a");
}

/// Virtual machines and containers have no counters. In this case, the reason is reported in one line before anything
/// is measured.
#[test]
fn counters_of_a_program_are_read_or_their_absence_is_reported() {
    let harness = Harness::new();
    let program = harness.write("work.sh", "exit 0\n");
    let args = [&["roofline"], &SHORT[..], &["--perf", "--", "sh", program.as_str()]].concat();
    let outcome = harness.run(&args);
    if outcome.code == Some(3) {
        let text = outcome.stderr.trim_end();
        assert!(text.starts_with("error: --perf: ") && text.lines().count() <= 2, "{text}");
        assert!(outcome.stdout.is_empty());
    } else {
        outcome.exits(0).prints("\npoint ");
    }
    harness.run(&["roofline", "--perf"]).exits(2);
    harness.run(&["roofline", "--", "true"]).exits(2).warns("--perf");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn all_threads_and_a_single_thread_have_separate_roofs() {
        let harness = Harness::new();
        if !harness.has_cpus(2) {
            return;
        }
        for _ in 0..2 {
            harness.run(&[&["roofline", "--quiet"], &SHORT[..]].concat()).exits(0).prints_nothing();
        }
        let latest = harness.latest();
        let threads = |name: &str| named(&latest, name)["config"]["threads"].as_u64().unwrap();
        assert_eq!((threads("memory_read_one"), threads("scalar_one")), (1, 1));
        assert!(threads("memory_read") > 1 && threads("scalar") > 1);
        let compared = harness.run(&["compare", "latest~1", "latest", "--json"]).exits(0).json();
        let pairs = compared["pairs"].as_array().unwrap().len();
        assert_eq!(pairs, measurements(&latest).len(), "{compared:#}");
        let html = harness.run(&["report", "latest", "--output", "-"]).exits(0).stdout;
        assert!(html.contains("roofline: attainable rate over operations per byte"));
    }

    #[test]
    fn saved_valid_figures_become_points_and_accept_expectations() {
        let harness = Harness::new();
        let saved = harness.stream_record(&[]);
        let is_valid = named(&saved, "triad")["validity"]["status"] == "valid";
        // Small arrays may fit in a cache, so that their points exceed the roof of memory.
        let mut met = vec!["--accept-suspect", "--expect", "roofline.scalar>=1MFLOP/s"];
        if is_valid {
            met.extend(["--expect", "stream_triad>=1MFLOP/s"]);
        }
        let record = record(&harness, &met);
        // Only valid figures become points, and other load may have disturbed the saved run.
        assert_eq!(names(&record).contains(&"stream_triad"), is_valid);
        if is_valid {
            let triad = named(&record, "stream_triad");
            assert!(
                triad["config"]["basis"].as_str().unwrap().starts_with("stream of 2"),
                "{triad:#}"
            );
        }
        let unmet = ["roofline", "--expect", "scalar>=100000TFLOP/s", "--threads", "1"];
        harness.run(&[&unmet[..], &SHORT[..]].concat()).exits(1).warns("scalar");
    }
}
