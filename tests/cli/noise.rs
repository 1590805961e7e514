//! Tests of `nodegauge noise`: its figures and their configuration. No test asserts how noisy a machine is.

use crate::harness::{Harness, has_keys, measurements, names};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn noise_record_contains_detours_and_barrier_slowdowns() {
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
fn noise_refuses_published_figures_and_several_thread_counts() {
    let harness = Harness::new();
    harness.run(&["noise", "--against", "list"]).exits(2).warns("no published figures of noise");
    harness.run(&["noise", "--threads", "1,2"]).exits(2).warns("single thread count");
}

/// Number and duration of the runs of a disturbance.
struct Disturbance {
    times: u32,
    busy: Duration,
    elapsed: Duration,
}

/// Runs for 1 ms every 100 ms until `ended` is true.
fn disturb(ended: &AtomicBool) -> Disturbance {
    let begun = Instant::now();
    let mut disturbance = Disturbance { times: 0, busy: Duration::ZERO, elapsed: Duration::ZERO };
    while !ended.load(Ordering::Relaxed) {
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(1) {}
        disturbance.times += 1;
        disturbance.busy += started.elapsed();
        thread::sleep(Duration::from_millis(100).saturating_sub(started.elapsed()));
    }
    disturbance.elapsed = begun.elapsed();
    disturbance
}

#[test]
fn noise_names_a_planted_task_with_its_rate_and_time() {
    let ended = AtomicBool::new(false);
    let (record, planted) = thread::scope(|scope| {
        let name = "planted-agent".to_owned();
        let planted = thread::Builder::new().name(name);
        let planted = planted.spawn_scoped(scope, || disturb(&ended)).unwrap();
        let words = ["noise", "--samples", "30", "--no-save", "--json", "-"];
        let record = Harness::new().run(&words).json();
        ended.store(true, Ordering::Relaxed);
        (record, planted.join().unwrap())
    });
    let sources = measurements(&record)[0]["config"]["sources"].as_array().unwrap().clone();
    let Some(found) = sources.iter().find(|source| source["name"] == "planted-agent") else {
        panic!("{sources:#?}");
    };
    let rate = f64::from(planted.times) / planted.elapsed.as_secs_f64();
    // On a busy node, other programs interrupt the task, too. It then starts more often than it wakes, and has less CPU
    // time than it measures.
    let begins = found["per_s"].as_f64().unwrap();
    assert!(begins > 0.9 * rate, "{begins} of {rate} per second");
    let on_cpu = begins * found["mean_s"].as_f64().unwrap();
    let busy = planted.busy.as_secs_f64() / planted.elapsed.as_secs_f64();
    assert!(on_cpu < 1.1 * busy, "{on_cpu} of {busy}");
    assert!(on_cpu > 0.0);
    assert_eq!(found["kind"], "task");
}
