//! Keys of `config` that figures of data and figures of metadata share.

use nodegauge_blocks::latency::Quantiles;
use nodegauge_blocks::volume::Volume;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

nodegauge_measure::keys! {
    /// The file system and its device.
    volume: Volume = Setting "volume";
    /// Latencies of single operations.
    latency_s: Latencies = Observation "latency";
}

/// Latencies, seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Latencies {
    /// Latencies of reads and writes separately, as fio reports them for a mix.
    Mixed {
        /// Latencies of the reads.
        read: Quantiles,
        /// Latencies of the writes.
        write: Quantiles,
    },
    /// Latencies of all operations.
    All(Quantiles),
}
