//! `check`: verdicts, exit codes, the reference, and the state between two checks.

use crate::harness::Harness;
use serde_json::{Value, json};

/// Returns a reference for nodes like this one, with changes of the group.
pub fn reference(harness: &Harness, name: &str, change: impl Fn(&mut Value)) -> String {
    let machine = harness.run(&["machine", "--json"]).exits(0).json()["machine"].clone();
    let processor = &machine["processor"];
    let mut group = json!({
        "kind": {
            "processor": processor["model"], "sockets": processor["sockets"],
            "virtual": machine["virtual"],
        },
        "inventory": {"cores": processor["cores"], "threads": processor["threads"]},
        "nodes": "n[01-08]",
        "figures": [],
    });
    change(&mut group);
    let document = json!({
        "schema": "nodegauge-reference/1", "written": "2026-11-25T03:00:00Z",
        "tool": {"version": "0.1.0", "commit": null}, "groups": [group],
    });
    harness.write(name, document.to_string())
}

/// Returns a bound of Triad.
pub fn triad(value: f64) -> Value {
    json!([{
        "gauge": "memory", "test": "stream", "name": "triad", "unit": "B/s", "category": "variant",
        "value": value, "bound": 0.96 * value, "nodes": 8, "runs": 8, "spread_nodes": 0.01,
        "spread_runs": null, "basis": "median of 8 nodes less 4 %",
    }])
}

/// Deadline that the slowest machine of a test meets.
const PATIENT: [&str; 2] = ["--deadline", "60"];

#[test]
fn a_lost_part_is_bad_and_the_codes_are_those_of_the_table() {
    let harness = Harness::new();
    let good = reference(&harness, "good.json", |_| {});
    let with = |file: &str, more: &[&str]| {
        harness.run(&[&["check", "--reference", file][..], &PATIENT, more].concat())
    };
    let document = with(&good, &["--json"]).json();
    // A quota of CPU time is a defect of the node on which the tests run.
    let is_good = document["verdict"] == "good";
    if is_good {
        for codes in [&[][..], &["--nagios"], &["--npd"]] {
            with(&good, codes).exits(0).says("good");
        }
    }
    let lost = reference(&harness, "lost.json", |group| {
        let cores = group["inventory"]["cores"].as_u64().unwrap();
        group["inventory"]["cores"] = json!(cores + 1);
    });
    let said = with(&lost, &[]).exits(1).stdout;
    with(&lost, &["--nagios"]).exits(2);
    let only = with(&lost, &["--npd"]).exits(1).stdout;
    assert_eq!(only.lines().count(), 1, "{only}");
    let line = said.lines().next().unwrap();
    assert!(line.chars().count() <= 80, "{line}");
    if is_good {
        let (_, rest) = line.split_once(' ').unwrap();
        assert!(rest.starts_with("cores ") && rest.contains("; bad: cores "), "{line}");
    }
}

#[test]
fn a_reference_that_does_not_apply_makes_the_node_unknown() {
    let harness = Harness::new();
    let other =
        reference(&harness, "other.json", |group| group["kind"]["processor"] = json!("Z80"));
    let unknown = |file: &str, reason: &str| {
        let args = ["check", "--reference", file, "--deadline", "60", "--json"];
        let document = harness.run(&args).json();
        let remarks = document["remarks"].as_array().unwrap();
        let found =
            remarks.iter().any(|one| one["verdict"] == "unknown" && one["reason"] == reason);
        assert!(found, "{document}");
    };
    unknown(&other, "other kind of node");
    unknown("nowhere.json", "no reference");
    unknown(&harness.write("broken.json", "{"), "no reference");
    let args = ["check", "--reference", "nowhere.json", "--deadline", "60"];
    let code = harness.run(&[&args[..], &["--nagios"]].concat()).code;
    assert!(code == Some(3) || code == Some(2), "{code:?}");
}

#[test]
fn the_state_has_the_counters_and_the_last_measured_verdict() {
    let harness = Harness::new();
    let state = harness.arg("state.json");
    let args = ["check", "--state", &state, "--deadline", "60"];
    harness.run(&args).says("never measured");
    let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!(saved["measured"], Value::Null);
    let boot = saved["ledger"]["boot"].clone();
    saved["measured"] = json!({
        "at": "2026-11-25T01:00:00Z", "level": 2, "verdict": "bad",
        "reason": "mem 69% of ref: DIMM", "boot": boot,
    });
    harness.write("state.json", saved.to_string());
    harness.run(&args).exits(1).says("mem 69% of ref: DIMM; bad: measured bad");
    // Another boot may follow a repair.
    saved["measured"]["boot"] = json!("another");
    harness.write("state.json", saved.to_string());
    harness.run(&args).says("measured bad (mem 69% of ref: DIMM) at level 2");
    let kept = std::fs::read_to_string(&state).unwrap();
    assert!(kept.contains("mem 69%"), "{kept}");
    harness.write("state.json", "{");
    harness.run(&args).says("never measured");
}

#[test]
fn a_figure_far_below_the_reference_is_measured_twice() {
    let harness = Harness::new();
    let high = reference(&harness, "high.json", |group| group["figures"] = triad(1e18));
    let options = ["--level", "2", "--when-busy", "measure", "--deadline", "60", "--json"];
    let document = harness.run(&[&["check", "--reference", &high][..], &options].concat()).json();
    let figures = document["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["name"] == "triad");
    let values = figure.unwrap_or_else(|| panic!("{document}"))["values"].as_array().unwrap();
    assert_eq!(values.len(), 2, "{document}");
    // Other load makes the figure doubtful, and the node unknown.
    let verdict = document["remarks"].as_array().unwrap();
    let of_triad = verdict.iter().find(|one| one["text"].as_str().unwrap().starts_with("triad "));
    let of_triad = of_triad.unwrap_or_else(|| panic!("{document}"));
    let is_bad = of_triad["verdict"] == "bad"
        && of_triad["reason"].as_str().unwrap().starts_with("mem 0% of ref");
    assert!(is_bad || of_triad["reason"] == "disturbed", "{document}");
    // The runs are in the history.
    harness.run(&["history", "list", "--label", "check=yes", "-q"]).exits(0).says("01");
}
