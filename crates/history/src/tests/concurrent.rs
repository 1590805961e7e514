//! Tests of several programs that use one database simultaneously.

use super::*;
use std::sync::Barrier;

#[test]
fn concurrent_opens_create_the_history_without_errors() {
    let folder = folder();
    for round in 0..30 {
        let path = folder.path().join(format!("{round}.db"));
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    open(&path).unwrap();
                });
            }
        });
    }
}

#[test]
fn concurrent_writers_all_succeed() {
    let folder = folder();
    for round in 0..2 {
        let path = folder.path().join(format!("{round}.db"));
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    let mut store = open(&path).unwrap();
                    for _ in 0..3 {
                        store.save(&record(1e9)).unwrap();
                    }
                });
            }
        });
        let reader = open_to_read(&path).unwrap().unwrap();
        assert_eq!(reader.list(&RunFilter::default()).unwrap().len(), 24);
    }
}

#[test]
fn readers_see_complete_runs_during_a_write() {
    let (_folder, store, ..) = two_runs();
    let reader = open_to_read(store.path()).unwrap().unwrap();
    let writing = store.connection.unchecked_transaction().unwrap();
    writing.execute("DELETE FROM run", []).unwrap();
    assert_eq!(reader.list(&RunFilter::default()).unwrap().len(), 2);
    writing.commit().unwrap();
    assert!(reader.list(&RunFilter::default()).unwrap().is_empty());
}

#[test]
fn locked_history_is_reported() {
    let (folder, store, ..) = two_runs();
    let other = Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    store.connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    let refused = |error: HistoryError, access| {
        assert!(is_environment(&error));
        assert_eq!(
            text(&error, &folder),
            format!(
                "cannot {access} history database /deep/er/history.db: another program has been \
                 writing to it for 5 s\nhint: try again when that program has ended, or use --db FILE"
            )
        );
    };
    refused(store.set_label("latest", "a", "b").unwrap_err(), "write");
    refused(store.find("latest").unwrap_err(), "read");
    other.execute_batch("COMMIT").unwrap();
    store.set_label("latest", "a", "b").unwrap();
}

#[test]
fn long_import_does_not_block_other_saves() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    let (_folder, mut store, ..) = two_runs();
    let path = store.path().to_owned();
    let passes = AtomicUsize::new(0);
    let others_are_saved = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let importer = scope.spawn(|| {
            // The second pass of the import waits until another program has saved. This succeeds only if the import is
            // not one long transaction.
            let records = || {
                let is_check = passes.fetch_add(1, Ordering::Relaxed) == 0;
                let others_are_saved = &others_are_saved;
                std::iter::from_fn(move || {
                    let is_over = is_check || others_are_saved.load(Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    (!is_over).then(|| Ok(record(1e9)))
                })
            };
            store.import_in_portions(records, std::time::Duration::from_millis(300))
        });
        let mut other = open(&path).unwrap();
        let saved = (0..3).try_for_each(|_| other.save(&record(2e9)));
        others_are_saved.store(true, Ordering::Relaxed);
        saved.unwrap();
        importer.join().unwrap().unwrap();
    });
}

#[test]
fn save_waits_for_other_programs_up_to_its_limit() {
    use std::time::Duration;
    let (folder, mut store, ..) = two_runs();
    let other = Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ended = store.save_within(&record(1e9), Duration::from_secs(3600), &|| true).unwrap_err();
    assert!(matches!(ended, HistoryError::Busy(_)), "{ended}");
    let late = store.save_within(&record(1e9), Duration::ZERO, &|| false).unwrap_err();
    assert_eq!(
        Failure::from(late).problem().replace(folder.path().to_str().unwrap(), ""),
        "cannot write history database /deep/er/history.db: another program has been writing to it for 0 s"
    );
    std::thread::scope(|scope| {
        let saved =
            scope.spawn(|| store.save_within(&record(1e9), Duration::from_secs(60), &|| false));
        std::thread::sleep(Duration::from_millis(600));
        other.execute_batch("COMMIT").unwrap();
        saved.join().unwrap().unwrap();
    });
}
