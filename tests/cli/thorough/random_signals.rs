//! Tests of signals at arbitrary moments, for all commands that take some time. Each command must end soon, without
//! leaving processes, shared memory or files.

use crate::harness::{Harness, Outcome, Part, skip};
use crate::mpi::no_orphans;
use std::path::Path;
use std::time::Duration;

/// Commands. Most of them take longer than [`LATEST`].
const COMMANDS: [&[&str]; 26] = [
    &["run"],
    &["machine"],
    &["doctor"],
    &["stream"],
    &["stream", "--ranks", "2", "--samples", "100000"],
    &["stream", "--sweep", "pages=4k,thp"],
    &["stream", "--tune"],
    &["stream", "--compiler", "gcc", "--compiler", "clang"],
    &["explain"],
    &["memory", "ladder"],
    &["memory", "latency"],
    &["memory", "matrix"],
    &["memory", "loaded"],
    &["memory", "mix"],
    &["memory", "curves"],
    &["roofline"],
    &["mpi", "--allow-run-as-root"],
    &["hpl"],
    &["io"],
    &["device", "stream"],
    &["device", "links"],
    &["device", "peaks"],
    &["apps", "trapezoid"],
    &["apps", "iccg"],
    &["apps", "hpcg"],
    &["watch", "--every", "10s"],
];

/// Number of signals.
const SIGNALS: usize = 100;

/// Number of programs that run simultaneously. They wait most of the time.
const AT_ONCE: usize = 4;

/// Signals, and the exit codes that they cause.
const NAMES: [(&str, i32); 3] = [("INT", 130), ("TERM", 143), ("HUP", 129)];

/// Latest moment of a signal, after the start of the program.
const LATEST: Duration = Duration::from_secs(3);

/// Mounts a folder of the test as shared memory, so that entries of other programs are not counted.
const OWN_SHARED_MEMORY: &str = r#"mount --bind "$HOME/shared" /dev/shm && exec "$@""#;

/// Returns the time after which a signal is sent. The times are evenly distributed, and half of them are in the first
/// quarter, in which programs are prepared and child processes start.
fn moment(signal: usize) -> Duration {
    const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;
    let share = (signal as f64 * GOLDEN_RATIO).fract();
    LATEST.mul_f64(share * share)
}

/// Returns the files and folders in a folder, recursively.
fn files(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Starts a command in separate folders, sends a signal, and checks that the command ends and leaves nothing.
fn interrupt(number: usize) {
    let harness = Harness::new();
    for folder in ["shared", "temporary", "files"] {
        std::fs::create_dir(harness.path(folder)).unwrap();
    }
    let command = COMMANDS[number % COMMANDS.len()];
    let (name, code) = NAMES[number % NAMES.len()];
    let path = harness.arg("files");
    let of_io: &[&str] = if command[0] == "io" { &["--path", &path] } else { &[] };
    let under = ["unshare", "--mount", "sh", "-c", OWN_SHARED_MEMORY, "sh"];
    let temporary = harness.arg("temporary");
    let variables = [("TMPDIR", temporary.as_str())];
    let running = harness.start_under(&under, &variables, &[command, of_io].concat());
    std::thread::sleep(moment(number));
    running.signal(name);
    let outcome = running.end();
    let leftovers = ["shared", "temporary", "files"].map(|folder| files(&harness.path(folder)));
    let which = format!("SIG{name} after {:.3} s", moment(number).as_secs_f64());
    if leftovers.iter().any(|of_folder| !of_folder.is_empty()) {
        outcome.fail(&format!(
            "nothing left in shared, temporary, files after {which}: {leftovers:?}"
        ));
    }
    check_code(&outcome, code, &which);
    no_orphans(&harness);
}

/// Checks the end of a command: the signal ended it, by its default action if the command did not handle signals yet,
/// or the command had already ended.
#[track_caller]
fn check_code(outcome: &Outcome, code: i32, which: &str) {
    let is_ended = outcome.code.is_none() || outcome.code == Some(code);
    let is_complete = outcome.code == Some(0) || outcome.stdout.contains("\nsummary ");
    if !is_ended && !is_complete {
        outcome.fail(&format!("exit code {code} after {which}"));
    }
}

#[test]
fn hundred_signals_at_different_moments_leave_no_processes_or_files() {
    let harness = Harness::new();
    let outcome = harness.run_other(&["unshare", "--mount", "true"], &[]);
    if outcome.code != Some(0) {
        return skip(Part::Namespaces, outcome.stderr.trim());
    }
    std::thread::scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || (first..SIGNALS).step_by(AT_ONCE).for_each(interrupt));
        }
    });
}
