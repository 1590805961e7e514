//! The tables, and how databases of earlier versions become today's: forward only.
//!
//! SQLite's `user_version` counts the steps that a database has seen. A step that has been
//! released is never changed; a new one goes to the end, with rows of the version before it in
//! `tests/`, which the tests upgrade.

use rusqlite::{Connection, TransactionBehavior};
use rusqlite_migration::{M, Migrations};

/// Every version, oldest first; the database knows how many it has seen.
const STEPS: &[M<'_>] = &[
    M::up(include_str!("schema/1.sql")),
    M::up(include_str!("schema/2.sql")),
    M::up(include_str!("schema/3.sql")),
];

/// The newest version that this program reads.
pub(crate) const KNOWN: u32 = STEPS.len() as u32;

/// What a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// There is nothing in it.
    Empty,
    /// A history of this version, which may be newer than [`KNOWN`].
    History(u32),
    /// Another program's.
    Foreign,
}

/// Looks at what a database is, in one statement: another program may be making it just now.
pub(crate) fn kind(connection: &Connection) -> rusqlite::Result<DatabaseKind> {
    connection.query_row(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema),
                (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'run')
         FROM pragma_user_version",
        [],
        |row| {
            let (version, objects, runs): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(match (u32::try_from(version), objects, runs) {
                (Ok(0), 0, _) => DatabaseKind::Empty,
                (Ok(version @ 1..), _, 1) => DatabaseKind::History(version),
                _ => DatabaseKind::Foreign,
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
    migrations().to_latest(connection)?;
    connection.set_transaction_behavior(TransactionBehavior::Deferred);
    connection.pragma_update(None, "locking_mode", "normal")?;
    // The file is let go of at the next access.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

/// The steps of all versions.
pub(crate) fn migrations() -> Migrations<'static> {
    Migrations::from_slice(STEPS)
}

/// Lets a reader, which changes nothing, find in a history of version `found` what today's tables have: a
/// view of this connection alone.
pub(crate) fn view(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    match found {
        ..3 => connection.execute_batch(
            "CREATE TEMP VIEW run AS
             SELECT *, json_extract(record, '$.machine.source') IS NOT 'import' AS own FROM main.run",
        ),
        _ => Ok(()),
    }
}
