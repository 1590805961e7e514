use super::*;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Category, Measurement};

const LOAD: &str = "other-load";

fn triad() -> FigureKey {
    let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond)
        .category(Category::Variant);
    FigureKey::named(&m, "triad".to_owned())
}

fn measured(value: f64, doubt: Option<&str>) -> NodeFigure {
    NodeFigure { key: triad(), value, doubt: doubt.map(str::to_owned) }
}

fn checked(values: &[f64]) -> CheckedFigure {
    let bound = FigureBound {
        value: 335e9,
        bound: 321.6e9,
        base: "ref".to_owned(),
        basis: "median of 64 nodes less 4 %".to_owned(),
    };
    CheckedFigure {
        key: triad(),
        measured: values.iter().map(|value| measured(*value, None)).collect(),
        bound: Some(bound),
    }
}

fn event(kind: HardwareEvent, events: u64) -> EventCount {
    let slot = Some("DIMM_A1".to_owned());
    EventCount { kind, component: "mc0 dimm0".to_owned(), slot, events, note: None }
}

#[test]
fn a_figure_is_bad_only_after_two_measurements() {
    let once = checked(&[231e9]).remark(Some("DIMM")).unwrap();
    assert_eq!((once.verdict, once.reason.as_str()), (NodeVerdict::Unknown, "not confirmed"));
    let twice = checked(&[231e9, 229e9]).remark(Some("DIMM")).unwrap();
    assert_eq!((twice.verdict, twice.reason.as_str()), (NodeVerdict::Bad, "mem 68% of ref: DIMM"));
    assert_eq!(
        twice.text,
        "triad 231.0 GB/s of 335.0 GB/s, bound 321.6 GB/s (median of 64 nodes less 4 %), measured 2 times"
    );
    // The second measurement shows that the first was disturbed.
    assert_eq!(checked(&[231e9, 330e9]).remark(None), None);
    let mut disturbed = checked(&[231e9, 229e9]);
    disturbed.measured[1].doubt = Some("steal time".to_owned());
    assert_eq!(disturbed.remark(None).unwrap().verdict, NodeVerdict::Unknown);
}

#[test]
fn without_a_bound_nothing_is_bad() {
    let unbounded = CheckedFigure { bound: None, ..checked(&[1e9, 1e9]) };
    assert!(!unbounded.is_below() && unbounded.remark(None).is_none());
    assert_eq!(FigureBound::of_own_runs(&triad(), &[300e9; 4]), None);
    let own = FigureBound::of_own_runs(&triad(), &[300e9; 5]).unwrap();
    assert!((own.bound - 288e9).abs() < 1.0 && own.base == "own");
    // Runs that vary widen the bound.
    let noisy = FigureBound::of_own_runs(&triad(), &[280e9, 290e9, 300e9, 310e9, 320e9]).unwrap();
    assert!(noisy.bound < 260e9, "{noisy:?}");
}

#[test]
fn errors_that_were_not_corrected_and_storms_of_corrected_ones_are_bad() {
    let of = |kind, events, hours: u64| {
        let interval = Some(Duration::from_secs(3600 * hours));
        errors(&[event(kind, events)], interval).first().map(|remark| remark.reason.clone())
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
        errors(&[one], None)[0].reason.clone()
    };
    assert_eq!(labelled("DIMM_A1"), "mem UE: DIMM_A1");
    assert_eq!(labelled("CPU_SrcID#0_MC#0_Chan#1_DIMM#0"), "mem UE: mc0 dimm2");
}

#[test]
fn a_busy_node_is_unknown_and_a_critical_finding_is_bad() {
    let finding = |id: &str, severity| Finding {
        id: id.to_owned(),
        severity,
        text: format!("text of {id}"),
        remedy: String::new(),
        cost: None,
    };
    let judged = |id: &str, severity| verdict(&conditions(&[finding(id, severity)], LOAD)).0;
    assert_eq!(judged(LOAD, Severity::Critical), NodeVerdict::Unknown);
    assert_eq!(judged(LOAD, Severity::Info), NodeVerdict::Good);
    assert_eq!(judged("cpu-quota", Severity::Critical), NodeVerdict::Bad);
    assert_eq!(judged("thp-never", Severity::Warning), NodeVerdict::Good);
    // Errors since boot may be old; the interval since the last check decides.
    assert_eq!(judged("memory-errors", Severity::Critical), NodeVerdict::Good);
}

#[test]
fn a_lost_module_is_the_reason_and_the_cause_of_a_bad_figure() {
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
    let lost = lost_parts(&group, &machine);
    assert_eq!(lost[0].reason, "cores 95 of 96");
    assert_eq!(likely_cause(Some(&group), &machine, &[]).as_deref(), Some("cores"));
    machine.processor.cores = 96;
    assert!(lost_parts(&group, &machine).is_empty());
    assert_eq!(likely_cause(Some(&group), &machine, &[]), None);
}

#[test]
fn the_line_has_the_reason_first_and_at_most_eighty_characters() {
    let bad = checked(&[231e9, 229e9]).remark(Some("DIMM")).unwrap();
    let line_text = line("n017.site.example", NodeVerdict::Bad, Some(&bad), "");
    assert!(
        line_text.starts_with("n017 mem 68% of ref: DIMM; bad: triad 231.0 GB/s"),
        "{line_text}"
    );
    assert_eq!(line_text.chars().count(), LONGEST_LINE);
    let long = line(&"x".repeat(200), NodeVerdict::Bad, Some(&bad), "");
    assert!(long.contains("mem 68% of ref: DI") && long.chars().count() == LONGEST_LINE, "{long}");
    assert_eq!(
        line("n1", NodeVerdict::Good, None, "as the reference"),
        "n1 good: as the reference"
    );
}
