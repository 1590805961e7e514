//! Why the history cannot serve: what SQLite and the file system say, in words for the user.

use nodegauge_measure::Failure;
use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long a program waits for another that writes. Saving a run takes milliseconds, on a busy
/// network home some tenths of a second; a lock that lasts longer will not go away soon.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the history cannot serve, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// No saved run is meant by what was given.
    #[error("no saved run '{selector}'{}", near(candidates))]
    NotFound {
        /// What was given.
        selector: String,
        /// What comes near, nearest first.
        candidates: Vec<String>,
    },
    /// Wrong or unreadable input, such as a database that is none or too few letters of an identifier; or a
    /// permission, a folder or space is missing.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Another program is writing to the database.
    #[error(transparent)]
    Busy(Failure),
}

fn near(candidates: &[String]) -> String {
    match candidates {
        [] => String::new(),
        [one] => format!("; there is {one}"),
        several => format!("; there are {}", several.join(", ")),
    }
}

/// What was being done when SQLite failed.
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
    /// The file is no database, a damaged one, or another program's.
    pub(crate) fn unreadable(path: &Path, cause: impl Display) -> Self {
        let path = path.display();
        Failure::usage(format!("cannot read history database {path}"))
            .cause(cause.to_string())
            .hint("move it away, or use --db FILE")
            .into()
    }

    /// The database at `path` cannot be got at for `access`.
    pub(crate) fn closed(path: &Path, access: Access, cause: impl Display) -> Self {
        let hint = match access {
            Access::Read => "use --db FILE with a file that you can read",
            Access::Write => "--no-save, or --db FILE in a folder you can write",
        };
        let path = path.display();
        Failure::missing(format!("cannot {access} history database {path}"))
            .cause(cause.to_string())
            .hint(hint)
            .into()
    }

    /// Another program has been writing to the database for `waited`.
    pub(crate) fn busy(path: &Path, access: Access, waited: Duration) -> Self {
        Self::Busy(
            Failure::missing(format!(
                "cannot {access} history database {}: another program has been writing to it for {} s",
                path.display(),
                waited.as_secs()
            ))
            .hint("try again when that has ended, or use --db FILE"),
        )
    }

    /// A file cannot be read.
    pub(crate) fn of_file(path: &Path, cause: &io::Error) -> Self {
        let problem = format!("cannot read {}: {cause}", path.display());
        match cause.kind() {
            io::ErrorKind::PermissionDenied => Failure::missing(problem).into(),
            _ => Failure::usage(problem).into(),
        }
    }

    /// Translates what SQLite says about `path`.
    pub(crate) fn of_sqlite(path: &Path, access: Access, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match error.sqlite_error_code() {
            // SQLite does not say why it could not open a file; the system does.
            Some(Code::CannotOpen) => {
                Self::closed(path, access, refusal(path, access).unwrap_or_else(|| plain(error)))
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                Self::busy(path, access, BUSY_TIMEOUT)
            }
            Some(Code::DiskFull) => Failure::missing(format!(
                "cannot {access} history database {}: {}",
                path.display(),
                plain(error),
            ))
            .hint("make room there, or use --db FILE elsewhere")
            .into(),
            Some(
                Code::ReadOnly
                | Code::PermissionDenied
                | Code::SystemIoFailure
                | Code::FileLockingProtocolFailed
                | Code::NoLargeFileSupport,
            ) => Self::closed(path, access, plain(error)),
            _ => Self::unreadable(path, plain(error)),
        }
    }
}

/// What the system says when the file is opened; nothing is created or changed.
fn refusal(path: &Path, access: Access) -> Option<String> {
    let mut options = std::fs::File::options();
    options.read(true).write(access == Access::Write);
    let cause = options.open(path).err()?;
    Some(match (cause.kind(), access) {
        (io::ErrorKind::NotFound, Access::Write) => "its folder cannot be written".to_owned(),
        _ => cause.to_string(),
    })
}

/// SQLite's message without the path that rusqlite puts behind it.
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
