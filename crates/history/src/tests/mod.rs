//! The history as its users meet it.

use super::*;
use nodegauge_measure::record::{
    Category, Machine, Measurement, Record, SCHEMA, Tool, Validity, new_id, now_rfc3339,
};
use std::path::Path;

fn record(triad: f64) -> Record {
    Record {
        schema: SCHEMA.to_owned(),
        id: new_id(),
        started: now_rfc3339(),
        seconds: 1.5,
        complete: true,
        tool: Tool { version: "0.1.0".to_owned(), commit: None },
        command: vec!["stream".to_owned(), "--threads".to_owned(), "2".to_owned()],
        labels: [("nps".to_owned(), "4".to_owned())].into(),
        machine: Machine { host: Some("n01".to_owned()), ..Machine::default() },
        findings: Vec::new(),
        notices: Vec::new(),
        measurements: vec![Measurement {
            gauge: "memory".to_owned(),
            test: "stream".to_owned(),
            name: "triad".to_owned(),
            unit: "B/s".to_owned(),
            value: Some(triad),
            summary: None,
            samples: vec![triad, triad / 2.0],
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config: serde_json::Map::new(),
            moved: None,
            category: Category::Variant,
            limit: None,
            validity: Validity::valid(),
        }],
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn what_is_saved_is_found_again_in_every_way() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("deep/er/history.db")).unwrap();
    let first = record(1e9);
    let second = Record { started: "2031-01-01T00:00:00Z".to_owned(), ..record(2e9) };
    store.save(&first).unwrap();
    store.save(&second).unwrap();
    for (selector, expected) in [
        (second.id.as_str(), &second),
        ("latest", &second),
        ("latest~1", &first),
        ("nps=4", &second),
        (&first.id.to_lowercase(), &first),
    ] {
        assert_eq!(&store.find(selector).unwrap(), expected, "{selector}");
    }
    let lines = store.list(&Filter { limit: Some(1), ..Filter::default() }).unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].headlines[0].value, Some(2e9));
    assert_eq!(lines[0].command, "stream --threads 2");
    let none = Filter { host: Some("n02".to_owned()), ..Filter::default() };
    assert!(store.list(&none).unwrap().is_empty());
}

#[test]
fn labels_change_and_runs_go() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("h.db")).unwrap();
    let saved = record(1e9);
    store.save(&saved).unwrap();
    store.set_label("latest", "ecc", "on").unwrap();
    store.set_label("latest", "nps", "1").unwrap();
    assert_eq!(store.find("ecc=on").unwrap().labels["nps"], "1");
    store.set_label("latest", "ecc", "").unwrap();
    assert!(matches!(store.find("ecc=on"), Err(HistoryError::NotFound { .. })));
    assert_eq!(store.remove(&saved.id[..12]).unwrap(), saved.id);
    assert!(matches!(store.find("latest"), Err(HistoryError::NotFound { .. })));
}

#[test]
fn a_beginning_that_several_runs_share_is_refused_with_their_names() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("h.db")).unwrap();
    for id in ["01ABCD0001", "01ABCD0002"] {
        store.save(&Record { id: id.to_owned(), ..record(1e9) }).unwrap();
    }
    let error = store.find("01abcd").unwrap_err().to_string();
    assert!(error.contains("several runs: 01ABCD0002, 01ABCD0001"), "{error}");
    let error = store.find("01XYZ").unwrap_err().to_string();
    assert!(error.starts_with("no saved run '01XYZ'; there are 01ABCD0002"), "{error}");
}

#[test]
fn a_damaged_database_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("h.db");
    let garbage = "this is not a database, and longer than a header of one hundred bytes, which \
                   SQLite reads first";
    std::fs::write(&path, garbage).unwrap();
    for outcome in [Store::open(&path).map(Some), Store::open_to_read(&path)] {
        let error = outcome.unwrap_err();
        assert!(!error.is_environment());
        assert!(error.to_string().contains("file is not a database"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), garbage);
}

#[test]
fn a_newer_database_is_refused_with_both_versions() {
    let folder = folder();
    let path = folder.path().join("h.db");
    drop(Store::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("has version 99; this nodegauge reads up to 1"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_made_is_an_environment_error() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = Store::open(&file.join("h.db")).unwrap_err();
    assert!(error.is_environment());
    assert!(error.to_string().contains("--no-save"), "{error}");
}

#[test]
fn two_writers_at_once_both_succeed() {
    let folder = folder();
    let path = folder.path().join("h.db");
    drop(Store::open(&path).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = Store::open(&path).unwrap();
                for _ in 0..10 {
                    store.save(&record(1e9)).unwrap();
                }
            });
        }
    });
    assert_eq!(Store::open(&path).unwrap().list(&Filter::default()).unwrap().len(), 40);
}

#[test]
fn a_file_with_a_record_is_read_and_others_are_refused_with_the_reason() {
    let folder = folder();
    let path = folder.path().join("r.json");
    let saved = record(1e9);
    let mut value = serde_json::to_value(&saved).unwrap();
    value["from_the_future"] = serde_json::json!(1);
    std::fs::write(&path, value.to_string()).unwrap();
    assert_eq!(read_file(&path).unwrap(), saved);
    value["schema"] = serde_json::json!("nodegauge/9");
    std::fs::write(&path, value.to_string()).unwrap();
    let error = read_file(&path).unwrap_err().to_string();
    assert!(error.contains("its schema is nodegauge/9, nodegauge/1 is needed"), "{error}");
}

#[test]
fn the_default_place_follows_xdg() {
    let with = |name: &'static str, value: &'static str| {
        move |asked: &str| (asked == name).then(|| OsString::from(value))
    };
    let path = |text: &str| Some(Path::new(text).to_owned());
    assert_eq!(default_path(with("XDG_DATA_HOME", "/d")), path("/d/nodegauge/history.db"));
    assert_eq!(default_path(with("HOME", "/h")), path("/h/.local/share/nodegauge/history.db"));
    assert_eq!(default_path(|_| None), None);
}
