//! Saving, listing, labelling and removing runs.

use super::*;

#[test]
fn a_list_is_newest_first_and_can_be_narrowed() {
    let (_folder, store, first, second) = two_runs();
    let ids = |filter: RunFilter| -> Vec<String> {
        store.list(&filter).unwrap().into_iter().map(|line| line.id).collect()
    };
    let all = RunFilter::default;
    assert_eq!(ids(all()), [second.id.clone(), first.id]);
    assert_eq!(ids(RunFilter { limit: Some(1), ..all() }), ["01ABCE0002"]);
    assert_eq!(ids(RunFilter { host: Some("n01".to_owned()), ..all() }).len(), 2);
    assert!(ids(RunFilter { host: Some("n02".to_owned()), ..all() }).is_empty());
    let label = ("bios".to_owned(), "tuned".to_owned());
    assert_eq!(ids(RunFilter { label: Some(label), ..all() }), [second.id]);
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
    assert_eq!(store.list(&RunFilter::default()).unwrap()[0].headlines[0].value, None);
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
    let values: Vec<Option<f64>> = store.list(&RunFilter::default()).unwrap()[0]
        .headlines
        .iter()
        .map(|headline| headline.value)
        .collect();
    assert_eq!(values, [Some(1e9)]);
}

#[test]
fn samples_are_saved_once() {
    let (_folder, mut store, ..) = two_runs();
    let sample = 123_456_789.125f64;
    let mut record = record(1e9);
    record.measurements[0].samples = vec![sample];
    store.save(&record).unwrap();
    assert_eq!(store.find("latest~1").unwrap().measurements[0].samples, [sample]);
    let file = fs::read(store.path()).unwrap();
    let count = |bytes: &[u8]| file.windows(bytes.len()).filter(|at| *at == bytes).count();
    assert_eq!(count(sample.to_string().as_bytes()), 1, "in the record, as text");
    assert_eq!(count(&sample.to_be_bytes()), 0, "in a column, as SQLite keeps numbers");
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
            "SELECT (SELECT count(*) FROM measurement) + (SELECT count(*) FROM label)",
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
    assert_eq!(store.list(&RunFilter::default()).unwrap().len(), 3);
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
    assert!(!is_environment(&error));
    let mut endless = Record { id: "01ENDLESS".to_owned(), ..record(1e9) };
    endless.measurements[0].samples.push(f64::INFINITY);
    let error = store.save(&endless).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot save run 01ENDLESS: its record would not read back: \
         invalid type: null, expected f64"
    );
    assert_eq!(store.list(&RunFilter::default()).unwrap().len(), 2, "nothing of it is saved");
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
    assert!(is_environment(&error));
    assert_eq!(
        text(&error, &folder),
        "cannot write history database /deep/er/history.db: database or disk is full\n\
         hint: --no-save, or --db FILE in a folder you can write"
    );
    assert_eq!(store.list(&RunFilter::default()).unwrap().len(), 2);
}
