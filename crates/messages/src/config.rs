//! Keys of `config` of the gauge's measurements.

use crate::curve::MessageCurve;
use nodegauge_measure::Fraction;
use nodegauge_measure::config;
use nodegauge_measure::keys::shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

config! {
    /// Configuration of figures of messages, of the probe or of the OSU micro-benchmarks.
    pub struct MessageConfig {
        /// Origin of the figure: `probe` or `osu`; `shm` or `tcp` without an MPI.
        engine: shared::engine;
        engine_version: shared::engine_version;
        /// Size of a message, bytes; 0 for a barrier.
        message_bytes: shared::message_bytes;
        distance: nodegauge_placement::keys::distance;
        /// CPUs of each rank.
        places: shared::places;
        /// Host of each rank, if the ranks are on several hosts.
        hosts: shared::hosts;
        /// Ranks of the pair, if every pair has its own figures.
        ranks: shared::ranks as Observation of Vec<PairRank> = "ranks of messages have hosts";
        /// Number of ranks that were started together.
        processes: shared::processes;
        /// Number of pairs that exchanged messages at the same time.
        pairs: u64 = Setting "pairs";
        /// Number of messages in flight.
        window: u64 = Setting "window";
        /// `single` for one buffer, `multiple` for one per message of the window; for buffers in device memory e.g.
        /// `cuda, device to device`.
        buffers: String = Setting "buffers";
        /// Number of threads of the sender and of the receiver.
        threads: shared::threads as Setting of Vec<u64> = "sender and receiver may have different numbers";
        /// Interval between readings of the clock: `batch` for a batch of operations, `each` for each operation.
        timing: String = Setting "timing";
        /// MPI library and launcher of the ranks.
        mpi: MpiConfig = Setting "MPI", omits_label;
        /// Route of the messages without MPI: `ring` in shared memory, `process_vm_readv`, `tcp`.
        route: String = Choice "route";
        /// Number of starts whose samples are combined in this figure.
        starts: u64 = Observation "starts";
        /// Number of operations that count.
        operations: shared::operations;
        /// Number of operations in the last batch.
        batch_operations: u64 = Observation "operations of a batch";
        /// Reason why the measurement of the size ended: `stable`, `samples` or `limit`.
        stop: String = Observation "stop";
        /// True if the received data was correct; absent if it was not verified.
        validated: bool = Observation "validated";
        /// Round trip of a cache line between the two cores, without a message, seconds.
        round_trip_s: shared::round_trip_s;
        /// Mean time of the fastest rank of a collective, seconds.
        fastest_rank: f64 = Observation "fastest rank";
        /// Mean time of the slowest rank of a collective, seconds.
        slowest_rank: f64 = Observation "slowest rank";
        /// Minimum of the batches, in the unit of the figure.
        min: f64 = Observation "least";
        /// Maximum of the batches, in the unit of the figure.
        max: f64 = Observation "greatest";
        /// Median that another program printed, e.g. OSU's, in the unit of the figure.
        p50: f64 = Observation "50th percentile";
        /// 90th percentile that another program printed, in the unit of the figure.
        p90: f64 = Observation "90th percentile";
        /// 99th percentile of the batches, from the best to the worst, in the unit of the figure.
        p99: f64 = Observation "99th percentile";
        /// First value of the figure, if it deviated from its curve and was measured again.
        dip: DipConfig = Observation "dip";
        /// Properties of the whole curve; stored in the figure of the first size.
        curve: MessageCurve = Observation "curve";
        /// Figure divided by that of the OSU micro-benchmarks.
        over_osu: f64 = Observation "over OSU";
        /// Comparison with the lower bound, nodegauge's own transport.
        floor: LowerBoundConfig = Observation "of floor";
        /// Number of interleaved rounds of the probe and an OSU program that count.
        rounds: shared::rounds;
    }
}

/// Rank with its CPUs or its host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairRank {
    /// Number of the rank among all started ranks.
    pub rank: u32,
    /// CPUs to which it was bound; empty if it was not bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Host of the rank, if the ranks are on several hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// MPI library and launcher; absent values are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MpiConfig {
    /// Name of the library: `Open MPI`, `MPICH`, ...
    pub library: Option<String>,
    /// Version of the library.
    pub version: Option<String>,
    /// Version of the MPI standard.
    pub standard: Option<String>,
    /// Device of MPICH.
    pub device: Option<String>,
    /// Transport of the messages.
    pub transport: Option<String>,
    /// Reason why this MPI was chosen, and how it was found.
    pub chosen: Option<String>,
    /// `compiled` by the wrapper, or `precompiled` for an ABI.
    pub probe: Option<String>,
    /// Path of the compiler wrapper.
    pub mpicc: Option<String>,
    /// Compiler that the wrapper calls.
    pub compiler: Option<String>,
    /// Command of the launcher with its options.
    pub launcher: Option<String>,
    /// Version of the launcher.
    pub launcher_version: Option<String>,
}

/// Figure that deviated from the curve and was measured again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DipConfig {
    /// Value of the first measurement, in the unit of the figure.
    pub first: f64,
}

/// Performance of an MPI as a share of the built-in transport's performance. The share of a time is the built-in
/// transport's time divided by the MPI's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LowerBoundConfig {
    /// Value of the built-in transport, in the unit of the figure.
    pub value: f64,
    /// Time of the built-in transport divided by the MPI's time: 1 if the MPI is as fast.
    pub share: Fraction,
    /// 95 % confidence interval of the share, from three or more interleaved starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

/// Tolerance of [`LowerBoundConfig::is_bound`]: because starts vary, a share of up to 1.03 does not show that the MPI
/// is faster.
const BOUND_TOLERANCE: f64 = 0.03;

impl LowerBoundConfig {
    /// True if the MPI is not faster than the lower bound. A faster MPI shows that the built-in transport was disturbed
    /// or is slower for this size, so that its time is no lower bound.
    pub fn is_bound(&self) -> bool {
        self.share.0 <= 1.0 + BOUND_TOLERANCE
    }
}
