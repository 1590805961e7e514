//! Tests of the import of records from another history.

use super::*;
use nodegauge_measure::Seconds;
use std::path::Path;

/// Parses the records in a text and imports them.
fn import(store: &mut Store, text: &str) -> Result<ImportResult, HistoryError> {
    let names = FormerNames::default();
    store.import(|| read_records(Path::new("x.jsonl"), text, &names).expect("records"))
}

fn lines(records: &[Record]) -> String {
    records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect()
}

#[test]
fn imported_records_keep_identifiers_and_are_saved_once() {
    let (_folder, mut store, ..) = two_runs();
    let there = [record(1e9), record(2e9), record(3e9)];
    let done = |saved, known| ImportResult { saved, known };
    assert_eq!(import(&mut store, &lines(&there[..2])).unwrap(), done(2, 0));
    store.set_label(&there[0].id, "seen", "here").unwrap();
    assert_eq!(import(&mut store, &lines(&there)).unwrap(), done(1, 2));
    assert_eq!(store.find(&there[2].id).unwrap(), there[2]);
    assert_eq!(store.find(&there[0].id).unwrap().labels["seen"], "here", "labels stay");
    // `--json` writes a record in this format.
    let pretty = serde_json::to_string_pretty(&record(4e9)).unwrap();
    assert_eq!(import(&mut store, &format!("\n{pretty}\n\n{pretty}")).unwrap(), done(1, 1));
    assert_eq!(import(&mut store, "{\"schema\": 1}").unwrap_err().to_string().lines().count(), 2);
    for other in ["", "  ", "not JSON", "[1]", "{}", "{\"fio version\": \"fio-3.33\"}"] {
        assert!(read_records(Path::new("x"), other, &FormerNames::default()).is_none(), "{other}");
    }
}

#[test]
fn refused_import_changes_nothing_and_reports_the_record() {
    let (_folder, mut store, ..) = two_runs();
    let (known, fresh) = (record(1e9), record(2e9));
    store.save(&known).unwrap();
    let other = Record { seconds: Seconds(99.0), ..known.clone() };
    let newer = lines(std::slice::from_ref(&fresh)).replace("nodegauge/1", "nodegauge/2");
    let odd = Record { id: "x\u{1b}[2J".to_owned(), ..record(1e9) };
    let whole = lines(&[fresh.clone(), fresh.clone()]);
    let hint = "\nhint: give a complete file from history export or --json";
    for (text, expected) in [
        (lines(&[fresh.clone(), other]), format!("run {} is in history database ", known.id)),
        (
            lines(std::slice::from_ref(&fresh)) + &newer,
            format!(
                "x.jsonl, record at line 2: found schema nodegauge/2, required is nodegauge/1{hint}"
            ),
        ),
        (
            whole[..whole.len() - 20].to_owned(),
            "x.jsonl, record at line 2: EOF while parsing".to_owned(),
        ),
        (
            lines(std::slice::from_ref(&fresh)) + "\n\nrubbish",
            "x.jsonl, record at line 4: expected value".to_owned(),
        ),
        (
            lines(&[fresh.clone(), Record { seconds: Seconds(99.0), ..fresh.clone() }]),
            format!("run {} is in history database ", fresh.id),
        ),
        (lines(&[fresh.clone(), odd]), "invalid run identifier \"x\\u{1b}[2J\"\n".to_owned()),
    ] {
        let error = import(&mut store, &text).unwrap_err();
        assert!(!is_environment(&error));
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(error.to_string().lines().count() <= 2, "{error}");
        assert_eq!(
            store.count(&RunFilter::default()).unwrap(),
            3,
            "a refused file must not import any run"
        );
    }
}

#[test]
fn run_with_an_implausible_start_or_figure_is_not_imported() {
    let (_folder, mut store, _, second) = two_runs();
    let started = |text: &str| Record { started: text.to_owned(), ..record(1e9) };
    let negative = {
        let mut run = record(1e9);
        run.measurements[0].samples[1] = -1.0;
        run
    };
    for (run, cause) in [
        (
            started("9999-12-31T23:59:59Z"),
            "it starts at 9999-12-31T23:59:59Z, which is in the future",
        ),
        (started(&in_hours(48)), "which is in the future"),
        (started(""), "it starts at \"\", which is not a time"),
        (started("garbage"), "it starts at \"garbage\", which is not a time"),
        (started("2026-02-30T00:00:00Z"), "which is not a time"),
        (started("99999-01-01T00:00:00Z"), "which is not a time"),
        (started("2026-11-21T20:00:00+01:00"), "which is not a time"),
        (Record { seconds: Seconds(-5.0), ..record(1e9) }, "it lasts -5 s"),
        (record(-1e9), "its figure stream triad is negative"),
        (negative, "its figure stream triad is negative"),
    ] {
        let alone = lines(std::slice::from_ref(&run));
        let among_others = lines(&[record(2e9), run.clone(), record(3e9)]);
        for text in [alone, among_others] {
            let error = import(&mut store, &text).unwrap_err();
            let expected = format!("cannot import run {}: ", run.id);
            assert!(error.to_string().starts_with(&expected), "{error}");
            assert!(error.to_string().contains(cause), "{error}");
            assert_eq!(store.count(&RunFilter::default()).unwrap(), 2);
        }
    }
    let twice =
        lines(&[record(1e9)]).replace("\"measurements\":", "\"measurements\":[],\"measurements\":");
    let error = import(&mut store, &twice).unwrap_err();
    assert!(error.to_string().contains("duplicate field `measurements`"), "{error}");
    // The clock of another node may be ahead.
    let ahead = started(&in_hours(12));
    import(&mut store, &lines(std::slice::from_ref(&ahead))).unwrap();
    assert_eq!(store.find(&ahead.id).unwrap(), ahead);
    assert_eq!(store.find("latest").unwrap(), second, "the latest run is one of this node");
}
