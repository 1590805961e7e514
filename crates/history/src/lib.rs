//! Saved records: an SQLite database of runs, found again by identifier, age or label.
//!
//! The record itself is kept as JSON, whole; what is searched or listed is in columns beside it. A
//! database that cannot be read, or is another program's, is never written to, and one of a newer
//! version is refused. Nothing here measures or prints.

#![forbid(unsafe_code)]

mod edit;
mod error;
mod find;
mod list;
mod moment;
mod own;
mod schema;
mod selector;
mod store;
mod transfer;

pub use error::HistoryError;
pub use list::{Figures, RunFilter, RunLine, Series};
pub use moment::Moment;
pub use selector::{means_a_file, parse, read_file};
pub use store::Store;
pub use transfer::{Imported, records};

use std::ffi::OsString;
use std::path::PathBuf;

/// Where the history is unless the user says otherwise: `$NODEGAUGE_DB`, else
/// `$XDG_DATA_HOME/nodegauge/history.db`, else `~/.local/share/nodegauge/history.db`; `None`
/// without a home. `lookup` reads the environment; what is empty counts as not set.
pub fn default_path(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("NODEGAUGE_DB") {
        return Some(path);
    }
    // XDG: a path that is not absolute is ignored.
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("nodegauge").join("history.db"))
}

#[cfg(test)]
mod tests;
