//! `nodegauge stream`: the record field by field, what options do to it, the classic table.

use crate::harness::{ELEMENTS, FAST, Harness, has_fields, measurements, names, skip, texts};
use crate::machine::{check_machine, control_group};
use serde_json::{Value, json};

/// A measurement of STREAM, field by field.
#[track_caller]
fn check_measurement(m: &Value) {
    has_fields(
        m,
        &[
            ("gauge", "string"),
            ("test", "string"),
            ("name", "string"),
            ("unit", "string"),
            ("value", "number?"),
            ("summary", "object?"),
            ("samples", "array"),
            ("config", "object"),
            ("moved", "object?"),
            ("category", "string"),
            ("limit", "object?"),
            ("validity", "object"),
        ],
    );
    assert_eq!((&m["gauge"], &m["test"]), (&json!("memory"), &json!("stream")));
    assert_eq!((&m["unit"], &m["category"]), (&json!("B/s"), &json!("variant")));
    let summary = &m["summary"];
    has_fields(
        summary,
        &[
            ("n", "integer"),
            ("best", "number"),
            ("median", "number"),
            ("p05", "number"),
            ("p95", "number"),
            ("ci95", "array?"),
        ],
    );
    let figure = |name: &str| summary[name].as_f64().unwrap();
    assert!(figure("p05") <= figure("median") && figure("median") <= figure("p95"), "{summary}");
    assert!(figure("p95") <= figure("best"), "{summary}");
    let samples = m["samples"].as_array().unwrap();
    assert_eq!(summary["n"], samples.len());
    let best = samples.iter().map(|x| x.as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!(figure("best"), best);
    let config = &m["config"];
    has_fields(
        config,
        &[
            ("threads", "integer"),
            ("places", "array"),
            ("bind", "string"),
            ("stores", "string?"),
            ("pages", "object"),
            ("element", "string"),
            ("array_bytes", "integer"),
            ("engine", "string"),
        ],
    );
    assert_eq!(config["engine"], "native");
    assert_eq!(
        config["places"].as_array().unwrap().len(),
        config["threads"].as_u64().unwrap() as usize
    );
    has_fields(&config["pages"], &[("asked", "string"), ("got", "object")]);
    let got = config["pages"]["got"].as_object().unwrap();
    let whole: f64 = got.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((whole - 1.0).abs() < 1e-6, "{config:#}");
    assert!(got.keys().all(|size| size.parse::<u64>().unwrap().is_power_of_two()));
    has_fields(&m["validity"], &[("status", "string"), ("reasons", "array")]);
    let status = m["validity"]["status"].as_str().unwrap();
    assert!(["valid", "suspect", "invalid"].contains(&status));
    assert_eq!(texts(&m["validity"]["reasons"]).is_empty(), status == "valid");
    if !m["limit"].is_null() {
        has_fields(
            &m["limit"],
            &[("value", "number"), ("basis", "string"), ("fraction", "number")],
        );
        let fraction = m["limit"]["fraction"].as_f64().unwrap();
        let quotient = figure("best") / m["limit"]["value"].as_f64().unwrap();
        assert!((fraction / quotient - 1.0).abs() < 1e-9);
    }
    if !m["moved"].is_null() {
        has_fields(&m["moved"], &[("value", "number"), ("basis", "string")]);
    }
}

#[test]
fn the_record_has_every_field() {
    let harness = Harness::new();
    let outcome = harness.stream(&["--json", "-", "--label", "nps=4"]).exits(0).quietly();
    let record = outcome.json();
    has_fields(
        &record,
        &[
            ("schema", "string"),
            ("id", "string"),
            ("started", "string"),
            ("seconds", "number"),
            ("complete", "bool"),
            ("tool", "object"),
            ("command", "array"),
            ("labels", "object"),
            ("machine", "object"),
            ("findings", "array"),
            ("measurements", "array"),
        ],
    );
    assert_eq!(record["schema"], "nodegauge/1");
    assert_eq!(record["complete"], true);
    assert_eq!(record["id"].as_str().unwrap().len(), 26);
    let started = record["started"].as_str().unwrap();
    assert!(started.ends_with('Z') && started.as_bytes()[10] == b'T', "{started}");
    assert!(record["seconds"].as_f64().unwrap() > 0.0);
    has_fields(&record["tool"], &[("version", "string"), ("commit", "string?")]);
    assert_eq!(record["tool"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(record["labels"], json!({"nps": "4"}));
    let command = texts(&record["command"]);
    assert_eq!((command[0], *command.last().unwrap()), ("stream", "nps=4"));
    check_machine(&record["machine"]);
    for finding in record["findings"].as_array().unwrap() {
        let fields =
            [("id", "string"), ("severity", "string"), ("text", "string"), ("remedy", "string")];
        has_fields(finding, &fields);
    }
    assert_eq!(names(&record), ["copy", "scale", "add", "triad"]);
    for m in measurements(&record) {
        check_measurement(m);
        assert_eq!(m["value"], m["summary"]["best"]);
        // Passes that something disturbed do not count.
        assert!((1..=3).contains(&m["summary"]["n"].as_u64().unwrap()), "{m:#}");
        assert_eq!(m["config"]["array_bytes"], 8 * ELEMENTS);
        assert_eq!(m["config"]["element"], "f64");
        assert_eq!(m["limit"]["basis"], "option");
        assert_eq!(m["limit"]["value"], 1024.0 * 20e9 * 8.0);
    }
}

#[test]
fn every_kernel_in_both_precisions_passes_its_check() {
    const ALL: [&str; 9] =
        ["copy", "scale", "add", "triad", "read", "write", "update", "dot", "nstream"];
    let harness = Harness::new();
    for (element, bytes) in [("f64", 8), ("f32", 4)] {
        let record = harness.stream_record(&[
            "--no-save",
            "--element",
            element,
            "--kernels",
            &ALL.join(","),
        ]);
        assert_eq!(names(&record), ALL);
        for m in measurements(&record) {
            check_measurement(m);
            assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
            assert_eq!(m["config"]["element"], element);
            assert_eq!(m["config"]["array_bytes"], bytes * ELEMENTS);
        }
    }
}

#[test]
fn kernels_run_once_and_in_the_order_of_stream() {
    let record = Harness::new().stream_record(&["--no-save", "--kernels", "triad,copy,triad"]);
    assert_eq!(names(&record), ["copy", "triad"]);
}

#[test]
fn stores_are_what_was_asked_for() {
    let harness = Harness::new();
    for stores in ["regular", "nontemporal"] {
        let outcome = harness.stream(&["--json", "-", "--no-save", "--stores", stores]);
        if outcome.code == Some(3) && stores == "nontemporal" {
            outcome.complains("this processor has no nontemporal stores that nodegauge knows");
            return skip("this processor has no non-temporal stores");
        }
        for m in measurements(&outcome.exits(0).json()) {
            assert_eq!(m["config"]["stores"], stores);
            let basis = if stores == "regular" { "write-allocate" } else { "no write-allocate" };
            assert_eq!(m["moved"]["basis"], basis, "{m:#}");
        }
    }
}

#[test]
fn what_moves_with_write_allocate_is_more_than_what_counts() {
    let record = Harness::new().stream_record(&["--no-save", "--stores", "regular"]);
    for (m, factor) in measurements(&record).iter().zip([1.5, 1.5, 4.0 / 3.0, 4.0 / 3.0]) {
        let ratio = m["moved"]["value"].as_f64().unwrap() / m["value"].as_f64().unwrap();
        assert!((ratio - factor).abs() < 1e-9, "{m:#}");
    }
}

#[test]
fn pages_are_asked_for_and_read_back() {
    let harness = Harness::new();
    let record = harness.stream_record(&["--no-save", "--pages", "4k"]);
    let base = record["machine"]["pages"]["base"].as_u64().unwrap().to_string();
    for m in measurements(&record) {
        assert_eq!(m["config"]["pages"], json!({"asked": "4k", "got": {base.as_str(): 1.0}}));
    }
    if record["machine"]["pages"]["thp"].is_null() {
        return skip("this kernel has no transparent huge pages");
    }
    let record = harness.stream_record(&["--no-save", "--pages", "thp"]);
    for m in measurements(&record) {
        assert_eq!(m["config"]["pages"]["asked"], "thp");
        let huge = m["config"]["pages"]["got"]["2097152"].as_f64().unwrap_or(0.0);
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(huge >= 0.9 || reasons.contains("of the arrays lie on huge pages"), "{m:#}");
    }
}

#[test]
fn reserved_pages_that_are_missing_are_named_with_the_remedy() {
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
            skip(&format!("{name} pages are reserved here"));
            continue;
        }
        let outcome = harness.stream(&["--pages", pages]).exits(3).prints_nothing();
        let kib = bytes >> 10;
        let message = format!("error: cannot put {wanted} on {pages} pages: ");
        outcome.complains(&message).complains(&format!("reserved pages of {name} are free, {needed} ")).complains(&format!(
            "hint: as root, echo {needed} > /sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages; or use --pages thp\n"
        ));
    }
}

#[test]
fn transparent_huge_pages_switched_off_leave_base_pages() {
    let harness = Harness::new();
    let off = harness.write("enabled", "always madvise [never]\n");
    let shown = [(off.as_str(), "/sys/kernel/mm/transparent_hugepage/enabled")];
    let args = ["stream", "--samples", "1", "--size", "1000000", "--dimms", "1024x20000"];
    let args = [&args[..], &["--no-save", "--json", "-"]].concat();
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    for m in measurements(&outcome.exits(0).json()) {
        assert_eq!(m["config"]["pages"]["asked"], "4k");
    }
}

#[test]
fn prefetch_is_what_was_asked_for() {
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
fn nothing_is_tried_when_nothing_is_left_to_choose() {
    // Enough time for a trial on a busy machine too.
    let args = ["stream", "--no-save", "--samples", "3", "--size", "1000000", "--budget", "5"];
    let args = [&args[..], &["--dimms", "1024x20000", "--json"]].concat();
    let record = Harness::new().run(&args).exits(0).json();
    let notices = texts(&record["notices"]);
    assert!(notices.iter().any(|text| text.starts_with("chosen by trial")), "{notices:?}");
    assert!(measurements(&record)[0]["config"]["loops_tried"].as_u64().unwrap() > 1);
}

#[test]
fn arrays_follow_each_other_with_an_offset() {
    let record = Harness::new().stream_record(&["--no-save", "--offset", "8"]);
    assert_eq!(measurements(&record)[0]["config"]["layout"], json!({"sequential": {"offset": 8}}));
}

#[test]
fn sizes_in_every_unit() {
    let harness = Harness::new();
    for (size, bytes) in
        [("8MB", 8_000_000_u64), ("8MiB", 8 << 20), ("8388608B", 8 << 20), ("1048576", 8 << 20)]
    {
        let args = ["stream", "--no-save", "--samples", "1", "--budget", "0.2", "--json", "-"];
        let args =
            [&args[..], &["--dimms", "1024x20000", "--kernels", "copy", "--size", size]].concat();
        let record = harness.run(&args).exits(0).json();
        assert_eq!(measurements(&record)[0]["config"]["array_bytes"], bytes, "{size}");
    }
}

#[test]
fn small_arrays_are_suspect_and_say_why() {
    let args = ["stream", "--no-save", "--json", "-", "--size", "1000", "--dimms", "1024x20000"];
    let record = Harness::new().run(&[&args[..], &FAST[..2]].concat()).exits(0).json();
    for m in measurements(&record) {
        assert_eq!(m["validity"]["status"], "suspect");
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(reasons.contains("times the last-level caches in use; STREAM's rule asks for 4"));
    }
}

#[test]
fn places_asked_are_places_got() {
    let harness = Harness::new();
    if harness.cpus() < 2 {
        return skip("there is one CPU only");
    }
    let record = harness.stream_record(&["--no-save", "--places", "1,0"]);
    let config = &measurements(&record)[0]["config"];
    assert_eq!(config["places"], json!([[1], [0]]));
    assert_eq!((&config["threads"], &config["bind"]), (&json!(2), &json!("close")));
    let record = harness.stream_record(&["--no-save", "--threads", "1", "--bind", "none"]);
    let config = &measurements(&record)[0]["config"];
    assert_eq!((&config["threads"], &config["bind"]), (&json!(1), &json!("none")));
    assert!(config["places"][0].as_array().unwrap().len() > 1, "{config:#}");
}

#[test]
fn several_thread_counts_in_one_record() {
    let harness = Harness::new();
    if harness.cpus() < 2 {
        return skip("there is one CPU only");
    }
    let record = harness.stream_record(&["--no-save", "--threads", "2,1", "--kernels", "copy"]);
    let threads: Vec<&Value> =
        measurements(&record).iter().map(|m| &m["config"]["threads"]).collect();
    assert_eq!(threads, [2, 1]);
}

#[test]
fn a_sweep_measures_every_value() {
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
fn variables_are_honoured_and_said() {
    let harness = Harness::new();
    let args = ["stream", "--samples", "1", "--size", "1000000", "--budget", "0.3"];
    let args = [&args[..], &["--dimms", "1024x20000", "--no-save"]].concat();
    let one = [("OMP_NUM_THREADS", "1"), ("OMP_PLACES", "{0}"), ("OMP_PROC_BIND", "close")];
    let mut outcome =
        harness.run_with(&one, &args).exits(0).tells("1 thread bound to cpus 0 (close)");
    for (name, value) in one {
        outcome = outcome.tells(&format!("note {name}={value} honoured"));
    }
    let record = harness.run_with(&one, &[&args[..], &["--json", "-"]].concat()).exits(0).json();
    assert!(texts(&record["notices"]).contains(&"OMP_PLACES={0} honoured"), "{record:#}");
    harness
        .run_with(&[("OMP_NUM_THREADS", "500")], &[&args[..], &["--threads", "1"]].concat())
        .exits(0)
        .tells("1 thread bound to cpus")
        .tells("note OMP_NUM_THREADS=500 ignored: --threads is given");
}

#[test]
fn what_moves_is_counted_or_it_is_said_why_not() {
    let record = Harness::new().stream_record(&["--no-save"]);
    for m in measurements(&record) {
        let counters = &m["config"]["counters"];
        match counters["unavailable"].as_str() {
            // Guests and containers are shown none.
            Some(why) => {
                assert!(!why.is_empty());
                assert_ne!(m["moved"]["basis"], "counters");
            }
            None if counters["factor"].is_number() => {
                assert_eq!(m["moved"]["basis"], "counters");
                assert!(m["config"]["moved_computed"]["value"].is_number());
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
            skip(&format!("{numa}: {}", outcome.stderr.trim()));
            continue;
        }
        let record = outcome.exits(0).json();
        let config = &measurements(&record)[0]["config"];
        assert_eq!(config["memory_policy"], policy);
        // What was got is asked of the kernel, where it tells.
        if let Some(numa) = config["numa"].as_object() {
            assert!(numa["asked"].as_str().unwrap().starts_with(policy));
            let shares: f64 =
                numa["got"].as_object().unwrap().values().filter_map(|share| share.as_f64()).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{numa:?}");
            if policy == "bind" {
                assert_eq!((&numa["got"]["0"], &numa["held"]), (&1.0.into(), &1.0.into()));
            }
        }
    }
}

#[test]
fn a_rate_above_the_theoretical_one_is_no_result() {
    let harness = Harness::new();
    let args = ["stream", "--samples", "3", "--size", "1000000", "--budget", "0.5"];
    let args = [&args[..], &["--dimms", "1x200"]].concat();
    let record = harness.run(&[&args[..], &["--json", "-"]].concat()).exits(1).quietly().json();
    for m in measurements(&record) {
        check_measurement(m);
        assert_eq!(m["value"], Value::Null);
        assert_eq!(m["moved"], Value::Null);
        assert_eq!(m["validity"]["status"], "invalid");
        assert_eq!(m["limit"]["value"], 1.6e9);
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(reasons.contains("is above the theoretical 1.600 GB/s (option)"), "{reasons}");
    }
    let outcome = harness.run(&args).exits(1).quietly();
    for kernel in ["copy", "scale", "add", "triad"] {
        let row = outcome.stdout.lines().find(|line| line.starts_with(kernel)).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        if cells[1..7] != ["invalid", "-", "-", "-", "-", "?"] {
            outcome.fail(&format!("{kernel} shows a figure"));
        }
    }
    harness.run(&["history", "list"]).exits(0).says("triad no result");
    harness
        .run(&[&args[..], &["--stream-text"]].concat())
        .exits(1)
        .prints_nothing()
        .complains("error: no valid result: ");
    let expect = ["--quiet", "--expect", "triad>=1B/s"];
    harness
        .run(&[&args[..], &expect].concat())
        .exits(1)
        .only_error("expected triad >= 1 B/s, but there is no valid result");
}

#[test]
fn what_does_not_fit_is_refused_with_the_figures() {
    let harness = Harness::new();
    let outcome = harness.run(&["stream", "--size", "100TiB"]).exits(3).prints_nothing();
    outcome
        .complains("error: 3 arrays of 100 TiB need 300 TiB, but only ")
        .complains(" of memory can be had, of which 80 % may be used\nhint: use --size ")
        .complains("MiB or less, or a larger --memory-fraction\n");
    assert!(!harness.path(".local").exists(), "nothing is measured, nothing is saved");
}

#[test]
fn a_small_control_group_cuts_the_rule_and_refuses_a_wish() {
    let harness = Harness::new();
    let shown = control_group(&harness, 131_000_000, 100_000_000);
    let shown: Vec<(&str, &str)> = shown.iter().map(|(what, at)| (what.as_str(), *at)).collect();
    let args = ["stream", "--samples", "1", "--budget", "0.3", "--dimms", "1024x20000"];
    let args = [&args[..], &["--no-save", "--json", "-"]].concat();
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    let record = outcome.exits(0).json();
    let m = &measurements(&record)[0];
    let bytes = m["config"]["array_bytes"].as_u64().unwrap();
    assert!(3 * bytes <= 31_000_000 * 8 / 10 && bytes >= 8_000_000, "{bytes}");
    let notices = texts(&record["notices"]).join("\n");
    assert!(notices.contains("arrays are cut from "), "{notices}");
    assert_eq!(m["validity"]["status"], "suspect");
    let outcome = harness.run_where(&shown, &["stream", "--size", "1GiB"]).unwrap().exits(3);
    outcome.prints_nothing().complains(
        "error: 3 arrays of 1 GiB need 3 GiB, but only 29.6 MiB of memory can be had, of which 80 % may be used\n\
         hint: use --size 7MiB or less, or a larger --memory-fraction\n",
    );
}

#[test]
fn expectations_decide_the_exit_code() {
    let harness = Harness::new();
    let stream = |args: &[&str]| harness.stream(&[&["--no-save"], args].concat());
    stream(&["-q", "--expect", "triad>=1MB/s"]).exits(0).quietly().prints_nothing();
    stream(&["-v", "--expect", "stream.triad>=1MB/s"])
        .exits(0)
        .complains("as expected stream.triad >= 1 MB/s, measured ");
    stream(&["-q", "--expect", "triad>=900TB/s", "--expect", "copy>=1MB/s"])
        .exits(1)
        .complains("error: expected triad >= 900 TB/s, measured ");
    stream(&["-q", "--expect", "tirad>=1MB/s"])
        .exits(1)
        .only_error("expected tirad >= 1 MB/s, but there is no such measurement; there are triad, scale, copy, add");
    stream(&["-q", "--expect", "triad>=1us"])
        .exits(1)
        .only_error("expected triad >= 1 us, but the measurement is in B/s");
    stream(&["-q", "--expect", "triad<=100%"]).exits(0).quietly();
    stream(&["-q", "--expect", "triad>=99%"])
        .exits(1)
        .complains("error: expected triad >= 99 % of the limit, measured ");
    stream(&["-q", "--expect", "triad>=1MB/s@8000000B"]).exits(0).quietly();
    stream(&["-q", "--expect", "triad>=1MB/s@1KiB"]).exits(1).complains("no such measurement");
}

#[test]
fn a_share_of_an_unknown_limit_is_not_met() {
    let harness = Harness::new();
    let record = harness.run(&["machine", "--json"]).exits(0).json();
    if !record["machine"]["memory"]["theoretical"].is_null() {
        return skip("the theoretical bandwidth of this machine is known");
    }
    let args = ["stream", "--samples", "1", "--size", "1000000", "-q", "--no-save"];
    harness.run(&[&args[..], &["--expect", "triad>=1%"]].concat()).exits(1).only_error(
        "expected triad >= 1 % of the limit, but no limit is known\n\
         hint: give --dimms COUNTxMT/s, or a bound in units",
    );
}

#[test]
fn the_table_says_how_it_was_measured() {
    let outcome = Harness::new().stream(&["-v"]).exits(0).quietly();
    let header = outcome.stdout.lines().next().unwrap();
    let words: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(
        words,
        ["GB/s", "best", "median", "5", "%", "95", "%", "moved", "of", "limit", "loop"]
    );
    outcome
        .says("\nhow ")
        .tells("3 arrays of 7.6 MiB")
        .says("\nsamples ")
        .tells("limit 163.8 TB/s theoretical (option)")
        .tells("counters moved ")
        .tells("name based on a variant of the STREAM benchmark code")
        .says("\nOMP: pid ")
        .says("\nsaved ");
}

/// The lines of stream.c's output without its heading, its figures as `#`.
const CLASSIC: &[&str] = &[
    "This system uses # bytes per array element.",
    "-------------------------------------------------------------",
    "Array size = # (elements), Offset = # (elements)",
    "Memory per array = # MiB (= # GiB).",
    "Total memory required = # MiB (= # GiB).",
    "Each kernel will be executed # times.",
    " The *best* time for each kernel (excluding the first iteration)",
    " will be used to compute the reported bandwidth.",
    "-------------------------------------------------------------",
    "Number of Threads requested = #",
    "Number of Threads counted = #",
    "-------------------------------------------------------------",
    "Your clock granularity",
    "Each test below will take on the order of # microseconds.",
    "   (= # clock ticks)",
    "Increase the size of the arrays if this shows that",
    "you are not getting at least # clock ticks per test.",
    "-------------------------------------------------------------",
    "WARNING -- The above is only a rough guideline.",
    "For best results, please be sure you know the",
    "precision of your system timer.",
    "-------------------------------------------------------------",
    "Function    Best Rate MB/s  Avg time     Min time     Max time",
    "Copy: # # # #",
    "Scale: # # # #",
    "Add: # # # #",
    "Triad: # # # #",
    "-------------------------------------------------------------",
    "Solution Validates: avg error less than #e-# on all three arrays",
    "-------------------------------------------------------------",
];

/// A line with each number as `#`; the table's columns are checked on their own.
fn without_figures(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        if !(c.is_ascii_digit() || c == '.' && out.ends_with('#')) {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    // A point after the last figure of a sentence is its end.
    if line.ends_with('.') && out.ends_with('#') {
        out.push('.');
    }
    match out.split_once(": ") {
        Some((name, rest)) if rest.trim_start().starts_with('#') => {
            format!("{name}: {}", rest.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        _ => out,
    }
}

#[test]
fn the_classic_table_is_read_by_existing_parsers() {
    let harness = Harness::new();
    let outcome = harness.stream(&["--stream-text"]).exits(0).quietly();
    let outcome = outcome.never_says("STREAM version").never_says("$Revision");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let rule = "-".repeat(61);
    assert_eq!((lines[0], lines[2]), (rule.as_str(), rule.as_str()));
    assert!(lines[1].contains("based on a variant of the STREAM benchmark code"), "{}", lines[1]);
    let shapes: Vec<String> = lines[3..].iter().map(|line| without_figures(line)).collect();
    for (shape, expected) in shapes.iter().zip(CLASSIC) {
        if !(shape == expected || *expected == CLASSIC[12] && shape.starts_with(expected)) {
            outcome.fail(&format!("expected the line \"{expected}\", found \"{shape}\""));
        }
    }
    assert_eq!(shapes.len(), CLASSIC.len());
    for (name, arrays) in [("Copy:", 2), ("Scale:", 2), ("Add:", 3), ("Triad:", 3)] {
        let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
        // stream.c prints "%s%12.1f  %11.6f  %11.6f  %11.6f" after eleven characters of name.
        let column = |at: std::ops::Range<usize>| line[at].trim().parse::<f64>().unwrap();
        assert_eq!(line.len(), 62, "{line}");
        let (rate, average, least, most) =
            (column(11..23), column(25..36), column(38..49), column(51..62));
        assert!(least <= average && average <= most, "{line}");
        let bytes = (arrays * 8 * ELEMENTS) as f64;
        // Times are printed to a microsecond.
        assert!((rate * 1e6 * least - bytes).abs() <= rate * 1e6 * 0.6e-6, "{line}");
    }
    let saved = harness.run(&["history", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(saved["measurements"].as_array().unwrap().len(), 4);
}

#[test]
fn the_classic_table_of_single_precision() {
    let outcome = Harness::new().stream(&["--stream-text", "--no-save", "--element", "f32"]);
    outcome
        .exits(0)
        .says("\nThis system uses 4 bytes per array element.\n")
        .says("\nMemory per array = 3.8 MiB (= 0.0 GiB).\n")
        .says("avg error less than 1.000000e-06 on all three arrays\n");
}

#[test]
fn kernels_that_stream_lacks_are_not_in_the_classic_table() {
    let outcome =
        Harness::new().stream(&["--stream-text", "--no-save", "--kernels", "triad,dot"]).exits(0);
    outcome.says("\nTriad: ").never_says("dot").never_says("Dot").never_says("Copy:");
}
