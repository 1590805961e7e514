//! Tests of `nodegauge memory`: ladder, latency, matrix, loaded, mix, curves, scaling.

use crate::harness::{Harness, Outcome, Part, measurements, names, texts};
use serde_json::Value;
use std::collections::BTreeMap;

/// Options for a short measurement. The theoretical bandwidth is so high that no figure exceeds it.
const SHORT: [&str; 6] = ["--samples", "3", "--budget", "0.5", "--dimms", "1024x20000"];

fn run(harness: &Harness, test: &str, args: &[&str]) -> Outcome {
    harness.run(&[&["memory", test], &SHORT[..], args].concat()).exits(0)
}

fn record(harness: &Harness, test: &str, args: &[&str]) -> Value {
    run(harness, test, &[&["--json", "-"], args].concat()).json()
}

/// Checks that every figure is positive and has this test and unit.
#[track_caller]
fn all_of<'a>(record: &'a Value, test: &str, units: &[&str]) -> &'a [Value] {
    let all = measurements(record);
    assert!(!all.is_empty());
    for m in all {
        assert_eq!((&m["gauge"], &m["test"]), (&"memory".into(), &test.into()), "{m:#}");
        assert!(units.contains(&m["unit"].as_str().unwrap()), "{m:#}");
        assert!(m["value"].as_f64().unwrap() > 0.0, "{m:#}");
    }
    all
}

#[test]
fn ladder_has_each_size_for_each_pattern() {
    let harness = Harness::new();
    let record = record(&harness, "ladder", &["--size", "64KiB", "--threads", "1"]);
    let all = all_of(&record, "ladder", &["B/s"]);
    let sets = [4, 6, 8, 12, 16, 24, 32, 48, 64].map(|kib| (kib * 1024).to_string());
    for kernel in ["read", "write", "copy", "triad"] {
        let of: Vec<&str> = all
            .iter()
            .filter(|m| m["config"]["kernel"] == kernel)
            .map(|m| m["name"].as_str().unwrap())
            .collect();
        assert_eq!(of, sets, "{kernel}");
    }
    assert!(all.iter().all(|m| m["config"]["threads"] == 1));
    let text = harness.run(&["history", "show", "latest"]).exits(0);
    text.prints("\n64 KiB ").prints("r read, w write, c copy, t triad").prints("\nhow ");
}

#[test]
fn two_ladders_are_compared_by_size() {
    let harness = Harness::new();
    for _ in 0..2 {
        run(&harness, "ladder", &["--size", "8KiB", "--threads", "1", "--quiet"]);
    }
    let compared = harness.run(&["compare", "latest~1", "latest", "--json"]).exits(0).json();
    // Four patterns are compared at 4, 6 and 8 KiB each.
    assert_eq!(compared["pairs"].as_array().unwrap().len(), 3 * 4, "{compared:#}");
}

#[test]
fn latency_uses_one_thread_on_base_and_huge_pages() {
    let harness = Harness::new();
    let record = record(&harness, "latency", &["--size", "4MiB"]);
    let all = all_of(&record, "latency", &["s"]);
    let asked = |pages: &str| all.iter().filter(|m| m["config"]["pages"]["asked"] == pages).count();
    assert_eq!(asked("4k"), 21);
    assert!(all.len() == 21 || all.len() == 42, "{}", all.len());
    for m in all {
        assert_eq!(m["config"]["threads"], 1);
        assert_eq!(m["config"]["stride_bytes"], 64);
        // Each sample visits at least as many lines as the caches hold.
        assert!(m["config"]["steps"].as_u64().unwrap() >= 1024, "{m:#}");
        let [value, low, high] =
            [&m["value"], &m["summary"]["p05"], &m["summary"]["p95"]].map(|x| x.as_f64().unwrap());
        assert!(low <= value && value <= high, "a value outside its own spread: {m:#}");
    }
    harness
        .run(&["history", "show", "latest"])
        .exits(0)
        .prints(" 4 MiB ")
        .prints("chase in random");
}

