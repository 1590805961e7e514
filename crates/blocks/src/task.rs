//! Tasks on a file and their setup: engine, cache mode and flags.

use crate::engine::{IoEngine, Msync, SyncWrites, parse_choice};
use crate::operation::{Operation, TransferCall};
use crate::pattern::STRIDE;
use nodegauge_measure::{Bytes, UnknownName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Calls and flags with which operations are performed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskSetup {
    /// Engine of the plain operations.
    pub engine: IoEngine,
    /// Number of blocks in flight; 1 unless the engine queues requests.
    pub depth: u32,
    /// Time at which changes to a mapping are written to the file.
    pub msync: Msync,
    /// True to bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Data that must be on the device before a write call returns; `None` if write calls do not wait.
    pub sync_writes: Option<SyncWrites>,
    /// True if the time includes closing the file.
    pub include_close: bool,
    /// True if the time includes `fsync`.
    pub include_fsync: bool,
    /// True if read data are compared with written data.
    pub verify: bool,
    /// Percentage of reads in the random mix.
    pub read_percent: u8,
    /// Distance of strided accesses in blocks.
    pub stride: u64,
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
            stride: STRIDE,
        }
    }
}

impl TaskSetup {
    /// Returns the reason why this setup does not support an operation; `None` if it does.
    pub fn refusal_reason(&self, operation: &Operation) -> Option<&'static str> {
        match operation.calls {
            TransferCall::Stdio if self.direct => {
                Some("the C library's buffers are not aligned as direct I/O requires")
            }
            TransferCall::Stdio | TransferCall::Positional | TransferCall::Vector
                if self.engine != IoEngine::Sync =>
            {
                Some("only --engine sync supports these calls")
            }
            TransferCall::Plain
            | TransferCall::Positional
            | TransferCall::Vector
            | TransferCall::Stdio => None,
        }
    }
}

/// Use of the page cache by the operations.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CacheMode {
    /// Page cache with the kernel's defaults, as in IOzone without options.
    Cached,
    /// Page cache with a timed `fsync`; pages are dropped before operations that read.
    Fsync,
    /// Direct I/O, which bypasses the page cache.
    Direct,
    /// Page cache with a file that is twice as large as memory, so that only a part of the file is cached.
    Beyond,
}

impl CacheMode {
    /// Returns the name in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Fsync => "fsync",
            Self::Direct => "direct",
            Self::Beyond => "beyond",
        }
    }

    /// Returns the setup with the settings that this cache mode requires.
    pub fn apply_to(self, mut setup: TaskSetup) -> TaskSetup {
        setup.direct |= self == Self::Direct;
        setup.include_fsync |= self == Self::Fsync;
        setup
    }
}

impl FromStr for CacheMode {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_choice(text, "cache mode", &["cached", "fsync", "direct", "beyond"])
    }
}

/// Combination of a file size and a block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellSize {
    /// Size of the file, bytes.
    pub file: Bytes,
    /// Size of a block, bytes.
    pub block: Bytes,
}

impl CellSize {
    /// Returns the number of whole blocks in the file.
    pub fn blocks(self) -> u64 {
        self.file.0 / self.block.0.max(1)
    }
}

/// Operations on a file with one file size, block size and setup.
#[derive(Debug, Clone)]
pub struct Task {
    /// Size of the file and of its blocks.
    pub cell: CellSize,
    /// Use of the page cache.
    pub cache: CacheMode,
    /// Engine and flags.
    pub setup: TaskSetup,
    /// True if pages are dropped before operations that read.
    pub drop_before_reads: bool,
    /// Operations, in the order of execution.
    pub operations: Vec<&'static Operation>,
}
