//! Tests of expectations in the syntax of the option, and of their messages.

use super::*;
use nodegauge_measure::Fraction;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::quantity::MAX_BYTES;
use nodegauge_measure::record::Limit;
use proptest::prelude::*;
use serde_json::json;

nodegauge_measure::config! {
    /// Configuration keys of the measurements in these tests.
    pub struct Keys {
        /// Bytes of an array.
        array_bytes: u64 = Identity "arrays";
        /// Size of a message.
        message_bytes: u64 = Size "messages";
        /// Size of a file.
        file_bytes: u64 = Size "files";
        /// Edge of a grid, in points.
        grid_points: u64 = Size "grid";
        /// Number of bytes that were moved.
        moved_bytes: u64 = Observation "bytes moved";
    }
}

fn registry() -> Registry {
    let kinds = [("memory", &["stream"][..]), ("messages", &["mpi"])];
    Registry::new(kinds.map(|(gauge, tests)| ConfigKind::from_config::<Keys>(gauge, tests)))
}

fn measurement(test: &str, name: &str, unit: &str, value: Option<f64>) -> Measurement {
    let gauge = if test == "stream" { "memory" } else { "messages" };
    let unit = Unit::from_symbol(unit).unwrap();
    Measurement { value, ..Measurement::new(gauge, test, name, unit) }
}

/// Returns Triad at 78.412 GB/s, 78.4 % of its limit.
fn triad() -> Measurement {
    let limit = Limit { value: 1e11, basis: "option".to_owned(), fraction: Fraction(0.784) };
    Measurement { limit: Some(limit), ..measurement("stream", "triad", "B/s", Some(78.412e9)) }
}

/// Returns the bandwidth of messages of one size.
fn bw(bytes: u64, value: f64) -> Measurement {
    let config = [("message_bytes".to_owned(), bytes.into())].into_iter().collect();
    Measurement { config, ..measurement("mpi", "bw", "B/s", Some(value)) }
}

fn judged(text: &str, measurements: &[Measurement], accept_suspect: bool) -> CheckedExpectation {
    let expectation: Expectation = text.parse().unwrap();
    expectation.check(measurements, accept_suspect, &registry())
}

fn check(text: &str, measurements: &[Measurement]) -> ExpectationVerdict {
    judged(text, measurements, false).verdict
}

fn reported(text: &str, measurements: &[Measurement]) -> String {
    judged(text, measurements, false).in_words(&text.parse().unwrap())
}

#[test]
fn suspect_figure_does_not_meet_an_expectation() {
    let mut suspect = triad();
    suspect.validity.mark_suspect("arrays are 0.07 times the caches");
    assert_eq!(
        reported("triad>=78GB/s", std::slice::from_ref(&suspect)),
        "expected triad >= 78 GB/s, measured 78.41 GB/s, which is suspect: arrays are 0.07 times the \
         caches\nhint: use --accept-suspect to accept suspect figures as results"
    );
    let all = [triad(), suspect];
    let met = |of: &[Measurement], accept| judged("triad>=78GB/s", of, accept).is_met();
    assert!(!met(&all, false) && met(&all, true) && met(&all[..1], false));
    // One figure that misses the bound decides, regardless of the other figures.
    assert!(matches!(check("triad>=79GB/s", &all), ExpectationVerdict::NotMet(_)));
}

#[test]
fn expectation_compares_value_with_bound_in_its_unit() {
    for (text, holds) in [
        ("triad>=78GB/s", true),
        ("triad>=79GB/s", false),
        ("stream.triad > 70 GiB/s", true),
        ("memory.triad<=0.08TB/s", true),
        ("memory.triad < 78412 MB/s", false),
        ("triad<=78412MB/s", true),
        ("triad>=78%", true),
        ("triad>80%", false),
    ] {
        assert_eq!(judged(text, &[triad()], false).is_met(), holds, "{text}");
    }
    for (text, unit, value) in [
        ("m<2us", "s", 1.9e-6),
        ("m<2000ns", "s", 1.9e-6),
        ("m>1ms", "s", 1.0),
        ("m>=4TFLOP/s", "FLOP/s", 4e12),
        ("m>=3.9Mmsg/s", "msg/s", 4e6),
        ("m>=40kop/s", "op/s", 4e4),
        ("m>=1.5x", "x", 1.5),
    ] {
        let m = measurement("t", "m", unit, Some(value));
        assert!(judged(text, &[m], false).is_met(), "{text}");
    }
}