#[test]
fn memory_latency_has_equal_settings_in_all_commands() {
    let harness = Harness::new();
    let mut settings = Vec::new();
    for (curve, name) in [("latency", "16777216"), ("matrix", "n0->n0"), ("loaded", "latency_idle")]
    {
        if curve == "loaded" && !harness.has_cpus(2) {
            continue;
        }
        let record = record(&harness, curve, &["--size", "16MiB", "--pages", "4k"]);
        let all = all_of(&record, curve, &["s", "B/s"]);
        let m = all.iter().find(|m| m["name"] == name && m["unit"] == "s").unwrap();
        assert_eq!(m["value"], m["summary"]["median"], "{m:#}");
        assert!(m["config"]["flushed_s"].as_f64().unwrap() > 0.0, "{m:#}");
        let keys = ["set_bytes", "stride_bytes", "locality", "pages"];
        settings.push(keys.map(|key| m["config"][key].clone()));
        harness.run(&["history", "show", "latest"]).exits(0).prints("a chase through 16 MiB on 4k");
    }
    assert!(settings.windows(2).all(|pair| pair[0] == pair[1]), "{settings:#?}");
}

#[test]
fn order_of_the_chase_is_in_the_record() {
    let harness = Harness::new();
    let order = ["--size", "64KiB", "--stride", "256", "--locality", "16KiB", "--pages", "4k"];
    let record = record(&harness, "latency", &order);
    for m in all_of(&record, "latency", &["s"]) {
        assert_eq!(m["config"]["stride_bytes"], 256);
        assert_eq!(m["config"]["locality"], "16384");
        assert_eq!(m["config"]["pages"]["got"]["4096"], 1.0);
    }
}

#[test]
fn matrix_has_every_pair_of_numa_nodes_and_pairs_of_cpus() {
    let harness = Harness::new();
    let record = record(&harness, "matrix", &["--size", "64MiB"]);
    let all = all_of(&record, "matrix", &["B/s", "s"]);
    let nodes = record["machine"]["numa"].as_array().map_or(1, Vec::len);
    let pairs = all.iter().filter(|m| m["name"].as_str().unwrap().starts_with('n'));
    assert_eq!(pairs.count(), 3 * nodes * nodes, "two bandwidths and a latency each");
    if !harness.has_cpus(2) {
        return;
    }
    // On a busy node, two CPUs may never be free at the same time.
    let notices = texts(&record["notices"]).join("\n");
    let has_pairs = all.iter().any(|m| m["name"].as_str().unwrap().starts_with("cpu"));
    assert!(
        has_pairs || notices.contains("pairs of CPUs was not measured: their threads did not run"),
        "{record:#}"
    );
}

/// Returns the reasons why the figure with this name and unit is suspect.
fn doubts<'a>(record: &'a Value, name: &str, unit: &str) -> Vec<&'a str> {
    let m = measurements(record).iter().find(|m| m["name"] == name && m["unit"] == unit).unwrap();
    assert_eq!(m["validity"]["status"], "suspect", "{m:#}");
    let reasons = m["validity"]["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason.as_str().unwrap()).collect()
}

/// Checks that one of the reasons why a figure is suspect contains these words.
#[track_caller]
fn is_doubted_for(record: &Value, name: &str, unit: &str, words: &str) {
    let reasons = doubts(record, name, unit);
    assert!(reasons.iter().any(|reason| reason.contains(words)), "{name}: {reasons:?}");
}

const SMALL_SET: &str = "smaller than four times the last-level caches in use";
const FAST_CHASE: &str = "loads of the chase are faster than loads of flushed lines";

