use super::*;
use crate as nodegauge_measure;
use crate::record::{Category, Machine, Quoted, RegimeSamples, Status, Tool};
use crate::stats::Summary;
use serde_json::json;

crate::config! {
    /// The keys that the measurements of these tests have.
    pub struct Keys {
        /// Type of the elements.
        element: String = Identity "elements";
        /// Bytes of an array.
        array_bytes: u64 = Identity "arrays", speaks;
        /// Size of a message.
        message_bytes: u64 = Size "messages", speaks;
        /// Size of a file.
        file_bytes: u64 = Size "files", speaks;
        /// Size of a block.
        block_bytes: u64 = Size "blocks", speaks;
        /// Kernel of a curve.
        kernel: String = Identity "kernel", speaks;
        /// Distance of a pair.
        distance: String = Identity "pairs", speaks;
        /// Order of the matrix.
        n: u64 = Identity "order";
        /// Threads.
        threads: u64 = Setting "threads";
        /// Who measured.
        engine: String = Setting "engine", speaks;
        /// Kind of store.
        stores: String = Setting "stores";
        /// Pages.
        pages: Value = Setting "pages";
        /// CPUs of each thread.
        places: Value = Setting "places";
        /// Passes.
        passes: u64 = Observation "passes";
        /// Core-to-core round trip.
        round_trip_s: f64 = Observation "round trip";
    }
}

fn registry() -> Registry {
    let kinds =
        [("memory", &["stream", "explain"][..]), ("messages", &["mpi"]), ("files", &["io"])];
    Registry::new(kinds.map(|(gauge, tests)| crate::keys::ConfigKind::of::<Keys>(gauge, tests)))
}

/// Compares with the keys of these tests.
fn compare(a: &Side, b: &Side) -> Comparison {
    super::compare(a, b, &registry())
}

/// A record of one host with these measurements.
fn record(id: &str, measurements: Vec<Measurement>) -> Record {
    Record {
        schema: SCHEMA.to_owned(),
        id: id.to_owned(),
        started: "2026-11-21T08:46:26Z".to_owned(),
        seconds: 2.0,
        complete: true,
        tool: Tool { version: "0.1.0".to_owned(), commit: None },
        command: vec!["stream".to_owned()],
        labels: BTreeMap::new(),
        machine: Machine {
            host: Some("n01".to_owned()),
            virtualisation: Some("kvm".to_owned()),
            ..Machine::default()
        },
        findings: Vec::new(),
        notices: Vec::new(),
        measurements,
    }
}

fn measurement(name: &str, unit: &str, samples: &[f64], config: Value) -> Measurement {
    let Value::Object(config) = config else { panic!("a configuration is an object") };
    let unit = Unit::of_symbol(unit).unwrap();
    let measured = Measurement::new("memory", "stream", name, unit);
    Measurement { config, ..measured.sampled(Quoted::Best, samples.to_vec()) }
}

fn triad(samples: &[f64]) -> Measurement {
    measurement("triad", "B/s", samples, json!({"threads": 2, "element": "f64"}))
}

fn side(runs: Vec<Record>) -> Side {
    Side { asked: "latest".to_owned(), runs }
}

fn one(a: Measurement, b: Measurement) -> Pair {
    let sides = [("A1", a), ("B1", b)].map(|(id, m)| side(vec![record(id, vec![m])]));
    let mut pairs = compare(&sides[0], &sides[1]).pairs;
    assert_eq!(pairs.len(), 1);
    pairs.remove(0)
}

/// Triad of eight runs of one setting on a two-CPU Zen 5 guest, half a minute apart, while others
/// used the host: B/s, with the round trip.
fn eight_runs() -> Vec<Measurement> {
    #[derive(serde::Deserialize)]
    struct Recorded {
        round_trip_s: f64,
        triad_mb: Vec<f64>,
    }
    let text = include_str!("../../tests/data/triad-eight-runs.json");
    let runs: Vec<Recorded> = serde_json::from_str(text).unwrap();
    runs.iter()
        .map(|run| {
            let samples: Vec<f64> = run.triad_mb.iter().map(|mb| mb * 1e6).collect();
            let mut m = triad(&samples);
            m.config.insert("round_trip_s".to_owned(), json!(run.round_trip_s));
            m
        })
        .collect()
}

