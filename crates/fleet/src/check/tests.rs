use super::*;
use nodegauge_analysis::slow::z_limit;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Category, Measurement};

const LOAD: &str = "other-load";

fn triad() -> FigureKey {
    let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond)
        .with_category(Category::Variant);
    FigureKey::from_measurement(&m, "triad".to_owned())
}

fn measured(value: f64, doubt: Option<&str>) -> NodeFigure {
    NodeFigure { doubt: doubt.map(str::to_owned), ..NodeFigure::new(triad(), value) }
}

/// Returns a bound from a reference with 64 nodes and this spread.
fn figure_bound(spread: f64, bound: f64) -> FigureBound {
    let spread = SpreadComponents { nodes: Some(spread), runs: None };
    let peers = PeerSpread { spread, nodes: 64, runs: 64 };
    FigureBound {
        value: 335e9,
        bound,
        base: "ref".to_owned(),
        basis: "median of 64 nodes minus 4 %".to_owned(),
        power: peers.detection_power(
            triad().practical_limit(),
            Fraction(1.0 - bound / 335e9),
            MAX_MEASUREMENTS,
        ),
        size: None,
    }
}

fn checked(values: &[f64]) -> CheckedFigure {
    let bound = figure_bound(0.008, 321.6e9);
    CheckedFigure {
        key: triad(),
        measured: values.iter().map(|value| measured(*value, None)).collect(),
        bound: Some(bound),
        is_reduced: false,
    }
}

fn event(kind: HardwareEvent, events: u64) -> EventCount {
    let slot = Some("DIMM_A1".to_owned());
    EventCount { kind, component: "mc0 dimm0".to_owned(), slot, events, note: None }
}

#[test]
fn figure_is_bad_only_after_two_measurements() {
    let once = checked(&[231e9]).remark(Some("DIMM")).unwrap();
    assert_eq!((once.verdict, once.reason.as_str()), (NodeVerdict::Unknown, "not confirmed"));
    let twice = checked(&[231e9, 229e9]).remark(Some("DIMM")).unwrap();
    assert_eq!((twice.verdict, twice.reason.as_str()), (NodeVerdict::Bad, "mem 68% of ref: DIMM"));
    assert_eq!(
        twice.text,
        "triad 231.0 GB/s of 335.0 GB/s, bound 321.6 GB/s (median of 64 nodes minus 4 %), measured 2 times"
    );
    // The second measurement shows that the first measurement was disturbed.
    assert_eq!(checked(&[231e9, 330e9]).remark(None), None);
    let mut disturbed = checked(&[231e9, 229e9]);
    disturbed.measured[1].doubt = Some("steal time".to_owned());
    assert_eq!(disturbed.remark(None).unwrap().verdict, NodeVerdict::Unknown);
}

#[test]
fn bound_requires_a_reference_or_five_own_runs() {
    let unbounded = CheckedFigure { bound: None, ..checked(&[1e9, 1e9]) };
    assert!(!unbounded.is_worse_than_bound() && unbounded.remark(None).is_none());
    assert_eq!(FigureBound::from_own_runs(&triad(), &[300e9; 4]), None);
    let own = FigureBound::from_own_runs(&triad(), &[300e9; 5]).unwrap();
    assert!((own.bound - 288e9).abs() < 1.0 && own.base == "own");
    // A larger variation of the runs makes the bound lower.
    let noisy = FigureBound::from_own_runs(&triad(), &[280e9, 290e9, 300e9, 310e9, 320e9]).unwrap();
    assert!(noisy.bound < 260e9, "{noisy:?}");
}

#[test]
fn bound_without_power_never_makes_a_node_good() {
    let wide = |values: &[f64]| CheckedFigure {
        bound: Some(figure_bound(0.17, 0.36 * 335e9)),
        ..checked(values)
    };
    for value in [0.78 * 335e9, 335e9, 600e9] {
        let remark = wide(&[value]).remark(None).unwrap();
        assert_eq!(remark.verdict, NodeVerdict::Unknown);
        assert_eq!(remark.reason, "mem: cannot tell");
        assert!(remark.text.starts_with("triad: cannot find a loss of 10 %, only one of "));
        assert!(remark.text.ends_with(" runs of each node would suffice"), "{}", remark.text);
        assert!(!wide(&[value]).needs_repetition() && wide(&[value]).detectable_loss().is_none());
    }
    // A value below the bound is bad even without power.
    let bad = wide(&[0.2 * 335e9, 0.2 * 335e9]).remark(Some("quota")).unwrap();
    assert_eq!((bad.verdict, bad.reason.as_str()), (NodeVerdict::Bad, "mem 20% ref: quota"));
    let found = checked(&[330e9]).detectable_loss().unwrap();
    assert!(found.0 > 0.04 && found.0 < 0.07, "{found:?}");
}

