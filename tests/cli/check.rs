//! `check`: verdicts, exit codes, the reference, and the state between two checks.

use crate::harness::{Harness, Part, skip};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

/// Writes a reference for nodes of the same kind as this machine; `change` modifies its group.
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

/// Returns a figure for a reference: Triad with this value, and with arrays so small that every machine measures them
/// in time.
pub fn triad(value: f64) -> Value {
    json!([{
        "gauge": "memory", "test": "stream", "name": "triad", "unit": "B/s", "category": "variant",
        "value": value, "bound": 0.96 * value, "nodes": 8, "runs": 8, "spread_nodes": 0.01,
        "spread_runs": null, "basis": "median of 8 nodes minus 4 %", "size": 16 << 20,
    }])
}

/// Deadline that even the slowest test machine meets.
const LONG_DEADLINE: [&str; 2] = ["--deadline", "60"];

#[test]
fn missing_core_makes_the_node_bad_and_sets_the_exit_code() {
    let harness = Harness::new();
    let good = reference(&harness, "good.json", |_| {});
    let with = |file: &str, more: &[&str]| {
        harness.run(&[&["check", "--reference", file][..], &LONG_DEADLINE, more].concat())
    };
    let document = with(&good, &["--json"]).json();
    // If the tests run with a CPU quota, the node has a defect.
    let is_good = document["verdict"] == "good";
    if is_good {
        for codes in [&[][..], &["--nagios"], &["--npd"]] {
            with(&good, codes).exits(0).prints("good");
        }
    }
    let lost = reference(&harness, "lost.json", |group| {
        let cores = group["inventory"]["cores"].as_u64().unwrap();
        group["inventory"]["cores"] = json!(cores + 1);
    });
    let reported = with(&lost, &[]).exits(1).stdout;
    with(&lost, &["--nagios"]).exits(2);
    let only = with(&lost, &["--npd"]).exits(1).stdout;
    assert_eq!(only.lines().count(), 1, "{only}");
    let line = reported.lines().next().unwrap();
    assert!(line.chars().count() <= 80, "{line}");
    if is_good {
        let (_, rest) = line.split_once(' ').unwrap();
        assert!(rest.starts_with("cores ") && rest.contains("; bad: cores "), "{line}");
    }
}

#[test]
fn unwritable_output_does_not_change_the_verdict() {
    let harness = Harness::new();
    let state = harness.arg("state.json");
    let check = ["check", "--state", &state, "--deadline", "60"];
    let expected = harness.run(&check).code.unwrap();
    for file in ["/dev/full", "/nonexistent/check.json", ""] {
        let reported = harness.run(&[&check[..], &["--json", file]].concat());
        let reported = reported.exits(expected).warns("cannot write ");
        assert!(reported.stdout.contains("never measured"), "{file}: {}", reported.stdout);
    }
    let script = format!("{} \"$@\" >/dev/full", crate::program::path());
    let words = [&["sh", "-c", &script, "sh"][..], &check].concat();
    harness.run_other(&words, &[]).exits(expected).warns("cannot write to standard output");
}

#[test]
fn nagios_check_that_cannot_start_is_unknown_not_critical() {
    let harness = Harness::new();
    harness.run(&["check", "--nagios", "--levle", "2"]).exits(3).warns("--levle");
    harness.run(&["check", "--nagios", "--npd"]).exits(3);
    harness.run(&["check", "--npd", "--levle", "2"]).exits(2);
    harness.run(&["check", "--levle", "2"]).exits(2);
}