#[test]
fn figures_of_sets_in_caches_are_suspect() {
    let harness = Harness::new();
    let matrix = record(&harness, "matrix", &["--size", "64KiB"]);
    is_doubted_for(&matrix, "n0->n0", "B/s", SMALL_SET);
    is_doubted_for(&matrix, "n0->n0_write", "B/s", SMALL_SET);
    is_doubted_for(&matrix, "n0->n0", "s", FAST_CHASE);
    if !harness.has_cpus(2) {
        return;
    }
    let sizes = ["--size", "128KiB", "--threads", "2"];
    let curves = record(&harness, "curves", &[&sizes[..], &["--mixes", "1:0"]].concat());
    is_doubted_for(&curves, "saturated_1:0", "B/s", SMALL_SET);
    is_doubted_for(&curves, "bandwidth_1:0_load50", "B/s", SMALL_SET);
    is_doubted_for(&curves, "latency_1:0_load50", "s", SMALL_SET);
    is_doubted_for(&curves, "idle_1:0", "s", FAST_CHASE);
    let text = harness.run(&["history", "show", "latest"]).exits(0);
    text.prints_words("without load (partly from caches: flushed lines take");
    let loaded = record(&harness, "loaded", &sizes);
    is_doubted_for(&loaded, "latency_idle", "s", FAST_CHASE);
    is_doubted_for(&loaded, "bandwidth_load100", "B/s", SMALL_SET);
    let mix = record(&harness, "mix", &sizes);
    is_doubted_for(&mix, "1:0", "B/s", SMALL_SET);
}

#[test]
fn hwloc_tools_print_and_use_the_measured_values() {
    let harness = Harness::new();
    if !harness.has(Part::Hwloc, "lstopo-no-graphics") {
        return;
    }
    let file = harness.arg("measured.xml");
    let args = ["--size", "64MiB", "--emit", "hwloc", "-o", &file];
    let record = record(&harness, "matrix", &[&args[..], &["--accept-suspect"]].concat());
    let mut expected = BTreeMap::new();
    for m in measurements(&record).iter().filter(|m| m["config"]["to_node"] == 0) {
        let value = m["value"].as_f64().unwrap();
        let (name, unit) = (m["name"].as_str().unwrap(), m["unit"].as_str().unwrap());
        match (name, unit) {
            ("n0->n0", "B/s") => expected.insert("ReadBandwidth", value / f64::from(1 << 20)),
            ("n0->n0_write", _) => expected.insert("WriteBandwidth", value / f64::from(1 << 20)),
            ("n0->n0", "s") => expected.insert("Latency", value * 1e9),
            _ => None,
        };
    }
    assert_eq!(expected.len(), 3, "{record:#}");
    let variables = [("HWLOC_XMLFILE", file.as_str()), ("HWLOC_THISSYSTEM", "1")];
    let printed = harness.run_other(&["lstopo-no-graphics", "--memattrs"], &variables).exits(0);
    for (name, value) in expected {
        let mut lines =
            printed.stdout.lines().skip_while(|line| !line.contains(&format!("`{name}'")));
        let line = lines.nth(1).unwrap_or_default();
        assert!(line.contains(&format!("= {} from cpuset", value.round())), "{name}: {line}");
    }
    let best = ["--best-memattr", "bandwidth"];
    let calculated = [&["hwloc-calc", "--local-memory"][..], &best, &["pu:0"]].concat();
    harness.run_other(&calculated, &variables).exits(0).prints("0");
    let described = [&["hwloc-info"][..], &best, &["pu:0"]].concat();
    harness
        .run_other(&described, &variables)
        .exits(0)
        .prints("memory attribute ReadBandwidth from");
    // The XML differs from that of lstopo only in the attributes and in the name of the program.
    let plain = harness.arg("plain.xml");
    harness.run_other(&["lstopo-no-graphics", &plain], &[]).exits(0);
    assert_eq!(without_attributes(&file), without_attributes(&plain));
}

/// Returns the lines of an XML of hwloc, without memory attributes and the name of the program that wrote it.
fn without_attributes(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let words = ["memattr", "ProcessName"];
    let lines = text.lines().filter(|line| !words.iter().any(|word| line.contains(word)));
    lines.map(str::to_owned).collect()
}

