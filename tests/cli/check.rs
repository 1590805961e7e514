//! `check`: verdicts, exit codes, the reference, and the state between two checks.

use crate::harness::Harness;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

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
fn an_output_that_cannot_be_written_leaves_the_verdict() {
    let harness = Harness::new();
    let state = harness.arg("state.json");
    let check = ["check", "--state", &state, "--deadline", "60"];
    let expected = harness.run(&check).code.unwrap();
    for file in ["/dev/full", "/nonexistent/check.json", ""] {
        let said = harness.run(&[&check[..], &["--json", file]].concat());
        let said = said.exits(expected).complains("cannot write ");
        assert!(said.stdout.contains("never measured"), "{file}: {}", said.stdout);
    }
    let script = format!("{} \"$@\" >/dev/full", crate::program::path());
    let words = [&["sh", "-c", &script, "sh"][..], &check].concat();
    harness.run_other(&words, &[]).exits(expected).complains("cannot write to standard output");
}

#[test]
fn a_check_for_nagios_that_cannot_start_is_unknown_and_not_critical() {
    let harness = Harness::new();
    harness.run(&["check", "--nagios", "--levle", "2"]).exits(3).complains("--levle");
    harness.run(&["check", "--nagios", "--npd"]).exits(3);
    harness.run(&["check", "--npd", "--levle", "2"]).exits(2);
    harness.run(&["check", "--levle", "2"]).exits(2);
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
    // Other reasons, such as a quota of CPU time, may precede it.
    harness.run(&args).exits(1).says("bad        measured bad (mem 69% of ref: DIMM)");
    // Another boot may follow a repair.
    saved["measured"]["boot"] = json!("another");
    harness.write("state.json", saved.to_string());
    harness.run(&args).says("measured bad (mem 69% of ref: DIMM) at level 2");
    let kept = std::fs::read_to_string(&state).unwrap();
    assert!(kept.contains("mem 69%"), "{kept}");
    // The clock was set back since.
    saved["checked"] = json!("2199-01-01T00:00:00Z");
    saved["measured"]["at"] = json!("2199-01-01T00:00:00Z");
    harness.write("state.json", saved.to_string());
    harness.run(&args).says("at level 2, at an unknown time");
    harness.write("state.json", "{");
    harness.run(&args).says("never measured");
}

#[test]
fn no_output_of_a_check_follows_a_link_of_another_user() {
    let harness = Harness::new();
    let victim = harness.write("victim", "OLD CONTENT");
    let shared = harness.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::os::unix::fs::symlink(&victim, shared.join("out")).unwrap();
    std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let link = harness.arg("shared/out");
    // The verdict does not depend on the state.
    let said = harness.run(&["check", "--deadline", "60", "--state", &link]);
    assert!(said.stdout.contains("state not saved: "), "{}", said.stdout);
    let ranks = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
    let other = harness.arg("other");
    for files in [
        ["--exclude-file", &link, "--node-file", &other],
        ["--exclude-file", &other, "--node-file", &link],
    ] {
        let args = [&["check", "--vet", "1"][..], &files].concat();
        harness.run_with(&ranks, &args).exits(3).complains("is a symbolic link in a folder");
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "OLD CONTENT");
    assert!(!harness.path("other").exists());
}
