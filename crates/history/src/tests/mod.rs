//! The history as its users meet it.

use super::*;
use nodegauge_measure::record::{
    Category, Machine, Measurement, Record, SCHEMA, Status, Tool, Validity, new_id, now_rfc3339,
};
use rusqlite::Connection;
use std::fs;
use std::path::Path;
use std::sync::Barrier;

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
            unit: nodegauge_measure::Unit::BytesPerSecond,
            value: Some(triad),
            summary: None,
            samples: vec![triad, triad / 2.0],
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config: serde_json::Map::new(),
            quoted: nodegauge_measure::record::Quoted::Best,
            traffic: None,
            category: Category::Variant,
            limit: None,
            validity: Validity::valid(),
        }],
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A folder with a history of two runs, the second of them the newest.
fn two_runs() -> (tempfile::TempDir, Store, Record, Record) {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("deep/er/history.db")).unwrap();
    let first = Record { id: "01ABCD0001".to_owned(), ..record(1e9) };
    let second = Record {
        id: "01ABCE0002".to_owned(),
        started: "2031-01-01T00:00:00Z".to_owned(),
        labels: [("nps".to_owned(), "4".to_owned()), ("bios".to_owned(), "tuned".to_owned())]
            .into(),
        ..record(2e9)
    };
    store.save(&first).unwrap();
    store.save(&second).unwrap();
    (folder, store, first, second)
}

/// The full text of an error, with the folder that tests run in left out.
fn text(error: &HistoryError, folder: &tempfile::TempDir) -> String {
    error.to_string().replace(folder.path().to_str().unwrap(), "")
}

#[test]
fn what_is_saved_is_found_again_in_every_way() {
    let (_folder, store, first, second) = two_runs();
    for (selector, expected) in [
        ("01ABCE0002", &second),
        ("01abcd0001", &first),
        ("01abcd", &first),
        ("latest", &second),
        ("latest~0", &second),
        ("latest~1", &first),
        ("nps=4", &second),
        ("bios=tuned", &second),
        ("tuned", &second),
    ] {
        assert_eq!(&store.find(selector).unwrap(), expected, "{selector}");
    }
}

#[test]
fn a_label_names_all_runs_that_carry_it() {
    let (_folder, store, first, second) = two_runs();
    let ids = |selector: &str| -> Vec<String> {
        store.find_all(selector).unwrap().into_iter().map(|record| record.id).collect()
    };
    assert_eq!(ids("nps=4"), [second.id.clone(), first.id.clone()]);
    assert_eq!(ids("4"), [second.id.clone(), first.id.clone()]);
    assert_eq!(ids("bios=tuned"), [second.id.as_str()]);
    assert_eq!(ids("tuned"), [second.id.as_str()]);
    assert_eq!(ids("latest"), [second.id.as_str()]);
    assert_eq!(ids("01abcd"), [first.id.as_str()]);
    assert!(matches!(store.find_all("nps=5"), Err(HistoryError::NotFound { .. })));
}

#[test]
fn a_list_is_newest_first_and_can_be_narrowed() {
    let (_folder, store, first, second) = two_runs();
    let ids = |filter: Filter| -> Vec<String> {
        store.list(&filter).unwrap().into_iter().map(|line| line.id).collect()
    };
    let all = Filter::default;
    assert_eq!(ids(all()), [second.id.clone(), first.id]);
    assert_eq!(ids(Filter { limit: Some(1), ..all() }), ["01ABCE0002"]);
    assert_eq!(ids(Filter { host: Some("n01".to_owned()), ..all() }).len(), 2);
    assert!(ids(Filter { host: Some("n02".to_owned()), ..all() }).is_empty());
    let label = ("bios".to_owned(), "tuned".to_owned());
    assert_eq!(ids(Filter { label: Some(label), ..all() }), [second.id]);
    let line = &store.list(&all()).unwrap()[0];
    assert_eq!(line.headlines[0].value, Some(2e9));
    assert_eq!(line.command, "stream --threads 2");
    assert_eq!(line.host.as_deref(), Some("n01"));
    assert_eq!(line.labels.len(), 2);
}

