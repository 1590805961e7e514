use super::*;
use nodegauge_gauge::roofline::{BANDWIDTH_TEST, PEAK_TEST};
use nodegauge_gauge::view::{AxisScale, Block, DotConnection};
use nodegauge_measure::Fraction;
use nodegauge_measure::record::{QuotedStatistic, Status};
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

fn given(text: &str) -> RooflinePoint {
    text.parse::<GivenPoint>().unwrap().roofline_point("as given")
}

#[test]
fn points_and_kernels_are_compared_with_their_roof() {
    let kernel = json!({"level": "L1", "kernel": "axpy", "flops_per_byte": 1.0 / 12.0});
    let all = [measured(), vec![figure(KERNEL_TEST, "L1_axpy", 10e9, kernel)]].concat();
    let placed = add_points(all, vec![given("spmv,1e9,8e9,1"), given("wrong,1e9,8e9,0.1")]);
    let of = |name: &str| placed.iter().find(|m| m.name == name).unwrap();
    let limit = |name: &str| of(name).limit.clone().unwrap();
    assert!((limit("L1_axpy").fraction.0 - 0.6).abs() < 1e-12);
    assert_eq!(limit("L1_axpy").basis, "L1 read at 0.0833 FLOP/B");
    assert_eq!((limit("spmv").value, limit("spmv").fraction), (1.25e9, Fraction(0.8)));
    assert_eq!(of("spmv").validity.status, Status::Valid);
    // The rate is eight times the roof, which is impossible, so the figure is suspect.
    assert_eq!(of("wrong").validity.status, Status::Suspect);
    assert!(of("wrong").validity.reasons[0].starts_with("700 % above its roof"));
    assert_eq!(of("fma").limit, None);
    // No roof exists for this memory level, so the point has no limit.
    let above = add_points(measured(), vec![given("x,1,1,1,L4")]);
    assert_eq!(above.last().unwrap().limit, None);
}

#[test]
fn page_has_a_logarithmic_chart_and_every_figure() {
    let placed = add_points(measured(), vec![given("spmv,1e9,8e9,1")]);
    let mut other = measured().remove(0);
    other.test = "unknown".to_owned();
    let record: Record = serde_json::from_value(json!({
        "schema": "nodegauge/1", "id": "x", "started": "", "seconds": 1.0, "complete": true,
        "tool": {"version": "", "commit": null}, "command": [], "machine": serde_json::to_value(nodegauge_measure::record::Machine::default()).unwrap(),
        "measurements": serde_json::to_value([placed, vec![other]].concat()).unwrap(),
    }))
    .unwrap();
    let sections = RooflineGauge.view(&record, Detail::Full);
    let chart = sections[0].blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let chart = chart.unwrap();
    assert!(matches!(chart.vertical_axis(), Some(AxisScale::Logarithmic(..))));
    // The first series is the point. The next series are the lines of the peaks, and of the fastest bandwidth per
    // memory level.
    let of: Vec<(&str, DotConnection)> =
        chart.series.iter().map(|one| (one.name.as_str(), one.joined)).collect();
    assert_eq!(of[0], ("spmv", DotConnection::Apart));
    let lines: Vec<&str> = of[1..].iter().map(|(name, _)| *name).collect();
    assert_eq!(lines, ["FMA", "SIMD without FMA", "scalar", "L1 read", "memory read"]);
    // The line of a memory level ends at the ridge of that level.
    let memory = chart.series.last().unwrap();
    assert_eq!(memory.dots[1], (10.0, 100e9));
    assert!(chart.ticks.contains(&0.25) && chart.ticks.contains(&64.0), "{:?}", chart.ticks);
    let tables: Vec<usize> = sections[0]
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Table(table) => Some(table.rows.len()),
            _ => None,
        })
        .collect();
    assert_eq!(tables, [4, 3, 1, 1]);
    let closing = serde_json::to_string(sections.last().unwrap()).unwrap();
    assert!(
        closing.contains("memory is the limit below 10.00 FLOP/B; above, FMA at 100.0 GFLOP/s"),
        "{closing}"
    );
    assert!(
        RooflineGauge.view(&Record { measurements: Vec::new(), ..record }, Detail::Full).is_empty()
    );
}
