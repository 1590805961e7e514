//! Tests of `sweep -- PROGRAM`. The programs are shell commands that print their variables, so the figures are known
//! exactly.

use crate::harness::{Harness, Part, measurements, texts};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Program that prints the value of the variable `A` as its figure.
const ECHO: [&str; 4] = ["--", "sh", "-c", "echo rate $A"];
const FIGURE: [&str; 2] = ["--figure", "^rate ([0-9]+)$"];

/// Returns the record of a sweep; its exit code must be `code`.
#[track_caller]
fn record(harness: &Harness, code: i32, options: &[&str], program: &[&str]) -> Value {
    let words = [&["sweep", "--no-save", "--json", "-"], options, program].concat();
    harness.run(&words).exits(code).json()
}

/// Returns the figure with this name for a combination.
#[track_caller]
fn figure<'r>(record: &'r Value, name: &str, under: &str) -> &'r Value {
    let found =
        measurements(record).iter().find(|m| m["name"] == name && m["config"]["under"] == under);
    found.unwrap_or_else(|| panic!("no {name} under {under}: {record:#}"))
}

#[test]
fn program_is_compared_by_a_number_in_its_output() {
    let harness = Harness::new();
    let options = [&["env:A=10,20,10"], &FIGURE[..], &["--samples", "6"]].concat();
    let record = record(&harness, 0, &options, &ECHO);
    let twice = figure(&record, "relative", "env:A 20");
    assert_eq!(
        (twice["value"].as_f64(), &twice["config"]["verdict"]),
        (Some(2.0), &json!("faster"))
    );
    assert_eq!(twice["config"]["against"], "env:A 10");
    assert_eq!(twice["config"]["sweep"], json!({"env:A": "20"}));
    let first = figure(&record, "figure", "env:A 10");
    assert_eq!(
        (first["value"].as_f64(), first["samples"].as_array().unwrap().len()),
        (Some(10.0), 6)
    );
    assert!(first["config"]["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(measurements(&record).len(), 3, "the value that is given twice is measured once");
    assert!(texts(&record["notices"]).iter().any(|text| text.contains("env:A 10 is given twice")));
}

#[test]
fn every_round_runs_each_combination_once() {
    let harness = Harness::new();
    let log = harness.arg("log");
    let script = format!("echo $A$B >>'{log}'; cat; sleep 0.001");
    let axes = ["env:A=1,2", "env:B=x,y", "--samples", "5"];
    let record = record(&harness, 0, &axes, &["--", "sh", "-c", &script]);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // There are five rounds and a warm-up.
    assert_eq!(lines.len(), 4 * 6);
    for round in lines.chunks(4) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 4, "{lines:?}");
    }
    let elapsed = figure(&record, "elapsed", "env:A 2, env:B y");
    assert_eq!((&elapsed["unit"], elapsed["samples"].as_array().unwrap().len()), (&json!("s"), 5));
    let relative = figure(&record, "relative", "env:A 2, env:B y");
    assert_eq!(relative["samples"].as_array().unwrap().len(), 5);
    assert!(relative["summary"]["ci95"].is_array() && relative["config"]["verdict"].is_string());
}

#[test]
fn failing_values_are_reported_and_the_others_are_measured() {
    let harness = Harness::new();
    let script = "case $A in 1) echo rate 1;; 2) echo no input >&2; exit 3;; 3) echo rate;; 4) echo rate 4; echo rate 5;; 5) kill -9 $$;; *) echo rate 6;; esac";
    let words = [
        &["sweep", "env:A=1,2,3,4,5,6", "--samples", "6"],
        &FIGURE[..],
        &["--", "sh", "-c", script],
    ]
    .concat();
    let outcome = harness
        .run(&words)
        .exits(1)
        .prints_words("env:A 2: exit status 3: no input")
        .prints_words("env:A 3: no match of --figure in 1 line of output; the last is \"rate\"")
        .prints_words("env:A 4: 2 matches of --figure instead of one: \"4\", \"5\"")
        .prints_words("env:A 5: signal 9")
        .prints_words("env:A 6 is fastest: 6.000 times as fast as env:A 1");
    let record = harness.latest();
    assert_eq!(figure(&record, "figure", "env:A 6")["samples"], json!(vec![6.0; 6]));
    assert_eq!(figure(&record, "figure", "env:A 2")["validity"]["status"], "invalid");
    crate::history::shown_as_printed(&harness, &outcome);
    harness
        .run(&["history", "show", "latest", "--csv", "-"])
        .exits(0)
        .prints("program,sweep,figure");
    harness.run(&["compare", "latest", "latest"]).exits(0).prints("env:A 6");
    harness.run(&["report", "latest", "--output", "page.html"]).exits(0);
    let html = std::fs::read_to_string(harness.path("page.html")).unwrap();
    assert!(html.contains("env:A 6") && html.contains("no input"));
}

#[test]
fn program_longer_than_the_budget_is_ended() {
    let harness = Harness::new();
    let started = std::time::Instant::now();
    harness
        .run(&["sweep", "env:A=1,2", "--budget", "1", "--", "sleep", "600"])
        .exits(1)
        .prints("the program did not end within --budget 1")
        .prints("use a --budget long enough for 4 runs");
    assert!(started.elapsed().as_secs() < 500, "the program was not ended");
}

