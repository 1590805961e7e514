//! Tables of the database, and the upgrade of databases of earlier versions. There is no downgrade.
//!
//! SQLite's `user_version` counts the steps applied to a database. A released step is never changed. A new step is
//! added at the end. With it, a database of the previous version is added to `tests/`, which the tests upgrade.

use rusqlite::{Connection, TransactionBehavior};
use rusqlite_migration::{M, Migrations};

/// Upgrade steps of all versions, oldest first; a database stores the number of applied steps.
const STEPS: &[M<'_>] = &[
    M::up(include_str!("schema/1.sql")),
    M::up(include_str!("schema/2.sql")),
    M::up(include_str!("schema/3.sql")),
];

/// The newest version that this program reads.
pub(crate) const KNOWN: u32 = STEPS.len() as u32;

/// Kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// The database has no tables.
    Empty,
    /// A history of this version, which may be newer than [`KNOWN`].
    History(u32),
    /// The database belongs to another program.
    Foreign,
}

/// Returns the kind of a database. It uses one statement, because another program may be creating the
/// database.
pub(crate) fn kind(connection: &Connection) -> rusqlite::Result<DatabaseKind> {
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

/// Upgrades a database to the current version. The database must be empty or of an older version, see
/// [`kind`].
pub(crate) fn upgrade(connection: &mut Connection) -> Result<(), rusqlite_migration::Error> {
    // The version is read before the steps are applied. The file is locked before the read and unlocked after the
    // steps, so that a second program does not apply the same steps. The locking mode is set while the lock is held:
    // two programs that wait for the lock in exclusive mode would deadlock.
    connection.set_transaction_behavior(TransactionBehavior::Exclusive);
    connection.execute_batch("BEGIN EXCLUSIVE; PRAGMA locking_mode = exclusive; COMMIT")?;
    migrations().to_latest(connection)?;
    connection.set_transaction_behavior(TransactionBehavior::Deferred);
    connection.pragma_update(None, "locking_mode", "normal")?;
    // SQLite releases the lock at the next access.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

/// Returns the steps of all versions.
pub(crate) fn migrations() -> Migrations<'static> {
    Migrations::from_slice(STEPS)
}

/// Creates a temporary view that gives a history of version `found` the columns of the current tables. The
/// view exists only in this connection; the database is not changed.
pub(crate) fn view(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    match found {
        ..3 => connection.execute_batch(
            "CREATE TEMP VIEW run AS
             SELECT *, json_extract(record, '$.machine.source') IS NOT 'import' AS own FROM main.run",
        ),
        _ => Ok(()),
    }
}
