//! Saved records: an SQLite database of runs, which are selected by identifier, age or label.
//!
//! The complete record is stored as JSON; values for searches and lists are also stored in columns. A database that
//! cannot be read, or that belongs to another program, is never changed. A database of a newer version is refused. This
//! crate does not measure or print.

#![forbid(unsafe_code)]

mod edit;
mod error;
mod find;
mod list;
mod location;
mod moment;
mod order;
mod own;
pub mod rasdaemon;
mod schema;
mod selector;
mod store;
mod transfer;

pub use error::HistoryError;
pub use list::{LabelledRuns, ListedFigures, ListedRun, RunFilter};
pub use location::{DB_VARIABLE, HistoryFile, default_path};
pub use moment::DayOrSecond;
pub use selector::{is_file_selector, read_file};
pub use store::Store;
pub use transfer::{ImportResult, read_records};

#[cfg(test)]
mod tests;