#[test]
fn program_runs_with_the_given_place_threads_and_pages() {
    let harness = Harness::new();
    let cpu = harness.first_cpu();
    let status = harness.arg("status");
    let script = format!(
        "grep -h -E 'Cpus_allowed_list|THP_enabled' /proc/self/status >'{status}'; echo $OMP_NUM_THREADS,$OMP_PLACES >>'{status}'"
    );
    let places = format!("places={{{cpu}}}");
    let options = [places.as_str(), "threads=1", "pages=4k", "--samples", "1"];
    let record = record(&harness, 0, &options, &["--", "sh", "-c", &script]);
    let text = std::fs::read_to_string(&status).unwrap();
    assert!(text.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{text}");
    assert!(
        text.contains(&format!("\n1,{{{cpu}}}\n")) && !text.contains("THP_enabled:\t1"),
        "{text}"
    );
    let m = &measurements(&record)[0];
    assert_eq!(m["config"]["cpus"], json!([[cpu.parse::<u32>().unwrap()]]));
    assert_eq!(m["config"]["threads"], 1);
}

#[test]
fn single_rank_runs_without_a_launcher_and_too_many_ranks_are_left_out() {
    let harness = Harness::new();
    let log = harness.arg("log");
    let script = format!("echo $NODEGAUGE_RANK of $NODEGAUGE_RANKS: $OMP_NUM_THREADS >>'{log}'");
    let options = ["ranks=1,60000", "--launcher", "none", "--samples", "1"];
    let record = record(&harness, 0, &options, &["--", "sh", "-c", &script]);
    assert_eq!(measurements(&record).len(), 1);
    assert_eq!(measurements(&record)[0]["config"]["processes"], 1);
    let notices = texts(&record["notices"]);
    assert!(
        notices.iter().any(|text| text.contains("ranks 60000 left out: cannot place")),
        "{notices:?}"
    );
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "0 of 1: 1\n".repeat(2));
}

#[test]
fn fastest_combination_is_printed_as_a_command_line() {
    let harness = Harness::new();
    let words =
        [&["sweep", "--emit", "--samples", "6", "env:A=1,3,2"], &FIGURE[..], &ECHO].concat();
    let outcome = harness.run(&words).exits(0);
    assert_eq!(outcome.stdout, "env A=3 sh -c 'echo rate $A'\n");
    assert_eq!(harness.run_other(&["sh", "-c", &outcome.stdout], &[]).exits(0).stdout, "rate 3\n");
    let copies = [
        "sweep",
        "--emit",
        "--samples",
        "1",
        "--ranks",
        "1",
        "--launcher",
        "none",
        "--",
        "echo",
        "a b",
    ];
    let script = harness.run(&copies).exits(0).stdout;
    harness.write("run.sh", &script);
    assert_eq!(harness.run_other(&["sh", "run.sh"], &[]).exits(0).stdout, "a b\n", "{script}");
}

#[test]
fn few_runs_do_not_determine_the_fastest_combination() {
    let harness = Harness::new();
    let few = ["env:A=10,20", "--samples", "5"];
    let words = [&["sweep"], &few[..], &FIGURE[..], &ECHO].concat();
    let shown = harness.run(&words).exits(0);
    shown.prints_words(
        "Cannot tell whether another combination is faster than env:A 10: 5 samples count: too few",
    );
    let record = harness.latest();
    for (name, under) in [("figure", "env:A 10"), ("relative", "env:A 20")] {
        let validity = &figure(&record, name, under)["validity"];
        assert_eq!(validity["status"], "suspect", "{validity}");
    }
    assert_eq!(figure(&record, "relative", "env:A 20")["config"]["verdict"], "cannot tell");
    let emitted = [&["sweep", "--emit"], &few[..], &FIGURE[..], &ECHO].concat();
    let script = harness.run(&emitted).exits(0).stdout;
    let (remark, command) = script.split_once('\n').unwrap();
    assert!(remark.starts_with("# cannot tell which is fastest: 5 samples count"), "{script}");
    assert_eq!(command, "env A=10 sh -c 'echo rate $A'\n");
}

#[test]
fn rank_of_an_mpi_launcher_runs_on_the_given_cpu() {
    let harness = Harness::new();
    for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
        if !harness.has(Part::Mpi, launcher) {
            continue;
        }
        let status = harness.arg(launcher);
        let script = format!("grep Cpus_allowed_list /proc/self/status >>'{status}'");
        let cpu = harness.first_cpu();
        let mut options = vec!["--ranks", "1", "--cpus", &cpu, "--samples", "1"];
        options.extend(["--launcher", launcher]);
        options.extend(["--allow-run-as-root"]);
        let record = record(&harness, 0, &options, &["--", "sh", "-c", &script]);
        let text = std::fs::read_to_string(&status).unwrap();
        assert_eq!(text, format!("Cpus_allowed_list:\t{cpu}\n").repeat(2));
        let command = measurements(&record)[0]["config"]["command"].as_str().unwrap();
        assert!(command.contains(launcher) && command.contains("start-placed"), "{command}");
    }
}
