//! The database.

use crate::error::HistoryError;
use crate::schema;
use crate::selector::{self, Selector};
use nodegauge_measure::record::Record;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};
use rusqlite_migration::SchemaVersion;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a writer waits for another.
const PATIENCE: Duration = Duration::from_secs(5);
/// Identifiers that are offered when one is not found.
const OFFERED: usize = 5;
/// Shortest beginning of an identifier that names a run.
const SHORTEST: usize = 4;

/// The history.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// Which runs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// At most this many.
    pub limit: Option<usize>,
    /// Only on this host.
    pub host: Option<String>,
    /// Only with this label.
    pub label: Option<(String, String)>,
}

/// A saved run in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLine {
    /// Identifier.
    pub id: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// On which host.
    pub host: Option<String>,
    /// The arguments, separated by blanks.
    pub command: String,
    /// Whether everything was measured.
    pub complete: bool,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Its figures.
    pub headlines: Vec<Headline>,
}

/// A figure in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Test.
    pub test: String,
    /// Name.
    pub name: String,
    /// Unit.
    pub unit: String,
    /// Value; `None` when there was no result.
    pub value: Option<f64>,
}

impl Store {
    /// Opens the history, making it and its folder when they are not there.
    ///
    /// The journal is SQLite's rollback journal: homes are often on network file systems, where
    /// write-ahead logging does not work, and a run is saved once in a while.
    ///
    /// # Errors
    /// A file that is no database or damaged, or one of a newer version; neither is touched.
    /// A folder or file that cannot be written.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        let unwritable = |cause: std::io::Error| HistoryError::Unwritable {
            path: path.to_owned(),
            cause: cause.to_string(),
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(unwritable)?;
        }
        let mut store = Self::connect(path, OpenFlags::default())?;
        // Asking for the write lock finds a read-only file or folder before anything is measured.
        let probe = store.connection.execute_batch("BEGIN IMMEDIATE; COMMIT;");
        probe.map_err(|error| HistoryError::of_sqlite(path, &error))?;
        schema::migrations().to_latest(&mut store.connection).map_err(|error| match error {
            rusqlite_migration::Error::RusqliteError { err, .. } => {
                HistoryError::of_sqlite(path, &err)
            }
            other => HistoryError::Unreadable { path: path.to_owned(), cause: other.to_string() },
        })?;
        Ok(store)
    }

    /// Opens an existing history for reading; works on files that cannot be written. `None` when
    /// there is none yet.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, HistoryError> {
        if !path.exists() {
            return Ok(None);
        }
        let store = Self::connect(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        // An empty file is a database without tables: a history without runs.
        let version = schema::migrations().current_version(&store.connection);
        Ok(match version {
            Ok(SchemaVersion::NoneSet) => None,
            _ => Some(store),
        })
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, HistoryError> {
        let sqlite = |error: rusqlite::Error| HistoryError::of_sqlite(path, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
        connection.busy_timeout(PATIENCE).map_err(sqlite)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(sqlite)?;
        // The first real read: SQLite opens any file without looking into it.
        let version: usize = connection
            .pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
            .map_err(sqlite)?
            .try_into()
            .unwrap_or(0);
        if version > schema::KNOWN {
            return Err(HistoryError::TooNew {
                path: path.to_owned(),
                found: version,
                known: schema::KNOWN,
            });
        }
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn sqlite(&self) -> impl Fn(rusqlite::Error) -> HistoryError + use<> {
        let path = self.path.clone();
        move |error| HistoryError::of_sqlite(&path, &error)
    }

    /// Saves a record, in one transaction.
    ///
    /// # Errors
    /// When it cannot be written; then nothing of it is.
    pub fn save(&mut self, record: &Record) -> Result<(), HistoryError> {
        let json = serde_json::to_string(record).map_err(HistoryError::Encode)?;
        let sqlite = self.sqlite();
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(&sqlite)?;
        insert(&transaction, record, &json).map_err(&sqlite)?;
        transaction.commit().map_err(sqlite)
    }

    /// The saved runs, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<Vec<RunLine>, HistoryError> {
        self.lines(filter).map_err(self.sqlite())
    }

    fn lines(&self, filter: &Filter) -> rusqlite::Result<Vec<RunLine>> {
        let (key, value) = filter.label.clone().unzip();
        let mut runs = self.connection.prepare(
            "SELECT id, started, host, command, complete FROM run
             WHERE (?1 IS NULL OR host = ?1)
               AND (?2 IS NULL OR EXISTS (
                    SELECT 1 FROM label WHERE run = run.id AND key = ?2 AND value = ?3))
             ORDER BY started DESC, id DESC LIMIT ?4",
        )?;
        let limit = filter.limit.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
        let rows = runs.query_map(params![filter.host, key, value, limit], |row| {
            Ok(RunLine {
                id: row.get(0)?,
                started: row.get(1)?,
                host: row.get(2)?,
                command: row.get(3)?,
                complete: row.get(4)?,
                labels: Vec::new(),
                headlines: Vec::new(),
            })
        })?;
        let mut lines: Vec<RunLine> = rows.collect::<rusqlite::Result<_>>()?;
        let mut labels =
            self.connection.prepare("SELECT key, value FROM label WHERE run = ?1 ORDER BY key")?;
        let mut figures = self.connection.prepare(
            "SELECT test, name, unit, value FROM measurement WHERE run = ?1 ORDER BY position",
        )?;
        for line in &mut lines {
            line.labels = labels
                .query_map([&line.id], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            line.headlines = figures
                .query_map([&line.id], |row| {
                    Ok(Headline {
                        test: row.get(0)?,
                        name: row.get(1)?,
                        unit: row.get(2)?,
                        value: row.get(3)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
        }
        Ok(lines)
    }

    /// The record that `selector` names: an identifier or its beginning, `latest`, `latest~N`, or
    /// a label `key=value` (the newest run with it).
    ///
    /// # Errors
    /// When there is none, or several begin like that.
    pub fn find(&self, selector: &str) -> Result<Record, HistoryError> {
        let id = self.resolve(selector)?;
        let text: String = self
            .connection
            .query_row("SELECT record FROM run WHERE id = ?1", [&id], |row| row.get(0))
            .map_err(self.sqlite())?;
        let mut record = selector::parse(&text).map_err(|cause| HistoryError::Unreadable {
            path: self.path.clone(),
            cause: format!("run {id}: {cause}"),
        })?;
        // Labels may have changed since.
        record.labels = self.labels(&id).map_err(self.sqlite())?.into_iter().collect();
        Ok(record)
    }

    fn labels(&self, id: &str) -> rusqlite::Result<Vec<(String, String)>> {
        self.connection
            .prepare("SELECT key, value FROM label WHERE run = ?1 ORDER BY key")?
            .query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    }

    /// The identifier of the run that `selector` names.
    fn resolve(&self, selector: &str) -> Result<String, HistoryError> {
        let sqlite = self.sqlite();
        let not_found =
            |candidates| HistoryError::NotFound { selector: selector.to_owned(), candidates };
        match Selector::from(selector) {
            Selector::Latest(back) => self
                .connection
                .query_row(
                    "SELECT id FROM run ORDER BY started DESC, id DESC LIMIT 1 OFFSET ?1",
                    [back],
                    |row| row.get(0),
                )
                .optional()
                .map_err(sqlite)?
                .ok_or_else(|| not_found(Vec::new())),
            Selector::Label(key, value) => self
                .connection
                .query_row(
                    "SELECT id FROM run JOIN label ON label.run = run.id
                     WHERE key = ?1 AND value = ?2 ORDER BY started DESC, id DESC LIMIT 1",
                    [key, value],
                    |row| row.get(0),
                )
                .optional()
                .map_err(sqlite)?
                .ok_or_else(|| not_found(Vec::new())),
            Selector::Id(prefix) => {
                let mut found = self.with_prefix(&prefix).map_err(&sqlite)?;
                match found.len() {
                    1 if prefix.len() >= SHORTEST => Ok(found.remove(0)),
                    0 => Err(not_found(self.newest(OFFERED).map_err(sqlite)?)),
                    _ if found.contains(&prefix) => Ok(prefix),
                    _ => {
                        found.truncate(OFFERED);
                        Err(HistoryError::Ambiguous {
                            selector: selector.to_owned(),
                            candidates: found,
                        })
                    }
                }
            }
        }
    }

    fn with_prefix(&self, prefix: &str) -> rusqlite::Result<Vec<String>> {
        self.connection
            .prepare("SELECT id FROM run WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id DESC")?
            .query_map([prefix], |row| row.get(0))?
            .collect()
    }

    fn newest(&self, n: usize) -> rusqlite::Result<Vec<String>> {
        self.connection
            .prepare("SELECT id FROM run ORDER BY started DESC, id DESC LIMIT ?1")?
            .query_map([n as i64], |row| row.get(0))?
            .collect()
    }

    /// Puts a label on a run, or takes it away when `value` is empty. Returns the run's identifier.
    ///
    /// # Errors
    /// When there is no such run, or the database cannot be written.
    pub fn set_label(
        &self,
        selector: &str,
        key: &str,
        value: &str,
    ) -> Result<String, HistoryError> {
        let id = self.resolve(selector)?;
        let done = if value.is_empty() {
            self.connection.execute("DELETE FROM label WHERE run = ?1 AND key = ?2", [&*id, key])
        } else {
            self.connection.execute(
                "INSERT INTO label (run, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (run, key) DO UPDATE SET value = excluded.value",
                [&*id, key, value],
            )
        };
        done.map_err(self.sqlite())?;
        Ok(id)
    }

    /// Removes a run and all that belongs to it. Returns its identifier.
    ///
    /// # Errors
    /// When there is no such run, or the database cannot be written.
    pub fn remove(&self, selector: &str) -> Result<String, HistoryError> {
        let id = self.resolve(selector)?;
        self.connection.execute("DELETE FROM run WHERE id = ?1", [&id]).map_err(self.sqlite())?;
        Ok(id)
    }
}

fn insert(transaction: &Transaction<'_>, record: &Record, json: &str) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO run (id, started, seconds, complete, host, command, version, record)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            record.id,
            record.started,
            record.seconds,
            record.complete,
            record.machine.host,
            record.command.join(" "),
            record.tool.version,
            json,
        ],
    )?;
    for (key, value) in &record.labels {
        transaction.execute(
            "INSERT INTO label (run, key, value) VALUES (?1, ?2, ?3)",
            [&record.id, key, value],
        )?;
    }
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    for (position, m) in record.measurements.iter().enumerate() {
        transaction.execute(
            "INSERT INTO measurement
             (run, position, gauge, test, name, unit, value, median, n, status, category)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                record.id,
                position as i64,
                m.gauge,
                m.test,
                m.name,
                m.unit,
                m.value,
                m.summary.as_ref().map(|summary| summary.median),
                m.samples.len() as i64,
                word(serde_json::to_value(m.validity.status)),
                word(serde_json::to_value(m.category)),
            ],
        )?;
        let measurement = transaction.last_insert_rowid();
        let mut sample = transaction.prepare_cached(
            "INSERT INTO sample (measurement, position, value) VALUES (?1, ?2, ?3)",
        )?;
        for (position, value) in m.samples.iter().enumerate() {
            sample.execute(params![measurement, position as i64, value])?;
        }
    }
    Ok(())
}
