//! Saved records: an SQLite database of runs, which are selected by identifier, age or label.
//!
//! The complete record is stored as JSON; values for searches and lists are also stored in columns. A
//! database that cannot be read, or that belongs to another program, is never written to. A database of a
//! newer version is refused. This crate does not measure or print.

#![forbid(unsafe_code)]

mod edit;
mod error;
mod find;
mod list;
mod moment;
mod order;
mod own;
pub mod rasdaemon;
mod schema;
mod selector;
mod store;
mod transfer;

pub use error::HistoryError;
pub use list::{LabelledRuns, ListedFigures, RunFilter, RunLine};
pub use moment::Moment;
pub use selector::{means_a_file, read_file};
pub use store::Store;
pub use transfer::{Imported, records};

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the default path of the history: `$NODEGAUGE_DB`, else `$XDG_DATA_HOME/nodegauge/history.db`, else
/// `~/.local/share/nodegauge/history.db`, or `None` without a home folder. `lookup` reads environment
/// variables; an empty variable counts as not set.
pub fn default_path(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("NODEGAUGE_DB") {
        return Some(path);
    }
    // The XDG specification requires that relative paths are ignored.
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("nodegauge").join("history.db"))
}

#[cfg(test)]
mod tests;
