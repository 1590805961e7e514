//! Tests of the setters of a figure, its statistics, and the samples that it counts.

use super::super::TheoreticalValue;
use super::*;
use serde_json::json;

fn triad() -> Measurement {
    Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond)
}

#[test]
fn reason_of_worst_status_comes_first() {
    let mut validity = Validity::valid();
    validity.mark_suspect("short");
    validity.mark_suspect("disturbed");
    assert_eq!(validity.status, Status::Suspect);
    assert_eq!(validity.reasons, ["short", "disturbed"]);
    validity.mark_invalid("wrong sum");
    validity.mark_suspect("hot");
    assert_eq!(validity.status, Status::Invalid);
    assert_eq!(validity.reasons, ["wrong sum", "short", "disturbed", "hot"]);
}

#[test]
fn invalid_figure_has_no_value() {
    let measured = triad().with_value(QuotedStatistic::Best, 4e10);
    let mut doubted = measured.clone();
    doubted.doubt(Status::Suspect, "disturbed");
    assert_eq!(doubted.value, Some(4e10));
    doubted.doubt(Status::Invalid, "a[0] is 1, not 2");
    assert_eq!((doubted.value, doubted.in_words()), (None, "-".to_owned()));
    let missing = measured.clone().without_value("no memory");
    assert_eq!((missing.value, missing.validity.status), (None, Status::Invalid));
    assert_eq!(measured.with_validity(Validity::valid()).in_words(), "40.00 GB/s");
}

#[test]
fn statistics_are_computed_from_samples() {
    let samples = [1.0, 4.0, 2.0];
    let of = |quoted: QuotedStatistic| quoted.statistic(&samples, Unit::BytesPerSecond).unwrap();
    let expected = [
        (QuotedStatistic::Best, "best", 4.0),
        (QuotedStatistic::Median, "median", 2.0),
        (QuotedStatistic::Mean, "mean", 7.0 / 3.0),
        (QuotedStatistic::HarmonicMean, "harmonic mean", 3.0 / 1.75),
        (QuotedStatistic::GeometricMean, "geometric mean", 2.0),
        (QuotedStatistic::Single, "single", 2.0),
    ];
    for (quoted, name, value) in expected {
        assert_eq!(quoted.name(), name);
        assert!((of(quoted) - value).abs() < 1e-12, "{name}: {}", of(quoted));
    }
    assert_eq!(QuotedStatistic::Best.statistic(&samples, Unit::Seconds), Some(1.0));
    assert_eq!(QuotedStatistic::Mean.statistic(&[], Unit::Seconds), None);
}

#[test]
fn value_above_upper_bound_has_no_limit() {
    let figure = |value: f64, at_most: bool| TheoreticalValue {
        value,
        basis: "catalog".to_owned(),
        detail: None,
        at_most,
    };
    let measured = || triad().with_value(QuotedStatistic::Best, 4e10);
    let limit = measured().with_theoretical_limit(&figure(8e10, false)).limit.unwrap();
    assert_eq!((limit.value, limit.fraction, limit.basis), (8e10, Fraction(0.5), "catalog".into()));
    assert_eq!(
        measured().with_theoretical_limit(&figure(2e10, false)).limit.unwrap().fraction,
        Fraction(2.0)
    );
    assert_eq!(
        measured().with_theoretical_limit(&figure(8e10, true)).limit.unwrap().basis,
        "upper bound, catalog"
    );
    assert_eq!(
        measured().with_theoretical_limit(&figure(4e10, true)).limit.unwrap().fraction,
        Fraction(1.0)
    );
    assert_eq!(measured().with_theoretical_limit(&figure(2e10, true)).limit, None);
    assert_eq!(triad().with_limit(8e10, "catalog").limit, None);
}

#[test]
fn size_name_is_printed_with_unit() {
    let named = |name: &str, key: &str| {
        let config = [(key.to_owned(), json!(4096))].into_iter().collect();
        let m = Measurement::new("messages", "latency", name, Unit::Seconds);
        Measurement { config, ..m }.name_in_words()
    };
    assert_eq!(named("4096", "message_bytes"), "4 KiB");
    assert_eq!(named("8", "message_bytes"), "8");
    assert_eq!(named("4096", "threads"), "4096");
}

#[test]
fn published_and_transport_figures_are_recognised() {
    let with = |category: Category, engine: &str| {
        let config = [("engine".to_owned(), json!(engine))].into_iter().collect();
        Measurement { config, ..triad().with_category(category) }
    };
    assert!(with(Category::Reference, PUBLISHED_ENGINE).is_published());
    assert!(!with(Category::Reference, "fio").is_published());
    assert!(!with(Category::Variant, PUBLISHED_ENGINE).is_published());
    assert!(with(Category::Transport, "").needs_scope());
    assert!(!with(Category::Reference, "").needs_scope());
}

#[test]
fn samples_in_other_regime_are_not_counted_as_disturbed() {
    let regime = |round_trip_s: f64, samples: &[f64]| RegimeSamples {
        round_trip_s,
        share: Fraction(0.5),
        summary: Summary::from_samples(samples, BetterDirection::Higher).unwrap(),
        samples: samples.to_vec(),
    };
    let disturbed = |reason: &str, trip: f64, counts: SampleUse| DisturbedSample {
        value: 1.0,
        reason: reason.to_owned(),
        counts,
        at_s: None,
        round_trip_s: Some([Some(trip); 2]),
    };
    let near = [3.0, 4.0, 5.0];
    let mut m = triad().with_samples(QuotedStatistic::Median, near.to_vec());
    m.regimes = vec![regime(1e-7, &near), regime(4e-7, &[1.0, 2.0])];
    m.disturbed = vec![
        disturbed("stolen", 1.1e-7, SampleUse::Nothing),
        disturbed("moved", 3.9e-7, SampleUse::Nothing),
        disturbed(&Cause::WarmUp.to_string(), 3.9e-7, SampleUse::Nothing),
    ];
    let reasons: Vec<&str> = m.disturbed_samples().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons, ["stolen"]);
    // Two samples and one disturbed sample are in the other regime; the warm-up does not count.
    assert_eq!(m.other_regime_count(), 3);
    m.regimes.clear();
    assert_eq!((m.disturbed_samples().count(), m.other_regime_count()), (2, 0));
}

#[test]
fn figure_with_nonfinite_value_is_invalid_and_round_trips() {
    let figures = [
        triad().with_samples(QuotedStatistic::Median, vec![1.0, f64::INFINITY]),
        triad().with_value(QuotedStatistic::Single, f64::NAN).with_limit(2.0, "theory"),
        Measurement {
            disturbed: vec![DisturbedSample { value: f64::NAN, ..DisturbedSample::default() }],
            ..triad()
        },
    ];
    for figure in figures {
        let m = figure.with_validity(Validity::valid());
        assert_eq!((m.validity.status, m.value), (Status::Invalid, None));
        assert_eq!(m.validity.reasons, ["the value or a sample is not a finite number"]);
        let json = serde_json::to_string(&m).unwrap();
        assert_eq!(serde_json::from_str::<Measurement>(&json).unwrap(), m);
    }
}
