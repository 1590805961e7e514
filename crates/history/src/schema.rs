//! The tables, and how databases of earlier versions become today's: forward only.
//!
//! SQLite's `user_version` counts the steps that a database has seen. A step that has been
//! released is never changed; a new one goes to the end, with a dump of the version before it in
//! `tests/`, from which the tests make today's.

use rusqlite::{Connection, TransactionBehavior};
use rusqlite_migration::{M, Migrations};

/// Every version, oldest first; the database knows how many it has seen.
const STEPS: &[M<'_>] = &[M::up(
    "CREATE TABLE run (
        id TEXT PRIMARY KEY,
        started TEXT NOT NULL,
        seconds REAL NOT NULL,
        complete INTEGER NOT NULL,
        host TEXT,
        command TEXT NOT NULL,
        version TEXT NOT NULL,
        record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX run_started ON run (started DESC, id DESC);
    CREATE TABLE label (
        run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (run, key)
    ) STRICT;
    CREATE TABLE measurement (
        id INTEGER PRIMARY KEY,
        run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        gauge TEXT NOT NULL,
        test TEXT NOT NULL,
        name TEXT NOT NULL,
        unit TEXT NOT NULL,
        value REAL,
        median REAL,
        n INTEGER NOT NULL,
        status TEXT NOT NULL,
        category TEXT NOT NULL
    ) STRICT;
    CREATE INDEX measurement_run ON measurement (run, position);
    CREATE TABLE sample (
        measurement INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (measurement, position)
    ) STRICT, WITHOUT ROWID;",
)];

/// The newest version that this program reads.
pub(crate) const KNOWN: u32 = STEPS.len() as u32;

/// What a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is nothing in it.
    Empty,
    /// A history of this version, which may be newer than [`KNOWN`].
    History(u32),
    /// Somebody else's.
    Foreign,
}

/// Looks at what a database is, in one statement: another program may be making it just now.
pub(crate) fn kind(connection: &Connection) -> rusqlite::Result<Kind> {
    connection.query_row(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema),
                (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'run')
         FROM pragma_user_version",
        [],
        |row| {
            let (version, objects, runs): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(match (u32::try_from(version), objects, runs) {
                (Ok(0), 0, _) => Kind::Empty,
                (Ok(version @ 1..), _, 1) => Kind::History(version),
                _ => Kind::Foreign,
            })
        },
    )
}

/// Brings a database to today's version. Only for one that [`kind`] calls empty or older.
pub(crate) fn upgrade(connection: &mut Connection) -> Result<(), rusqlite_migration::Error> {
    // The version is read before the steps run. Holding the file from before the one until after
    // the other keeps a second program from taking the same steps; it finds them done. The mode is
    // set once the lock is there: in that mode two that wait would keep each other waiting.
    connection.set_transaction_behavior(TransactionBehavior::Exclusive);
    connection.execute_batch("BEGIN EXCLUSIVE; PRAGMA locking_mode = exclusive; COMMIT")?;
    Migrations::from_slice(STEPS).to_latest(connection)?;
    connection.set_transaction_behavior(TransactionBehavior::Deferred);
    connection.pragma_update(None, "locking_mode", "normal")?;
    // The file is let go of at the next access.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

#[cfg(test)]
pub(crate) fn migrations() -> Migrations<'static> {
    Migrations::from_slice(STEPS)
}
