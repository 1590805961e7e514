//! Configuration keys of figures of files.

use crate::keys;
use nodegauge_blocks::engine::{Msync, SyncWrites};
use nodegauge_blocks::pass::PassEnd;
use nodegauge_blocks::task::CacheMode;
use nodegauge_measure::Seconds;
use nodegauge_measure::keys::shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

nodegauge_measure::config! {
    /// Configuration of figures of file operations, of nodegauge or of a reference program.
    pub struct FilesConfig {
        file_bytes: shared::file_bytes;
        block_bytes: shared::block_bytes;
        /// Use of the page cache.
        cache: CacheMode = Setting "cache";
        /// True if files are opened with `O_DIRECT`.
        direct: bool = Setting "direct";
        /// Event that each write waits for; `null` for none.
        sync_writes: Option<SyncWrites> = Setting "sync writes";
        /// Number of blocks in flight.
        depth: u32 = Setting "depth";
        /// True if closing the file is timed.
        include_close: bool = Setting "include close";
        /// True if `fsync` is timed.
        include_fsync: bool = Setting "include fsync";
        /// True if pages are dropped before each operation that reads.
        dropped_before_reads: bool = Setting "dropped before reads";
        volume: keys::volume;
        /// Point in the operation at which a written mapping is written out (`msync`).
        msync: Msync = Setting "msync";
        /// Share of reads of a mix, percent.
        read_percent: Percent = Setting "read percent";
        /// Distance of strided accesses in blocks; absent for 17, as in IOzone.
        stride_blocks: u64 = Setting "stride in blocks";
        threads: shared::threads;
        processes: shared::processes;
        /// True if the first worker that finishes stops the others.
        stonewall: bool = Setting "stonewall";
        /// Engine: the calls that transfer the blocks, or the reference program.
        engine: shared::engine;
        /// Share of the data that is compressible, percent.
        compressible_percent: u8 = Setting "compressible percent";
        /// True if the data that was read was compared with the data that was written.
        verified: bool = Setting "verified";
        version: shared::version;
        /// Engine of nodegauge's figures with which this figure of a reference program is compared.
        compared_engine: String = Setting "compared engine", was "beside_engine";
        command: shared::command;
        /// Name of the job in fio.
        job: String = Setting "job";
        /// Options of the job in fio.
        options: BTreeMap<String, String> = Setting "options";
        /// I/O engine of fio.
        ioengine: String = Setting "ioengine";
        /// Number of blocks that were read or written.
        operations: shared::operations;
        /// Number of blocks of the file.
        operations_planned: u64 = Observation "operations planned";
        /// Time of the operation, seconds.
        seconds: shared::seconds;
        /// Operations per second.
        iops: f64 = Observation "iops";
        latency_s: keys::latency_s;
        /// The clock that timed single operations.
        clock: shared::clock as Observation of OperationClock = "reading it costs a share of an operation";
        /// Reason why the operation ended.
        ended: PassEnd = Observation "ended";
        /// Share of the data that came from or went to the device; `null` if it is unknown.
        device_share: Option<f64> = Observation "device share";
        /// Counter from which the share is computed.
        device_share_basis: Option<String> = Observation "device share basis";
        /// Class of the share: `cached`, `device` or `mixed`.
        served: Option<String> = Observation "served";
        /// Bytes of all workers divided by the time from the common start to the end of the last worker, B/s.
        parent_rate: f64 = Observation "parent rate";
        /// Rate of the slowest worker, B/s.
        worker_rate_min: f64 = Observation "worker rate min";
        /// Rate of the fastest worker, B/s.
        worker_rate_max: f64 = Observation "worker rate max";
        /// Mean rate of the workers, B/s.
        worker_rate_mean: f64 = Observation "worker rate mean";
        /// Minimum number of bytes that a worker moved.
        worker_bytes_min: u64 = Observation "worker bytes min";
    }
}

/// Integer percentage; a number with a decimal point is also accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "f64", into = "u8")]
pub struct Percent(pub u8);

impl From<f64> for Percent {
    fn from(percent: f64) -> Self {
        Self(percent.round() as u8)
    }
}

impl From<Percent> for u8 {
    fn from(percent: Percent) -> Self {
        percent.0
    }
}

/// The clock that timed single operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationClock {
    /// Name of the clock: `tsc` or `clock_gettime`.
    pub source: String,
    /// Cost of reading the clock and recording a latency, seconds.
    pub overhead_s: Seconds,
}
