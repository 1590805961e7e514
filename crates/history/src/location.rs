//! Location of the history: a path that the user gives, or a default path in the user's data folder.

use crate::Store;
use nodegauge_measure::keys::FormerNames;
use nodegauge_measure::{Failure, legible};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variable with the path of the history.
pub const DB_VARIABLE: &str = "NODEGAUGE_DB";

/// Returns the default path of the history: `$NODEGAUGE_DB`, otherwise `$XDG_DATA_HOME/nodegauge/history.db`, otherwise
/// `~/.local/share/nodegauge/history.db`; `None` without a home folder. `lookup` reads environment variables; an empty
/// variable counts as not set.
pub fn default_path(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(path) = set(DB_VARIABLE, &lookup) {
        return Some(path);
    }
    // The XDG specification requires that relative paths are ignored.
    let data = set("XDG_DATA_HOME", &lookup).filter(|path| path.is_absolute());
    let data = data.or_else(|| set("HOME", &lookup).map(|home| home.join(".local/share")))?;
    Some(data.join("nodegauge").join("history.db"))
}

/// Returns the path in a variable; `None` if the variable is not set or empty.
fn set(name: &str, lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Location of a history that is not open yet.
#[derive(Debug, Clone)]
pub struct HistoryFile {
    /// Path that the user gave; `None` for the default path.
    pub given_path: Option<PathBuf>,
    /// Former names of configuration keys in older records.
    pub former_names: &'static FormerNames,
}

impl HistoryFile {
    /// Returns the path of the history: the given one, or the default.
    ///
    /// # Errors
    /// Fails if the folder of a given path does not exist, because a mistyped path would create a second history. Also
    /// fails if there is no folder for the default path.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.given_path {
            return in_existing_folder("--db", path.clone());
        }
        match set(DB_VARIABLE, nodegauge_os::environment_variable) {
            Some(path) => in_existing_folder(DB_VARIABLE, path),
            None => default_path(nodegauge_os::environment_variable).ok_or_else(|| {
                Failure::missing("no home folder for the history")
                    .hint("give --db FILE, or --no-save")
            }),
        }
    }

    /// Opens the history for writing, and creates it if necessary.
    ///
    /// # Errors
    /// Returns the errors of [`Self::path`] and [`Store::open`].
    pub fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.path()?, self.former_names)?)
    }

    /// Opens the history for reading; returns `None` if it does not exist.
    ///
    /// # Errors
    /// Returns the errors of [`Self::path`] and [`Store::open_to_read`].
    pub fn open_to_read(&self) -> Result<Option<Store>, Failure> {
        Ok(Store::open_to_read(&self.path()?, self.former_names)?)
    }
}

/// Checks that the folder of a path exists; `name` is the option with which the user gave the path. Returns the path.
///
/// Fails if the folder does not exist.
fn in_existing_folder(name: &str, path: PathBuf) -> Result<PathBuf, Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    if folder.as_os_str().is_empty() || !matches!(folder.try_exists(), Ok(false)) {
        return Ok(path);
    }
    let text =
        format!("{name} {}: folder {} does not exist", legible::path(&path), legible::path(folder));
    Err(Failure::usage(text).hint(format!("create it, e.g. mkdir -p {}", legible::path(folder))))
}
