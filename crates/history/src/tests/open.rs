//! Tests of opening databases: rejected files, missing files, earlier versions.

use super::*;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Returns the errors of opening a path for writing and for reading.
fn refusals(path: &Path) -> [HistoryError; 2] {
    [open(path).unwrap_err(), open_to_read(path).unwrap_err()]
}

#[test]
fn foreign_files_are_refused_and_unchanged() {
    let folder = folder();
    let path = folder.path().join("h.db");
    let garbage = "this text is not a database; it is longer than the header of one hundred bytes \
                   that SQLite reads first";
    fs::write(&path, garbage).unwrap();
    for error in refusals(&path) {
        assert!(!is_environment(&error));
        assert_eq!(
            text(&error, &folder),
            "cannot read history database /h.db: file is not a database\n\
             hint: move the file away, or use --db FILE"
        );
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), garbage);

    for version in [0, 1, 75] {
        let foreign_path = folder.path().join(format!("foreign{version}.db"));
        let foreign = Connection::open(&foreign_path).unwrap();
        foreign.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
        foreign.pragma_update(None, "user_version", version).unwrap();
        drop(foreign);
        let before = fs::read(&foreign_path).unwrap();
        for error in refusals(&foreign_path) {
            assert!(!is_environment(&error));
            assert!(error.to_string().contains(": the file is a database of another program\n"));
        }
        assert_eq!(fs::read(&foreign_path).unwrap(), before);
    }
}

#[test]
fn truncated_history_is_refused_and_unchanged() {
    let (folder, store, ..) = two_runs();
    let whole = fs::read(store.path()).unwrap();
    drop(store);
    let path = folder.path().join("cut.db");
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    for outcome in [
        open(&path).and_then(|mut writable| writable.save(&record(1e9))),
        open_to_read(&path).and_then(|readable| readable.unwrap().find("latest").map(|_| ())),
    ] {
        let error = outcome.unwrap_err();
        assert!(!is_environment(&error));
        assert_eq!(
            text(&error, &folder),
            "cannot read history database /cut.db: database disk image is malformed\n\
             hint: move the file away, or use --db FILE"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), &whole[..whole.len() / 2]);
}

#[test]
fn newer_history_is_refused_with_found_and_required_version() {
    let (folder, store, ..) = two_runs();
    let connection = Connection::open(store.path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    for error in refusals(store.path()) {
        assert!(!is_environment(&error));
        assert_eq!(
            text(&error, &folder),
            "cannot read history database /deep/er/history.db: \
             found version 99, required is at most 3\nhint: use a newer nodegauge, or --db FILE"
        );
    }
}

/// Upgrade steps of a database of each version, and the rows of one run as written by the program of that version.
const SAVED: [(&[&str], &str); 3] = [
    (&[include_str!("../schema/1.sql")], include_str!("v1.sql")),
    (&[include_str!("../schema/1.sql"), include_str!("../schema/2.sql")], include_str!("v2.sql")),
    (
        &[
            include_str!("../schema/1.sql"),
            include_str!("../schema/2.sql"),
            include_str!("../schema/3.sql"),
        ],
        include_str!("v3.sql"),
    ),
];

#[test]
fn history_of_every_earlier_version_is_upgraded() {
    schema::migrations().validate().unwrap();
    assert_eq!(
        SAVED.len(),
        schema::NEWEST_VERSION as usize,
        "there must be a saved history of every version"
    );
    let folder = folder();
    for (i, (steps, rows)) in SAVED.into_iter().enumerate() {
        let path = folder.path().join(format!("v{}.db", i + 1));
        let before = Connection::open(&path).unwrap();
        steps.iter().for_each(|step| before.execute_batch(step).unwrap());
        before.execute_batch(rows).unwrap();
        drop(before);
        let file = fs::read(&path).unwrap();
        let own = |store: &Store| -> Vec<String> {
            let runs = store.own_runs(Some("n01"), "stream", Some("triad"), 9).unwrap();
            runs.into_iter().map(|run| run.id).collect()
        };
        let seen = |store: &Store| {
            let lines = store.list(&RunFilter::default()).unwrap();
            (lines, store.find("nps=4").unwrap(), store.find("latest").unwrap(), own(store))
        };
        let reader = open_to_read(&path).unwrap().unwrap();
        let unchanged = seen(&reader);
        drop(reader);
        assert_eq!(fs::read(&path).unwrap(), file, "opening for reading must not change the file");
        let mut store = open(&path).unwrap();
        assert_eq!(seen(&store), unchanged);
        let (lines, old, latest, own_after) = unchanged;
        assert_eq!(old.measurements[0].samples, [78.4e9, 78.1e9]);
        assert_eq!(own_after, [old.id.as_str()], "imported runs are not runs of this node");
        assert_eq!((lines[0].own, lines[1].own), (false, true));
        assert_eq!(latest.id, old.id, "the latest run is one of this node");
        assert_eq!(lines[1].figures[0].best, Some(78.4e9));
        store.save(&record(1e9)).unwrap();
        let objects: Vec<String> = store
            .connection
            .prepare("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        let [indexes, tables] = [
            ["label_value", "measurement_run", "measurement_test", "run_host", "run_started"]
                .as_slice(),
            &["label", "measurement", "run"],
        ];
        let mut all = [indexes, tables].concat();
        all.sort_unstable();
        assert_eq!(objects, all);
    }
}

#[test]
fn folder_that_cannot_be_created_is_an_environment_error() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = open(&file.join("h.db")).unwrap_err();
    assert!(is_environment(&error));
    assert_eq!(
        text(&error, &folder),
        "cannot write history database /file/h.db: File exists (os error 17)\n\
         hint: use --no-save, or --db FILE in a folder that you can write to"
    );
    // The path is a folder.
    let folder_error = open(folder.path()).unwrap_err();
    assert!(is_environment(&folder_error));
    assert!(
        folder_error.to_string().contains(": Is a directory (os error 21)\n"),
        "{folder_error}"
    );
    let read_error = open_to_read(folder.path()).unwrap_err();
    assert!(is_environment(&read_error));
    assert!(read_error.to_string().starts_with("cannot read history database"), "{read_error}");
    // Even root cannot create files in /proc.
    let proc_error = open(Path::new("/proc/nodegauge.db")).unwrap_err();
    assert!(is_environment(&proc_error));
    assert!(
        proc_error.to_string().contains(": the folder of the database cannot be written\n"),
        "{proc_error}"
    );
}

