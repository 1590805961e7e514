//! Tests of `nodegauge noise`: its figures and their configuration. No test asserts how noisy a machine is.

use crate::harness::{Harness, has_keys, measurements, names};

#[test]
fn noise_record_contains_detours_sources_and_barriers() {
    let record = Harness::new()
        .run(&["noise", "--threads", "1", "--samples", "2", "--no-save", "--json", "-"])
        .json();
    assert_eq!(names(&record), ["available", "longest"]);
    for figure in measurements(&record) {
        let config = &figure["config"];
        has_keys(config, &["threads", "cpus", "pass_s", "detour_s", "detours", "histogram"]);
        let bins = config["histogram"].as_array().unwrap();
        let sum: u64 = bins.iter().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(sum, config["detours"].as_u64().unwrap());
        // A detour is at least nine passes long.
        let ratio = config["detour_s"].as_f64().unwrap() / config["pass_s"].as_f64().unwrap();
        assert!((ratio - 9.0).abs() < 1e-9, "{ratio}");
        let barrier = config["barrier"].as_array().unwrap();
        assert!(barrier.is_sorted_by_key(|point| point["slowdown"].as_f64().unwrap().to_bits()));
        assert!(barrier[0]["slowdown"].as_f64().unwrap() >= 1.0);
    }
    let available = measurements(&record)[0]["value"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&available), "{available}");
}

#[test]
fn noise_refuses_unsupported_options() {
    let harness = Harness::new();
    harness.run(&["noise", "--against", "list"]).exits(2).warns("no published figures of noise");
    harness.run(&["noise", "--threads", "1,2"]).exits(2).warns("single thread count");
}
