//! Tests of saving, listing, labelling and removing runs.

use super::*;
use nodegauge_measure::record::MachineSource;

#[test]
fn list_is_newest_first_and_can_be_filtered() {
    let (_folder, store, first, second) = two_runs();
    let moments = [&first, &second].map(|record| record.started.parse::<DayOrSecond>().unwrap());
    let [at_first, at_second] = moments.map(Some);
    let ids = |filter: RunFilter| -> Vec<String> {
        store.list(&filter).unwrap().into_iter().map(|line| line.id).collect()
    };
    let all = RunFilter::default;
    assert_eq!(ids(all()), [second.id, first.id]);
    assert_eq!(ids(RunFilter { limit: Some(1), ..all() }), ["01ABCE0002"]);
    assert_eq!(ids(RunFilter { host: Some("n01".to_owned()), ..all() }).len(), 2);
    assert!(ids(RunFilter { host: Some("n02".to_owned()), ..all() }).is_empty());
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let labels = vec![label("nps", "4"), label("bios", "tuned")];
    assert_eq!(ids(RunFilter { labels, ..all() }), ["01ABCE0002"]);
    let plain_labels = vec![label("nps", "4"), label("bios", "plain")];
    assert!(ids(RunFilter { labels: plain_labels, ..all() }).is_empty());
    for (value, runs) in
        [("nps", 2), ("4", 2), ("nps=4", 2), ("bios", 1), ("tuned", 1), ("nps=tuned", 0), ("", 0)]
    {
        assert_eq!(
            ids(RunFilter { any_label: Some(value.to_owned()), ..all() }).len(),
            runs,
            "{value}"
        );
    }
    assert_eq!(ids(RunFilter { tests: vec!["hpl", "stream"], ..all() }).len(), 2);
    assert!(ids(RunFilter { tests: vec!["hpl"], ..all() }).is_empty());
    let moment = |text: &str| Some(text.parse::<DayOrSecond>().unwrap());
    assert_eq!(ids(RunFilter { since: at_second.clone(), ..all() }), ["01ABCE0002"]);
    assert_eq!(ids(RunFilter { until: at_second, ..all() }).len(), 2);
    assert_eq!(ids(RunFilter { until: at_first, ..all() }), ["01ABCD0001"]);
    assert_eq!(ids(RunFilter { since: moment("1h"), ..all() }).len(), 2);
    assert_eq!(store.count(&RunFilter { limit: Some(1), ..all() }).unwrap(), 2);
    assert_eq!(store.ids(&all()).unwrap(), ids(all()));
    let line = &store.list(&all()).unwrap()[0];
    assert_eq!(line.figures[0].best, Some(2e9));
    assert_eq!(line.command, "stream --threads 2");
    assert_eq!(line.host.as_deref(), Some("n01"));
    assert_eq!(line.labels.len(), 2);
}

#[test]
fn series_is_identified_by_label_and_host() {
    let (_folder, mut store, _, second) = two_runs();
    let series = |history: &Store, host: &str, key: &str, value: Option<&str>| {
        history.runs_with_label(Some(host), key, value).unwrap()
    };
    let found = series(&store, "n01", "nps", Some("4")).unwrap();
    assert_eq!((found.value.as_str(), found.runs), ("4", 2));
    assert!(found.first_start < second.started);
    for (host, key, value) in [("n02", "nps", None), ("n01", "nps", Some("1")), ("n01", "4", None)]
    {
        assert_eq!(series(&store, host, key, value), None);
    }
    // Without a value, the series of the latest run is returned.
    let started = in_hours(2);
    let labels = [("nps".to_owned(), "1".to_owned())].into();
    let third =
        Record { id: "01ABCF0003".to_owned(), started: started.clone(), labels, ..record(1e9) };
    store.save(&third).unwrap();
    let any_value = series(&store, "n01", "nps", None).unwrap();
    assert_eq!(
        (any_value.value.as_str(), any_value.runs, any_value.first_start),
        ("1", 1, started)
    );
}

#[test]
fn invalid_figure_is_not_listed_as_headline() {
    let (_folder, mut store, ..) = two_runs();
    let mut spoilt = Record { started: in_hours(2), ..record(3e9) };
    spoilt.measurements[0].validity.add(Status::Invalid, "check failed");
    store.save(&spoilt).unwrap();
    assert_eq!(store.list(&RunFilter::default()).unwrap()[0].figures[0].best, None);
    assert_eq!(store.find("latest").unwrap(), spoilt);
}

