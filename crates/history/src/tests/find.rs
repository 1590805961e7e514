//! Tests of the selection of runs by identifier, label or file, and of the errors if no run matches.

use super::*;

#[test]
fn saved_runs_are_found_by_every_selector() {
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
fn label_selects_all_runs_with_it() {
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
fn unknown_run_is_reported_with_similar_names() {
    let (folder, store, ..) = two_runs();
    for (selector, expected) in [
        ("01ABCX", "no saved run '01ABCX'; available: 01ABCE0002, 01ABCD0001\n"),
        ("nsp=4", "no saved run 'nsp=4'; available: nps=4\n"),
        ("tunde", "no saved run 'tunde'; available: bios=tuned\n"),
        ("latest~2", "no saved run 'latest~2'; available: latest, latest~1\n"),
        ("", "no saved run ''; available: 01ABCE0002, 01ABCD0001, bios=tuned, nps=4\n"),
        ("01ABC", "'01ABC' is the prefix of several runs: 01ABCE0002, 01ABCD0001"),
        ("01", "'01' is too short to select a run; it matches 01ABCE0002, 01ABCD0001"),
        ("./no.json", "cannot read ./no.json: No such file or directory (os error 2)"),
    ] {
        let error = store.find(selector).unwrap_err();
        assert!(text(&error, &folder).starts_with(expected), "{selector}: {error}");
        assert!(!is_environment(&error));
    }
    let hint = |selector| Failure::from(store.find(selector).unwrap_err()).to_string();
    assert!(hint("latest~2").ends_with("\nhint: nodegauge history list"));
    assert!(hint("01ABC").ends_with("\nhint: give more characters of the identifier"));
    assert!(hint("01").ends_with("\nhint: give at least 4 characters of the identifier"));
    store.remove("latest").unwrap();
    assert!(hint("latest~1").starts_with("no saved run 'latest~1'; available: latest\n"));
    store.remove("latest").unwrap();
    assert!(hint("latest").starts_with("no saved run 'latest'\n"));
}

#[test]
fn path_selects_a_file_and_identifier_selects_a_saved_run() {
    let (folder, store, first, _) = two_runs();
    let path = folder.path().join("nps=8.json");
    let saved = Record { id: "01FILE".to_owned(), ..record(5e9) };
    fs::write(&path, serde_json::to_string(&saved).unwrap()).unwrap();
    assert_eq!(store.find(path.to_str().unwrap()).unwrap(), saved);
    assert_eq!(store.find("01ABCD0001").unwrap(), first);
}

#[test]
fn record_file_is_read_and_other_files_are_refused_with_reasons() {
    let folder = folder();
    let path = folder.path().join("r.json");
    let saved = record(1e9);
    let mut value = serde_json::to_value(&saved).unwrap();
    value["from_the_future"] = serde_json::json!(1);
    fs::write(&path, value.to_string()).unwrap();
    assert_eq!(read_file(&path, &FormerNames::default()).unwrap(), saved);
    value["schema"] = serde_json::json!("nodegauge/9");
    for (content, cause) in [
        (value.to_string().into_bytes(), "found schema nodegauge/9, required is nodegauge/1"),
        (b"{}".to_vec(), "found no schema, required is nodegauge/1"),
        (b"{".to_vec(), "EOF while parsing an object at line 1 column 1"),
        (br#"{"schema": "nodegauge/1"}"#.to_vec(), "missing field `id`"),
        (vec![0xff, 0xfe], "the file is not UTF-8 text"),
    ] {
        fs::write(&path, content).unwrap();
        let error = read_file(&path, &FormerNames::default()).unwrap_err();
        assert!(!is_environment(&error));
        assert_eq!(
            text(&error, &folder),
            format!(
                "/r.json is not a nodegauge record: {cause}\n\
                 hint: give a file that --json FILE wrote"
            )
        );
    }
    let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    assert!(is_environment(&HistoryError::from_file_error(&path, &denied)));
}

#[test]
fn imported_run_is_latest_only_without_own_runs() {
    let folder = folder();
    let mut store = open(&folder.path().join("runs.sqlite")).unwrap();
    let mut imported = record(3e9);
    imported.machine.source = nodegauge_measure::record::MachineSource::Import;
    imported.started = in_hours(1);
    store.save(&imported).unwrap();
    assert_eq!(store.find("latest").unwrap().id, imported.id);
    let own = record(4e9);
    store.save(&own).unwrap();
    assert_eq!(store.find("latest").unwrap().id, own.id);
    assert!(store.find("latest~1").is_err());
}