#[test]
fn inconclusive_value_is_remeasured_and_then_undecided() {
    // The reference was edited by hand, so its bound is low.
    let low = |values: &[f64]| CheckedFigure {
        bound: Some(figure_bound(0.008, 0.5 * 335e9)),
        ..checked(values)
    };
    let once = low(&[0.85 * 335e9]);
    assert!(once.needs_repetition() && !once.is_worse_than_bound());
    assert_eq!(once.remark(None).unwrap().reason, "not confirmed");
    let twice = low(&[0.85 * 335e9, 0.84 * 335e9]).remark(None).unwrap();
    assert_eq!(twice.verdict, NodeVerdict::Unknown);
    assert_eq!(twice.reason, "mem 85%: undecided");
    assert!(twice.text.ends_with("; a loss of 10 % is not excluded"), "{}", twice.text);
    assert_eq!(low(&[0.85 * 335e9, 0.97 * 335e9]).remark(None), None);
}

#[test]
fn figure_of_another_size_is_not_compared() {
    let of_size = |measured: Option<u64>, bound: Option<u64>| {
        let mut figure = checked(&[1e9, 1e9]);
        figure.measured.iter_mut().for_each(|one| one.size = measured);
        figure.bound.as_mut().unwrap().size = bound;
        figure
    };
    let small = Some(64 << 20);
    assert_eq!(of_size(small, small).remark(None).unwrap().verdict, NodeVerdict::Bad);
    let other = of_size(small, Some(1 << 30));
    let remark = other.remark(None).unwrap();
    assert_eq!((remark.verdict, remark.reason.as_str()), (NodeVerdict::Unknown, "other size"));
    assert_eq!(
        remark.text,
        "triad: measured with size 64 MiB, but the bound is for size 1 GiB; \
         make the reference from runs with --size 64MiB"
    );
    assert!(!other.needs_repetition() && other.detectable_loss().is_none());
    // A reference from an earlier version contains no size; its arrays follow STREAM's rule.
    assert_eq!(of_size(small, None).remark(None).unwrap().verdict, NodeVerdict::Bad);
    let reduced = CheckedFigure { is_reduced: true, ..of_size(small, None) };
    assert_eq!(reduced.remark(None).unwrap().reason, "other size");
}

/// Simulates references from 12 nodes, and checks that measure a low figure twice.
#[test]
fn simulated_checks_find_the_loss_and_accept_good_nodes() {
    let mut random = fastrand::Rng::with_seed(23);
    let mut normal = |spread: f64| {
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        spread * radius * (std::f64::consts::TAU * random.f64()).cos()
    };
    let mut verdicts = |spread: f64, loss: f64| {
        let mut counts = [0; 3];
        for _ in 0..200 {
            let nodes: Vec<Vec<f64>> =
                (0..12).map(|_| (0..4).map(|_| normal(spread)).collect()).collect();
            let medians: Vec<f64> =
                nodes.iter().map(|runs| nodegauge_measure::stats::median(runs)).collect();
            let value = 335e9 * RobustSpread::from_values(&medians).unwrap().median.exp();
            let components = SpreadComponents::from_nodes(&nodes);
            let deviation = z_limit(48) * components.run_deviation().unwrap();
            let deficit = Fraction((1.0 - (-deviation).exp()).max(0.04));
            let peers = PeerSpread { spread: components, nodes: 12, runs: 48 };
            let bound = FigureBound {
                value,
                bound: (1.0 - deficit.0) * value,
                power: peers.detection_power(triad().practical_limit(), deficit, MAX_MEASUREMENTS),
                ..figure_bound(spread, 1.0)
            };
            let mut figure = CheckedFigure { bound: Some(bound), ..checked(&[]) };
            for _ in 0..MAX_MEASUREMENTS {
                if figure.measured.is_empty() || figure.needs_repetition() {
                    let again = (1.0 - loss) * 335e9 * normal(spread).exp();
                    figure.measured.push(measured(again, None));
                }
            }
            let verdict = figure.remark(None).map_or(NodeVerdict::Good, |one| one.verdict);
            counts[verdict as usize] += 1;
        }
        counts
    };
    let alike = verdicts(0.02, 0.0);
    assert!(alike[0] >= 190, "{alike:?} of 200 good nodes");
    let slow = verdicts(0.02, 0.1);
    assert!(slow[0] <= 10, "{slow:?} of 200 nodes with a loss of 10 %");
    for loss in [0.0, 0.1, 0.2] {
        let varying = verdicts(0.17, loss);
        assert_eq!(varying[0], 0, "{loss}: {varying:?}");
    }
}