#[test]
fn figures_that_cannot_be_compared_do_not_meet_an_expectation() {
    assert_eq!(
        check("triad<100ns", &[triad()]),
        ExpectationVerdict::OtherUnit(Unit::BytesPerSecond)
    );
    let unknown = Measurement { limit: None, ..triad() };
    assert_eq!(check("triad>=80%", &[unknown]), ExpectationVerdict::NoLimit);
    let nothing = Measurement { value: None, ..triad() };
    assert_eq!(check("triad>=1GB/s", &[nothing]), ExpectationVerdict::NoValue);
    let mut wrong = triad();
    wrong.validity.add(Status::Invalid, "check failed");
    assert_eq!(check("triad>=1GB/s", &[wrong]), ExpectationVerdict::NoValue);
    let endless = Measurement { value: Some(f64::INFINITY), ..triad() };
    assert_eq!(check("triad>=1GB/s", &[endless]), ExpectationVerdict::NoValue);
    assert_eq!(
        check("tirad>=1GB/s", &[triad()]),
        ExpectationVerdict::NoSuch(vec!["triad".to_owned()])
    );
    assert!(!judged("hpl.triad>=1GB/s", &[triad()], false).is_met());
}

#[test]
fn worst_of_several_figures_is_decisive() {
    let sizes = [bw(1 << 10, 1e9), bw(1 << 20, 9e9), bw(1 << 16, 8e9)];
    assert_eq!(check("bw>=2GB/s", &sizes), ExpectationVerdict::NotMet(1e9));
    assert_eq!(check("bw>=1GB/s", &sizes), ExpectationVerdict::Met(1e9));
    assert_eq!(check("bw<=9GB/s", &sizes), ExpectationVerdict::Met(9e9));
    // The message contains the deciding figure and the number of other figures that miss the bound.
    for (text, expected) in [
        ("bw>=2GB/s", "expected bw >= 2 GB/s, measured 1.000 GB/s (bw, message bytes 1 KiB)"),
        (
            "bw>=8.5GB/s",
            "expected bw >= 8.5 GB/s, measured 1.000 GB/s (bw, message bytes 1 KiB, and 1 more)",
        ),
    ] {
        assert_eq!(reported(text, &sizes), expected);
    }
}

#[test]
fn size_in_an_expectation_selects_figures() {
    let sizes = [bw(1 << 10, 1e9), bw(1 << 20, 9e9)];
    assert_eq!(check("bw>=2GB/s@1MiB", &sizes), ExpectationVerdict::Met(9e9));
    assert_eq!(check("mpi.bw >= 2 GB/s @ 1024", &sizes), ExpectationVerdict::NotMet(1e9));
    assert_eq!(
        reported("bw>=2GB/s@2MiB", &sizes),
        "expected bw >= 2 GB/s at 2 MiB, but there is no such measurement; \
         available: bw@1MiB, bw@1KiB"
    );
}

#[test]
fn figure_size_is_that_of_the_last_size_key_or_the_arrays() {
    let size = |config: serde_json::Value| {
        let config = config.as_object().unwrap().clone();
        figure_size(&Measurement { config, ..triad() }, &registry()).map(|size| size.0)
    };
    assert_eq!(size(json!({"message_bytes": 8, "array_bytes": 64})), Some(8));
    // The order of keys in the record does not matter.
    assert_eq!(size(json!({"grid_points": 16, "file_bytes": 4096})), Some(16));
    assert_eq!(size(json!({"array_bytes": 64, "moved_bytes": 192})), Some(64));
    assert_eq!(size(json!({"moved_bytes": 192, "other_bytes": 1})), None);
    assert_eq!(size(json!({"message_bytes": "many"})), None);
}

#[test]
fn measurement_name_may_contain_an_arrow() {
    let far = measurement("matrix", "n0->n1", "B/s", Some(4e10));
    for text in ["n0->n1>=30GB/s", "matrix.n0->n1>30GB/s"] {
        assert!(judged(text, std::slice::from_ref(&far), false).is_met());
    }
    assert_eq!("mix.2:1-nt>=1x".parse::<Expectation>().unwrap().name, "2:1-nt");
    assert_eq!("a->=1x".parse::<Expectation>().unwrap().name, "a-");
}

