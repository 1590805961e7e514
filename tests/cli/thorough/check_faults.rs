//! Tests of `check` and of the hardware error counters with faults: errors in files that replace those of the kernel,
//! stopped processes, and the shipped files for schedulers and systemd.

use crate::check::{reference, triad};
use crate::harness::{
    Harness, Part, is_running, make_program, measurements, signal, skip, timeout, wait_for,
};
use crate::program;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Starts a command in a mount namespace in which the files in the folder `edac` replace those of EDAC. The exit status
/// is 77 if mount namespaces are not permitted.
const WITH_EDAC: &str = r#"
    mount -t overlay -o lowerdir="$1":/sys/devices/system overlay /sys/devices/system || exit 77
    test -r /sys/devices/system/edac/mc/mc0/dimm0/dimm_ce_count || exit 77
    shift
    exec "$@""#;

/// Writes EDAC's files for one module.
fn edac(harness: &Harness, corrected: u64, uncorrected: u64) {
    let file = |name: &str, text: &str| {
        harness.write(&format!("tree/edac/mc/mc0/{name}"), format!("{text}\n"));
    };
    file("dimm0/dimm_label", "DIMM_A1");
    file("dimm0/dimm_ce_count", &corrected.to_string());
    file("dimm0/dimm_ue_count", &uncorrected.to_string());
    file("ce_noinfo_count", "0");
    file("ue_noinfo_count", "0");
}

fn with_edac<'a>(harness: &Harness, tree: &'a str) -> Option<Vec<&'a str>> {
    let words = vec!["unshare", "--mount", "sh", "-c", WITH_EDAC, "edac", tree];
    let tried = harness.run_other(&[&words[..], &["true"]].concat(), &[]);
    if tried.code != Some(0) {
        skip(Part::Namespaces, tried.stderr.trim());
        return None;
    }
    Some(words)
}

#[test]
fn errors_since_the_last_check_make_the_node_bad() {
    let harness = Harness::new();
    edac(&harness, 3, 0);
    let tree = harness.arg("tree");
    let Some(words) = with_edac(&harness, &tree) else { return };
    let state = harness.arg("state.json");
    let check = [program::path(), "check", "--state", &state, "--deadline", "60"];
    let run = || harness.run_other(&[&words[..], &check].concat(), &[]);
    run().prints("since boot: 3 corrected memory errors: mc0 dimm0, DIMM_A1");
    edac(&harness, 3, 0);
    let quiet = run();
    assert!(!quiet.stdout.contains("since the last check"), "{}", quiet.stdout);
    edac(&harness, 203, 0);
    run().exits(1).prints("mem CE: DIMM_A1; bad: 200 corrected memory errors");
    edac(&harness, 203, 1);
    run().exits(1).prints("mem UE: DIMM_A1; bad: 1 uncorrected memory error");
    // The earlier check has already reported the error, so the node is no longer bad.
    let after = run();
    assert!(!after.stdout.contains("mem UE"), "{}", after.stdout);
}

#[test]
fn hardware_error_during_a_run_makes_its_figures_suspect_or_invalid() {
    let harness = Harness::new();
    edac(&harness, 5, 0);
    let tree = harness.arg("tree");
    let Some(words) = with_edac(&harness, &tree) else { return };
    let stream = |budget: &'static str| {
        let own =
            ["stream", "--size", "1000000elements", "--dimms", "1024x20000", "--budget", budget];
        [&words[..], &[program::path()], &own, &["--no-save", "--json", "-"]].concat()
    };
    let ledger = |record: &Value| record["ledger"].clone();
    let before = harness.run_other(&stream("0.5"), &[]).json();
    assert_eq!(ledger(&before)["during"], serde_json::json!([]));
    assert_eq!(ledger(&before)["since_boot"][0]["events"], 5);
    assert_eq!(ledger(&before)["sources"][0]["state"], "read");
    for (corrected, uncorrected, status) in [(7, 0, "suspect"), (7, 1, "invalid")] {
        let mut command = harness.command("unshare");
        let during = stream("4");
        command.args(&during[1..]).stdout(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        // When threads are running, the program has already read the counters.
        let process = child.id();
        wait_for("the threads", || {
            let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?.count();
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
            (name.trim() == "nodegauge" && (threads > 1 || harness.cpus() == 1)).then_some(())
        });
        std::thread::sleep(Duration::from_millis(1500));
        edac(&harness, corrected, uncorrected);
        let output = child.wait_with_output().unwrap();
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        for m in measurements(&record) {
            assert_eq!(m["validity"]["status"], status, "{m}");
            let reasons = m["validity"]["reasons"].to_string();
            assert!(reasons.contains("mc0 dimm0, DIMM_A1 during the run"), "{reasons}");
        }
        assert!(ledger(&record)["during"][0]["events"].as_u64() >= Some(1));
    }
}

