//! Tasks on a file and their setup: engine, cache mode and flags.

use crate::engine::{IoEngine, Msync, SyncWrites, choice};
use crate::grid::CellSize;
use crate::operation::{Operation, Way};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Calls and flags of the operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskSetup {
    /// Engine of the plain operations.
    pub engine: IoEngine,
    /// Number of blocks in progress at the same time; 1 unless the engine queues requests.
    pub depth: u32,
    /// Time at which a changed mapping is written to the file.
    pub msync: Msync,
    /// True to bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Event for which each write waits.
    pub sync_writes: Option<SyncWrites>,
    /// True if closing the file is timed.
    pub include_close: bool,
    /// True if writing the data out (`fsync`) is timed.
    pub include_fsync: bool,
    /// True if the data that is read is compared with the data that was written.
    pub verify: bool,
    /// Percentage of reads in the random mix.
    pub read_percent: u8,
}

impl Default for TaskSetup {
    fn default() -> Self {
        Self {
            engine: IoEngine::Sync,
            depth: 1,
            msync: Msync::None,
            direct: false,
            sync_writes: None,
            include_close: false,
            include_fsync: false,
            verify: false,
            read_percent: 50,
        }
    }
}

impl TaskSetup {
    /// Returns why an operation cannot be carried out this way; `None` if it can.
    pub(crate) fn refuses(&self, operation: &Operation) -> Option<&'static str> {
        match operation.way {
            Way::Stdio if self.direct => {
                Some("the C library's buffers are not aligned as direct I/O requires")
            }
            Way::Stdio | Way::Positional | Way::Vector if self.engine != IoEngine::Sync => {
                Some("only the engine sync makes these calls")
            }
            Way::Plain | Way::Positional | Way::Vector | Way::Stdio => None,
        }
    }
}

/// Use of the page cache.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CacheMode {
    /// Default use by the kernel, as IOzone without options.
    Cached,
    /// `fsync` is timed, and pages are dropped before operations that read.
    Fsync,
    /// Direct I/O, which bypasses the cache.
    Direct,
    /// File twice as large as memory, so that little of it is in the cache.
    Beyond,
}

impl CacheMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Fsync => "fsync",
            Self::Direct => "direct",
            Self::Beyond => "beyond",
        }
    }

    /// Returns the setup with the settings that this mode requires.
    pub(crate) fn applied(self, mut setup: TaskSetup) -> TaskSetup {
        setup.direct |= self == Self::Direct;
        setup.include_fsync |= self == Self::Fsync;
        setup
    }
}

impl FromStr for CacheMode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        choice(text, "cached, fsync, direct or beyond")
    }
}

/// Task on a file.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) cell: CellSize,
    pub(crate) cache: CacheMode,
    pub(crate) setup: TaskSetup,
    /// True if pages are dropped before operations that read.
    pub(crate) drop_before_reads: bool,
    /// Operations, in order.
    pub(crate) operations: Vec<&'static Operation>,
}
