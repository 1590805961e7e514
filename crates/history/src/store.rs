//! Database of the history: opening it and saving runs. Lists are in [`crate::list`], searches in [`crate::find`], and
//! changes in [`crate::edit`].

use crate::error::{Access, BUSY_TIMEOUT, HistoryError};
use crate::schema::{self, DatabaseKind};
use nodegauge_measure::keys::FormerNames;
use nodegauge_measure::record::{self, Measurement, Record};
use nodegauge_measure::{Failure, legible};
use nodegauge_os::OutputError;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval at which a waiting save checks whether it must end.
const ATTEMPT: Duration = Duration::from_millis(250);

/// Open history database.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// Former names of configuration keys in older runs.
    pub(crate) former_names: FormerNames,
}

impl Store {
    /// Opens the history for writing. Creates the database and the folder if they do not exist. `names` are the former
    /// names of keys that older runs contain.
    ///
    /// The database uses SQLite's rollback journal: home folders are often on network file systems, where
    /// write-ahead logging does not work, and runs are saved rarely.
    ///
    /// # Errors
    /// Fails if the file is not a database, is damaged, belongs to another program, or has a newer version; such a file
    /// is not changed. Also fails if the folder or the file cannot be written, even if the file can be read.
    pub fn open(path: &Path, names: &FormerNames) -> Result<Self, HistoryError> {
        let access = Access::Write;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|cause| HistoryError::not_permitted(path, access, cause))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let (mut store, kind) = Self::connect(path, names, access, flags)?;
        let failed = |error| HistoryError::from_sqlite(path, access, &error);
        // The write lock is taken once, to detect a read-only file or folder before anything is measured.
        store.connection.execute_batch("BEGIN IMMEDIATE; COMMIT").map_err(failed)?;
        if kind != DatabaseKind::History(schema::NEWEST_VERSION) {
            schema::upgrade(&mut store.connection).map_err(|error| match error {
                rusqlite_migration::Error::RusqliteError { err, .. } => failed(err),
                other => HistoryError::unreadable(path, other),
            })?;
        }
        Ok(store)
    }

    /// Opens an existing history for reading; it may be a read-only file. Returns `None` if there is no history.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`], but the file only has to be readable.
    pub fn open_to_read(path: &Path, names: &FormerNames) -> Result<Option<Self>, HistoryError> {
        let access = Access::Read;
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(cause) => return Err(HistoryError::not_permitted(path, access, cause)),
        }
        // To roll back the incomplete transaction of a killed writer, SQLite needs a writable file. If the file is not
        // writable, SQLite opens it for reading only.
        let (store, kind) = Self::connect(path, names, access, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // An empty file is a database without tables, i.e. a history without runs.
        let DatabaseKind::History(found) = kind else { return Ok(None) };
        schema::create_views(&store.connection, found)
            .and_then(|()| store.connection.pragma_update(None, "query_only", true))
            .map_err(|error| HistoryError::from_sqlite(path, access, &error))?;
        Ok(Some(store))
    }

    fn connect(
        path: &Path,
        former_names: &FormerNames,
        access: Access,
        flags: OpenFlags,
    ) -> Result<(Self, DatabaseKind), HistoryError> {
        let failed = |error| HistoryError::from_sqlite(path, access, &error);
        // The path is made absolute: SQLite treats the paths "" and ":memory:" as temporary databases, not as files.
        let file = std::path::absolute(path)
            .map_err(|cause| HistoryError::not_permitted(path, access, cause))?;
        if std::fs::metadata(&file).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Err(HistoryError::unreadable(path, "it is not a regular file"));
        }
        // Other users may be able to write to the folder of the history. If SQLite followed their links, it would
        // create a database at a place of their choice.
        let file = match nodegauge_os::resolve_links(&file) {
            Ok(file) => file,
            Err(why @ OutputError::UntrustedLink { .. }) => {
                return Err(HistoryError::untrusted(path, access, &why));
            }
            // If the path cannot be resolved, SQLite reports why the file cannot be opened.
            Err(_) => file,
        };
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        // SQLite reads the file here for the first time, not when it opens the file.
        let database_kind = schema::database_kind(&connection).map_err(failed)?;
        match database_kind {
            DatabaseKind::Foreign => {
                Err(HistoryError::unreadable(path, "the file is a database of another program"))
            }
            DatabaseKind::History(found) if found > schema::NEWEST_VERSION => {
                Err(Failure::usage(format!(
                    "cannot read history database {}: found version {found}, required is at \
                         most {}",
                    legible::path(path),
                    schema::NEWEST_VERSION,
                ))
                .hint("use a newer nodegauge, or --db FILE")
                .into())
            }
            _ => Ok((
                Self { connection, path: path.to_owned(), former_names: former_names.clone() },
                database_kind,
            )),
        }
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a function that translates errors of SQLite about this database.
    pub(crate) fn error_translator(
        &self,
        access: Access,
    ) -> impl Fn(rusqlite::Error) -> HistoryError {
        move |error| HistoryError::from_sqlite(&self.path, access, &error)
    }

    /// Saves a run of this node, or the output of another program, in one transaction.
    ///
    /// # Errors
    /// Fails if the run cannot be written, is already saved, or could not be read back later. In these cases nothing is
    /// saved.
    pub fn save(&mut self, record: &Record) -> Result<(), HistoryError> {
        let transaction = self.begin()?;
        self.insert(record, !record.machine.is_imported())?;
        transaction.commit().map_err(self.error_translator(Access::Write))
    }

    /// Saves a run like [`Store::save`]. While other programs are writing, it waits until `limit` has elapsed or
    /// `is_ended` returns true.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::save`].
    pub fn save_within(
        &mut self,
        record: &Record,
        limit: Duration,
        is_ended: &dyn Fn() -> bool,
    ) -> Result<(), HistoryError> {
        let started = Instant::now();
        self.set_timeout(ATTEMPT)?;
        let saved = loop {
            match self.save(record) {
                Err(HistoryError::Busy(_)) if started.elapsed() < limit && !is_ended() => {}
                Err(HistoryError::Busy(_)) => {
                    let waited = started.elapsed();
                    break Err(HistoryError::busy(&self.path, Access::Write, waited));
                }
                result => break result,
            }
        };
        self.set_timeout(BUSY_TIMEOUT)?;
        saved
    }

    fn set_timeout(&self, timeout: Duration) -> Result<(), HistoryError> {
        self.connection.busy_timeout(timeout).map_err(self.error_translator(Access::Write))
    }

    /// Inserts a record within a transaction. `own` is true if the run was measured on this node.
    pub(crate) fn insert(&self, record: &Record, own: bool) -> Result<(), HistoryError> {
        let id = legible::escape_controls(&record.id);
        let json = record.to_json().map_err(|error| unfit(&id, error.to_string()))?;
        // JSON cannot represent infinite numbers. Without this check, an infinite sample would cause an error only when
        // the run is read.
        record::parse(&json, &self.former_names).map_err(|cause| {
            let why = match infinite_figure(record) {
                Some(m) => format!("its figure {} {} is not a finite number", m.test, m.name),
                None => format!("the record cannot be read back: {cause}"),
            };
            unfit(&id, why)
        })?;
        rows(&self.connection, record, &json, own).map_err(|error| {
            match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) => Failure::usage(format!(
                    "run {id} is already in history database {}",
                    legible::path(&self.path),
                ))
                .hint(format!("nodegauge history remove {id}, then save the run again"))
                .into(),
                _ => self.error_translator(Access::Write)(error),
            }
        })
    }

    /// Begins a transaction that takes the write lock immediately, because SQLite can wait for the lock only at the
    /// beginning.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, HistoryError> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(self.error_translator(Access::Write))
    }
}

