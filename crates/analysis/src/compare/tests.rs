use super::*;
use nodegauge_measure::record::{
    Category, Finding, Machine, Measurement, QuotedStatistic, RegimeSamples, Severity, Status, Tool,
};
use nodegauge_measure::stats::{BetterDirection, Summary};
use nodegauge_measure::{Fraction, Seconds};
use serde_json::json;

mod noise;

nodegauge_measure::config! {
    /// Configuration keys of the measurements in these tests.
    pub struct Keys {
        /// Type of the elements.
        element: String = Identity "elements";
        /// Bytes of an array.
        array_bytes: u64 = Identity "arrays", omits_label;
        /// Size of a message.
        message_bytes: u64 = Size "messages", omits_label;
        /// Size of a file.
        file_bytes: u64 = Size "files", omits_label;
        /// Size of a block.
        block_bytes: u64 = Size "blocks", omits_label;
        /// Kernel of the curve.
        kernel: String = Identity "kernel", omits_label;
        /// Distance between the CPUs of a pair.
        distance: String = Identity "pairs", omits_label;
        /// Order of the matrix.
        n: u64 = Identity "order";
        /// Number of threads.
        threads: u64 = Setting "threads";
        /// Program that measured.
        engine: String = Setting "engine", omits_label;
        /// Kind of store.
        stores: String = Choice "stores";
        /// MPI library.
        mpi: Value = Setting "MPI", omits_label;
        /// Compiler of the loops.
        compiler: Value = Setting "compiler", omits_label;
        /// Repetitions of a loop's body.
        unroll: u64 = Choice "unroll";
        /// Kind of pages.
        pages: Value = Setting "pages";
        /// CPUs of each thread.
        places: Value = Setting "places";
        /// Number of passes.
        passes: u64 = Observation "passes";
        /// Core-to-core round trip, seconds.
        round_trip_s: f64 = Observation "round trip";
    }
}

fn registry() -> Registry {
    let kinds =
        [("memory", &["stream", "explain"][..]), ("messages", &["mpi"]), ("files", &["io"])];
    Registry::new(kinds.map(|(gauge, tests)| {
        nodegauge_measure::keys::ConfigKind::from_config::<Keys>(gauge, tests)
    }))
}

/// Compares A and B with the keys of these tests.
fn compare(a: &Side, b: &Side) -> Comparison {
    super::compare(a, b, ComparisonDesign::default(), &registry())
}

/// Returns a record of one host with these measurements.
fn record(id: &str, measurements: Vec<Measurement>) -> Record {
    Record {
        schema: SCHEMA.to_owned(),
        id: id.to_owned(),
        started: "2026-11-21T08:46:26Z".to_owned(),
        seconds: Seconds(2.0),
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
        ledger: None,
        measurements,
    }
}

fn measurement(name: &str, unit: &str, samples: &[f64], config: Value) -> Measurement {
    let Value::Object(config) = config else { panic!("a configuration is an object") };
    let unit = Unit::from_symbol(unit).unwrap();
    let measured = Measurement::new("memory", "stream", name, unit);
    Measurement { config, ..measured.with_samples(QuotedStatistic::Best, samples.to_vec()) }
}

fn triad(samples: &[f64]) -> Measurement {
    measurement("triad", "B/s", samples, json!({"threads": 2, "element": "f64"}))
}

fn side(runs: Vec<Record>) -> Side {
    Side { asked: "latest".to_owned(), runs, others: Vec::new() }
}

/// Returns saved runs with the measurement `m`, whose values have a standard deviation of 1 %.
fn known(m: &Measurement, id: &str) -> Vec<Record> {
    let run = |(i, factor): (usize, &f64)| {
        let value = m.value.map(|value| value * factor);
        record(&format!("{id}{i}"), vec![Measurement { value, ..m.clone() }])
    };
    [0.99, 1.0, 1.01, 0.99, 1.01].repeat(2).iter().enumerate().map(run).collect()
}

/// Returns A and B with one run each, and with saved runs of the same settings.
fn sides(a: Measurement, b: Measurement) -> [Side; 2] {
    [("A", a), ("B", b)].map(|(id, m)| Side {
        others: known(&m, &format!("{id}-other")),
        ..side(vec![record(id, vec![m])])
    })
}

