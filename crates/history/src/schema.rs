//! Tables of the database, and upgrades from earlier versions. Downgrades are not possible.
//!
//! SQLite's `user_version` counts the upgrade steps applied to a database. A released step is never changed; a new step
//! is added at the end. With each new step, a database of the previous version is added to `tests/`, and the tests
//! upgrade it.

use rusqlite::{Connection, TransactionBehavior};
use rusqlite_migration::{M, Migrations};

/// Upgrade steps of all versions, oldest first. A database stores the number of applied steps.
const STEPS: &[M<'_>] = &[
    M::up(include_str!("schema/1.sql")),
    M::up(include_str!("schema/2.sql")),
    M::up(include_str!("schema/3.sql")),
];

/// Newest version that this program can read.
pub(crate) const NEWEST_VERSION: u32 = STEPS.len() as u32;

/// Kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// The database has no tables.
    Empty,
    /// A history of this version, which may be newer than [`NEWEST_VERSION`].
    History(u32),
    /// The database belongs to another program.
    Foreign,
}

/// Returns the kind of a database. It is read with a single statement, because another program may be creating the
/// database.
pub(crate) fn database_kind(connection: &Connection) -> rusqlite::Result<DatabaseKind> {
    connection.query_row(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema),
                (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'run')
         FROM pragma_user_version",
        [],
        |row| {
            let version: i64 = row.get(0)?;
            let objects: i64 = row.get(1)?;
            let runs: i64 = row.get(2)?;
            Ok(match (u32::try_from(version), objects, runs) {
                (Ok(0), 0, _) => DatabaseKind::Empty,
                (Ok(version @ 1..), _, 1) => DatabaseKind::History(version),
                _ => DatabaseKind::Foreign,
            })
        },
    )
}

/// Upgrades a database to the current version. The database must be empty or of an older version (see
/// [`database_kind`]).
pub(crate) fn upgrade(connection: &mut Connection) -> Result<(), rusqlite_migration::Error> {
    // The file stays locked while the version is read and the steps are applied, so that a second program does not
    // apply the same steps. The locking mode is set while the lock is held: if two programs waited for the lock in
    // exclusive mode, they would deadlock.
    connection.set_transaction_behavior(TransactionBehavior::Exclusive);
    connection.execute_batch("BEGIN EXCLUSIVE; PRAGMA locking_mode = exclusive; COMMIT")?;
    migrations().to_latest(connection)?;
    connection.set_transaction_behavior(TransactionBehavior::Deferred);
    connection.pragma_update(None, "locking_mode", "normal")?;
    // SQLite releases the lock at the next access.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

/// Returns the upgrade steps of all versions.
pub(crate) fn migrations() -> Migrations<'static> {
    Migrations::from_slice(STEPS)
}

/// Creates temporary views that give a history of version `found` the columns of the current version. The views exist
/// only in this connection, and the database is not changed.
pub(crate) fn create_views(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    match found {
        ..3 => connection.execute_batch(
            "CREATE TEMP VIEW run AS
             SELECT *, json_extract(record, '$.machine.source') IS NOT 'import' AS own FROM main.run",
        ),
        _ => Ok(()),
    }
}