#[test]
fn what_is_not_valid_is_no_headline() {
    let (_folder, mut store, ..) = two_runs();
    let mut spoilt = Record { started: "2032-01-01T00:00:00Z".to_owned(), ..record(3e9) };
    spoilt.measurements[0].validity.add(Status::Invalid, "check failed");
    store.save(&spoilt).unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap()[0].headlines[0].value, None);
    assert_eq!(store.find("latest").unwrap(), spoilt);
}

#[test]
fn a_published_figure_is_no_headline() {
    let folder = folder();
    let mut store = Store::open(&folder.path().join("history.db")).unwrap();
    let mut record = record(1e9);
    let published = Measurement {
        category: Category::Reference,
        value: Some(9e9),
        ..record.measurements[0].clone()
    };
    record.measurements.push(published);
    store.save(&record).unwrap();
    let values: Vec<Option<f64>> = store.list(&Filter::default()).unwrap()[0]
        .headlines
        .iter()
        .map(|headline| headline.value)
        .collect();
    assert_eq!(values, [Some(1e9)]);
}

#[test]
fn every_sample_has_a_row() {
    let (_folder, store, ..) = two_runs();
    let rows: Vec<(i64, f64)> = Connection::open(store.path())
        .unwrap()
        .prepare("SELECT position, sample.value FROM sample WHERE measurement = 1 ORDER BY 1")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    assert_eq!(rows, [(0, 1e9), (1, 0.5e9)]);
}

#[test]
fn labels_change_and_runs_go() {
    let (_folder, store, first, second) = two_runs();
    store.set_label("latest", "ecc", "on").unwrap();
    store.set_label("latest", "nps", "1").unwrap();
    assert_eq!(store.find("ecc=on").unwrap().labels["nps"], "1");
    assert_eq!(store.find("nps=4").unwrap().id, first.id);
    store.set_label("latest", "ecc", "").unwrap();
    assert!(matches!(store.find("ecc=on"), Err(HistoryError::NotFound { .. })));
    assert_eq!(store.remove("01ABCE").unwrap(), second.id);
    assert_eq!(store.find("latest").unwrap().id, first.id);
    store.remove("latest").unwrap();
    assert!(matches!(store.remove("latest"), Err(HistoryError::NotFound { .. })));
    let left: i64 = Connection::open(store.path())
        .unwrap()
        .query_row(
            "SELECT (SELECT count(*) FROM sample) + (SELECT count(*) FROM label)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0, "what belongs to a run goes with it");
}

#[test]
fn quotes_and_semicolons_are_only_text() {
    let (_folder, mut store, ..) = two_runs();
    let odd = "x'; DROP TABLE run; --";
    store.set_label("latest", odd, odd).unwrap();
    assert_eq!(store.find(&format!("{odd}={odd}")).unwrap().labels[odd], odd);
    store.save(&Record { command: vec![odd.to_owned()], ..record(1e9) }).unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 3);
}

#[test]
fn a_run_that_is_not_there_is_answered_with_what_comes_near() {
    let (folder, store, ..) = two_runs();
    for (selector, expected) in [
        ("01ABCX", "no saved run '01ABCX'; there are 01ABCE0002, 01ABCD0001\n"),
        ("nsp=4", "no saved run 'nsp=4'; there is nps=4\n"),
        ("tunde", "no saved run 'tunde'; there is bios=tuned\n"),
        ("latest~2", "no saved run 'latest~2'; there are latest, latest~1\n"),
        ("", "no saved run ''; there are 01ABCE0002, 01ABCD0001, bios=tuned, nps=4\n"),
        ("01ABC", "'01ABC' is the beginning of several runs: 01ABCE0002, 01ABCD0001"),
        ("01", "'01' is too short for a run; it begins 01ABCE0002, 01ABCD0001"),
        ("./no.json", "cannot read ./no.json: No such file or directory (os error 2)"),
    ] {
        let error = store.find(selector).unwrap_err();
        assert!(text(&error, &folder).starts_with(expected), "{selector}: {error}");
        assert!(!error.is_environment());
    }
    let hint = |selector| store.find(selector).unwrap_err().to_string();
    assert!(hint("latest~2").ends_with("\nhint: nodegauge history list"));
    assert!(hint("01ABC").ends_with("\nhint: give more of the identifier"));
    assert!(hint("01").ends_with("\nhint: give at least 4 characters of the identifier"));
    store.remove("latest").unwrap();
    assert!(hint("latest~1").starts_with("no saved run 'latest~1'; there is latest\n"));
    store.remove("latest").unwrap();
    assert!(hint("latest").starts_with("no saved run 'latest'\n"));
}

