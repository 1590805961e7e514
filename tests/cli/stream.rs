//! Tests of `nodegauge stream`: the record, and the effect of options.

use crate::harness::{
    ELEMENTS, FAST, GENOA, Harness, Part, ROME, T2K, has_keys, measurements, names, skip, texts,
};
use crate::machine::check_machine;
use nodegauge_kernels::KERNELS;
use serde_json::{Value, json};

/// Checks that the values of a STREAM measurement are consistent.
#[track_caller]
pub fn check_measurement(m: &Value) {
    assert_eq!((&m["gauge"], &m["test"]), (&json!("memory"), &json!("stream")));
    assert_eq!((&m["unit"], &m["category"]), (&json!("B/s"), &json!("variant")));
    let summary = &m["summary"];
    let figure = |name: &str| summary[name].as_f64().unwrap();
    assert!(figure("p05") <= figure("median") && figure("median") <= figure("p95"), "{summary}");
    assert!(figure("p95") <= figure("best"), "{summary}");
    let samples = m["samples"].as_array().unwrap();
    assert_eq!(summary["n"], samples.len());
    let at: Vec<f64> =
        m["samples_at_s"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(at.len() == samples.len() && at.is_sorted(), "{at:?}");
    // Disturbed passes count for the best rate.
    let disturbed = m["disturbed"].as_array().unwrap().iter();
    let counts = disturbed.filter(|one| one["counts"] != "nothing").map(|one| &one["value"]);
    let best = samples.iter().chain(counts).map(|x| x.as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!(figure("best"), best);
    let config = &m["config"];
    has_keys(config, &["threads", "places", "bind", "pages", "element", "array_bytes", "engine"]);
    assert_eq!(config["engine"], "native");
    assert_eq!(
        config["places"].as_array().unwrap().len(),
        config["threads"].as_u64().unwrap() as usize
    );
    let got = config["pages"]["got"].as_object().unwrap();
    let whole: f64 = got.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((whole - 1.0).abs() < 1e-6, "{config:#}");
    assert!(got.keys().all(|size| size.parse::<u64>().unwrap().is_power_of_two()));
    let status = m["validity"]["status"].as_str().unwrap();
    assert!(["valid", "suspect", "invalid"].contains(&status));
    assert_eq!(texts(&m["validity"]["reasons"]).is_empty(), status == "valid");
    if !m["limit"].is_null() {
        let fraction = m["limit"]["fraction"].as_f64().unwrap();
        let quotient = figure("best") / m["limit"]["value"].as_f64().unwrap();
        assert!((fraction / quotient - 1.0).abs() < 1e-9);
    }
}

#[test]
fn stream_record_is_complete() {
    let harness = Harness::new();
    let outcome = harness.stream(&["--json", "-", "--label", "nps=4"]).exits(0).warns_nothing();
    let record = outcome.json();
    assert_eq!(record["schema"], "nodegauge/1");
    assert_eq!(record["complete"], true);
    assert_eq!(record["id"].as_str().unwrap().len(), 26);
    let started = record["started"].as_str().unwrap();
    assert!(started.ends_with('Z') && started.as_bytes()[10] == b'T', "{started}");
    assert!(record["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(record["tool"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(record["labels"], json!({"nps": "4"}));
    let command = texts(&record["command"]);
    assert_eq!((command[0], *command.last().unwrap()), ("stream", "nps=4"));
    check_machine(&record["machine"]);
    assert_eq!(names(&record), ["copy", "scale", "add", "triad"]);
    for m in measurements(&record) {
        check_measurement(m);
        assert_eq!(m["value"], m["summary"]["best"]);
        // Disturbed passes count only for the best rate, so the number of samples varies.
        assert!((1..=3).contains(&m["summary"]["n"].as_u64().unwrap()), "{m:#}");
        assert_eq!(m["config"]["array_bytes"], 8 * ELEMENTS);
        assert_eq!(m["config"]["element"], "f64");
        assert_eq!(m["limit"]["basis"], "option");
        assert_eq!(m["limit"]["value"], 1024.0 * 20e9 * 8.0);
    }
}

#[test]
fn every_kernel_in_both_precisions_passes_its_check() {
    let passes = KERNELS.iter().filter(|spec| spec.has_pass_loops());
    let all: Vec<&str> = passes.map(|spec| spec.name).collect();
    let harness = Harness::new();
    for (element, bytes) in [("f64", 8), ("f32", 4)] {
        let record = harness.stream_record(&[
            "--no-save",
            "--element",
            element,
            "--kernels",
            &all.join(","),
        ]);
        assert_eq!(names(&record), all);
        for m in measurements(&record) {
            check_measurement(m);
            assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
            assert_eq!(m["config"]["element"], element);
            assert_eq!(m["config"]["array_bytes"], bytes * ELEMENTS);
        }
    }
}

#[test]
fn kernels_run_once_in_the_order_of_stream() {
    let record = Harness::new().stream_record(&["--no-save", "--kernels", "triad,copy,triad"]);
    assert_eq!(names(&record), ["copy", "triad"]);
}

#[test]
fn vector_triad_uses_four_arrays() {
    let harness = Harness::new();
    let record = harness.stream_record(&["--kernels", "vector_triad"]);
    assert_eq!(names(&record), ["vector_triad"]);
    let m = &measurements(&record)[0];
    check_measurement(m);
    // The arrays are small, so the figure is suspect, but not invalid.
    let reasons = texts(&m["validity"]["reasons"]);
    assert!(m["validity"]["status"] != "invalid" && !reasons.is_empty(), "{m:#}");
    assert_eq!((&m["config"]["arrays"], &m["config"]["checks"]), (&json!(4), &json!(1)));
    assert_eq!(m["config"]["array_bytes"], 8 * ELEMENTS);
    harness.run(&["history", "show", "-v", "latest"]).exits(0).prints_words("4 arrays of 7.6 MiB");
    let axis = ["--no-save", "--kernels", "vector_triad", "--sweep", "stores=regular"];
    assert_eq!(names(&harness.stream_record(&axis)), ["vector_triad"]);
}

#[test]
fn pass_has_a_fourth_array_only_if_a_kernel_uses_it() {
    let harness = Harness::new();
    let kernels = ["copy", "scale", "add", "triad", "vector_triad"];
    let all = harness.stream_record(&["--no-save", "--kernels", &kernels.join(",")]);
    assert_eq!(names(&all), kernels);
    for m in measurements(&all) {
        check_measurement(m);
        assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
        assert_eq!(m["config"]["arrays"], 4);
    }
    let four = harness.stream_record(&["--no-save"]);
    assert!(measurements(&four).iter().all(|m| m["config"]["arrays"].is_null()), "{four:#}");
    let expected_cost = |names: &str| {
        let args = ["stream", "--no-save", "--size", "100TiB", "--kernels", names];
        harness.run(&args).exits(3).stderr
    };
    assert!(expected_cost("triad").contains("3 arrays of 100 TiB need 300 TiB"));
    assert!(expected_cost("vector_triad").contains("4 arrays of 100 TiB need 400 TiB"));
}

#[test]
fn ranks_have_a_fourth_array_for_the_vector_triad() {
    let args = ["--no-save", "--ranks", "2", "--threads", "1", "--kernels", "triad,vector_triad"];
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let record = harness.stream_record(&args);
    assert_eq!(names(&record), ["triad", "vector_triad"]);
    for m in measurements(&record) {
        assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
        assert_eq!((&m["config"]["arrays"], &m["config"]["processes"]), (&json!(4), &json!(2)));
    }
}

#[test]
fn requested_stores_are_recorded() {
    let harness = Harness::new();
    for stores in ["regular", "nontemporal"] {
        let outcome = harness.stream(&["--json", "-", "--no-save", "--stores", stores]);
        if outcome.code == Some(3) && stores == "nontemporal" {
            outcome.warns("this processor has no nontemporal stores that nodegauge supports");
            return skip(Part::Processor, "this processor has no non-temporal stores");
        }
        for m in measurements(&outcome.exits(0).json()) {
            assert_eq!(m["config"]["stores"], stores);
        }
    }
}

#[test]
fn arrays_in_a_cache_have_no_computed_traffic() {
    let record = Harness::new().stream_record(&["--no-save", "--stores", "regular"]);
    for m in measurements(&record) {
        let counted = m["config"]["counters"]["factor"].is_number();
        assert_eq!(m["traffic"].is_null(), !counted, "{m:#}");
        assert!(m["config"]["traffic_computed"].is_null(), "{m:#}");
    }
}

#[test]
fn record_contains_the_openblas_variable_and_the_warm_up() {
    let record = Harness::new()
        .run_with(
            &[("OPENBLAS_NUM_THREADS", "3")],
            &[
                "stream",
                "--samples",
                "1",
                "--size",
                "1000000elements",
                "--budget",
                "0.3",
                "--json",
                "-",
            ],
        )
        .exits(0)
        .json();
    let known = &record["machine"]["circumstances"];
    assert_eq!(known["environment"]["OPENBLAS_NUM_THREADS"], "3");
    for m in measurements(&record) {
        assert_eq!(m["disturbed"][0]["reason"], "warm-up");
    }
}

#[test]
fn record_contains_the_pages_that_the_kernel_reports() {
    let harness = Harness::new();
    let record = harness.stream_record(&["--no-save", "--pages", "4k"]);
    let base = record["machine"]["pages"]["base"].as_u64().unwrap().to_string();
    for m in measurements(&record) {
        assert_eq!(m["config"]["pages"], json!({"asked": "4k", "got": {base.as_str(): 1.0}}));
    }
    if record["machine"]["pages"]["thp"].is_null() {
        return skip(Part::Pages, "this kernel has no transparent huge pages");
    }
    let thp_record = harness.stream_record(&["--no-save", "--pages", "thp"]);
    for m in measurements(&thp_record) {
        assert_eq!(m["config"]["pages"]["asked"], "thp");
        let huge = m["config"]["pages"]["got"]["2097152"].as_f64().unwrap_or(0.0);
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(huge >= 0.9 || reasons.contains("but huge pages contain only"), "{m:#}");
    }
}

#[test]
fn missing_reserved_pages_are_reported_with_a_hint() {
    let harness = Harness::new();
    let record = harness.run(&["machine", "--json"]).exits(0).json();
    let free = |bytes: u64| {
        let sizes = record["machine"]["pages"]["huge"].as_array().unwrap();
        sizes.iter().find(|size| size["bytes"] == bytes).map_or(0, |s| s["free"].as_u64().unwrap())
    };
    for (pages, bytes, wanted, needed, name) in
        [("1g", 1_u64 << 30, "1 GiB", 1, "1 GiB"), ("2m", 2 << 20, "24 MiB", 12, "2 MiB")]
    {
        if free(bytes) > 0 {
            skip(Part::Pages, &format!("{name} pages are reserved here"));
            continue;
        }
        let outcome = harness.stream(&["--pages", pages]).exits(3).prints_nothing();
        let kib = bytes >> 10;
        let message = format!("error: cannot put {wanted} on {pages} pages: ");
        outcome.warns(&message).warns(&format!("reserved pages of {name}: 0 of ")).warns(&format!(
            "hint: as root, echo {needed} > /sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages; or use --pages thp\n"
        ));
    }
}

#[test]
fn disabled_transparent_huge_pages_leave_base_pages() {
    let harness = Harness::new();
    let off = harness.write("enabled", "always madvise [never]\n");
    let shown = [(off.as_str(), "/sys/kernel/mm/transparent_hugepage/enabled")];
    let args = ["stream", "--samples", "1", "--size", "1000000elements", "--dimms", "1024x20000"];
    let args = [&args[..], &["--no-save", "--json", "-"]].concat();
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    let record = outcome.exits(0).json();
    assert_eq!(names(&record).len(), 4);
    for m in measurements(&record) {
        assert_eq!(m["config"]["pages"]["asked"], "4k");
    }
}

#[test]
fn requested_prefetch_is_recorded() {
    let harness = Harness::new();
    let mut seen = Vec::new();
    for prefetch in ["off", "512", "4096,512"] {
        let record = harness.stream_record(&["--no-save", "--prefetch", prefetch]);
        let config = &measurements(&record)[3]["config"];
        assert!(!config["prefetch"].is_null(), "{config:#}");
        assert!(!seen.contains(&config["prefetch"]), "{config:#}");
        seen.push(config["prefetch"].clone());
    }
    assert_eq!(seen[0], "off");
}

#[test]
fn side_by_side_option_is_applied_and_recorded() {
    let harness = Harness::new();
    let record = harness.stream_record(&["--side-by-side", "4"]);
    for m in measurements(&record) {
        let config = &m["config"];
        assert_eq!((&config["side_by_side"], &config["unroll"]), (&json!(4), &json!(1)));
        assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
    }
    harness.run(&["history", "show", "latest"]).exits(0).prints(" u1 p4");
    let one = harness.stream_record(&["--no-save", "--side-by-side", "1"]);
    assert!(measurements(&one)[0]["config"]["side_by_side"].is_null(), "{one:#}");
    let axis = "side-by-side=1,2";
    let swept = harness.stream_record(&["--no-save", "--kernels", "triad", "--sweep", axis]);
    let pages = measurements(&swept).iter().map(|m| m["config"]["sweep"]["side-by-side"].clone());
    assert_eq!(pages.collect::<Vec<_>>(), [json!("1"), json!("2")]);
}

#[test]
fn loops_are_chosen_by_trial() {
    // The budget is sufficient for a trial even on a busy machine.
    let args =
        ["stream", "--no-save", "--samples", "3", "--size", "1000000elements", "--budget", "30"];
    let args = [&args[..], &["--dimms", "1024x20000", "--json"]].concat();
    let record = Harness::new().run(&args).exits(0).json();
    let chosen = |notice: &&str| notice.starts_with("fastest of ");
    assert_eq!(texts(&record["notices"]).into_iter().filter(chosen).count(), 1, "{record:#}");
    assert!(measurements(&record)[0]["config"]["loops_tried"].as_u64().unwrap() > 1);
}

#[test]
fn offset_option_lays_arrays_out_in_sequence() {
    let record = Harness::new().stream_record(&["--no-save", "--offset", "8"]);
    assert_eq!(measurements(&record)[0]["config"]["layout"], json!({"sequential": {"offset": 8}}));
}

#[test]
fn size_option_accepts_bytes_and_elements() {
    let harness = Harness::new();
    for (size, bytes) in [
        ("8MB", 8_000_000_u64),
        ("8MiB", 8 << 20),
        ("8388608B", 8 << 20),
        ("1048576elements", 8 << 20),
    ] {
        let args = ["stream", "--no-save", "--samples", "1", "--budget", "0.2", "--json", "-"];
        let args =
            [&args[..], &["--dimms", "1024x20000", "--kernels", "copy", "--size", size]].concat();
        let record = harness.run(&args).exits(0).json();
        assert_eq!(measurements(&record)[0]["config"]["array_bytes"], bytes, "{size}");
    }
}

/// Machine with 2 x EPYC 7F52: one last-level cache per core.
const SMALL_ROME: &str =
    "synthetic:Package:2 NUMANode:1 L3Cache:16(size=16777216) L2Cache:1 L1dCache:1 Core:1 PU:1";

#[test]
fn arrays_of_a_described_machine_are_planned() {
    let harness = Harness::new();
    let plan = |machine: &str, more: &[&str]| {
        harness.run(&[&["stream", "--plan", "--topology", machine], more].concat())
    };
    let every_second = ["--threads", "96", "--places", "0:96:2", "--bind", "spread"];
    let line = "clang -O3 -mcmodel=large -fopenmp -fnt-store -DNTIMES=10";
    let genoa = ["--processor", "EPYC 9654", "--size", "430080000elements", "--compiler", line];
    plan(GENOA, &[&genoa[..], &every_second].concat())
        .exits(0)
        .prints_words("STREAM's rule 402653184 3 GiB 9 GiB")
        .prints_words("given 430080000 3.2 GiB 9.6 GiB")
        .prints_words("4 x 768 MiB in 24 last-level caches / 8 B per element, at least 1000000 elements")
        .prints_words("96 threads on CPUs 0-190:2")
        .prints_words("921.6 GB/s theoretical")
        .prints_words("10 passes x 80 B per element")
        .prints_words("as published for 2 x EPYC 9654")
        .prints("clang -O3 -mcmodel=large -fopenmp -fnt-store -DNTIMES=10 -DSTREAM_ARRAY_SIZE=430080000 -DOFFSET=0 -o stream stream.c")
        .prints("OMP_NUM_THREADS=96 OMP_PLACES='{0},{2},{4},");
    plan(ROME, &["--processor", "EPYC 7H12", "--size", "800000000elements"])
        .exits(0)
        .prints_words("STREAM's rule 268435456 2 GiB 6 GiB")
        .prints_words("given 800000000 6.0 GiB 17.9 GiB")
        .prints_words("409.6 GB/s theoretical")
        .prints("gcc -O3 -march=znver2 -fopenmp -DSTREAM_ARRAY_SIZE=800000000 -DNTIMES=20 -DOFFSET=0 -mcmodel=medium -o stream stream.c");
    let memory =
        ["--processor", "EPYC 7F52", "--memory", "377.81GB", "--size", "10000000000elements"];
    plan(SMALL_ROME, &memory)
        .exits(0)
        .prints_words("STREAM's rule 268435456 2 GiB 6 GiB 1.7 %")
        .prints_words("60 % of memory 9445250000 70.4 GiB 211.1 GiB 60 %")
        .prints_words("given 10000000000 74.5 GiB 223.5 GiB 63.5 %")
        .prints_words("as published for 2 x EPYC 7F52");
    // Expected time: 20 passes x 80 B x 10^10 / 200 GB/s.
    plan(SMALL_ROME, &[&memory[..], &["--rate", "200GB/s"]].concat())
        .exits(0)
        .prints_words("63.5 % 149.0 80.00 s")
        .prints_words("200.0 GB/s as given");
    let document = plan(SMALL_ROME, &[&memory[..], &["--json", "-"]].concat()).exits(0).json();
    let lengths = document["plan"]["lengths"].as_array().unwrap();
    let elements: Vec<_> = lengths.iter().map(|length| &length["array_elements"]).collect();
    assert_eq!(elements, [268_435_456, 9_445_250_000_u64, 10_000_000_000]);
    assert_eq!(document["plan"]["environment"]["OMP_NUM_THREADS"], "32");
    assert_eq!(document["threads"].as_array().unwrap().len(), 32);
    // Unknown values are reported.
    let phi = "synthetic:Package:1 NUMANode:1 L2Cache:61(size=524288) L1dCache:1 Core:1 PU:4";
    plan(phi, &["--size", "64000000elements"])
        .exits(0)
        .prints_words("STREAM's rule 15990784 122 MiB 366 MiB")
        .prints_words("unknown: give --rate, e.g. --rate 300GB/s, or --processor")
        .prints_words("memory unknown");
    plan(T2K, &["--memory", "32GB"])
        .exits(0)
        .prints_words("60 % of memory 800000000")
        .prints_words("rule unknown: no cache size is known");
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

#[test]
fn arrays_of_this_node_are_planned_without_a_measurement() {
    let harness = Harness::new();
    let plan =
        harness.run(&["stream", "--plan", "--threads", "1", "--size", "1000000elements"]).exits(0);
    plan.prints_words("given 1000000 ")
        .prints_words("1 thread on CPU")
        .prints("gcc -O3 -march=native -fopenmp -DSTREAM_ARRAY_SIZE=1000000 -DNTIMES=20 -DOFFSET=0 -o stream stream.c")
        .prints("OMP_NUM_THREADS=1 OMP_PLACES=");
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

#[test]
fn invalid_plan_options_are_refused_with_a_hint() {
    let harness = Harness::new();
    let cases: [(&[&str], &str, &str); 9] = [
        (&["--sweep", "threads=1,2"], "--plan cannot be used with --sweep", "leave out --sweep"),
        (&["--threads", "1,2"], "--plan plans one configuration, not a sweep", "--threads 4"),
        (&["--tune"], "--plan cannot be used with --tune", "leave out --tune"),
        (&["--ranks", "2"], "--plan cannot be used with --ranks", "places` plans ranks"),
        (&["--csv", "-"], "--plan cannot be used with --csv", "leave out --csv"),
        (&["--budget", "5"], "--plan cannot be used with --budget", "a plan measures nothing"),
        (
            &["--memory", "8GiB"],
            "STREAM's rule requires 3 arrays of 402653184 elements, 9 GiB",
            "--memory",
        ),
        (&["--processor", "EPYC 99"], "no processor \"EPYC 99\" in the catalog", "EPYC 9654"),
        (&["--rate", "5"], "expected a unit of B/s, MB/s, GB/s or TB/s", ""),
    ];
    for (more, message, remedy) in cases {
        let words = [&["stream", "--plan", "--topology", GENOA], more].concat();
        harness.run(&words).exits(2).warns(message).warns(remedy);
    }
    let broken = harness.run(&["stream", "--plan", "--topology", "synthetic:Foo"]).exits(2);
    broken.warns("expected a level of Package");
    for option in [["--memory", "1GiB"], ["--rate", "1GB/s"], ["--topology", T2K]] {
        let refused = harness.run(&[&["stream"], &option[..]].concat()).exits(2);
        refused.warns(&format!("{} requires --plan", option[0])).warns("hint: add --plan");
    }
}

#[test]
fn figures_of_small_arrays_are_suspect_with_a_reason() {
    let args =
        ["stream", "--no-save", "--json", "-", "--size", "1000elements", "--dimms", "1024x20000"];
    let record = Harness::new().run(&[&args[..], &FAST[..2]].concat()).exits(0).json();
    for m in measurements(&record) {
        assert_eq!(m["validity"]["status"], "suspect");
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(
            reasons
                .contains("times the last-level caches in use; STREAM's rule requires at least 4")
        );
    }
}

#[test]
fn requested_places_and_binding_are_recorded() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let record = harness.stream_record(&["--no-save", "--places", "1,0"]);
    let config = &measurements(&record)[0]["config"];
    assert_eq!(config["places"], json!([[1], [0]]));
    assert_eq!((&config["threads"], &config["bind"]), (&json!(2), &json!("close")));
    let unbound_record = harness.stream_record(&["--no-save", "--threads", "1", "--bind", "none"]);
    let unbound_config = &measurements(&unbound_record)[0]["config"];
    assert_eq!((&unbound_config["threads"], &unbound_config["bind"]), (&json!(1), &json!("none")));
    assert!(unbound_config["places"][0].as_array().unwrap().len() > 1, "{unbound_config:#}");
}

#[test]
fn several_thread_counts_are_in_one_record() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let record = harness.stream_record(&["--no-save", "--threads", "2,1", "--kernels", "copy"]);
    let threads: Vec<&Value> =
        measurements(&record).iter().map(|m| &m["config"]["threads"]).collect();
    assert_eq!(threads, [2, 1]);
}

#[test]
fn sweep_measures_every_value() {
    let record = Harness::new().stream_record(&[
        "--no-save",
        "--sweep",
        "pages=4k,thp",
        "--sweep",
        "stores=regular",
        "--kernels",
        "copy,triad",
    ]);
    let points: Vec<(&str, &Value, &Value)> = measurements(&record)
        .iter()
        .map(|m| {
            let config = &m["config"];
            (m["name"].as_str().unwrap(), &config["pages"]["asked"], &config["stores"])
        })
        .collect();
    let (base, huge, regular) = (json!("4k"), json!("thp"), json!("regular"));
    assert_eq!(
        points,
        [
            ("copy", &base, &regular),
            ("triad", &base, &regular),
            ("copy", &huge, &regular),
            ("triad", &huge, &regular)
        ]
    );
}

#[test]
fn openmp_variables_are_honoured_and_reported() {
    let harness = Harness::new();
    let args = ["stream", "--samples", "1", "--size", "1000000elements", "--budget", "0.3"];
    let args = [&args[..], &["--dimms", "1024x20000", "--no-save"]].concat();
    let cpu = harness.first_cpu();
    let places = format!("{{{cpu}}}");
    let one = [("OMP_NUM_THREADS", "1"), ("OMP_PLACES", &*places), ("OMP_PROC_BIND", "close")];
    let bound = format!("1 thread bound to cpus {cpu} (close)");
    let mut outcome = harness.run_with(&one, &args).exits(0).prints_words(&bound);
    for (name, value) in one {
        outcome = outcome.prints_words(&format!("note {name}={value} honoured"));
    }
    let record = harness.run_with(&one, &[&args[..], &["--json", "-"]].concat()).exits(0).json();
    let honoured = format!("OMP_PLACES={places} honoured");
    assert!(texts(&record["notices"]).contains(&&*honoured), "{record:#}");
    harness
        .run_with(&[("OMP_NUM_THREADS", "500")], &[&args[..], &["--threads", "1"]].concat())
        .exits(0)
        .prints_words("1 thread bound to cpus")
        .prints_words("note OMP_NUM_THREADS=500 ignored: --threads is given");
}

#[test]
fn traffic_is_counted_or_the_reason_is_reported() {
    let record = Harness::new().stream_record(&["--no-save"]);
    for m in measurements(&record) {
        let counters = &m["config"]["counters"];
        match counters["unavailable"].as_str() {
            // The reason is reported if there are no counters, as in virtual machines and containers.
            Some(why) => {
                assert!(!why.is_empty());
                assert_ne!(m["traffic"]["basis"], "counters");
            }
            None if counters["factor"].is_number() => {
                assert_eq!(m["traffic"]["basis"], "counters");
            }
            None => assert!(counters["family"].is_string(), "{counters:#}"),
        }
    }
}

#[test]
fn memory_policies_are_recorded() {
    let harness = Harness::new();
    for (numa, policy) in [("interleave", "interleave"), ("bind:0", "bind"), ("local", "local")] {
        let outcome = harness.stream(&["--json", "-", "--no-save", "--numa", numa]);
        if outcome.code == Some(3) {
            skip(Part::Numa, &format!("{numa}: {}", outcome.stderr.trim()));
            continue;
        }
        let record = outcome.exits(0).json();
        let config = &measurements(&record)[0]["config"];
        assert_eq!(config["memory_policy"], policy);
        // The kernel reports the actual NUMA nodes, if it supports that.
        if let Some(policy_numa) = config["numa"].as_object() {
            assert!(policy_numa["asked"].as_str().unwrap().starts_with(policy));
            let shares: f64 = policy_numa["got"]
                .as_object()
                .unwrap()
                .values()
                .filter_map(|share| share.as_f64())
                .sum();
            assert!((shares - 1.0).abs() < 1e-9, "{policy_numa:?}");
            if policy == "bind" {
                assert_eq!(
                    (&policy_numa["got"]["0"], &policy_numa["held"]),
                    (&1.0.into(), &1.0.into())
                );
            }
        } else {
            skip(Part::Numa, "the kernel does not tell on which nodes pages lie");
        }
    }
}
