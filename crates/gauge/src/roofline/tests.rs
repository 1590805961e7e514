use super::*;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Measurement, QuotedStatistic};
use serde_json::{Value, json};

fn figure(test: &str, name: &str, value: f64, config: Value) -> Measurement {
    let unit = if test == BANDWIDTH_TEST { Unit::BytesPerSecond } else { Unit::FlopsPerSecond };
    let mut m = Measurement::new(GAUGE, test, name, unit).with_value(QuotedStatistic::Best, value);
    m.config = config.as_object().unwrap().clone();
    m
}

/// Returns the figures of a node with 100 GFLOP/s, 10 GB/s from memory and 200 GB/s from L1.
fn measured() -> Vec<Measurement> {
    vec![
        figure(BANDWIDTH_TEST, "L1_read", 200e9, json!({"level": "L1", "kernel": "read"})),
        figure(BANDWIDTH_TEST, "L1_triad", 150e9, json!({"level": "L1", "kernel": "triad"})),
        figure(BANDWIDTH_TEST, "memory_read", 10e9, json!({"level": "memory", "threads": 2})),
        figure(BANDWIDTH_TEST, "memory_triad", 8e9, json!({"level": "memory"})),
        figure(PEAK_TEST, "fma", 100e9, json!({})),
        figure(PEAK_TEST, "simd", 50e9, json!({})),
        figure(PEAK_TEST, "scalar", 12e9, json!({})),
        figure(BANDWIDTH_TEST, "memory_read_one", 7e9, json!({"level": "memory"})),
        figure(PEAK_TEST, "fma_one", 50e9, json!({})),
    ]
}

/// Checks the model of Williams, Waterman and Patterson: the attainable rate is the minimum of peak and intensity x
/// bandwidth.
#[test]
fn roof_is_the_minimum_of_bandwidth_and_peak() {
    let roofline = Roofline::from_figures(&measured(), false);
    assert_eq!(roofline.levels(), ["L1", "memory"]);
    let memory = roofline.bandwidth(MEMORY_LEVEL).unwrap();
    assert_eq!((memory.name.as_str(), roofline.ridge(memory)), ("memory_read", Some(10.0)));
    for (x, name, at) in
        [(0.125, "memory_read", 1.25e9), (9.9, "memory_read", 99e9), (10.1, "fma", 100e9)]
    {
        let roof = roofline.roof(MEMORY_LEVEL, x).unwrap();
        assert_eq!((roof.name.as_str(), roof.rate_at(x)), (name, at));
    }
    assert_eq!(roofline.roof("L1", 0.25).unwrap().rate_at(0.25), 50e9);
    assert_eq!(roofline.roof("L2", 0.25), None);
    let next =
        |x, reached| roofline.next_ceiling(MEMORY_LEVEL, x, reached).map(|next| next.name.as_str());
    assert_eq!(next(1.0, 7e9), Some("memory_triad"));
    assert_eq!(next(1.0, 9e9), Some("memory_read"));
    assert_eq!(next(64.0, 9e9), Some("scalar"));
    assert_eq!(next(64.0, 60e9), Some("fma"));
    assert_eq!(next(64.0, 101e9), None);
    let one = Roofline::from_figures(&measured(), true);
    assert_eq!(one.ridge(one.bandwidth(MEMORY_LEVEL).unwrap()), Some(50.0 / 7.0));
}
