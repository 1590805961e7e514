//! Why the history cannot serve.

use std::io;
use std::path::{Path, PathBuf};

/// Why the history cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file is no database, or a damaged one.
    #[error("cannot read history database {path}: {cause}\nhint: move it away, or give another one with --db FILE", path = path.display())]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        cause: String,
    },
    /// A newer nodegauge wrote it.
    #[error("history database {path} has version {found}; this nodegauge reads up to {known}\nhint: use a newer nodegauge, or give another database with --db FILE", path = path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// The newest known.
        known: usize,
    },
    /// The database or its folder cannot be written.
    #[error("cannot write history database {path}: {cause}\nhint: give --db FILE in a folder that you may write, or --no-save", path = path.display())]
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
        /// Runs that come near.
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
    /// A file is no record.
    #[error("{path} is not a record of nodegauge: {cause}", path = path.display())]
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
    /// A record cannot be turned into JSON.
    #[error("cannot save the record: {0}")]
    Encode(serde_json::Error),
}

fn near(candidates: &[String]) -> String {
    if candidates.is_empty() {
        String::new()
    } else {
        format!("; there are {}", candidates.join(", "))
    }
}

impl HistoryError {
    /// Whether a permission, a folder or space is missing, as opposed to wrong or unreadable input.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Unwritable { .. } | Self::Encode(_))
    }

    /// Translates what SQLite says about `path`.
    pub(crate) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let path = path.to_owned();
        let cause = plain(error);
        match error.sqlite_error_code() {
            Some(
                Code::ReadOnly
                | Code::CannotOpen
                | Code::DiskFull
                | Code::PermissionDenied
                | Code::SystemIoFailure
                | Code::DatabaseBusy
                | Code::DatabaseLocked,
            ) => Self::Unwritable { path, cause },
            _ => Self::Unreadable { path, cause },
        }
    }
}

/// SQLite's message without the code that rusqlite puts around it.
fn plain(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => {
            message.split(": ").next().unwrap_or(message).to_owned()
        }
        other => other.to_string(),
    }
}