#[test]
fn suspect_matrix_is_emitted_as_topology_only_if_accepted() {
    let harness = Harness::new();
    let file = harness.arg("measured.xml");
    // The matrix is suspect, because it has too few samples.
    let args = ["memory", "matrix", "--size", "64MiB", "--emit", "hwloc", "--no-save"];
    let to_file = [&args[..], &SHORT, &["--output", &file]].concat();
    let refused = harness.run(&to_file).exits(1);
    refused.warns("figures between NUMA nodes are suspect").warns("--accept-suspect");
    assert!(!std::path::Path::new(&file).exists());
    harness.run(&[&args[..], &["--json", "-"]].concat()).exits(2).warns("--output FILE");
    let printed = harness.run(&[&args[..], &SHORT, &["--accept-suspect"]].concat()).exits(0);
    assert!(printed.stdout.starts_with("<?xml") && printed.stdout.ends_with("</topology>\n"));
}

#[test]
fn loaded_latency_covers_idle_to_full_load() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let record = record(&harness, "loaded", &["--size", "16MiB"]);
    let all = all_of(&record, "loaded", &["s", "B/s"]);
    let latencies = all.iter().filter(|m| m["unit"] == "s");
    let shares: Vec<f64> = latencies.map(|m| m["config"]["load_share"].as_f64().unwrap()).collect();
    assert!(shares.len() > 3 && shares.is_sorted(), "{shares:?}");
    assert_eq!((shares.first(), shares.last()), (Some(&0.0), Some(&1.0)), "{shares:?}");
    // There are too few samples for valid figures and for a conclusion.
    let suspect = all.iter().all(|m| m["validity"]["status"] == "suspect");
    assert!(suspect, "{record:#}");
    let notices = texts(&record["notices"]).join("\n");
    assert!(!notices.contains("latency is twice the idle latency of"), "{notices}");
    run(&harness, "loaded", &["--size", "16MiB"]).prints("idle").prints("100 %");
}

#[test]
fn mix_has_regular_and_nontemporal_writes() {
    let harness = Harness::new();
    let record = record(&harness, "mix", &["--size", "8MiB"]);
    all_of(&record, "mix", &["B/s"]);
    let names = names(&record);
    for name in ["1:0", "3:1", "2:1", "1:1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    if cfg!(target_arch = "x86_64") {
        assert!(names.contains(&"1:1-nt"), "{names:?}");
    }
}

#[test]
fn curves_have_latencies_and_a_bandwidth_for_each_mix() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args = ["--size", "8MiB", "--mixes", "1:0,1:1", "--threads", "2"];
    let record = record(&harness, "curves", &args);
    let all = all_of(&record, "curves", &["s", "B/s"]);
    let names = names(&record);
    for mix in ["1:0", "1:1"] {
        for prefix in ["idle_", "saturated_"] {
            assert!(names.contains(&&*format!("{prefix}{mix}")), "{names:?}");
        }
        let start = format!("latency_{mix}_load");
        let of = all.iter().filter(|m| m["name"].as_str().unwrap().starts_with(&start));
        let shares: Vec<f64> = of.map(|m| m["config"]["load_share"].as_f64().unwrap()).collect();
        assert!(shares.len() > 3 && shares.is_sorted(), "{shares:?}");
        assert_eq!(shares.last(), Some(&1.0), "{shares:?}");
    }
    let text = harness.run(&["history", "show", "latest"]).exits(0);
    text.prints("\nmix ").prints("\n1:0 ").prints("\n1:1 ").prints("\nhow ");
    // A condition can refer to a bandwidth by its name.
    let condition = ["--expect", "curves.saturated_1:0>=1kB/s", "--accept-suspect", "--no-save"];
    run(&harness, "curves", &[&args[..], &condition].concat());
}

/// Returns the values of a test by the names of the figures.
fn values_by_name<'a>(all: &'a [Value], test: &str) -> BTreeMap<&'a str, f64> {
    let of = all.iter().filter(|m| m["test"] == test);
    of.map(|m| (m["name"].as_str().unwrap(), m["value"].as_f64().unwrap())).collect()
}

