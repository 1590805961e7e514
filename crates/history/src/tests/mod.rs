//! Tests of the public interface of the history.

use super::*;
use nodegauge_measure::keys::FormerNames;
use nodegauge_measure::record::{
    Category, Machine, Measurement, Record, SCHEMA, Status, Tool, Validity, new_id, now_rfc3339,
};
use nodegauge_measure::{Failure, FailureKind, Seconds, Unit};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

mod concurrent;
mod find;
mod open;
mod own;
mod save;
mod scale;
mod transfer;

/// Opens a history without former names of keys.
fn open(path: &Path) -> Result<Store, HistoryError> {
    Store::open(path, &FormerNames::default())
}

/// Opens a history for reading, without former names of keys.
fn open_to_read(path: &Path) -> Result<Option<Store>, HistoryError> {
    Store::open_to_read(path, &FormerNames::default())
}

fn record(triad: f64) -> Record {
    Record {
        schema: SCHEMA.to_owned(),
        id: new_id(),
        started: now_rfc3339(),
        seconds: Seconds(1.5),
        complete: true,
        tool: Tool { version: "0.1.0".to_owned(), commit: None },
        command: vec!["stream".to_owned(), "--threads".to_owned(), "2".to_owned()],
        labels: [("nps".to_owned(), "4".to_owned())].into(),
        machine: Machine { host: Some("n01".to_owned()), ..Machine::default() },
        findings: Vec::new(),
        notices: Vec::new(),
        ledger: None,
        measurements: vec![Measurement {
            gauge: "memory".to_owned(),
            test: "stream".to_owned(),
            name: "triad".to_owned(),
            unit: Unit::BytesPerSecond,
            value: Some(triad),
            summary: None,
            samples: vec![triad, triad / 2.0],
            samples_at_s: Vec::new(),
            samples_round_trip_s: Vec::new(),
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config: serde_json::Map::new(),
            quoted: nodegauge_measure::record::QuotedStatistic::Best,
            traffic: None,
            category: Category::Variant,
            limit: None,
            validity: Validity::valid(),
        }],
    }
}

/// Returns the time `hours` hours from now, which is later than the start of [`record`]. A start up to a day in the
/// future is plausible, because the clocks of nodes may differ.
fn in_hours(hours: u64) -> String {
    let time = std::time::SystemTime::now() + std::time::Duration::from_secs(hours * 3600);
    nodegauge_measure::record::format_rfc3339(time).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns a folder with a history of two runs; the second run is newer.
fn two_runs() -> (tempfile::TempDir, Store, Record, Record) {
    let folder = folder();
    let mut store = open(&folder.path().join("deep/er/history.db")).unwrap();
    let first = Record { id: "01ABCD0001".to_owned(), ..record(1e9) };
    let second = Record {
        id: "01ABCE0002".to_owned(),
        started: in_hours(1),
        labels: [("nps".to_owned(), "4".to_owned()), ("bios".to_owned(), "tuned".to_owned())]
            .into(),
        ..record(2e9)
    };
    store.save(&first).unwrap();
    store.save(&second).unwrap();
    (folder, store, first, second)
}

/// True if the exit code of the error is 3 (a missing permission, folder or disk space).
fn is_environment(error: &HistoryError) -> bool {
    Failure::from(error).kind == FailureKind::Missing
}

/// Returns the complete text of an error without the path of the test folder.
fn text(error: &HistoryError, folder: &tempfile::TempDir) -> String {
    Failure::from(error).to_string().replace(folder.path().to_str().unwrap(), "")
}
