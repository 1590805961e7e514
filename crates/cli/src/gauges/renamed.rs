//! Tests of renamed keys. A record, a stored history and an export with the former name of a key can be read, and their
//! figures are paired with figures under the current name.

use nodegauge_analysis::compare::{ComparisonDesign, Pair, Side, compare};
use nodegauge_history::Store;
use nodegauge_measure::keys::{ConfigKind, FormerNames, Registry};
use nodegauge_measure::record::{Machine, Measurement, Record, SCHEMA, new_id, now_rfc3339};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

// Key that is only declared in this test.
nodegauge_measure::keys! {
    /// Length of the rope.
    rope_metres: u64 = Identity "rope", was "rope_length";
}

nodegauge_measure::config! {
    /// Configuration of the figures in this test.
    pub struct RopeConfig {
        rope_metres: rope_metres;
    }
}

/// Returns a record with figures for two lengths, whose key is `key`.
fn record(key: &str) -> Record {
    let figures = [8, 16].map(|metres| {
        json!({
            "gauge": "ropes", "test": "knots", "name": "strength", "unit": "B/s", "value": metres,
            "samples": [metres, metres], "config": {key: metres}, "quoted": "best",
            "category": "variant", "validity": {"status": "valid", "reasons": []},
        })
    });
    let measurements: Vec<Measurement> = figures.into_iter().map(figure).collect();
    let machine = Machine { host: Some("n01".to_owned()), ..Machine::default() };
    let whole = json!({
        "schema": SCHEMA, "id": new_id(), "started": now_rfc3339(), "seconds": 1.0, "complete": true,
        "tool": {"version": "0.1.0", "commit": null}, "command": ["knots"], "machine": machine,
        "measurements": measurements,
    });
    serde_json::from_value(whole).unwrap()
}

fn figure(of: Value) -> Measurement {
    serde_json::from_value(of).unwrap()
}

fn registry() -> Registry {
    Registry::new([ConfigKind::from_config::<RopeConfig>("ropes", &["knots"])])
}

/// Compares a record that was read with a current one. Asserts that both figures are paired by the key.
#[track_caller]
fn pairs_with_today(read: Record) {
    let side = |run: Record| Side { runs: vec![run], ..Side::default() };
    let comparison = compare(
        &side(read),
        &side(record("rope_metres")),
        ComparisonDesign::default(),
        &registry(),
    );
    assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty(), "{comparison:?}");
    assert_eq!(comparison.pairs.len(), 2);
    let has_length = |pair: &Pair| pair.at.contains_key("rope_metres");
    assert!(comparison.pairs.iter().all(has_length), "{comparison:?}");
}

#[test]
fn records_with_a_former_key_name_are_read_and_paired() {
    let registry = registry();
    let names = registry.former_names();
    let folder = tempfile::tempdir().unwrap();
    let old = record("rope_length");
    let text = serde_json::to_string(&old).unwrap();

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    pairs_with_today(nodegauge_history::read_file(file.path(), names).unwrap());

    let exported = nodegauge_history::read_records(Path::new("old.jsonl"), &text, names).unwrap();
    exported.for_each(|read| pairs_with_today(read.unwrap()));

    // The history was written by a program that only knew the former name.
    let path = folder.path().join("history.db");
    let mut store = Store::open(&path, &FormerNames::default()).unwrap();
    store.save(&old).unwrap();
    let as_written = store.find("latest").unwrap();
    assert!(as_written.measurements[0].config.contains_key("rope_length"));
    drop(store);
    let reopened = Store::open(&path, names).unwrap();
    pairs_with_today(reopened.find("latest").unwrap());
    let own = reopened.own_runs(Some("n01"), "knots", Some("strength"), 1).unwrap();
    own.into_iter().for_each(pairs_with_today);
}