#[test]
fn scaling_is_measured_and_predicted_for_each_number_of_threads() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args = ["--size", "8MiB", "--threads", "2"];
    let record = record(&harness, "scaling", &args);
    let all = measurements(&record);
    let [measured, predicted] = ["scaling", "prediction"].map(|test| values_by_name(all, test));
    for kernel in ["copy", "scale", "add", "triad", "read", "write"] {
        for threads in 1..=2 {
            let name = format!("{kernel}_{threads}");
            assert!(measured[&*name] > 0.0 && predicted[&*name] > 0.0, "{name}: {record:#}");
        }
        // The prediction is computed from the rate of one core and from the rate of all threads with the mix.
        let one = match kernel {
            "scale" => "copy",
            "add" => "triad",
            kernel => kernel,
        };
        let one = measured[&*format!("{one}_one_memory")];
        assert!(predicted[&*format!("{kernel}_2")] <= 2.0 * one * 1.001, "{record:#}");
    }
    let copy = all.iter().find(|m| m["test"] == "prediction" && m["name"] == "copy_2").unwrap();
    assert_eq!(copy["config"]["measured"], measured["copy_2"], "{copy:#}");
    assert_eq!((&copy["config"]["reads"], &copy["config"]["writes"]), (&2.into(), &1.into()));
    let text = harness.run(&["history", "show", "latest"]).exits(0);
    text.prints_words("kernels are within 10 % of their prediction")
        .prints("\nthreads ")
        .prints("copy (2:1), ")
        .prints("c copy, C copy, predicted");
    let condition = ["--expect", "scaling.copy_2>=1kB/s", "--accept-suspect", "--no-save"];
    run(&harness, "scaling", &[&args[..], &condition].concat());
    let one = harness.run(&["memory", "scaling", "--threads", "1"]).exits(2);
    one.warns("requires at least two threads; found 1").warns("hint: --threads 2");
}

#[test]
fn curves_refuse_unknown_numa_nodes_unknown_mixes_and_a_single_thread() {
    let harness = Harness::new();
    for option in ["--from", "--to"] {
        let outcome = harness.run(&["memory", "curves", option, "4000"]).exits(2);
        outcome.warns("this machine has no NUMA node 4000 with");
        let wrong = harness.run(&["memory", "curves", option, "x"]).exits(2);
        wrong.warns("NUMA nodes").warns("hint: e.g. all or 0,2-3");
    }
    harness.run(&["memory", "curves", "--mixes", "4:1"]).exits(2).warns("1:0");
    let one = harness.run(&["memory", "curves", "--threads", "1"]).exits(2);
    one.warns("latency under load requires at least two threads").warns("hint: --threads 2");
}

#[test]
fn program_with_few_samples_has_a_slowdown_but_no_bandwidth() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args = ["memory", "curves", "--size", "8MiB", "--mixes", "1:0", "--samples", "2"];
    let program = ["--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
    let outcome = harness.run(&[&args[..], &["--json", "-"], &program].concat()).exits(0);
    let record = outcome.json();
    let slowdown = measurements(&record).iter().find(|m| m["name"] == "program_slowdown").unwrap();
    assert!(slowdown["value"].as_f64().unwrap() > 0.0, "{slowdown:#}");
    assert!(slowdown["config"]["program"].as_str().unwrap().starts_with("sh -c "));
    // Two samples give no interval, so the bandwidth is unknown.
    let notices = texts(&record["notices"]).join("\n");
    let unknown = "cannot tell which bandwidth the program uses: too few runs of the program";
    assert!(notices.contains(unknown), "{notices}");
    let text = harness.run(&["history", "show", "latest"]).exits(0);
    text.prints("\nprogram ").prints("\nslowdown ");
}