#[test]
fn symbolic_link_in_a_shared_folder_is_not_followed() {
    let (folder, store, ..) = two_runs();
    let history = store.path().to_owned();
    drop(store);
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    std::os::unix::fs::symlink(&history, shared.join("h.db")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("new.db"), shared.join("new.db")).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    for error in refusals(&shared.join("h.db")) {
        assert!(is_environment(&error));
        let reason = "/shared/h.db is a symbolic link in a folder that other users can write\n";
        assert!(text(&error, &folder).contains(reason), "{error}");
    }
    assert!(open(&shared.join("new.db")).is_err());
    assert!(!folder.path().join("new.db").exists());
    open(&shared.join("own.db")).unwrap();
    // A symbolic link is followed if only the caller could have created it.
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    for link in ["h.db", "new.db"] {
        open(&shared.join(link)).unwrap();
        assert!(open_to_read(&shared.join(link)).unwrap().is_some());
    }
    assert!(folder.path().join("new.db").exists());
}

#[test]
fn sqlite_uri_is_treated_as_a_file_name() {
    assert!(is_environment(&open(Path::new("")).unwrap_err()));
    let folder = folder();
    let path = folder.path().join("file:x?mode=memory");
    let mut store = open(&path).unwrap();
    store.save(&record(1e9)).unwrap();
    assert!(path.is_file());
}

#[test]
fn missing_history_is_empty() {
    let folder = folder();
    assert!(open_to_read(&folder.path().join("none.db")).unwrap().is_none());
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    assert!(open_to_read(&empty).unwrap().is_none());
    assert!(fs::read(&empty).unwrap().is_empty(), "opening for reading must not write to the file");
    open(&empty).unwrap().save(&record(1e9)).unwrap();
}

#[test]
fn reader_needs_no_write_permission_and_cannot_write() {
    let (folder, store, _, second) = two_runs();
    let path = store.path().to_owned();
    drop(store);
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let reader = open_to_read(&path).unwrap().unwrap();
    assert_eq!(reader.find("latest").unwrap(), second);
    let error = reader.set_label("latest", "a", "b").unwrap_err();
    assert!(is_environment(&error));
    assert!(
        text(&error, &folder).starts_with(
            "cannot write history database /deep/er/history.db: attempt to write a readonly database"
        ),
        "{error}"
    );
    // Root can write read-only files. For other users, opening fails before anything is measured.
    if fs::File::options().write(true).open(&path).is_err() {
        let label_error = open(&path).unwrap_err();
        assert!(is_environment(&label_error));
        assert!(
            label_error.to_string().contains("attempt to write a readonly database"),
            "{label_error}"
        );
    }
}

#[test]
fn default_path_follows_the_environment() {
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