#[test]
fn a_saved_run_comes_before_a_file_and_a_file_is_read_all_the_same() {
    let (folder, store, first, _) = two_runs();
    let path = folder.path().join("nps=8.json");
    let saved = Record { id: "01FILE".to_owned(), ..record(5e9) };
    fs::write(&path, serde_json::to_string(&saved).unwrap()).unwrap();
    assert_eq!(store.find(path.to_str().unwrap()).unwrap(), saved);
    assert_eq!(store.find("01ABCD0001").unwrap(), first);
}

#[test]
fn a_run_is_saved_once_and_a_record_that_would_not_read_back_never() {
    let (folder, mut store, first, _) = two_runs();
    let error = store.save(&first).unwrap_err();
    assert_eq!(
        text(&error, &folder),
        "run 01ABCD0001 is in history database /deep/er/history.db already\n\
         hint: nodegauge history remove 01ABCD0001, to save it anew"
    );
    assert!(!error.is_environment());
    let mut endless = Record { id: "01ENDLESS".to_owned(), ..record(1e9) };
    endless.measurements[0].samples.push(f64::INFINITY);
    let error = store.save(&endless).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot save run 01ENDLESS: its record would not read back: \
         invalid type: null, expected f64"
    );
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 2, "nothing of it is saved");
}

/// Both ways of opening, by their errors.
fn refusals(path: &Path) -> [HistoryError; 2] {
    [Store::open(path).unwrap_err(), Store::open_to_read(path).unwrap_err()]
}