#[test]
fn verdict_prints_bound_and_measured_value() {
    let all = [triad(), measurement("stream", "copy", "B/s", None)];
    for (text, expected) in [
        ("triad>=300GB/s", "expected triad >= 300 GB/s, measured 78.41 GB/s"),
        ("triad>=70GB/s", "expectation met: triad >= 70 GB/s, measured 78.41 GB/s"),
        ("triad>=78.414GB/s", "expected triad >= 78.414 GB/s, measured 78.412 GB/s"),
        ("stream.triad>=80%", "expected stream.triad >= 80 % of the limit, measured 78.4 %"),
        ("copy>=1GB/s", "expected copy >= 1 GB/s, but there is no valid result"),
        ("triad>=1us", "expected triad >= 1 us, but the measurement is in B/s"),
        (
            "traid>=1GB/s",
            "expected traid >= 1 GB/s, but there is no such measurement; available: triad, copy",
        ),
        (
            "hpl.triad>=1GB/s",
            "expected hpl.triad >= 1 GB/s, but there is no such measurement; \
             available: stream.triad, stream.copy",
        ),
    ] {
        assert_eq!(reported(text, &all), expected);
    }
    assert_eq!(
        reported("triad>=80%", &[Measurement { limit: None, ..triad() }]),
        "expected triad >= 80 % of the limit, but the limit is unknown\n\
         hint: give --dimms COUNTxMT/s, or a bound with a unit such as GB/s"
    );
    assert_eq!(reported("triad>=1x", &[]), "expected triad >= 1 x, but nothing was measured");
    let ladder: Vec<Measurement> =
        (10..30).map(|n| measurement("ladder", &format!("{}", 1 << n), "B/s", None)).collect();
    assert!(reported("triad>=1GB/s", &ladder).ends_with(" and 12 more"));
}

#[test]
fn invalid_expectation_is_reported_with_its_column() {
    for (text, at) in [
        ("", 0),
        (">=3GB/s", 0),
        ("triad", 5),
        ("triad=300GB/s", 5),
        ("triad==300GB/s", 5),
        ("triad=>300GB/s", 5),
        ("triad>=GB/s", 7),
        ("triad>=-1GB/s", 7),
        ("triad>=300", 10),
        ("triad>=300GBs", 10),
        ("triad>=300gb/s", 10),
        ("triad>=300GB/s!", 14),
        ("triad>=300GB/s@", 15),
        ("triad>=300GB/s@2QiB", 16),
        ("triad>=300GB/s@2MiB 3", 20),
        ("stream.>=3GB/s", 7),
        ("triad>=1.2.3GB/s", 7),
    ] {
        assert_eq!(text.parse::<Expectation>().unwrap_err().at, at, "{text}");
    }
    let endless = format!("triad>={}GB/s", "9".repeat(400));
    assert_eq!(endless.parse::<Expectation>().unwrap_err().at, 7);
    assert_eq!(
        "triad>=300gb/s".parse::<Expectation>().unwrap_err().to_string(),
        "expectation \"triad>=300gb/s\": expected GB/s (units are case-sensitive), found 'g'\n  \
         triad>=300gb/s\n            ^\nhint: e.g. --expect 'triad>=300GB/s'"
    );
}

#[test]
fn exact_sizes_are_printed_without_rounding() {
    for (bytes, text) in
        [(0, "0B"), (1000, "1000B"), (1536, "1536B"), (3 << 10, "3KiB"), (5 << 40, "5120GiB")]
    {
        assert_eq!(Bytes(bytes).exact_text(), text);
    }
}

#[test]
fn unit_names_are_unique() {
    let names: std::collections::BTreeSet<_> = UNITS.into_iter().collect();
    assert_eq!(names.len(), UNITS.len());
    assert!(UNITS.iter().all(|unit| ScaledUnit::from_symbol(unit).is_some()));
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_]{1,12}", "n[0-9]->n[0-9]", "[0-9]{1,9}", "[a-z]{1,4}-[a-z]{1,4}"]
}

proptest! {
    #[test]
    fn expectation_round_trips(
        scope in proptest::option::of("[a-z]{1,8}"),
        name in name(),
        op in 0usize..4,
        bound in prop_oneof![0.0f64..1e6, 0.0f64..1e-6, Just(f64::MAX), Just(f64::MIN_POSITIVE)],
        unit in 0usize..=UNITS.len(),
        size in proptest::option::of(prop_oneof![0u64..1 << 20, (0u64..1 << 20).prop_map(|n| n << 20), Just(MAX_BYTES.0)]),
    ) {
        let comparison = Operator::ALL[op].1;
        let unit = UNITS.get(unit).copied().unwrap_or(PERCENT);
        let size = size.map(Bytes);
        let expectation = Expectation { scope, name, comparison, bound, unit, size };
        prop_assert_eq!(expectation.to_string().parse::<Expectation>(), Ok(expectation));
    }

    #[test]
    fn expectation_parser_never_panics(text in "([a-z.@<>=%/ -]|\\PC){0,20}") {
        if let Err(error) = text.parse::<Expectation>() {
            prop_assert!(text.is_char_boundary(error.at));
            prop_assert!(error.to_string().contains("--expect"));
        }
    }
}

#[test]
fn incomparable_figure_takes_precedence_over_a_low_one() {
    let without_limit = measurement("stream", "triad", "B/s", Some(1e9));
    for figures in [[triad(), without_limit.clone()], [without_limit, triad()]] {
        assert_eq!(check("triad>=80%", &figures), ExpectationVerdict::NoLimit);
    }
}
