//! Tests that the cost of a query does not grow with the number of saved runs. The cost is counted in steps of SQLite's
//! virtual machine.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of runs in the smaller and in the larger history.
const RUNS: [usize; 2] = [200, 2000];

/// Creates a history of `runs` runs with samples on two hosts. Every run has its own label; every hundredth run has
/// another test.
fn history(folder: &Path, runs: usize) -> Store {
    let mut store = open(&folder.join(format!("{runs}.db"))).unwrap();
    let of = |i: usize| {
        let mut record = record(1e9);
        record.id = format!("01KA{i:022}");
        record.started =
            format!("2026-11-{:02}T{:02}:{:02}:00Z", 1 + i / 1440, i / 60 % 24, i % 60);
        record.machine.host = Some(format!("n0{}", i % 2));
        record.labels = [("run".to_owned(), i.to_string())].into();
        if i.is_multiple_of(100) {
            record.measurements[0].test = "hpl".to_owned();
        }
        record.measurements[0].samples = vec![1e9; 100];
        record
    };
    store.import(|| (0..runs).map(|i| Ok(of(i)))).unwrap();
    store.connection.execute("UPDATE run SET own = 1", []).unwrap();
    store
}

/// Returns the number of steps of SQLite's virtual machine for a query.
fn steps(store: &Store, ask: &dyn Fn(&Store)) -> u64 {
    static STEPS: AtomicU64 = AtomicU64::new(0);
    STEPS.store(0, Ordering::Relaxed);
    let count = || {
        STEPS.fetch_add(1, Ordering::Relaxed);
        false
    };
    store.connection.progress_handler(1, Some(count));
    ask(store);
    store.connection.progress_handler(1, None::<fn() -> bool>);
    STEPS.load(Ordering::Relaxed)
}

#[test]
fn query_cost_does_not_grow_with_the_history() {
    let folder = folder();
    let stores = RUNS.map(|runs| history(folder.path(), runs));
    let limit = |filter: RunFilter| RunFilter { limit: Some(20), ..filter };
    let listed = |filter: RunFilter| {
        move |store: &Store| {
            let lines = store.list(&limit(filter.clone())).unwrap();
            assert!(!lines.is_empty());
            store.distinct_prefix_length(&lines, 8).unwrap();
        }
    };
    let host = Some("n01".to_owned());
    let labels = vec![("run".to_owned(), "150".to_owned())];
    let since = Some("2026-11-01T02:00:00Z".parse().unwrap());
    type Question<'a> = (&'a str, &'a dyn Fn(&Store));
    let questions: [Question; 8] = [
        ("list", &listed(RunFilter::default())),
        (
            "of a host",
            &listed(RunFilter { host: host.clone(), own_only: true, ..RunFilter::default() }),
        ),
        ("with a label", &listed(RunFilter { labels, ..RunFilter::default() })),
        ("since then", &listed(RunFilter { since, ..RunFilter::default() })),
        ("of a test", &listed(RunFilter { tests: vec!["stream"], ..RunFilter::default() })),
        ("by prefix", &|store| drop(store.find("01ka0000000000000000000150").unwrap())),
        ("by label", &|store| drop(store.find_all("run=150").unwrap())),
        ("own", &|store| drop(store.own_runs(Some("n01"), "stream", None, 9).unwrap())),
    ];
    for (what, ask) in questions {
        let [few, many] = stores.each_ref().map(|store| steps(store, ask));
        assert!(few > 0 && many <= few + few / 4, "{what}: {few} steps of {RUNS:?} runs, {many}");
    }
}