#[test]
fn what_is_no_history_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("h.db");
    let garbage = "this is not a database, and longer than the header of one hundred bytes that \
                   SQLite looks at first; so it is refused";
    fs::write(&path, garbage).unwrap();
    for error in refusals(&path) {
        assert!(!error.is_environment());
        assert_eq!(
            text(&error, &folder),
            "cannot read history database /h.db: file is not a database\n\
             hint: move it away, or use --db FILE"
        );
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), garbage);

    for version in [0, 1, 75] {
        let path = folder.path().join(format!("foreign{version}.db"));
        let foreign = Connection::open(&path).unwrap();
        foreign.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
        foreign.pragma_update(None, "user_version", version).unwrap();
        drop(foreign);
        let before = fs::read(&path).unwrap();
        for error in refusals(&path) {
            assert!(!error.is_environment());
            assert!(error.to_string().contains(": it is a database of another program\n"));
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_history_cut_short_is_refused_and_left_as_it_is() {
    let (folder, store, ..) = two_runs();
    let whole = fs::read(store.path()).unwrap();
    drop(store);
    let path = folder.path().join("cut.db");
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    for outcome in [
        Store::open(&path).and_then(|mut store| store.save(&record(1e9))),
        Store::open_to_read(&path).and_then(|store| store.unwrap().find("latest").map(|_| ())),
    ] {
        let error = outcome.unwrap_err();
        assert!(!error.is_environment());
        assert_eq!(
            text(&error, &folder),
            "cannot read history database /cut.db: database disk image is malformed\n\
             hint: move it away, or use --db FILE"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), &whole[..whole.len() / 2]);
}

#[test]
fn a_newer_history_is_refused_with_both_versions() {
    let (folder, store, ..) = two_runs();
    let connection = Connection::open(store.path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    for error in refusals(store.path()) {
        assert!(!error.is_environment());
        assert_eq!(
            text(&error, &folder),
            "cannot read history database /deep/er/history.db: \
             found version 99, required is at most 1\nhint: use a newer nodegauge, or --db FILE"
        );
    }
}

#[test]
fn a_history_of_version_1_is_todays_after_opening() {
    schema::migrations().validate().unwrap();
    let folder = folder();
    let path = folder.path().join("v1.db");
    Connection::open(&path).unwrap().execute_batch(include_str!("v1.sql")).unwrap();
    let mut store = Store::open(&path).unwrap();
    let old = store.find("latest").unwrap();
    assert_eq!(old.measurements[0].samples, [78.4e9, 78.1e9]);
    assert_eq!(store.find("nps=4").unwrap(), old);
    assert_eq!(store.list(&Filter::default()).unwrap()[0].headlines[0].value, Some(78.4e9));
    store.save(&record(1e9)).unwrap();
    // It is now like one that is made today: a step that was changed afterwards would show here.
    let tables = |path: &Path| -> Vec<String> {
        Connection::open(path)
            .unwrap()
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(|sql: rusqlite::Result<String>| {
                sql.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect()
    };
    let new = folder.path().join("new.db");
    drop(Store::open(&new).unwrap());
    assert_eq!(tables(&path), tables(&new));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_environment_error() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = Store::open(&file.join("h.db")).unwrap_err();
    assert!(error.is_environment());
    assert_eq!(
        text(&error, &folder),
        "cannot write history database /file/h.db: File exists (os error 17)\n\
         hint: --no-save, or --db FILE in a folder you can write"
    );
    // A folder where a file should be.
    let error = Store::open(folder.path()).unwrap_err();
    assert!(error.is_environment());
    assert!(error.to_string().contains(": Is a directory (os error 21)\n"), "{error}");
    let error = Store::open_to_read(folder.path()).unwrap_err();
    assert!(error.is_environment());
    assert!(error.to_string().starts_with("cannot read history database"), "{error}");
    // Nobody may make files in /proc, not even root.
    let error = Store::open(Path::new("/proc/nodegauge.db")).unwrap_err();
    assert!(error.is_environment());
    assert!(error.to_string().contains(": its folder cannot be written\n"), "{error}");
}

#[test]
fn what_sqlite_takes_for_a_database_in_memory_is_a_file_here() {
    assert!(Store::open(Path::new("")).unwrap_err().is_environment());
    let folder = folder();
    let path = folder.path().join("file:x?mode=memory");
    let mut store = Store::open(&path).unwrap();
    store.save(&record(1e9)).unwrap();
    assert!(path.is_file());
}

#[test]
fn a_full_disk_is_an_environment_error_and_saves_nothing() {
    let (folder, mut store, ..) = two_runs();
    let pages: i64 = store.connection.query_row("PRAGMA page_count", [], |r| r.get(0)).unwrap();
    store
        .connection
        .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        .unwrap();
    let mut large = record(1e9);
    large.measurements[0].samples = vec![1.0; 10_000];
    let error = store.save(&large).unwrap_err();
    assert!(error.is_environment());
    assert_eq!(
        text(&error, &folder),
        "cannot write history database /deep/er/history.db: database or disk is full\n\
         hint: --no-save, or --db FILE in a folder you can write"
    );
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 2);
}

#[test]
fn a_reader_needs_no_permission_to_write_and_cannot() {
    let (folder, store, _, second) = two_runs();
    let path = store.path().to_owned();
    drop(store);
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let reader = Store::open_to_read(&path).unwrap().unwrap();
    assert_eq!(reader.find("latest").unwrap(), second);
    let error = reader.set_label("latest", "a", "b").unwrap_err();
    assert!(error.is_environment());
    assert!(
        text(&error, &folder).starts_with(
            "cannot write history database /deep/er/history.db: attempt to write a readonly database"
        ),
        "{error}"
    );
    // Root may write what is read-only; for others opening says so before anything is measured.
    if fs::File::options().write(true).open(&path).is_err() {
        let error = Store::open(&path).unwrap_err();
        assert!(error.is_environment());
        assert!(error.to_string().contains("attempt to write a readonly database"), "{error}");
    }
}

#[test]
fn there_may_be_no_history_yet() {
    let folder = folder();
    assert!(Store::open_to_read(&folder.path().join("none.db")).unwrap().is_none());
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    assert!(Store::open_to_read(&empty).unwrap().is_none());
    assert!(fs::read(&empty).unwrap().is_empty(), "a reader writes nothing");
    Store::open(&empty).unwrap().save(&record(1e9)).unwrap();
}

#[test]
fn a_database_may_be_made_by_several_at_once() {
    let folder = folder();
    for round in 0..30 {
        let path = folder.path().join(format!("{round}.db"));
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    Store::open(&path).unwrap();
                });
            }
        });
    }
}