/// Returns the descendants of a process that have this name.
fn descendants(of: u32, name: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
        let parent = rest.split(' ').nth(1).and_then(|word| word.parse::<u32>().ok());
        if parent == Some(of) && head.contains(name) {
            found.push(process);
        }
    }
    found
}

#[test]
fn stopped_measurement_makes_the_node_unknown_by_the_deadline() {
    let harness = Harness::new();
    let high = reference(&harness, "high.json", |group| group["figures"] = triad(1e18));
    // The deadline is long enough for the examination on a busy machine, and short enough for a test.
    let deadline = (timeout() / 10).min(Duration::from_secs(40));
    let seconds = deadline.as_secs().to_string();
    let args = ["check", "--level", "2", "--when-busy", "measure", "--reference", &high];
    let more = ["--deadline", &seconds, "--nagios", "--no-save"];
    let started = Instant::now();
    let running = harness.start(&[&args[..], &more].concat());
    let process = running.process();
    let is_measuring = |child: &u32| {
        let words = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        words.contains("stream")
    };
    let child = wait_for("the measurement", || {
        descendants(process, "nodegauge").into_iter().find(is_measuring)
    });
    signal(child, "STOP");
    let outcome = running.end();
    assert!(started.elapsed() < deadline + Duration::from_secs(3), "{:?}", started.elapsed());
    let outcome = outcome.exits(3).prints("deadline; unknown: ");
    assert!(outcome.stdout.lines().next().unwrap().chars().count() <= 80);
    assert!(!is_running(child));
}