#[test]
fn inapplicable_reference_makes_the_node_unknown() {
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
fn check_applies_the_last_measured_verdict_until_the_next_boot() {
    let harness = Harness::new();
    let state = harness.arg("state.json");
    let args = ["check", "--state", &state, "--deadline", "60"];
    harness.run(&args).prints("never measured");
    let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!(saved["measured"], Value::Null);
    let boot = saved["ledger"]["boot"].clone();
    saved["measured"] = json!({
        "at": "2026-11-25T01:00:00Z", "level": 2, "verdict": "bad",
        "reason": "mem 69% of ref: DIMM", "boot": boot,
    });
    harness.write("state.json", saved.to_string());
    // Other remarks, e.g. on a CPU quota, may precede this one.
    harness.run(&args).exits(1).prints("bad        measured bad (mem 69% of ref: DIMM)");
    // After a reboot, an earlier verdict is not applied, because the node may have been repaired.
    saved["measured"]["boot"] = json!("another");
    harness.write("state.json", saved.to_string());
    harness.run(&args).prints("measured bad (mem 69% of ref: DIMM) at level 2");
    let kept = std::fs::read_to_string(&state).unwrap();
    assert!(kept.contains("mem 69%"), "{kept}");
    // The time of the last check is in the future, e.g. because the clock was set back.
    saved["checked"] = json!("2199-01-01T00:00:00Z");
    saved["measured"]["at"] = json!("2199-01-01T00:00:00Z");
    harness.write("state.json", saved.to_string());
    harness.run(&args).prints("at level 2, at an unknown time");
    // A crash can leave an empty state file.
    harness.write("state.json", "");
    harness.run(&args).prints("never measured");
    assert!(std::fs::read_to_string(&state).unwrap().contains("nodegauge-check-state/1"));
}

#[test]
fn file_without_check_state_is_not_changed() {
    let harness = Harness::new();
    for content in ["my thesis", "{", r#"{"schema": "nodegauge-check-state/2"}"#] {
        let state = harness.write("state.json", content);
        let code = harness.run(&["check", "--deadline", "60", "--no-save"]).code.unwrap();
        let reported = harness.run(&["check", "--deadline", "60", "--state", &state]).exits(code);
        reported
            .prints("state not saved: ")
            .prints(" is not a state file of check (nodegauge-check-state/1)");
        assert_eq!(std::fs::read_to_string(&state).unwrap(), content);
    }
}

/// Writes a state file whose last measured verdict is *bad*.
fn bad_state(harness: &Harness, name: &str) -> String {
    let state = harness.arg(name);
    harness.run(&["check", "--state", &state, "--deadline", "60"]);
    let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    let boot = saved["ledger"]["boot"].clone();
    saved["measured"] = json!({
        "at": "2026-11-25T01:00:00Z", "level": 2, "verdict": "bad", "reason": "forged", "boot": boot,
    });
    harness.write(name, saved.to_string())
}

/// Changes the owner of a file; skips the test if that is not permitted.
fn give_away(path: impl AsRef<Path>) -> bool {
    let given = chown(path, Some(65_534), None);
    if let Err(cause) = &given {
        skip(Part::Root, &format!("files cannot be given to another user: {cause}"));
    }
    given.is_ok()
}

#[test]
fn state_writable_by_another_user_is_ignored() {
    let harness = Harness::new();
    std::fs::create_dir(harness.path("folder")).unwrap();
    let state = bad_state(&harness, "folder/state.json");
    let content = std::fs::read_to_string(&state).unwrap();
    let check = |path: &str| harness.run(&["check", "--deadline", "60", "--state", path]);
    check(&state).prints("measured bad (forged)");
    let is_ignored = |path: &str, why: &str| {
        harness.write("folder/state.json", &content);
        let reported = check(path).prints("never measured");
        assert!(!reported.stdout.contains("measured bad"), "{}", reported.stdout);
        reported.prints("state not read, state not saved: ").prints(why);
        assert_eq!(std::fs::read_to_string(&state).unwrap(), content);
    };
    std::fs::set_permissions(&state, Permissions::from_mode(0o666)).unwrap();
    is_ignored(&state, "all users can write the file");
    std::fs::set_permissions(&state, Permissions::from_mode(0o644)).unwrap();
    std::fs::create_dir(harness.path("shared")).unwrap();
    symlink(&state, harness.path("shared/link")).unwrap();
    std::fs::set_permissions(harness.path("shared"), Permissions::from_mode(0o1777)).unwrap();
    is_ignored(&harness.arg("shared/link"), "is a symbolic link in a folder that other users can");
    if give_away(&state) {
        is_ignored(&state, "the file belongs to another user (uid 65534)");
    }
}

#[test]
fn reference_writable_by_another_user_is_ignored() {
    let harness = Harness::new();
    let lost = reference(&harness, "lost.json", |group| {
        let cores = group["inventory"]["cores"].as_u64().unwrap();
        group["inventory"]["cores"] = json!(cores + 1);
    });
    let check =
        || harness.run(&["check", "--reference", &lost, "--deadline", "60", "--json"]).json();
    let remarks = |document: &Value| document["remarks"].to_string();
    assert!(remarks(&check()).contains("expected"), "the reference counts");
    let is_ignored = |why: &str| {
        let reported = remarks(&check());
        assert!(
            reported.contains(r#""reason":"no reference""#) && reported.contains(why),
            "{reported}"
        );
        assert!(!reported.contains("expected"), "{reported}");
    };
    std::fs::set_permissions(&lost, Permissions::from_mode(0o666)).unwrap();
    is_ignored("all users can write the file");
    std::fs::set_permissions(&lost, Permissions::from_mode(0o644)).unwrap();
    if give_away(&lost) {
        is_ignored("the file belongs to another user (uid 65534)");
    }
}

#[test]
fn check_refuses_to_overwrite_its_own_files() {
    let harness = Harness::new();
    let reference = reference(&harness, "reference.json", |_| {});
    let state = bad_state(&harness, "state.json");
    let default = harness.arg("default.json");
    std::fs::create_dir(harness.path("data")).unwrap();
    // The default state file is next to the history.
    harness.run_with(&[("NODEGAUGE_DB", "data/h.db")], &["check", "--deadline", "60"]);
    let entries = std::fs::read_dir(harness.path("data")).unwrap();
    let own = entries
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("check-"));
    let own = own.unwrap().to_str().unwrap().to_owned();
    let files = [&reference, &state, &own];
    let kept = files.map(|file| std::fs::read(file).unwrap());
    for options in [
        ["--reference", &reference, "--json", &reference],
        ["--reference", &reference, "--state", &reference],
        ["--state", &state, "--json", &state],
        ["--state", &default, "--json", &default],
        ["--db", "data/h.db", "--state", "data/h.db"],
        ["--db", "data/h.db", "--json", "data/h.db"],
        ["--db", "data/h.db", "--json", &own],
        ["--db", "new.db", "--json", "new.db"],
    ] {
        harness.run(&[&["check"], &options[..]].concat()).exits(2).warns("hint: give ");
        harness.run(&[&["check", "--nagios"], &options[..]].concat()).exits(3);
    }
    let ranks = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
    let vet = ["check", "--vet", "1", "--exclude-file", "list", "--node-file", "list"];
    harness.run_with(&ranks, &vet).exits(2).warns(" cannot both be written to list");
    let now = files.map(|file| std::fs::read(file).unwrap());
    assert!(kept == now, "all files stay as they were");
    assert!(!Path::new(&default).exists() && !harness.path("new.db").exists());
}

#[test]
fn blocked_output_does_not_delay_the_verdict() {
    let harness = Harness::new();
    let pipe = harness.arg("pipe");
    assert_eq!(harness.run_other(&["mkfifo", &pipe], &[]).code, Some(0));
    let check = ["check", "--no-save", "--deadline", "2"];
    let reported = harness.run(&[&check[..], &["--json", &pipe]].concat());
    let line = reported.stdout.lines().next().unwrap_or_default();
    assert!(line.contains("; ") || line.contains(" good"), "{line}");
    assert!(matches!(reported.code, Some(0 | 1)), "{:?}", reported.code);
    // By default, the program would wait for a reader longer than the deadline of the check.
    assert!(!reported.stderr.contains("no program has read this pipe"), "{}", reported.stderr);
    // The pipe is full and stays open.
    let script = r#"exec 3<>"$0"; dd if=/dev/zero bs=65536 count=1 >&3 2>dd.err; exec "$@" >&3"#;
    let words = [&["sh", "-c", script, &pipe, crate::program::path()][..], &check].concat();
    let ended = harness.run_other(&words, &[]);
    assert!(matches!(ended.code, Some(0 | 1)), "{:?}: {}", ended.code, ended.stderr);
}

#[test]
fn check_without_a_home_continues_with_a_note() {
    let harness = Harness::new();
    let was_there = Path::new("/.local").exists();
    for home in ["/", "/nonexistent"] {
        let reported = harness.run_with(&[("HOME", home)], &["check", "--deadline", "60"]);
        assert!(matches!(reported.code, Some(0 | 1)), "{:?}", reported.code);
        reported.prints("state not saved: no home folder").prints("give --state FILE, --db FILE");
    }
    assert_eq!(Path::new("/.local").exists(), was_there);
    let state = harness.arg("state.json");
    harness.run_with(&[("HOME", "/")], &["check", "--deadline", "60", "--state", &state]);
    assert!(Path::new(&state).exists());
}

#[test]
fn program_with_a_non_utf8_path_starts_itself() {
    use std::os::unix::ffi::OsStrExt;
    let harness = Harness::new();
    let folder = harness.path("").join(std::ffi::OsStr::from_bytes(b"n\xff"));
    if let Err(cause) = std::fs::create_dir(&folder) {
        return skip(Part::Device, &format!("names must be UTF-8 here: {cause}"));
    }
    let program = folder.join("nodegauge");
    std::fs::copy(crate::program::path(), &program).unwrap();
    let run = |args: &[&str]| {
        let mut command = harness.command("sh");
        command.args(["-c", r#""$@""#, "sh"]).arg(&program).args(args).output().unwrap()
    };
    let check = run(&["check", "--no-save", "--deadline", "60"]);
    let reported = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(reported.contains("never measured"), "{reported}");
    let stream = run(&[&["stream"], &crate::harness::FAST[..], &["--no-save"]].concat());
    assert!(stream.status.success(), "{}", String::from_utf8_lossy(&stream.stderr));
}

#[test]
fn check_does_not_write_through_links_in_shared_folders() {
    let harness = Harness::new();
    let victim = harness.write("victim", "OLD CONTENT");
    let shared = harness.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::os::unix::fs::symlink(&victim, shared.join("out")).unwrap();
    std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let link = harness.arg("shared/out");
    // The verdict does not depend on the state.
    let reported = harness.run(&["check", "--deadline", "60", "--state", &link]);
    assert!(reported.stdout.contains("state not saved: "), "{}", reported.stdout);
    let ranks = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
    let other = harness.arg("other");
    for files in [
        ["--exclude-file", &link, "--node-file", &other],
        ["--exclude-file", &other, "--node-file", &link],
    ] {
        let args = [&["check", "--vet", "1"][..], &files].concat();
        harness.run_with(&ranks, &args).exits(3).warns("is a symbolic link in a folder");
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "OLD CONTENT");
    assert!(!harness.path("other").exists());
}