#[test]
fn recorded_runs_of_one_setting_are_within_noise() {
    let runs = eight_runs();
    for (i, a) in runs.iter().enumerate() {
        for b in &runs[i + 1..] {
            let pair = one(a.clone(), b.clone());
            assert_eq!(pair.verdict, Verdict::WithinNoise, "{:?}", (pair.ratio, pair.ci95));
            assert_eq!(pair.statistic, "best");
        }
    }
    // By medians, which the neighbours moved by up to 13 %, the interval must be as wide as that.
    let quoted_by_median = |m: &Measurement| Measurement {
        value: m.summary.as_ref().map(|summary| summary.median),
        quoted: Quoted::Median,
        ..m.clone()
    };
    let pair = one(quoted_by_median(&runs[0]), quoted_by_median(&runs[1]));
    assert_eq!(pair.statistic, "median");
    let [low, high] = pair.ci95.unwrap();
    assert!(high / low > 1.15, "{low} {high}");
}

#[test]
fn recorded_runs_that_are_pooled_are_told_from_a_faster_setting() {
    let runs = eight_runs();
    let pooled = |runs: &[Measurement], factor: f64, name: &str| {
        let faster = |m: &Measurement| {
            let samples: Vec<f64> = m.samples.iter().map(|x| x * factor).collect();
            Measurement { config: m.config.clone(), ..triad(&samples) }
        };
        let records = runs.iter().enumerate();
        side(records.map(|(i, m)| record(&format!("{name}{i}"), vec![faster(m)])).collect())
    };
    let (a, b) = runs.split_at(4);
    let same = compare(&pooled(a, 1.0, "A"), &pooled(b, 1.0, "B"));
    assert_eq!(same.pairs[0].verdict, Verdict::WithinNoise, "{:?}", same.pairs[0].ci95);
    assert_eq!((same.pairs[0].a.runs, same.pairs[0].b.runs), (4, 4));
    let faster = compare(&pooled(a, 1.0, "A"), &pooled(b, 1.06, "B"));
    assert_eq!(faster.pairs[0].verdict, Verdict::Faster, "{:?}", faster.pairs[0].ci95);
    let slower = compare(&pooled(b, 1.06, "B"), &pooled(a, 1.0, "A"));
    assert_eq!(slower.pairs[0].verdict, Verdict::Slower, "{:?}", slower.pairs[0].ci95);
}

#[test]
fn published_figures_have_a_ratio_and_no_confidence() {
    let [nps1, nps4] = [715_650.4e6, 753_699.8e6].map(|rate| triad(&[rate]));
    let pair = one(nps1, nps4);
    assert!((pair.ratio.unwrap() - 1.0532).abs() < 1e-4);
    assert_eq!((pair.verdict, pair.ci95, pair.statistic), (Verdict::NoConfidence, None, "quoted"));
    assert_eq!(pair.reasons, ["no samples: no confidence"]);
}

#[test]
fn a_time_that_is_shorter_is_faster() {
    let time = |t: f64| {
        let samples: Vec<f64> = (0..20).map(|i| t * (1.0 + f64::from(i % 5) * 1e-3)).collect();
        measurement("latency", "s", &samples, json!({"message_bytes": 8}))
    };
    assert_eq!(one(time(1e-6), time(0.8e-6)).verdict, Verdict::Faster);
    assert_eq!(one(time(1e-6), time(1.2e-6)).verdict, Verdict::Slower);
    let factor = |x: f64| measurement("pages", "x", &[x; 8], json!({}));
    assert_eq!(one(factor(1.1), factor(1.4)).verdict, Verdict::Higher);
}

#[test]
fn what_is_not_the_same_thing_is_not_compared() {
    let of = |config: Value| measurement("triad", "B/s", &[1e9; 8], config);
    let reasons = |a: Value, b: Value| {
        let pair = one(of(a), of(b));
        assert_eq!((pair.verdict, pair.ratio, pair.ci95), (Verdict::NotComparable, None, None));
        pair.reasons
    };
    assert_eq!(
        reasons(json!({"element": "f64"}), json!({"element": "f32"})),
        ["elements: f64 against f32"]
    );
    assert_eq!(
        reasons(json!({"array_bytes": 134_217_728}), json!({"array_bytes": 134_000_000})),
        ["arrays: 128MiB against 134000000B"]
    );
    let standard = Measurement { category: Category::Standard, ..triad(&[1e9; 8]) };
    assert_eq!(one(triad(&[1e9; 8]), standard).reasons, ["category: variant against standard"]);
    let mut invalid = triad(&[1e9; 8]);
    invalid.validity.add(Status::Invalid, "a[0] is 1, not 2");
    invalid.value = None;
    assert_eq!(one(invalid, triad(&[1e9; 8])).reasons, ["A has no valid result: a[0] is 1, not 2"]);
}