/// Creates the error for a run that cannot be saved.
fn unfit(id: &str, cause: String) -> HistoryError {
    Failure::missing(format!("cannot save run {id}: {cause}")).into()
}

/// Returns the name of an enum value in JSON.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns a figure with an infinite value or sample, if any.
fn infinite_figure(record: &Record) -> Option<&Measurement> {
    record.measurements.iter().find(|m| !m.has_finite_numbers())
}

/// Inserts the rows of a record into all tables.
fn rows(connection: &Connection, record: &Record, json: &str, own: bool) -> rusqlite::Result<()> {
    let run =
        "INSERT INTO run (id, started, seconds, complete, host, command, version, record, own)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(run)?.execute(params![
        record.id,
        record.started,
        record.seconds.0,
        record.complete,
        record.machine.host,
        record.command.join(" "),
        record.tool.version,
        json,
        own,
    ])?;
    for (key, value) in &record.labels {
        let label = "INSERT INTO label (run, key, value) VALUES (?1, ?2, ?3)";
        connection.prepare_cached(label)?.execute([&record.id, key, value])?;
    }
    let mut measurement = connection.prepare_cached(
        "INSERT INTO measurement
         (run, position, gauge, test, name, unit, value, median, n, status, category)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for (position, m) in record.measurements.iter().enumerate() {
        measurement.execute(params![
            record.id,
            position as i64,
            m.gauge,
            m.test,
            m.name,
            m.unit.symbol(),
            m.value,
            m.summary.as_ref().map(|summary| summary.median),
            m.samples.len() as i64,
            word(&m.validity.status),
            word(&m.category),
        ])?;
    }
    Ok(())
}
