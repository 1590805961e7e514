//! Keys of `config` of figures of directory entries.

use crate::config::OperationClock;
use crate::keys;
use nodegauge_blocks::entries::DirectoryLayout;
use nodegauge_measure::keys::shared;

nodegauge_measure::config! {
    /// Configuration of figures of operations on directory entries, of nodegauge or of a reference program.
    pub struct MetadataConfig {
        /// Directories of the files: `own` if each worker has its own, `shared` if all workers share one.
        directories: DirectoryLayout = Identity "directories";
        /// True if a created file is written to the device (`fsync`) before it is closed.
        fsync: bool = Identity "fsync";
        /// True if the caches of the node were dropped before the operation.
        dropped: bool = Identity "caches dropped";
        /// Bytes written to each created file.
        written_bytes: u64 = Identity "bytes written";
        /// Number of files per worker.
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
        /// Number of operations between two readings of the clock. A latency is the mean over these operations.
        batch: u64 = Observation "operations per clock reading";
        /// The clock that timed single operations.
        clock: shared::clock as Observation of OperationClock = "reading it costs a share of an operation";
        /// Mean number of bytes that an operation caused to be read from devices.
        device_bytes_per_operation: f64 = Observation "bytes read from devices per operation";
        stopped: shared::stopped;
    }
}
