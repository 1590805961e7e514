//! Check that only `os::wait_until` and related functions pause a thread.

use crate::names::without_tests;
use crate::tokens::tokens;
use crate::{crates, files, root};

/// Calls that pause a thread for some time.
const PAUSES: [[&str; 3]; 2] = [["thread", "::", "sleep"], ["thread", "::", "park_timeout"]];

/// Files that may pause a thread, with the reasons.
const ALLOWED: [(&str, &str); 5] = [
    (
        "crates/compute/src/hpl.rs",
        "the end of the awaited thread ends the pause, so that no time is added to a solution",
    ),
    ("crates/machine/src/doctor/load.rs", "the load is that of a time in which this thread sleeps"),
    ("crates/os/src/spin.rs", "the owner of waits inside what is timed"),
    ("crates/os/src/wait.rs", "the owner of all other waits"),
    (
        "crates/passes/src/traffic.rs",
        "the traffic at rest is that of a time in which all threads sleep",
    ),
];

/// True if the product code of a source pauses a thread.
fn pauses(text: &str) -> bool {
    let words = without_tests(&tokens(text));
    words.windows(3).any(|three| PAUSES.iter().any(|pause| three.iter().eq(pause)))
}

#[test]
fn threads_are_paused_only_in_listed_files() {
    let root = root();
    let mut found = Vec::new();
    for folder in crates() {
        for file in files(&folder.join("src"), &["rs"]) {
            let path = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
            if !is_test && pauses(&std::fs::read_to_string(&file).unwrap()) {
                found.push(path);
            }
        }
    }
    let allowed = ALLOWED.map(|(path, _)| path);
    let others: Vec<&String> =
        found.iter().filter(|path| !allowed.contains(&path.as_str())).collect();
    assert!(others.is_empty(), "use nodegauge_os::wait_until or wait_whole_time in {others:#?}");
    let unneeded: Vec<&str> =
        allowed.into_iter().filter(|path| !found.iter().any(|found| found == path)).collect();
    assert!(unneeded.is_empty(), "no longer needed in ALLOWED: {unneeded:?}");
}

#[test]
fn pauses_are_found_outside_of_tests_and_comments() {
    assert!(pauses("fn a() { std::thread::sleep(TIME) }"));
    assert!(pauses("fn a() { thread::park_timeout(TIME); }"));
    assert!(!pauses("// std::thread::sleep\nfn a() { sleep(TIME); thread::yield_now() }"));
    assert!(!pauses("#[cfg(test)]\nmod tests { fn a() { std::thread::sleep(TIME) } }"));
}
