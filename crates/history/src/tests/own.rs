//! Tests that new runs use only saved figures that were measured on this node.

use super::*;
use nodegauge_measure::record::MachineSource;

#[test]
fn own_runs_contain_only_valid_figures_measured_on_the_node() {
    let folder = folder();
    let mut store = open(&folder.path().join("history.db")).unwrap();
    let own = |history: &Store| -> Vec<f64> {
        let runs = history.own_runs(Some("n01"), "stream", Some("triad"), 10).unwrap();
        runs.iter().flat_map(|run| &run.measurements).filter_map(|m| m.value).collect()
    };
    let with = |value: f64, change: &dyn Fn(&mut Record)| {
        let mut record = record(value);
        change(&mut record);
        record
    };
    // Each of these changes is sufficient to exclude a run.
    let foreign = [
        with(1e9, &|run| run.machine.source = MachineSource::Import),
        with(2e9, &|run| run.machine.host = Some("n02".to_owned())),
        with(3e9, &|run| run.machine.host = None),
        with(4e9, &|run| run.complete = false),
        with(5e9, &|run| run.measurements[0].category = Category::Reference),
        with(6e9, &|run| run.measurements[0].validity.status = Status::Invalid),
        with(7e9, &|run| run.measurements[0].name = "copy".to_owned()),
    ];
    for record in &foreign {
        store.save(record).unwrap();
        assert_eq!(own(&store), [] as [f64; 0], "{}", record.measurements[0].name);
    }
    // An imported run is excluded even if its host has the same name.
    let elsewhere = with(7.5e9, &|_| {});
    store.import(|| [Ok(elsewhere.clone())].into_iter()).unwrap();
    assert_eq!(own(&store), [] as [f64; 0]);
    let all = store.list(&RunFilter::default()).unwrap();
    assert_eq!(all.iter().filter(|run| !run.own).count(), 2, "two runs are imported");
    let filter = RunFilter { own_only: true, ..RunFilter::default() };
    assert_eq!(store.ids(&filter).unwrap().len(), all.len() - 2);
    // A published figure is removed from the returned record.
    let with_published = with(8e9, &|run| {
        let published = Measurement {
            category: Category::Reference,
            value: Some(342.5e9),
            ..run.measurements[0].clone()
        };
        run.measurements.insert(0, published);
    });
    store.save(&with_published).unwrap();
    assert_eq!(own(&store), [8e9]);
    let newest = with(9e9, &|run| run.started = in_hours(1));
    store.save(&newest).unwrap();
    assert_eq!(own(&store), [9e9, 8e9]);
    assert_eq!(store.own_runs(Some("n01"), "stream", None, 1).unwrap()[0].id, newest.id);
    assert_eq!(store.own_runs(Some("n01"), "hpl", None, 9).unwrap(), []);
}

#[test]
fn run_in_the_future_is_not_the_newest() {
    let folder = folder();
    let mut store = open(&folder.path().join("history.db")).unwrap();
    let started = |value: f64, started: &str, label: &str| Record {
        started: started.to_owned(),
        labels: [("bios".to_owned(), label.to_owned())].into(),
        ..record(value)
    };
    let future = started(1e9, "9999-12-31T00:00:00Z", "wrong-clock");
    let old = started(2e9, "2024-01-01T00:00:00Z", "old");
    let now = started(3e9, &now_rfc3339(), "new");
    for record in [&future, &old, &now] {
        store.save(record).unwrap();
    }
    let ids = [&now, &old, &future].map(|record| record.id.clone());
    assert_eq!(store.ids(&RunFilter::default()).unwrap(), ids);
    let limited = RunFilter { limit: Some(2), own_only: true, ..RunFilter::default() };
    assert_eq!(store.ids(&limited).unwrap(), ids[..2]);
    for (selector, record) in
        [("latest", &now), ("latest~1", &old), ("latest~2", &future), ("wrong-clock", &future)]
    {
        assert_eq!(&store.find(selector).unwrap(), record, "{selector}");
    }
    assert!(matches!(store.find("latest~3"), Err(HistoryError::NotFound { .. })));
    let own = store.own_runs(Some("n01"), "stream", None, 2).unwrap();
    assert_eq!(own.iter().map(|run| run.id.clone()).collect::<Vec<_>>(), ids[..2]);
    let series = store.runs_with_label(Some("n01"), "bios", None).unwrap().unwrap();
    assert_eq!(series.value, "new");
}
