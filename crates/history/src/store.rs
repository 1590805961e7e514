//! The database: opening, saving, listing. Finding is in [`crate::find`], changing in [`crate::edit`].

use crate::error::{Access, HistoryError};
use crate::schema::{self, DatabaseKind};
use crate::selector;
use nodegauge_measure::Unit;
use nodegauge_measure::record::Record;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a program waits for another that writes. Saving a run takes milliseconds, on a busy
/// network home some tenths of a second; a lock that lasts longer will not go away soon.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The history.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    path: PathBuf,
}

/// Which runs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
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
    /// Its own figures: none of another program or of a publication.
    pub headlines: Vec<Headline>,
}

/// A figure in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Gauge.
    pub gauge: String,
    /// Test.
    pub test: String,
    /// Name.
    pub name: String,
    /// Unit; `None` for one that this version does not know.
    pub unit: Option<Unit>,
    /// Value; `None` when there was no valid result.
    pub value: Option<f64>,
}

impl Store {
    /// Opens the history, making it and its folder when they are not there.
    ///
    /// The journal is SQLite's rollback journal: homes are often on network file systems, where
    /// write-ahead logging does not work, and a run is saved once in a while.
    ///
    /// # Errors
    /// A file that is no database, damaged, another program's or of a newer version; neither is
    /// touched. A folder or file that cannot be written, also when it could be read.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        let access = Access::Write;
        let closed = |cause: std::io::Error| HistoryError::closed(path, access, cause);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(closed)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let (mut store, kind) = Self::connect(path, access, flags)?;
        let failed = |error| HistoryError::of_sqlite(path, access, &error);
        // Asking for the write lock finds a read-only file or folder before anything is measured.
        store.connection.execute_batch("BEGIN IMMEDIATE; COMMIT").map_err(failed)?;
        if kind != DatabaseKind::History(schema::KNOWN) {
            schema::upgrade(&mut store.connection).map_err(|error| match error {
                rusqlite_migration::Error::RusqliteError { err, .. } => failed(err),
                other => HistoryError::unreadable(path, other),
            })?;
        }
        Ok(store)
    }

    /// Opens an existing history for reading; works on files that cannot be written. `None` when
    /// there is none yet.
    ///
    /// # Errors
    /// As [`Store::open`], but for what may not be read.
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, HistoryError> {
        let access = Access::Read;
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(cause) => return Err(HistoryError::closed(path, access, cause)),
        }
        // Where the file may be written, SQLite can take back what a killed writer left half done;
        // where it may not, SQLite opens it for reading only.
        let (store, kind) = Self::connect(path, access, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        store
            .connection
            .pragma_update(None, "query_only", true)
            .map_err(|error| HistoryError::of_sqlite(path, access, &error))?;
        // An empty file is a database without tables: a history without runs.
        Ok((kind != DatabaseKind::Empty).then_some(store))
    }

    fn connect(
        path: &Path,
        access: Access,
        flags: OpenFlags,
    ) -> Result<(Self, DatabaseKind), HistoryError> {
        let failed = |error| HistoryError::of_sqlite(path, access, &error);
        // An absolute path is always a file: "" and ":memory:" are databases that nobody keeps.
        let file =
            std::path::absolute(path).map_err(|cause| HistoryError::closed(path, access, cause))?;
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        // The first real read: SQLite opens any file without looking into it.
        let kind = schema::kind(&connection).map_err(failed)?;
        match kind {
            DatabaseKind::Foreign => {
                Err(HistoryError::unreadable(path, "it is a database of another program"))
            }
            DatabaseKind::History(found) if found > schema::KNOWN => {
                Err(HistoryError::Input(format!(
                    "cannot read history database {}: found version {found}, required is at most {}\nhint: use a newer nodegauge, or --db FILE",
                    path.display(),
                    schema::KNOWN
                )))
            }
            _ => Ok((Self { connection, path: path.to_owned() }, kind)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Translates what SQLite says of this database.
    pub(crate) fn failed(&self, access: Access) -> impl Fn(rusqlite::Error) -> HistoryError {
        move |error| HistoryError::of_sqlite(&self.path, access, &error)
    }

    /// Saves a record, in one transaction.
    ///
    /// # Errors
    /// When it cannot be written, is saved already, or would not read back; then nothing of it is
    /// saved.
    pub fn save(&mut self, record: &Record) -> Result<(), HistoryError> {
        let id = &record.id;
        let unfit = |cause| {
            let problem = format!("cannot save run {id}: its record would not read back: {cause}");
            HistoryError::Environment(problem)
        };
        let json = serde_json::to_string(record).map_err(|error| unfit(error.to_string()))?;
        // JSON has no infinities: such a sample would be found out only when the run is shown.
        selector::parse(&json).map_err(unfit)?;
        let transaction = self.begin()?;
        insert(&transaction, record, &json).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => HistoryError::Input(format!(
                "run {id} is in history database {} already\nhint: nodegauge history remove {id}, to save it anew",
                self.path.display()
            )),
            _ => self.failed(Access::Write)(error),
        })?;
        transaction.commit().map_err(self.failed(Access::Write))
    }

    /// A transaction that has the write lock from the start, so that waiting for it can succeed.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, HistoryError> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(self.failed(Access::Write))
    }

    /// The saved runs, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunLine>, HistoryError> {
        self.lines(filter).map_err(self.failed(Access::Read))
    }

    fn lines(&self, filter: &RunFilter) -> rusqlite::Result<Vec<RunLine>> {
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
        let mut figures = self.connection.prepare(
            "SELECT gauge, test, name, unit, CASE status WHEN 'invalid' THEN NULL ELSE value END
             FROM measurement WHERE run = ?1 AND category <> 'reference' ORDER BY position",
        )?;
        for line in &mut lines {
            line.labels = self.labels(&line.id)?;
            line.headlines = figures
                .query_map([&line.id], |row| {
                    Ok(Headline {
                        gauge: row.get(0)?,
                        test: row.get(1)?,
                        name: row.get(2)?,
                        unit: Unit::of_symbol(&row.get::<_, String>(3)?),
                        value: row.get(4)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
        }
        Ok(lines)
    }

    /// The labels of a run, by key.
    pub(crate) fn labels(&self, id: &str) -> rusqlite::Result<Vec<(String, String)>> {
        self.connection
            .prepare_cached("SELECT key, value FROM label WHERE run = ?1 ORDER BY key")?
            .query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
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
                m.unit.symbol(),
                m.value,
                m.summary.as_ref().map(|summary| summary.median),
                m.samples.len() as i64,
                word(serde_json::to_value(m.validity.status)),
                word(serde_json::to_value(m.category)),
            ],
        )?;
    }
    Ok(())
}