#[test]
fn published_figure_is_not_listed_as_headline() {
    let folder = folder();
    let mut store = open(&folder.path().join("history.db")).unwrap();
    let mut record = record(1e9);
    let published = Measurement {
        category: Category::Reference,
        value: Some(9e9),
        ..record.measurements[0].clone()
    };
    record.measurements.push(published);
    store.save(&record).unwrap();
    let figures = &store.list(&RunFilter::default()).unwrap()[0].figures;
    assert_eq!((figures.len(), figures[0].best, figures[0].count), (1, Some(1e9), 1));
    // The imported output of another program contains only reference figures.
    let command = ["history", "import", "logs/osu.log"].map(str::to_owned).to_vec();
    let started = in_hours(1);
    let measurements = record.measurements.split_off(1);
    let machine = Machine { source: MachineSource::Import, ..Machine::default() };
    let imported = Record { command, started, measurements, ..self::record(1e9) };
    store.save(&Record { machine, ..imported.clone() }).unwrap();
    let line = store.list(&RunFilter::default()).unwrap().remove(0);
    assert_eq!(line.figures[0].best, Some(9e9));
    assert_eq!(line.imported_from.as_deref(), Some("logs/osu.log"));
    // A record counts as imported by its machine source, not by its command.
    let later = in_hours(2);
    store.save(&Record { id: "01ABCE0009".to_owned(), started: later, ..imported }).unwrap();
    let final_line = store.list(&RunFilter::default()).unwrap().remove(0);
    assert_eq!((final_line.figures.len(), final_line.imported_from), (0, None));
}

#[test]
fn best_of_figures_with_the_same_name_is_listed() {
    let folder = folder();
    let mut store = open(&folder.path().join("history.db")).unwrap();
    let mut record = record(1e9);
    let of = |m: &Measurement, name: &str, value| {
        let unit = if name == "latency" { Unit::Seconds } else { m.unit };
        Measurement { name: name.to_owned(), value: Some(value), unit, ..m.clone() }
    };
    let first = record.measurements[0].clone();
    record.measurements.push(of(&first, "latency", 2e-7));
    record.measurements.push(of(&first, "latency", 1e-7));
    record.measurements.push(of(&first, "triad", 3e9));
    store.save(&record).unwrap();
    let figures = store.list(&RunFilter::default()).unwrap().remove(0).figures;
    let shown: Vec<_> =
        figures.iter().map(|listed| (listed.name.as_str(), listed.best, listed.count)).collect();
    assert_eq!(shown, [("triad", Some(3e9), 2), ("latency", Some(1e-7), 2)]);
}

#[test]
fn shown_prefix_of_an_identifier_is_unique() {
    let (_folder, mut store, ..) = two_runs();
    let distinct_prefix_length = |history: &Store, limit| {
        let filter = RunFilter { limit: Some(limit), ..RunFilter::default() };
        history.distinct_prefix_length(&history.list(&filter).unwrap(), 4).unwrap()
    };
    assert_eq!(distinct_prefix_length(&store, 2), 6, "the prefixes 01ABCD and 01ABCE differ");
    store.save(&Record { id: "01ABCE0003".to_owned(), ..record(1e9) }).unwrap();
    assert_eq!(distinct_prefix_length(&store, 1), 10, "saved runs that are not listed also count");
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
    assert_eq!(count(sample.to_string().as_bytes()), 1, "the record stores the number as text");
    assert_eq!(count(&sample.to_be_bytes()), 0, "the column stores the number as an SQLite number");
}

#[test]
fn labels_are_changed_and_runs_are_removed() {
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
    assert_eq!(left, 0, "removing a run removes its figures and labels");
}

#[test]
fn sql_characters_in_labels_are_plain_text() {
    let (_folder, mut store, ..) = two_runs();
    let odd = "x'; DROP TABLE run; --";
    store.set_label("latest", odd, odd).unwrap();
    assert_eq!(store.find(&format!("{odd}={odd}")).unwrap().labels[odd], odd);
    store.save(&Record { command: vec![odd.to_owned()], ..record(1e9) }).unwrap();
    assert_eq!(store.list(&RunFilter::default()).unwrap().len(), 3);
}

#[test]
fn duplicate_run_and_infinite_sample_are_not_saved() {
    let (folder, mut store, first, _) = two_runs();
    let error = store.save(&first).unwrap_err();
    assert_eq!(
        text(&error, &folder),
        "run 01ABCD0001 is already in history database /deep/er/history.db\n\
         hint: nodegauge history remove 01ABCD0001, then save the run again"
    );
    assert!(!is_environment(&error));
    let mut endless = Record { id: "01ENDLESS".to_owned(), ..record(1e9) };
    endless.measurements[0].samples.push(f64::INFINITY);
    let endless_error = store.save(&endless).unwrap_err().to_string();
    assert_eq!(
        endless_error,
        "cannot save run 01ENDLESS: its figure stream triad is not a finite number"
    );
    assert_eq!(
        store.list(&RunFilter::default()).unwrap().len(),
        2,
        "a refused run must not be saved"
    );
}

#[test]
fn full_disk_is_an_environment_error_and_saves_nothing() {
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
         hint: free some space on that file system, or use --db FILE on another file system"
    );
    assert_eq!(store.list(&RunFilter::default()).unwrap().len(), 2);
}