#[test]
fn uncorrected_errors_and_many_corrected_errors_are_bad() {
    let of = |kind, events, hours: u64| {
        let interval = Some(Duration::from_secs(3600 * hours));
        judge_errors(&[event(kind, events)], interval).first().map(|remark| remark.reason.clone())
    };
    assert_eq!(of(HardwareEvent::MemoryUncorrected, 1, 24).as_deref(), Some("mem UE: DIMM_A1"));
    assert_eq!(of(HardwareEvent::MemoryCorrected, 99, 1), None);
    assert_eq!(of(HardwareEvent::MemoryCorrected, 100, 24).as_deref(), Some("mem CE: DIMM_A1"));
    assert_eq!(of(HardwareEvent::MemoryCorrected, 100, 48), None);
    assert_eq!(of(HardwareEvent::MemoryCorrected, 200, 48).as_deref(), Some("mem CE: DIMM_A1"));
    assert_eq!(of(HardwareEvent::ThermalThrottle, 5000, 1), None);
    let labelled = |label: &str| {
        let component = format!("mc0 dimm2, {label}");
        let one =
            EventCount { slot: None, component, ..event(HardwareEvent::MemoryUncorrected, 1) };
        judge_errors(&[one], None)[0].reason.clone()
    };
    assert_eq!(labelled("DIMM_A1"), "mem UE: DIMM_A1");
    assert_eq!(labelled("CPU_SrcID#0_MC#0_Chan#1_DIMM#0"), "mem UE: mc0 dimm2");
}

#[test]
fn busy_node_is_unknown_and_critical_finding_is_bad() {
    let finding = |id: &str, severity| Finding {
        id: id.to_owned(),
        severity,
        text: format!("text of {id}"),
        remedy: String::new(),
        cost: None,
    };
    let judged = |id: &str, severity| verdict(&judge_findings(&[finding(id, severity)], LOAD)).0;
    assert_eq!(judged(LOAD, Severity::Critical), NodeVerdict::Unknown);
    assert_eq!(judged(LOAD, Severity::Info), NodeVerdict::Good);
    assert_eq!(judged("cpu-quota", Severity::Critical), NodeVerdict::Bad);
    assert_eq!(judged("thp-never", Severity::Warning), NodeVerdict::Good);
    // Errors since boot may be old, so only the interval since the last check counts.
    assert_eq!(judged("memory-errors", Severity::Critical), NodeVerdict::Good);
}

#[test]
fn missing_core_is_reported_as_reason_and_likely_cause() {
    let inventory = Inventory { cores: Some(96), ..Inventory::default() };
    let group = ReferenceGroup {
        kind: Default::default(),
        inventory,
        nodes: "n[1-8]".to_owned(),
        measured: None,
        figures: Vec::new(),
    };
    let mut machine = Machine::default();
    machine.processor.cores = 95;
    let lost = judge_parts(&group, &machine);
    assert_eq!(lost[0].reason, "cores 95 of 96");
    assert_eq!(likely_cause(Some(&group), &machine, &[]).as_deref(), Some("cores"));
    machine.processor.cores = 96;
    assert!(judge_parts(&group, &machine).is_empty());
    assert_eq!(likely_cause(Some(&group), &machine, &[]), None);
}

#[test]
fn verdict_line_fits_80_characters_with_host_and_reason() {
    let bad = checked(&[231e9, 229e9]).remark(Some("DIMM")).unwrap();
    let line_text = verdict_line("n017.site.example", NodeVerdict::Bad, Some(&bad), "");
    assert!(
        line_text.starts_with("n017 mem 68% of ref: DIMM; bad: triad 231.0 GB/s"),
        "{line_text}"
    );
    assert_eq!(line_text.chars().count(), MAX_LINE_CHARS);
    let long = verdict_line(&"x".repeat(200), NodeVerdict::Bad, Some(&bad), "");
    assert!(
        long.contains("mem 68% of ref: DI") && long.chars().count() == MAX_LINE_CHARS,
        "{long}"
    );
    assert_eq!(
        verdict_line("n1", NodeVerdict::Good, None, "as the reference"),
        "n1 good: as the reference"
    );
}