#[test]
fn figure_far_below_the_reference_is_measured_twice() {
    let harness = Harness::new();
    let seconds = (timeout() / 10).as_secs().to_string();
    let high = reference(&harness, "high.json", |group| group["figures"] = triad(1e18));
    let options = ["--level", "2", "--when-busy", "measure", "--deadline", &seconds, "--json"];
    let document = harness.run(&[&["check", "--reference", &high][..], &options].concat()).json();
    let figures = document["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["name"] == "triad");
    let values = figure.unwrap_or_else(|| panic!("{document}"))["values"].as_array().unwrap();
    assert_eq!(values.len(), 2, "{document}");
    // Other load would make the figure suspect, and the node unknown.
    let verdict = document["remarks"].as_array().unwrap();
    let of_triad = verdict.iter().find(|one| one["text"].as_str().unwrap().starts_with("triad "));
    let of_triad = of_triad.unwrap_or_else(|| panic!("{document}"));
    let is_bad = of_triad["verdict"] == "bad"
        && of_triad["reason"].as_str().unwrap().starts_with("mem 0% of ref");
    assert!(is_bad || of_triad["reason"] == "disturbed", "{document}");
    // The runs are saved in the history.
    harness.run(&["history", "list", "--label", "check=yes", "-q"]).exits(0).prints("01");
}

#[test]
fn arrays_have_the_reference_size_and_a_wide_spread_never_makes_a_node_good() {
    let harness = Harness::new();
    let seconds = (timeout() / 10).as_secs().to_string();
    // Every node reaches this bandwidth.
    let of = |name: &str, change: &dyn Fn(&mut Value)| {
        reference(&harness, name, |group| {
            let mut figures = triad(1.0);
            change(&mut figures[0]);
            group["figures"] = figures;
        })
    };
    let check = |file: &str| {
        let options = ["--level", "2", "--when-busy", "measure", "--deadline", &seconds, "--json"];
        harness.run(&[&["check", "--reference", file][..], &options].concat()).json()
    };
    let remarks = |document: &Value| document["remarks"].to_string();
    let sized = check(&of("sized.json", &|_| ()));
    assert!(!remarks(&sized).contains("other size"), "{sized}");
    assert!(sized["figures"][0]["loss_found"].as_f64() < Some(0.1), "{sized}");
    let record = harness.run(&["history", "show", "check=yes", "--json"]).exits(0).json();
    for m in measurements(&record).iter().filter(|m| m["test"] == "stream") {
        assert_eq!(m["config"]["array_bytes"], 16 << 20, "{m}");
    }
    let wide = check(&of("wide.json", &|figure| figure["spread_runs"] = 0.17.into()));
    assert!(remarks(&wide).contains("mem: cannot tell"), "{wide}");
    assert!(remarks(&wide).contains(" runs of each node would suffice"), "{wide}");
    assert_ne!(wide["verdict"], "good", "{wide}");
    assert!(wide["figures"][0]["needed"]["runs"].as_u64() > Some(10), "{wide}");
    // Arrays of ten times the available memory cannot be measured, and smaller arrays cannot be compared with the
    // reference.
    let memory = harness.run(&["machine", "--json"]).json()["machine"]["memory"]["bytes"].as_u64();
    let huge = 10 * memory.unwrap_or(1 << 40);
    let other = check(&of("other.json", &|figure| figure["size"] = huge.into()));
    assert!(remarks(&other).contains("other size"), "{other}");
    assert_ne!(other["verdict"], "good", "{other}");
}

#[test]
fn clock_below_the_base_clock_is_reported_as_the_cause_of_a_low_figure() {
    let harness = Harness::new();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let name = "Unknown CPU @ 90.00GHz";
    let lines = cpuinfo.lines().map(|line| match line.split_once(':') {
        Some((key, _)) if key.trim() == "model name" => format!("{key}: {name}\n"),
        _ => format!("{line}\n"),
    });
    let faster = harness.write("cpuinfo", lines.collect::<String>());
    let shown = [(faster.as_str(), "/proc/cpuinfo")];
    let Some(described) = harness.run_where(&shown, &["machine", "--json"]) else { return };
    let processor = described.exits(0).json()["machine"]["processor"].clone();
    // The base clock of a processor in the catalog is not read from the file, and the file contains no name on Arm.
    if processor["hz"] != 90e9 || processor["measured_hz"].is_null() {
        return;
    }
    let high = reference(&harness, "high.json", |group| {
        group["kind"]["processor"] = processor["model"].clone();
        group["figures"] = triad(1e18);
    });
    let seconds = (timeout() / 10).as_secs().to_string();
    let options = ["--level", "2", "--when-busy", "measure", "--deadline", &seconds, "--json"];
    let check = [&["check", "--no-save", "--reference", &high][..], &options].concat();
    let document = harness.run_where(&shown, &check).unwrap().json();
    let figures = document["figures"].as_array().unwrap();
    let clock = figures.iter().find(|figure| figure["name"] == "clock");
    let clock = clock.unwrap_or_else(|| panic!("{document}"));
    assert_eq!(clock["unit"], "Hz", "{document}");
    assert!(clock["values"][0].as_f64() > Some(1e8), "{document}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("clock-low: busy cores run at "), "{document}");
    let remarks = document["remarks"].as_array().unwrap();
    let of_triad = remarks.iter().find(|one| one["text"].as_str().unwrap().starts_with("triad "));
    let of_triad = of_triad.unwrap_or_else(|| panic!("{document}"));
    assert!(of_triad["reason"] == "mem 0% of ref: clock" || of_triad["verdict"] == "unknown");
}

#[test]
fn clock_below_the_reference_makes_the_node_bad_after_two_measurements() {
    let harness = Harness::new();
    let described = harness.run(&["machine", "--json"]).exits(0).json();
    // The clock cannot be measured on every processor: a loop with known latency and a timer with a fixed frequency are
    // required.
    let Some(hz) = described["machine"]["processor"]["measured_hz"].as_f64() else { return };
    // As on a site, the bound of the clock is made from records.
    let record = harness.run(&["stream", "--samples", "1", "--size", "1MiB", "--json", "-"]);
    harness.write("fleet/n1.json", record.exits(0).stdout);
    harness.run(&["fleet", "baseline", "fleet", "--output", "own.json"]).exits(0);
    let text = std::fs::read_to_string(harness.path("own.json")).unwrap();
    let mut written: Value = serde_json::from_str(&text).unwrap();
    let figures = written["groups"][0]["figures"].as_array_mut().unwrap();
    figures.retain(|figure| figure["name"] == "clock");
    assert_eq!(figures.len(), 1, "{written}");
    let value = figures[0]["value"].as_f64().unwrap();
    let bound = figures[0]["bound"].as_f64().unwrap();
    assert!(bound < value && value > 0.1 * hz, "{written}");
    // No node reaches this clock.
    figures[0]["value"] = Value::from(1e3 * value);
    figures[0]["bound"] = Value::from(1e3 * bound);
    // Every node reaches this bandwidth. The clock is measured together with it.
    figures.extend(triad(1.0).as_array().unwrap().clone());
    let high = harness.write("high.json", written.to_string());

    let seconds = (timeout() / 10).as_secs().to_string();
    let options = ["--level", "2", "--when-busy", "measure", "--deadline", &seconds, "--json"];
    let check = [&["check", "--no-save", "--reference", &high][..], &options].concat();
    let document = harness.run(&check).json();
    let judged = document["figures"].as_array().unwrap();
    let clock = judged.iter().find(|figure| figure["name"] == "clock");
    let clock = clock.unwrap_or_else(|| panic!("{document}"));
    let remarks = document["remarks"].as_array().unwrap();
    let of_clock = remarks.iter().find(|one| one["text"].as_str().unwrap().starts_with("clock "));
    let of_clock = of_clock.unwrap_or_else(|| panic!("{document}"));
    // If the command does not end before the deadline, the clock is not measured.
    if clock["values"].as_array().unwrap().len() < 2 {
        assert_eq!(of_clock["reason"], "not confirmed", "{document}");
        return;
    }
    assert_eq!(of_clock["verdict"], "bad", "{document}");
    assert_eq!(of_clock["reason"], "clock 0% of ref", "{document}");
    assert_eq!(document["verdict"], "bad", "{document}");
}

fn example(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    Path::new(folder).join(name).to_str().unwrap().to_owned()
}

#[test]
fn nhc_script_fails_only_for_a_bad_node_and_prints_the_reason() {
    let harness = Harness::new();
    // Functions of NHC that the shipped script calls.
    const NHC: &str = r#"
        die() { local code="$1"; shift; echo "die $code: $*"; return "$code"; }
        log() { echo "log: $*"; }
        . "$1"; shift
        check_nodegauge "$@"; echo "status $?""#;
    let run = |program: &str, args: &[&str]| {
        let words = ["bash", "-c", NHC, "nhc", &example("nodegauge.nhc")];
        harness.run_other(&[&words[..], args].concat(), &[("NODEGAUGE", program)]).exits(0)
    };
    let state = harness.arg("state.json");
    let lost =
        reference(&harness, "lost.json", |group| group["inventory"]["cores"] = 100_000.into());
    let bad = ["--reference", &lost, "--deadline", "60", "--state", &state];
    run(program::path(), &bad)
        .prints("; bad: ")
        .prints("status 1")
        .prints("die 1: check_nodegauge:  ");
    let other =
        reference(&harness, "other.json", |group| group["kind"]["processor"] = "Z80".into());
    let unknown = ["--reference", &other, "--deadline", "60", "--state", &state];
    let reported = run(program::path(), &unknown).stdout;
    assert!(reported == "status 0\n" || reported.contains("quota"), "{reported}");
    run(program::path(), &["--no-such-option"]).prints("log: check_nodegauge").prints("status 0");
    run("/nonexistent/nodegauge", &[]).prints("status 0");
}

#[test]
fn systemd_units_are_valid_and_run_the_check() {
    let harness = Harness::new();
    let service = std::fs::read_to_string(example("nodegauge-check.service")).unwrap();
    let start = service.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = start.split(' ').collect();
    assert_eq!(words[0], "/usr/bin/nodegauge");
    // The options are those of the unit, with paths for this test.
    let here = |word: &&str| word.replace("/var/lib/nodegauge", harness.path("").to_str().unwrap());
    let args: Vec<String> = words[1..].iter().map(here).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = harness.run(&[&args[..], &["--deadline", "60"]].concat());
    assert!(matches!(outcome.code, Some(0 | 1)) && outcome.stderr.is_empty());
    if !harness
        .command("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok_and(|o| o.status.success())
    {
        return skip(Part::Root, "there is no systemd-analyze");
    }
    // systemd requires that the program exists.
    let unit = service.replace("/usr/bin/nodegauge", program::path());
    let unit = harness.write("units/nodegauge-check.service", unit);
    let timer = std::fs::read_to_string(example("nodegauge-check.timer")).unwrap();
    let timer = harness.write("units/nodegauge-check.timer", timer);
    let verify = ["systemd-analyze", "verify", "--man=no", &unit, &timer];
    let verified = harness.run_other(&verify, &[]);
    assert!(!verified.stderr.contains("nodegauge-check"), "{}", verified.stderr);
}

#[test]
fn installed_unit_starts_the_program_at_its_prefix() {
    let harness = Harness::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install");
    let install = |prefix: &[&str]| {
        let words = [&[script, program::path(), "root"][..], prefix].concat();
        harness.run_other(&words, &[]).exits(0);
        let unit = harness.path("root/lib/systemd/system/nodegauge-check.service");
        std::fs::read_to_string(unit).unwrap()
    };
    let unit = install(&["/opt/site"]);
    assert!(
        unit.contains("\nExecStart=/opt/site/bin/nodegauge check --level 1 --reference "),
        "{unit}"
    );
    let here = install(&[]);
    let program = format!("\nExecStart={}/bin/nodegauge check", harness.arg("root"));
    assert!(here.contains(&program), "{here}");
    assert!(harness.path("root/lib/systemd/system/nodegauge-check.timer").is_file());
}

#[test]
fn scrontab_line_runs_the_check_after_a_random_delay() {
    let harness = Harness::new();
    let table = std::fs::read_to_string(example("nodegauge.scrontab")).unwrap();
    let line = table.lines().find(|line| !line.starts_with('#')).unwrap();
    let fields: Vec<&str> = line.splitn(6, ' ').collect();
    assert!(fields[..5].iter().all(|field| field.parse::<u8>().is_ok() || *field == "*"), "{line}");
    // The command is that of the file, with replacements that shorten it.
    let bin = harness.path("bin");
    let stand_in = |name: &str, text: &str| {
        make_program(&harness.write(&format!("bin/{name}"), format!("#!/bin/sh\n{text}\n")));
    };
    let delays = harness.path("delays");
    stand_in("sleep", &format!(r#"[ "$1" -lt 900 ] && echo "$1" >>'{}'"#, delays.display()));
    stand_in("srun", "shift; exec \"$@\"");
    stand_in("nodegauge", "echo \"$@\"");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // Not every /bin/sh supports $RANDOM.
    let run = || harness.run_other(&["sh", "-c", fields[5]], &[("PATH", &path)]).exits(0).stdout;
    let reported = run();
    (1..5).for_each(|_| drop(run()));
    let delays = std::fs::read_to_string(delays).unwrap();
    let different: std::collections::BTreeSet<&str> = delays.lines().collect();
    assert!(delays.lines().count() == 5 && different.len() > 1, "{delays}");
    let words: Vec<&str> = reported.split_whitespace().collect();
    assert_eq!(words[..3], ["check", "--level", "2"]);
    harness.run(&[&words[..], &["--help"]].concat()).exits(0);
}

#[test]
fn node_is_unknown_if_the_check_cannot_start_processes() {
    let harness = Harness::new();
    // The limit on the number of processes does not apply to root.
    let as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let limited = [&["prlimit", "--nproc=1"], &as_nobody[..], &[program::path()]].concat();
    let words = |more: &[&'static str]| [&limited[..], more].concat();
    let tried = harness.run_other(&words(&["--version"]), &[]);
    if tried.code != Some(0) {
        return skip(Part::Root, &format!("no program of another user: {}", tried.stderr.trim()));
    }
    let reported = harness.run_other(&words(&["check", "--no-save"]), &[]).exits(0);
    let line = reported.stdout.lines().next().unwrap_or_default().to_owned();
    assert!(line.contains("; unknown: "), "{line}");
    for command in ["machine", "doctor"] {
        let refused = harness.run_other(&words(&[command]), &[]).exits(3);
        refused.warns("Resource temporarily unavailable");
    }
}
