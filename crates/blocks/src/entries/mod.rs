//! Timed operations on the entries of directories: files are created, looked up, opened, renamed and removed by several
//! workers. Each worker has its own files, in its own directory or in one that all workers share.
//!
//! A worker performs one operation on all its files before the next operation begins, and all workers begin an
//! operation together, as the ranks of mdtest do. The calls are those of mdtest; no code of mdtest is used.

mod names;
mod pass;
mod turn;

pub use pass::EntryPass;
pub use turn::{
    EntryContext, EntryOperationResult, EntryRunner, EntryTurnResult, check_cache_drop,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operation on an entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EntryOperation {
    /// Opens a file that does not exist, writes to it if files have data, and closes it.
    Create,
    /// Reads the attributes of a file, which is given by its path.
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

/// Task of the workers: operations on files of a given number and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryTask {
    /// Number of files of each worker.
    pub files: u64,
    /// Directories that the workers use.
    pub layout: DirectoryLayout,
    /// Bytes that are written to each file when it is created.
    pub bytes: u64,
    /// True if the data of a created file are written to the device before the file is closed.
    pub fsync: bool,
    /// True if the kernel drop_caches its cached entries before each operation on existing files.
    pub drop_caches: bool,
    /// Operations in order of execution; the first creates the files. Files that remain at the end are removed without
    /// being timed.
    pub operations: Vec<EntryOperation>,
    /// Number of calls between two readings of the clock, a power of two, for each operation.
    pub batches: Vec<u64>,
}

/// Maximum share of an operation's time that reading the clock may take, 0 to 1.
pub const MAX_CLOCK_SHARE: f64 = 0.02;

/// Returns the number of calls between two readings of the clock: the smallest power of two for which the time to read
/// the clock and to record the latency, `overhead` seconds, is at most [`MAX_CLOCK_SHARE`] of the time of the calls,
/// which take `seconds` each. The result is at most the number of files.
pub fn batch_size(overhead: f64, seconds: f64, files: u64) -> u64 {
    let mut batch = 1;
    while 2 * batch <= files && overhead > MAX_CLOCK_SHARE * seconds * batch as f64 {
        batch *= 2;
    }
    batch
}

#[cfg(test)]
mod tests;
