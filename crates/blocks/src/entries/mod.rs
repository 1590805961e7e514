//! Timed operations on the entries of directories: files are created, looked up, opened, renamed and removed by several
//! workers, each with its own files, in directories of their own or in one that they share.
//!
//! A worker goes over all its files with one operation before the next operation begins, and all workers begin an
//! operation together, as the ranks of mdtest do. The calls are those of mdtest, whose source was read for what it calls
//! and counts, and not used.

mod names;
mod pass;
mod turn;

pub use pass::EntryPass;
pub use turn::{EntryContext, EntryPhase, EntryRunner, EntryTurn, check_drop};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operation on an entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EntryOperation {
    /// Opens a file that does not exist, writes to it if files have data, and closes it.
    Create,
    /// Reads the attributes of a file by its path.
    Stat,
    /// Opens an existing file for reading, and closes it.
    Open,
    /// Gives a file another name in the same directory.
    Rename,
    /// Removes a file.
    Remove,
}

nodegauge_measure::names!(
    EntryOperation,
    "operation",
    Create = "create",
    Stat = "stat",
    Open = "open",
    Rename = "rename",
    Remove = "remove"
);

/// Directories of the files.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DirectoryLayout {
    /// Each worker has its own directory.
    Own,
    /// All workers use one directory.
    Shared,
}

nodegauge_measure::names!(DirectoryLayout, "layout", Own = "own", Shared = "shared");

/// Operations on a number of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryTask {
    /// Number of files of each worker.
    pub files: u64,
    /// Directories of the files.
    pub layout: DirectoryLayout,
    /// Bytes that are written to each file when it is created.
    pub bytes: u64,
    /// True if a created file is written to the device before it is closed.
    pub fsync: bool,
    /// True if the kernel drops its cached entries before each operation on existing files.
    pub drops: bool,
    /// Operations in their order; the first creates the files. Files that remain are removed without being timed.
    pub operations: Vec<EntryOperation>,
    /// Number of operations between two readings of the clock, a power of two, for each of the operations.
    pub batches: Vec<u64>,
}

/// Maximum share of the time of an operation that the clock may cost.
pub const DISTURBANCE: f64 = 0.02;

/// Returns the number of operations between two readings of the clock: the smallest power of two with which reading and
/// recording, which take `overhead` seconds, cost at most [`DISTURBANCE`] of operations of `seconds` each. It is at most
/// the number of files.
pub fn batch(overhead: f64, seconds: f64, files: u64) -> u64 {
    let mut batch = 1;
    while 2 * batch <= files && overhead > DISTURBANCE * seconds * batch as f64 {
        batch *= 2;
    }
    batch
}

#[cfg(test)]
mod tests;