/// A measurement in a regime, and another regime that it met.
fn in_regime(trip: f64, rate: f64, other: Option<(f64, f64)>) -> Measurement {
    let mut m = triad(&[rate; 12]);
    m.config.insert("round_trip_s".to_owned(), json!(trip));
    let regime = |(trip, rate): (f64, f64)| RegimeSamples {
        round_trip_s: trip,
        share: 0.5,
        summary: Summary::of(&[rate; 12], Better::Higher).unwrap(),
        samples: vec![rate; 12],
    };
    if let Some(other) = other {
        m.regimes = vec![regime((trip, rate)), regime(other)];
    }
    m
}

#[test]
fn regimes_of_a_virtual_machine_are_never_held_against_each_other() {
    let pair = one(in_regime(115e-9, 48e9, None), in_regime(390e-9, 82e9, None));
    assert_eq!(pair.verdict, Verdict::NotComparable);
    assert!(pair.reasons[0].starts_with("different regimes of a virtual machine"), "{pair:?}");
    // B met that of A as well: they are compared there.
    let pair = one(in_regime(115e-9, 48e9, None), in_regime(390e-9, 82e9, Some((114e-9, 48.5e9))));
    assert_eq!((pair.verdict, pair.b.value), (Verdict::WithinNoise, Some(48.5e9)));
    assert!(pair.reasons[0].contains("12 samples of others are left out"), "{pair:?}");
    // On bare metal round trips differ with the setting, and tell no regimes.
    let sides = [in_regime(115e-9, 48e9, None), in_regime(390e-9, 82e9, None)].map(|m| {
        let mut run = record("X", vec![m]);
        run.machine.virtualisation = None;
        side(vec![run])
    });
    assert_eq!(compare(&sides[0], &sides[1]).pairs[0].verdict, Verdict::Faster);
}

#[test]
fn measurements_are_paired_by_what_tells_them_apart() {
    let message = |bytes: u64, rate: f64| {
        measurement("bw", "B/s", &[rate; 8], json!({"message_bytes": bytes, "threads": 1}))
    };
    let a = side(vec![record("A", vec![message(8, 1e6), message(4096, 5e9)])]);
    let b = side(vec![record("B", vec![message(4096, 5.5e9), message(65536, 9e9)])]);
    let comparison = compare(&a, &b);
    let titles: Vec<String> = comparison.pairs.iter().map(Pair::title).collect();
    assert_eq!(titles, ["bw 4 KiB"]);
    assert_eq!(
        (comparison.only_a, comparison.only_b),
        (vec!["bw 8 B".to_owned()], vec!["bw 64 KiB".to_owned()])
    );
    // A sweep is held against a run with one of its thread counts.
    let of_threads =
        |n: u64| measurement("triad", "B/s", &[n as f64 * 1e9; 8], json!({"threads": n}));
    let sweep = side(vec![record("S", [1, 2, 4].map(of_threads).to_vec())]);
    let single = side(vec![record("O", vec![of_threads(2)])]);
    let comparison = compare(&sweep, &single);
    assert_eq!(comparison.pairs[0].title(), "triad, threads 2");
    assert_eq!((comparison.pairs.len(), comparison.only_a.len()), (1, 2));
    // One count against another is a difference of setting, and compared.
    let comparison = compare(&single, &side(vec![record("T", vec![of_threads(4)])]));
    assert_eq!(comparison.pairs[0].verdict, Verdict::Faster);
    assert!(comparison.differences.iter().any(|d| d.what == "threads" && d.a == "2" && d.b == "4"));
    // What nothing tells apart is told apart by its number.
    let twice = side(vec![record("D", vec![triad(&[1e9; 8]), triad(&[2e9; 8])])]);
    let titles: Vec<String> = compare(&twice, &twice).pairs.iter().map(Pair::title).collect();
    assert_eq!(titles, ["triad", "triad, number 2"]);
}

#[test]
fn what_differs_is_listed_and_evidence_is_not() {
    let mut a = record("A", vec![triad(&[1e9; 8])]);
    let mut b = a.clone();
    b.id = "B".to_owned();
    a.labels.insert("nps".to_owned(), "1".to_owned());
    b.labels.insert("nps".to_owned(), "4".to_owned());
    b.machine.kernel = Some("Linux 6.12".to_owned());
    a.machine.kernel = Some("Linux 6.1".to_owned());
    b.machine.governor = Some("powersave".to_owned());
    let config = &mut b.measurements[0].config;
    config.insert("pages".to_owned(), json!({"asked": "thp", "got": {"2097152": 0.41}}));
    config.insert("passes".to_owned(), json!(31));
    a.measurements[0]
        .config
        .insert("pages".to_owned(), json!({"asked": "thp", "got": {"2097152": 0.98}}));
    let told: Vec<String> = compare(&side(vec![a]), &side(vec![b]))
        .differences
        .iter()
        .map(|d| format!("{}: {} | {}", d.what, d.a, d.b))
        .collect();
    // The governor of A is not known, which is no difference.
    assert_eq!(
        told,
        [
            "label nps: 1 | 4",
            "kernel: Linux 6.1 | Linux 6.12",
            "pages: thp, 100 % huge | thp, 40 % huge"
        ]
    );
}

