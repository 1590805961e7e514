//! Keys of `config` of figures of entries.

use crate::config::ClockUsed;
use crate::keys;
use nodegauge_blocks::entries::DirectoryLayout;
use nodegauge_measure::keys::shared;

nodegauge_measure::config! {
    /// Configuration of figures of operations on entries, own ones and those of reference programs.
    pub struct MetadataConfig {
        /// Directories of the files: `own` of each worker, or `shared` by all.
        directories: DirectoryLayout = Identity "directories";
        /// True if a created file is written to the device (`fsync`) before it is closed.
        fsync: bool = Identity "fsync";
        /// True if the caches of the node were dropped before the operation, so that its accesses are the first.
        dropped: bool = Identity "caches dropped";
        /// Bytes written to each created file.
        written_bytes: u64 = Identity "bytes written";
        /// Number of files of each worker.
        files: u64 = Setting "files per worker";
        threads: shared::threads;
        processes: shared::processes;
        volume: keys::volume;
        engine: shared::engine;
        version: shared::version;
        command: shared::command;
        /// Number of operations in the samples that count.
        operations: shared::operations;
        latency_s: keys::latency_s;
        /// Number of operations between two readings of the clock. A latency is the mean of so many operations.
        batch: u64 = Observation "operations per latency";
        /// The clock that timed single operations.
        clock: shared::clock as Observation of ClockUsed = "reading it costs a share of an operation";
        /// Bytes that one operation caused to be read from devices, on average.
        device_bytes_per_operation: f64 = Observation "device reads per operation";
        stopped: shared::stopped;
    }
}
