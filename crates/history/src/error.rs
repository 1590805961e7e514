//! Errors of the history: messages for errors of SQLite and of the file system.

use nodegauge_measure::{Failure, legible};
use nodegauge_os::OutputError;
use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Maximum wait for a lock that another program holds. Saving a run takes milliseconds, or several tenths of a second
/// on a busy network file system. A lock that is held longer will probably not be released soon.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Error of the history, with a hint.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// No saved run matches the selector.
    #[error("no saved run '{selector}'{}", near(candidates))]
    NotFound {
        /// Selector that the user typed.
        selector: String,
        /// Valid selectors that are similar to the typed one, most similar first.
        candidates: Vec<String>,
    },
    /// The input is invalid or cannot be read, e.g. a file that is not a database, or an identifier that is too short;
    /// or a permission, a folder or disk space is missing.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Another program is writing to the database.
    #[error(transparent)]
    Busy(Failure),
}

fn near(candidates: &[String]) -> String {
    match candidates {
        [] => String::new(),
        several => format!("; available: {}", several.join(", ")),
    }
}

/// Kind of access to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

impl HistoryError {
    /// Creates the error for a file that is not a database, is damaged, or belongs to another program.
    pub(crate) fn unreadable(path: &Path, cause: impl Display) -> Self {
        let path = legible::path(path);
        Failure::usage(format!("cannot read history database {path}"))
            .cause(cause.to_string())
            .hint("move the file away, or use --db FILE")
            .into()
    }

    /// Creates the error for a database for which the permission for `access` is missing.
    pub(crate) fn not_permitted(path: &Path, access: Access, cause: impl Display) -> Self {
        let hint = match access {
            Access::Read => "use --db FILE with a file that you can read",
            Access::Write => "use --no-save, or --db FILE in a folder that you can write to",
        };
        let path = legible::path(path);
        Failure::missing(format!("cannot {access} history database {path}"))
            .cause(cause.to_string())
            .hint(hint)
            .into()
    }

    /// Creates the error for a database that another program has kept locked for the time `waited`.
    pub(crate) fn busy(path: &Path, access: Access, waited: Duration) -> Self {
        Self::Busy(
            Failure::missing(format!(
                "cannot {access} history database {}: another program has been writing to it for {} s",
                legible::path(path),
                waited.as_secs()
            ))
            .hint("try again when that program has ended, or use --db FILE"),
        )
    }

    /// Creates the error for a path that contains a symbolic link which another user may have created.
    pub(crate) fn untrusted(path: &Path, access: Access, why: &OutputError) -> Self {
        let problem = format!("cannot {access} history database {}: {why}", legible::path(path));
        Failure::missing(problem).hint(why.hint()).into()
    }

    /// Creates the error for a file that cannot be read.
    pub(crate) fn from_file_error(path: &Path, cause: &io::Error) -> Self {
        let problem = format!("cannot read {}: {cause}", legible::path(path));
        match cause.kind() {
            io::ErrorKind::PermissionDenied => Failure::missing(problem).into(),
            _ => Failure::usage(problem).into(),
        }
    }

    /// Translates an error of SQLite about `path`.
    pub(crate) fn from_sqlite(path: &Path, access: Access, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match error.sqlite_error_code() {
            // SQLite does not report why it could not open a file, so the operating system is asked.
            Some(Code::CannotOpen) => {
                let cause = refusal(path, access).unwrap_or_else(|| plain(error));
                Self::not_permitted(path, access, cause)
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                Self::busy(path, access, BUSY_TIMEOUT)
            }
            Some(Code::DiskFull) => Failure::missing(format!(
                "cannot {access} history database {}: {}",
                legible::path(path),
                plain(error),
            ))
            .hint("free some space on that file system, or use --db FILE on another file system")
            .into(),
            Some(
                Code::ReadOnly
                | Code::PermissionDenied
                | Code::SystemIoFailure
                | Code::FileLockingProtocolFailed
                | Code::NoLargeFileSupport,
            ) => Self::not_permitted(path, access, plain(error)),
            _ => Self::unreadable(path, plain(error)),
        }
    }
}

/// Returns the operating system's reason why the file cannot be opened; `None` if it can. Nothing is created or
/// changed.
fn refusal(path: &Path, access: Access) -> Option<String> {
    let mut options = std::fs::File::options();
    options.read(true).write(access == Access::Write);
    let cause = options.open(path).err()?;
    Some(match (cause.kind(), access) {
        (io::ErrorKind::NotFound, Access::Write) => {
            "the folder of the database cannot be written".to_owned()
        }
        _ => cause.to_string(),
    })
}

/// Returns the message of SQLite without the path that rusqlite appends to it.
fn plain(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => {
            message.split(": ").next().unwrap_or(message).to_owned()
        }
        other => other.to_string(),
    }
}

impl From<&HistoryError> for Failure {
    fn from(error: &HistoryError) -> Self {
        match error {
            HistoryError::Failed(failure) | HistoryError::Busy(failure) => failure.clone(),
            HistoryError::NotFound { .. } => Self::usage(error).hint("nodegauge history list"),
        }
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        Self::from(&error)
    }
}