#[test]
fn program_that_fails_or_does_not_exist_is_reported() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args = ["memory", "curves", "--size", "8MiB", "--mixes", "1:0", "--budget", "4"];
    let run = |program: &[&str]| harness.run(&[&args[..], &["--"], program].concat());
    run(&["sh", "-c", "echo broken >&2; exit 3"]).exits(1).warns("exit status 3: broken");
    run(&["/nonexistent/program"]).exits(3).warns("there is no program");
    run(&["sleep", "100"]).exits(2).warns("the program did not end within --budget 4");
    let flag = harness.arg("ran");
    let once = format!("[ -e {flag} ] || {{ touch {flag}; exit 0; }}; echo gone >&2; exit 5");
    let later = run(&["sh", "-c", &once]).exits(1);
    later
        .warns("failed in a later run: exit status 5: gone")
        .prints_words("cannot tell which bandwidth the program uses: the program sh -c");
    // If the program reads its standard input, the input is empty.
    run(&["sh", "-c", "cat; exit 4"]).exits(1).warns("exit status 4");
}

#[test]
fn memory_output_fits_in_eighty_columns() {
    let harness = Harness::new();
    for (test, size) in
        [("ladder", "64KiB"), ("latency", "64KiB"), ("mix", "8MiB"), ("scaling", "8MiB")]
    {
        let outcome = run(&harness, test, &["--size", size, "--no-save"]);
        for line in outcome.stdout.lines() {
            if line.chars().count() > 80 {
                outcome.fail(&format!("wider than 80 columns: {line}"));
            }
        }
    }
}

#[test]
fn expectations_and_csv_support_latency() {
    let harness = Harness::new();
    let base = ["memory", "latency", "--size", "8KiB", "--pages", "4k"];
    let strict = [&base[..], &SHORT, &["--expect", "4096<=1s", "--accept-suspect"]].concat();
    harness.run(&strict).exits(0);
    let hopeless = [&base[..], &SHORT, &["--expect", "4096<=0.001ns"]].concat();
    harness.run(&hopeless).exits(1).warns("error: expected 4096 <= 0.001 ns, measured ");
    let lines = run(&harness, "latency", &["--size", "8KiB", "--pages", "4k", "--csv", "-"]);
    assert_eq!(lines.stdout.lines().count(), 1 + 3, "{}", lines.stdout);
}

#[test]
fn impossible_requests_are_refused_before_measuring() {
    let harness = Harness::new();
    let refused = |args: &[&str], code: i32, message: &str| {
        harness.run(&[&["memory"], args].concat()).exits(code).only_error(message);
    };
    refused(
        &["ladder", "--size", "1KiB", "--threads", "1"],
        2,
        "the largest working set of 1 KiB is below the minimum of 4 KiB\nhint: give --size 4KiB or more",
    );
    refused(
        &["loaded", "--threads", "1"],
        2,
        "latency under load requires at least two threads, one that measures and one that loads the memory; found 1\nhint: --threads 2",
    );
    if harness.cpus() > 1 {
        refused(
            &["latency", "--threads", "2"],
            2,
            "latency requires a single thread, but 2 are requested\nhint: --threads 1",
        );
    }
    let outcome = harness.run(&["memory", "mix", "--size", "900TiB"]);
    outcome.exits(3).warns("hint: use a smaller --size, or a larger --memory-fraction");
    harness.run(&["memory", "ladder", "--pages", "3m"]).exits(2).warns("3m");
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn results_before_an_interrupt_are_saved() {
        let harness = Harness::new();
        let endless = ["--budget", "1", "--samples", "1000000", "--size", "8KiB"];
        for (test, signal, code) in [("ladder", "INT", 130), ("latency", "TERM", 143)] {
            let running = harness.start(&[&["memory", test], &endless[..]].concat());
            // This is more than two rounds, so at least one round after the warm-up is complete.
            let running = running.shows_times(30, "all working sets, interleaved");
            running.signal(signal);
            running.end().exits(code).prints("incomplete");
            let record = harness.latest();
            assert_eq!(record["complete"], false);
            assert!(!measurements(&record).is_empty());
        }
    }
}