#[test]
fn writers_at_once_all_succeed() {
    let folder = folder();
    for round in 0..2 {
        let path = folder.path().join(format!("{round}.db"));
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    let mut store = Store::open(&path).unwrap();
                    for _ in 0..3 {
                        store.save(&record(1e9)).unwrap();
                    }
                });
            }
        });
        let reader = Store::open_to_read(&path).unwrap().unwrap();
        assert_eq!(reader.list(&Filter::default()).unwrap().len(), 24);
    }
}

#[test]
fn readers_see_whole_runs_while_others_write() {
    let (_folder, store, ..) = two_runs();
    let reader = Store::open_to_read(store.path()).unwrap().unwrap();
    let writing = store.connection.unchecked_transaction().unwrap();
    writing.execute("DELETE FROM run", []).unwrap();
    assert_eq!(reader.list(&Filter::default()).unwrap().len(), 2);
    writing.commit().unwrap();
    assert!(reader.list(&Filter::default()).unwrap().is_empty());
}

#[test]
fn a_file_with_a_record_is_read_and_others_are_refused_with_the_reason() {
    let folder = folder();
    let path = folder.path().join("r.json");
    let saved = record(1e9);
    let mut value = serde_json::to_value(&saved).unwrap();
    value["from_the_future"] = serde_json::json!(1);
    fs::write(&path, value.to_string()).unwrap();
    assert_eq!(read_file(&path).unwrap(), saved);
    value["schema"] = serde_json::json!("nodegauge/9");
    for (content, cause) in [
        (value.to_string().into_bytes(), "found schema nodegauge/9, required is nodegauge/1"),
        (b"{}".to_vec(), "found no schema, required is nodegauge/1"),
        (b"{".to_vec(), "EOF while parsing an object at line 1 column 1"),
        (br#"{"schema": "nodegauge/1"}"#.to_vec(), "missing field `id`"),
        (vec![0xff, 0xfe], "it is not text"),
    ] {
        fs::write(&path, content).unwrap();
        let error = read_file(&path).unwrap_err();
        assert!(!error.is_environment());
        assert_eq!(
            text(&error, &folder),
            format!(
                "/r.json is not a record of nodegauge: {cause}\n\
                 hint: give a file that --json FILE wrote"
            )
        );
    }
    let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    assert!(HistoryError::Io { path, cause: denied }.is_environment());
}

#[test]
fn the_default_place_follows_the_environment() {
    let place = |set: &[(&str, &str)]| {
        default_path(|asked| {
            set.iter().find(|(name, _)| *name == asked).map(|(_, value)| OsString::from(value))
        })
    };
    let (home, data) = (("HOME", "/h"), ("XDG_DATA_HOME", "/d"));
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(place(&[home, data, ("NODEGAUGE_DB", "x.db")]), path("x.db"));
    assert_eq!(place(&[home, data, ("NODEGAUGE_DB", "")]), path("/d/nodegauge/history.db"));
    assert_eq!(place(&[home, data]), path("/d/nodegauge/history.db"));
    assert_eq!(place(&[home]), path("/h/.local/share/nodegauge/history.db"));
    let relative = place(&[home, ("XDG_DATA_HOME", "d")]);
    assert_eq!(relative, path("/h/.local/share/nodegauge/history.db"));
    assert_eq!(place(&[]), None);
}