/// Returns the reasons of a pair as texts.
fn texts(pair: &Pair) -> Vec<String> {
    pair.reasons.iter().map(ToString::to_string).collect()
}

fn one(a: Measurement, b: Measurement) -> Pair {
    let [a, b] = sides(a, b);
    let mut pairs = compare(&a, &b).pairs;
    assert_eq!(pairs.len(), 1);
    pairs.remove(0)
}

#[test]
fn published_figures_have_a_ratio_and_no_verdict() {
    let [nps1, nps4] = [715_650.4e6, 753_699.8e6].map(|rate| triad(&[rate]));
    let [a, b] = [nps1, nps4].map(|m| side(vec![record(m.in_words().as_str(), vec![m])]));
    let pair = &compare(&a, &b).pairs[0];
    assert!((pair.ratio.unwrap() - 1.0532).abs() < 1e-4);
    assert_eq!((pair.verdict, pair.ci95, pair.statistic), (Verdict::CannotTell, None, "best"));
}

#[test]
fn shorter_time_is_faster() {
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
fn figures_of_different_identity_are_not_compared() {
    let of = |config: Value| measurement("triad", "B/s", &[1e9; 8], config);
    // The commands of A and B differ, so different values of an identity key prevent a comparison.
    let reasons = |a: Value, b: Value| {
        let [a, mut b] = sides(of(a), of(b));
        b.runs[0].command.push("--other".to_owned());
        let pair = compare(&a, &b).pairs.remove(0);
        assert_eq!((pair.verdict, pair.ratio, pair.ci95), (Verdict::NotComparable, None, None));
        texts(&pair)
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
    assert_eq!(texts(&one(triad(&[1e9; 8]), standard)), ["category: variant against standard"]);
    let mut invalid = triad(&[1e9; 8]);
    invalid.validity.add(Status::Invalid, "a[0] is 1, not 2");
    invalid.value = None;
    assert_eq!(texts(&one(invalid, triad(&[1e9; 8]))), ["A has no valid figure: a[0] is 1, not 2"]);
}

/// Returns a measurement in one regime, optionally with samples of another regime.
fn in_regime(trip: f64, rate: f64, other: Option<(f64, f64)>) -> Measurement {
    let mut m = triad(&[rate; 12]);
    m.config.insert("round_trip_s".to_owned(), json!(trip));
    let regime = |(regime_trip, regime_rate): (f64, f64)| RegimeSamples {
        round_trip_s: regime_trip,
        share: Fraction(0.5),
        summary: Summary::from_samples(&[regime_rate; 12], BetterDirection::Higher).unwrap(),
        samples: vec![regime_rate; 12],
    };
    if let Some(other) = other {
        m.regimes = vec![regime((trip, rate)), regime(other)];
    }
    m
}

#[test]
fn figures_in_different_regimes_are_never_compared() {
    let pair = one(in_regime(115e-9, 48e9, None), in_regime(390e-9, 82e9, None));
    assert_eq!(pair.verdict, Verdict::NotComparable);
    assert!(pair.reasons[0].text.starts_with("A and B ran in different regimes"), "{pair:?}");
    // B also has samples in the regime of A, so that A and B are compared in that regime.
    let pair_moved =
        one(in_regime(115e-9, 48e9, None), in_regime(390e-9, 82e9, Some((114e-9, 48.5e9))));
    assert_eq!((pair_moved.verdict, pair_moved.b.value), (Verdict::WithinNoise, Some(48.5e9)));
    assert!(
        pair_moved.reasons[0].text.contains("12 samples of other regimes are left out"),
        "{pair_moved:?}"
    );
    // If A and B have samples in two regimes, the regime with more samples is compared; in case of a tie, the one with
    // the shorter round trip.
    let both = || in_regime(115e-9, 48e9, Some((390e-9, 82e9)));
    let mut longer = both();
    longer.regimes[1].samples.push(82e9);
    for (m, value) in [(both(), 48e9), (longer, 82e9)] {
        let tied = one(m.clone(), m);
        assert_eq!((tied.a.value, tied.b.value), (Some(value), Some(value)));
    }
    // On bare metal, round trips depend on the setting and do not identify regimes.
    let mut bare = sides(in_regime(115e-9, 48e9, None), in_regime(390e-9, 82e9, None));
    for side in &mut bare {
        side.runs
            .iter_mut()
            .chain(&mut side.others)
            .for_each(|run| run.machine.virtualisation = None);
    }
    assert_eq!(compare(&bare[0], &bare[1]).pairs[0].verdict, Verdict::Faster);
}

#[test]
fn measurements_are_paired_by_identity() {
    let message = |bytes: u64, rate: f64| {
        measurement("bw", "B/s", &[rate; 8], json!({"message_bytes": bytes, "threads": 1}))
    };
    let a = side(vec![record("A", vec![message(8, 1e6), message(4096, 5e9)])]);
    let b = side(vec![record("B", vec![message(4096, 5.5e9), message(65536, 9e9)])]);
    let comparison = compare(&a, &b);
    let titles: Vec<String> = comparison.pairs.iter().map(Pair::title).collect();
    assert_eq!(titles, ["bw 4 KiB"]);
    assert_eq!(comparison.only_a[0].title, "bw 8 B");
    assert_eq!(comparison.only_b[0].title, "bw 64 KiB");
    // A measurement that is missing in B fails every condition that contains its name. A measurement that is missing in
    // A fails no condition.
    let check = |text: &str| text.parse::<Threshold>().unwrap().check(&comparison);
    let missing = || threshold::ThresholdResult::Met(vec!["bw 8 B is missing in B".to_owned()]);
    assert_eq!((check("bw<-5%@8B"), check("slower")), (missing(), missing()));
    assert!(!check("bw<-5%@4KiB").fails() && check("bw<-5%@1KiB").fails());
    // A sweep over thread counts is compared with a run with one of these counts.
    let of_threads =
        |n: u64| measurement("triad", "B/s", &[n as f64 * 1e9; 8], json!({"threads": n}));
    let sweep = side(vec![record("S", [1, 2, 4].map(of_threads).to_vec())]);
    let single = side(vec![record("O", vec![of_threads(2)])]);
    let with_single = compare(&sweep, &single);
    assert_eq!(with_single.pairs[0].title(), "triad, threads 2");
    assert_eq!((with_single.pairs.len(), with_single.only_a.len()), (1, 2));
    // Different thread counts are a difference of settings and do not prevent a comparison.
    let same_threads = compare(&single, &side(vec![record("T", vec![of_threads(4)])]));
    assert_eq!(same_threads.pairs[0].ratio, Some(2.0));
    assert!(same_threads.differences.iter().any(|d| d.what == "threads" && d.sides == ["2", "4"]));
    // Figures with equal keys are numbered.
    let twice = side(vec![record("D", vec![triad(&[1e9; 8]), triad(&[2e9; 8])])]);
    let titles_of_twice: Vec<String> =
        compare(&twice, &twice).pairs.iter().map(Pair::title).collect();
    assert_eq!(titles_of_twice, ["triad", "triad, number 2"]);
}

#[test]
fn chosen_settings_do_not_affect_pairing() {
    let of = |config: Value| measurement("triad", "B/s", &[1e9; 8], config);
    // The runs have figures of nodegauge's loops and of the loops of two compilers. The second run chose different
    // loops of nodegauge.
    let run = |stores: &str, unroll: u64| {
        let compiled = |command: &str| {
            of(json!({"engine": "compiled", "compiler": {"command": command}, "stores": "regular"}))
        };
        let native = of(json!({"engine": "native", "stores": stores, "unroll": unroll}));
        vec![native, compiled("gcc"), compiled("clang -O3")]
    };
    let [a, b] = [("A", "nontemporal", 4), ("B", "regular", 8)]
        .map(|(id, stores, unroll)| side(vec![record(id, run(stores, unroll))]));
    let comparison = compare(&a, &b);
    let titles: Vec<String> = comparison.pairs.iter().map(Pair::title).collect();
    assert_eq!(titles, ["triad native", "triad compiled gcc", "triad compiled clang -O3"]);
    assert!(
        comparison.differences.iter().any(|d| d.what == "unroll (triad native)"),
        "{:?}",
        comparison.differences
    );
    // Figures of a sweep are distinguished by the key of a choice if no other key distinguishes them.
    let sweep = ["regular", "nontemporal"]
        .map(|stores| of(json!({"stores": stores, "engine": "native", "threads": 2})));
    let sweep = side(vec![record("S", sweep.to_vec())]);
    assert_eq!(compare(&sweep, &sweep).pairs[1].title(), "triad, stores nontemporal");
    // Two MPIs are distinguished by library and version.
    let mpi =
        |version: &str| of(json!({"mpi": {"library": "MPICH", "version": version, "mpicc": "cc"}}));
    let two = side(vec![record("M", vec![mpi("4.0"), mpi("4.1")])]);
    assert_eq!(compare(&two, &two).pairs[1].title(), "triad MPICH 4.1");
    // Figures with different identities are comparable if the commands are equal, and not comparable otherwise.
    let arrays = |bytes: u64| of(json!({"array_bytes": bytes}));
    let mut other = side(vec![record("O", vec![arrays(2000)])]);
    let one = side(vec![record("N", vec![arrays(1000)])]);
    let of_notices = compare(&one, &other);
    assert_eq!(of_notices.pairs[0].ratio, Some(1.0));
    assert_eq!(of_notices.differences[0].what, "array bytes");
    other.runs[0].command.push("--size=2000B".to_owned());
    assert_eq!(compare(&one, &other).pairs[0].verdict, Verdict::NotComparable);
}

#[test]
fn comparison_uses_the_reported_statistic() {
    let of = |quoted, samples: &[f64]| {
        let m = triad(&[]);
        Measurement { config: m.config.clone(), ..m.with_samples(quoted, samples.to_vec()) }
    };
    for quoted in [
        QuotedStatistic::Best,
        QuotedStatistic::Mean,
        QuotedStatistic::HarmonicMean,
        QuotedStatistic::Median,
        QuotedStatistic::Single,
    ] {
        let (a, b) = (of(quoted, &[1e9, 2e9, 4e9]), of(quoted, &[3e9, 2e9, 9e9, 5e9]));
        let expected = b.value.unwrap() / a.value.unwrap();
        let pair = one(a, b);
        assert!((pair.ratio.unwrap() / expected - 1.0).abs() < 1e-12, "{quoted:?}");
        assert_eq!(pair.statistic, quoted.name());
    }
}

#[test]
fn differences_are_listed_without_observations() {
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
    config.insert("numa".to_owned(), json!({"asked": "local", "got": {"0": 0.52, "1": 0.48}}));
    let config_of_a = &mut a.measurements[0].config;
    config_of_a.insert("pages".to_owned(), json!({"asked": "thp", "got": {"2097152": 0.98}}));
    config_of_a.insert("numa".to_owned(), json!({"asked": "local", "got": {"0": 0.99, "1": 0.01}}));
    let reported: Vec<String> = compare(&side(vec![a]), &side(vec![b]))
        .differences
        .iter()
        .map(|d| format!("{}: {}", d.what, d.sides.join(" | ")))
        .collect();
    // The unknown governor of A is not a difference.
    assert_eq!(
        reported,
        [
            "label nps: 1 | 4",
            "kernel: Linux 6.1 | Linux 6.12",
            "pages: thp, 100 % huge | thp, 40 % huge",
            "numa: local, 100 % on NUMA node 0 | local, 50 % on NUMA node 0, 50 % on NUMA node 1"
        ]
    );
}

#[test]
fn findings_are_listed_with_the_number_of_runs() {
    let finding = Finding {
        id: "thp-never".to_owned(),
        severity: Severity::Warning,
        text: "transparent huge pages are off".to_owned(),
        remedy: "switch them on".to_owned(),
        cost: None,
    };
    let of = |found: &[usize]| {
        let run = |n: &usize| Record {
            findings: vec![finding.clone(); *n],
            ..record(&format!("{found:?} {n}"), vec![triad(&[1e9; 8])])
        };
        side(found.iter().map(run).collect())
    };
    let listed = |a: &[usize], b: &[usize]| {
        let differences = compare(&of(a), &of(b)).differences;
        differences.into_iter().map(|d| (d.what, d.sides)).collect::<Vec<_>>()
    };
    let expected = |sides: [&str; 2]| {
        vec![("finding: thp never".to_owned(), sides.map(str::to_owned).to_vec())]
    };
    assert_eq!(listed(&[0, 1], &[0]), expected(["1 of 2 runs", "no"]));
    assert_eq!(listed(&[1, 1], &[0, 0]), expected(["yes", "no"]));
    assert!(listed(&[1, 1], &[1]).is_empty());
}

#[test]
fn irrelevant_options_do_not_change_the_command() {
    let asked = |command: &str| {
        let words = command.split(' ').map(str::to_owned).collect();
        let run = Record { command: words, ..record("A", Vec::new()) };
        settings::relevant_command(&run).unwrap().join(" ")
    };
    assert_eq!(asked("stream triad --threads 2"), "stream triad --threads 2");
    for aside in ["--label a=b", "--label=a=b", "--json -", "-q", "--no-save", "--csv"] {
        assert_eq!(asked(&format!("stream {aside} --threads 2")), "stream --threads 2", "{aside}");
    }
    for aside in ["--json=file", "--accept-suspect", "-v"] {
        assert_eq!(asked(&format!("stream {aside} triad")), "stream triad", "{aside}");
    }
    assert_eq!(asked("stream --labels a"), "stream --labels a");
}

#[test]
fn driver_differences_are_listed_for_accelerators_only() {
    let with = |kind: &str, driver_version: &str| {
        let device = json!({
            "kind": kind, "address": "0000:1b:00.0", "identification": "10de:2335",
            "name": "H200", "driver": "nvidia", "driver_version": driver_version,
        });
        let mut run = record(driver_version, vec![triad(&[1e9; 8])]);
        run.machine.devices = vec![serde_json::from_value(device).unwrap()];
        side(vec![run])
    };
    let differences = |kind: &str| {
        let found = compare(&with(kind, "550.54"), &with(kind, "570.86")).differences;
        found
            .into_iter()
            .map(|d| format!("{}: {}", d.what, d.sides.join(" | ")))
            .collect::<Vec<_>>()
    };
    assert_eq!(differences("gpu"), ["driver of devices: nvidia 550.54 | nvidia 570.86"]);
    assert!(differences("network").is_empty());
}

#[test]
fn published_figures_in_records_are_not_compared() {
    let published = Measurement {
        category: Category::Reference,
        config: json!({"engine": "published"}).as_object().unwrap().clone(),
        ..triad(&[])
    };
    let a = side(vec![record("A", vec![triad(&[1e9; 8]), published])]);
    let comparison = compare(&a, &a);
    assert_eq!((comparison.pairs.len(), comparison.only_a.len()), (1, 0));
    assert_eq!(comparison.notices, ["A and B are the same runs"]);
}

#[test]
fn invalid_threshold_is_reported_with_its_column() {
    for text in ["slower", "triad<-5%", "mpi.latency>10%@8B", "any<=-2.5%", "n0->n1>=0%"] {
        assert_eq!(text.parse::<Threshold>().unwrap().to_string(), text);
    }
    assert_eq!("triad < +5 %".parse::<Threshold>().unwrap().to_string(), "triad<5%");
    let wrong = |text: &str| text.parse::<Threshold>().unwrap_err().to_string();
    assert!(wrong("triad<5").contains("expected % after the number, but the text ends here"));
    assert!(wrong("triad<-x%").contains("expected a change in percent, such as -5%"));
    assert!(wrong("faster").contains("expected >=, <=, > or <"));
    assert!(wrong("triad=5%").contains("expected >=, <=, > or <"));
    assert!(wrong("").contains("expected the name of a figure"));
}

#[test]
fn thresholds_fail_beyond_the_bound_but_not_within_noise() {
    let pair = |a: Measurement, b: Measurement| {
        let [a, b] = sides(a, b);
        compare(&a, &b)
    };
    let check =
        |text: &str, comparison: &Comparison| text.parse::<Threshold>().unwrap().check(comparison);
    let slower = pair(triad(&[1e9; 20]), triad(&[0.9e9; 20]));
    assert_eq!(
        check("triad<-5%", &slower),
        threshold::ThresholdResult::Met(vec!["triad -10.0 %".to_owned()])
    );
    assert_eq!(check("triad<-15%", &slower), threshold::ThresholdResult::Passed);
    assert!(check("slower", &slower).fails() && check("any<-5%", &slower).fails());
    assert!(check("stream.triad<-5%", &slower).fails());
    assert!(check("copy<-5%", &slower).fails(), "a condition on nothing must not pass");
    assert!(check("hpl.triad<-5%", &slower).fails());
    let noise = pair(triad(&[1e9; 20]), triad(&[0.985e9; 20]));
    let finding = check("triad<-1%", &noise);
    assert!(!finding.fails());
    let words = finding.in_words(&"triad<-1%".parse().unwrap()).unwrap();
    assert_eq!(words, "triad<-1% is met, but only within noise: triad -1.5 %");
    assert!(!check("slower", &noise).fails());
    // A longer time is a loss of speed.
    let time = |t: f64| measurement("latency", "s", &[t; 20], json!({}));
    let longer = pair(time(1e-6), time(1.2e-6));
    assert!(check("latency>10%", &longer).fails() && check("any<-10%", &longer).fails());
    let standard = Measurement { category: Category::Standard, ..triad(&[1e9; 8]) };
    assert!(
        check("triad<-5%", &pair(triad(&[1e9; 8]), standard)).fails(),
        "what cannot be compared does not pass"
    );
    // If the noise is unknown, a bound is compared with the figures, and conditions on verdicts are undecided.
    let [a, b] =
        [1e9, 0.9e9].map(|rate| side(vec![record(&rate.to_string(), vec![triad(&[rate])])]));
    let undecided = compare(&a, &b);
    assert!(check("triad<-5%", &undecided).fails() && !check("triad<-15%", &undecided).fails());
    assert_eq!(
        check("slower", &undecided),
        threshold::ThresholdResult::Undecided(vec!["triad".to_owned()])
    );
}

#[test]
fn csv_has_one_line_per_pair() {
    let [a, b] = sides(triad(&[1e9; 8]), triad(&[2e9; 8]));
    let csv = compare(&a, &b).to_csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[1].starts_with("memory,stream,triad,,B/s,best,1000000000,2000000000,2,1."),
        "{csv}"
    );
    assert!(lines[1].contains(",faster,8,8,1,1,"), "{csv}");
}

#[test]
fn disjoint_ranges_are_reported_only_without_a_verdict() {
    let remarked =
        |pair: &Pair| texts(pair).iter().any(|text| text.starts_with("the ranges within"));
    let alone = |id: &str, m: Measurement| side(vec![record(id, vec![m])]);
    let compared =
        |a: Measurement, b: Measurement| compare(&alone("A", a), &alone("B", b)).pairs.remove(0);
    let apart = compared(triad(&[1e9, 1.1e9, 1.2e9]), triad(&[1.3e9, 1.4e9, 1.5e9]));
    assert_eq!((apart.verdict, remarked(&apart)), (Verdict::CannotTell, true));
    assert!(!remarked(&compared(triad(&[1e9, 1.1e9, 1.2e9]), triad(&[1.2e9, 1.4e9, 1.5e9]))));
    // The remark is left out if there is a verdict, because the verdict already contains it.
    let decided = one(triad(&[1e9; 8]), triad(&[2e9; 8]));
    assert_eq!((decided.verdict, remarked(&decided)), (Verdict::Faster, false));
    // The range of an imported figure follows from the times that stream.c printed: 0.67 to 1 GB/s and 0.8 GB/s.
    let printed = |rate: f64, greatest: f64| {
        let times = json!({"average": 1.0, "least": 1.0, "greatest": greatest});
        let m = measurement("triad", "B/s", &[], json!({"times_s": times}));
        Measurement { value: Some(rate), ..m }
    };
    assert!(!remarked(&compared(printed(1e9, 1.5), printed(0.8e9, 1.0))));
    assert!(remarked(&compared(printed(1e9, 1.1), printed(0.8e9, 1.0))));
}

#[test]
fn zero_is_an_invalid_figure() {
    let zero = Measurement { value: Some(0.0), ..triad(&[]) };
    assert_eq!(texts(&one(zero, triad(&[1e9; 8]))), ["A has no figure"]);
}

#[test]
fn threshold_scope_is_a_gauge_or_a_test() {
    let [a, b] = sides(triad(&[1e9; 8]), triad(&[0.5e9; 8]));
    let comparison = compare(&a, &b);
    let is_met = |text: &str| {
        let threshold: Threshold = text.parse().unwrap();
        let found = threshold.check(&comparison);
        matches!(found, threshold::ThresholdResult::Met(of) if of == ["triad -50.0 %"])
    };
    assert!(is_met("stream.triad<-5%") && is_met("memory.triad<-5%"));
    assert!(!is_met("explain.triad<-5%"));
}
