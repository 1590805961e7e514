//! Tests with recorded trees. Each folder of `tests/ledgers` has the files that the ledger reads; the `.case` file with
//! the same name contains the changes during a run and the expected result.

use super::*;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Contents of a `.case` file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    since_boot: Vec<String>,
    during: Vec<String>,
    #[serde(default)]
    vanished: Vec<String>,
    #[serde(default)]
    narrow_links: Vec<String>,
    #[serde(default)]
    slow_links: Vec<String>,
    /// State of each source.
    sources: BTreeMap<String, SourceState>,
    /// Files that must be unreadable. A folder replaces each, because root can read any file.
    #[serde(default)]
    unreadable: Vec<String>,
    /// Files and folders that vanish during the run.
    #[serde(default)]
    removed: Vec<String>,
    /// Contents of files after the run.
    #[serde(default)]
    after: BTreeMap<String, String>,
}

/// Copies a tree with its links.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            let link = std::fs::read_link(entry.path()).unwrap();
            std::os::unix::fs::symlink(link, target).unwrap();
        } else if kind.is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn words<T: ToString>(of: &[T]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

fn check(path: &Path) {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let case: Case = toml::from_str(&std::fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let folder = tempfile::tempdir().unwrap();
    copy(&path.with_extension(""), folder.path());
    let root = SysRoot::recorded(folder.path());
    for file in &case.unreadable {
        std::fs::remove_file(root.path(file)).unwrap();
        std::fs::create_dir(root.path(file)).unwrap();
    }
    let before = LedgerReading::read(&root);
    for (file, text) in &case.after {
        std::fs::write(root.path(file), text).unwrap();
    }
    for file in &case.removed {
        std::fs::remove_dir_all(root.path(file)).unwrap();
    }
    let after = LedgerReading::read(&root);
    let ledger = after.ledger(&root, Some(&before));
    assert_eq!(words(&ledger.since_boot), case.since_boot, "{name}");
    assert_eq!(words(&ledger.during), case.during, "{name}");
    assert_eq!(ledger.vanished, case.vanished, "{name}");
    assert_eq!(words(&ledger.narrow_links), case.narrow_links, "{name}");
    assert_eq!(words(&ledger.slow_links), case.slow_links, "{name}");
    for source in &ledger.sources {
        assert_eq!(Some(&source.state), case.sources.get(&source.name), "{name}: {source:?}");
        assert_eq!(source.reason.is_some(), source.state == SourceState::Unreadable, "{source:?}");
    }
    assert_eq!(ledger.sources.len(), case.sources.len(), "{name}");
    let read: LedgerReading =
        serde_json::from_str(&serde_json::to_string(&after).unwrap()).unwrap();
    assert_eq!(read, after, "{name}: a reading is kept between two checks");
}

#[test]
fn recorded_ledgers_give_expected_events() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/ledgers");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let cases: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "case")).collect();
    assert!(cases.len() >= 6);
    for case in cases {
        check(&case);
    }
}

#[test]
fn all_events_count_after_reboot() {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ledgers/skylake-hot");
    let now = LedgerReading::read(&SysRoot::recorded(tree));
    let earlier = LedgerReading { boot: Some("another".to_owned()), ..now.clone() };
    assert_eq!(now.since(&earlier).events, now.all_events());
    assert!(!now.all_events().is_empty() && now.since(&now).events.is_empty());
    // Without an identifier of the boot, the counters cannot be compared.
    let unknown = LedgerReading { boot: None, ..now.clone() };
    assert_eq!(unknown.since(&unknown).events, now.all_events());
}

#[test]
fn counters_of_this_machine_are_read() {
    let reading = LedgerReading::read(&SysRoot::live());
    assert_eq!(reading.sources.len(), 5);
    assert!(reading.since(&reading).events.is_empty());
}