#[test]
fn what_decides_of_a_machine_is_told_and_the_rest_is_not() {
    let then = Machine { kernel: Some("Linux 6.1.0".to_owned()), ..Machine::default() };
    let mut now = then.clone();
    now.memory.available = Some(7);
    assert!(machine_changes(&then, &now).is_empty());
    now.kernel = Some("Linux 6.12.1".to_owned());
    assert_eq!(machine_changes(&then, &now), ["kernel: Linux 6.1.0, now Linux 6.12.1"]);
}

#[test]
fn a_published_figure_in_a_record_is_not_compared() {
    let published = Measurement {
        category: Category::Reference,
        config: json!({"engine": "published"}).as_object().unwrap().clone(),
        ..triad(&[])
    };
    let a = side(vec![record("A", vec![triad(&[1e9; 8]), published])]);
    let comparison = compare(&a, &a);
    assert_eq!((comparison.pairs.len(), comparison.only_a.len()), (1, 0));
    assert_eq!(comparison.notices, ["both sides are the same"]);
}

#[test]
fn conditions_read_back_and_point_at_what_is_wrong() {
    for text in ["slower", "triad<-5%", "mpi.latency>10%@8B", "any<=-2.5%", "n0->n1>=0%"] {
        assert_eq!(text.parse::<Threshold>().unwrap().to_string(), text);
    }
    assert_eq!("triad < +5 %".parse::<Threshold>().unwrap().to_string(), "triad<5%");
    let wrong = |text: &str| text.parse::<Threshold>().unwrap_err().to_string();
    assert!(wrong("triad<5").contains("expected % after the number, but the text ends here"));
    assert!(wrong("triad<-x%").contains("expected a change in percent, such as -5%"));
    assert!(wrong("faster").contains("expected >=, <=, > or <"));
    assert!(wrong("triad=5%").contains("expected >=, <=, > or <"));
    assert!(wrong("").contains("expected the name of a measurement"));
}

#[test]
fn conditions_fail_beyond_the_bound_but_not_within_noise() {
    let pair = |a: Measurement, b: Measurement| {
        let sides = [("A1", a), ("B1", b)].map(|(id, m)| side(vec![record(id, vec![m])]));
        compare(&sides[0], &sides[1])
    };
    let check =
        |text: &str, comparison: &Comparison| text.parse::<Threshold>().unwrap().check(comparison);
    let slower = pair(triad(&[1e9; 20]), triad(&[0.9e9; 20]));
    assert_eq!(
        check("triad<-5%", &slower),
        threshold::Finding::Met(vec!["triad -10.0 %".to_owned()])
    );
    assert_eq!(check("triad<-15%", &slower), threshold::Finding::Passed);
    assert!(check("slower", &slower).fails() && check("any<-5%", &slower).fails());
    assert!(check("stream.triad<-5%", &slower).fails());
    assert!(check("copy<-5%", &slower).fails(), "a condition on nothing must not pass");
    assert!(check("hpl.triad<-5%", &slower).fails());
    let noise = pair(triad(&[1e9; 20]), triad(&[0.985e9; 20]));
    let finding = check("triad<-1%", &noise);
    assert!(!finding.fails());
    let words = finding.in_words(&"triad<-1%".parse().unwrap()).unwrap();
    assert_eq!(words, "triad<-1% would be met, but within noise: triad -1.5 %");
    assert!(!check("slower", &noise).fails());
    // Times that got longer are a loss of speed.
    let time = |t: f64| measurement("latency", "s", &[t; 20], json!({}));
    let longer = pair(time(1e-6), time(1.2e-6));
    assert!(check("latency>10%", &longer).fails() && check("any<-10%", &longer).fails());
    let other = pair(
        measurement("triad", "B/s", &[1e9; 8], json!({"element": "f64"})),
        measurement("triad", "B/s", &[1e9; 8], json!({"element": "f32"})),
    );
    assert!(check("triad<-5%", &other).fails(), "what cannot be compared does not pass");
}

#[test]
fn the_csv_is_a_line_a_pair() {
    let sides = [("A1", 1e9), ("B1", 2e9)]
        .map(|(id, rate)| side(vec![record(id, vec![triad(&[rate; 8])])]));
    let csv = compare(&sides[0], &sides[1]).to_csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[1].starts_with("memory,stream,triad,,B/s,best,1000000000,2000000000,2,1."),
        "{csv}"
    );
    assert!(lines[1].contains(",faster,8,8,1,1,"), "{csv}");
}
