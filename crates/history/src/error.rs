//! Why the history cannot serve: what SQLite and the file system say, in words for the user.

use std::io;
use std::path::{Path, PathBuf};

/// Why the history cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file is no database, a damaged one, or another program's.
    #[error("cannot read history database {path}: {cause}\nhint: move it away, or use --db FILE", path = path.display())]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The database may not, or cannot now, be read.
    #[error("cannot read history database {path}: {cause}\nhint: use --db FILE with a file that you can read", path = path.display())]
    Denied {
        /// The database.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// A newer nodegauge wrote it.
    #[error("cannot read history database {path}: found version {found}, required is at most {known}\nhint: use a newer nodegauge, or --db FILE", path = path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest known.
        known: u32,
    },
    /// The database or its folder cannot be written.
    #[error("cannot write history database {path}: {cause}\nhint: --no-save, or --db FILE in a folder you can write", path = path.display())]
    Unwritable {
        /// The database.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// No saved run is meant by what was given.
    #[error("no saved run '{selector}'{}\nhint: nodegauge history list", near(candidates))]
    NotFound {
        /// What was given.
        selector: String,
        /// What comes near, nearest first.
        candidates: Vec<String>,
    },
    /// Several saved runs begin like that.
    #[error("'{selector}' is the beginning of several runs: {}\nhint: give more of the identifier", candidates.join(", "))]
    Ambiguous {
        /// What was given.
        selector: String,
        /// The runs.
        candidates: Vec<String>,
    },
    /// The beginning of an identifier, but too little of it to act on.
    #[error("'{selector}' is too short for a run; it begins {}\nhint: give at least {least} characters of the identifier", candidates.join(", "))]
    TooShort {
        /// What was given.
        selector: String,
        /// The runs that begin so.
        candidates: Vec<String>,
        /// The least that is taken.
        least: usize,
    },
    /// A run with this identifier is saved already.
    #[error("run {id} is in history database {path} already\nhint: nodegauge history remove {id}, to save it anew", path = path.display())]
    Exists {
        /// The run.
        id: String,
        /// The database.
        path: PathBuf,
    },
    /// A file is no record.
    #[error("{path} is not a record of nodegauge: {cause}\nhint: give a file that --json FILE wrote", path = path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A record would not read back: a figure in it is no number.
    #[error("cannot save run {id}: its record would not read back: {cause}")]
    Encode {
        /// The run.
        id: String,
        /// What would be wrong.
        cause: String,
    },
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

impl HistoryError {
    /// Whether a permission, a folder or space is missing (exit code 3), as opposed to wrong or
    /// unreadable input (exit code 2).
    pub fn is_environment(&self) -> bool {
        match self {
            Self::Unwritable { .. } | Self::Denied { .. } | Self::Encode { .. } => true,
            Self::Io { cause, .. } => cause.kind() == io::ErrorKind::PermissionDenied,
            Self::Unreadable { .. }
            | Self::TooNew { .. }
            | Self::NotFound { .. }
            | Self::Ambiguous { .. }
            | Self::TooShort { .. }
            | Self::Exists { .. }
            | Self::NotARecord { .. } => false,
        }
    }

    /// The database at `path` cannot be got at for `access`.
    pub(crate) fn closed(path: &Path, access: Access, cause: String) -> Self {
        let path = path.to_owned();
        match access {
            Access::Read => Self::Denied { path, cause },
            Access::Write => Self::Unwritable { path, cause },
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
            Some(
                Code::ReadOnly
                | Code::DiskFull
                | Code::PermissionDenied
                | Code::SystemIoFailure
                | Code::FileLockingProtocolFailed
                | Code::NoLargeFileSupport
                | Code::DatabaseBusy
                | Code::DatabaseLocked,
            ) => Self::closed(path, access, plain(error)),
            _ => Self::Unreadable { path: path.to_owned(), cause: plain(error) },
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

impl From<HistoryError> for nodegauge_measure::Failure {
    fn from(error: HistoryError) -> Self {
        if error.is_environment() { Self::missing(error) } else { Self::usage(error) }
    }
}
