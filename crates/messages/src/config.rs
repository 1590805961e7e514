//! Keys of `config` of the gauge's measurements.

use crate::curve::MessageCurve;
use nodegauge_measure::Fraction;
use nodegauge_measure::config;
use nodegauge_measure::keys::shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

config! {
    /// Configuration of figures of messages: of the probe, and of the OSU micro-benchmarks.
    pub struct MessageConfig {
        /// Origin of the figure: `probe` or `osu`; without MPI `shm` or `tcp`.
        engine: shared::engine;
        engine_version: shared::engine_version;
        /// Size of a message, bytes; 0 for a barrier.
        message_bytes: shared::message_bytes;
        distance: nodegauge_placement::keys::distance;
        /// CPUs of each rank.
        places: shared::places;
        /// Host of each rank, where they are on several.
        hosts: shared::hosts;
        /// The ranks of the pair, where every pair has figures of its own.
        ranks: shared::ranks as Observation of Vec<PairRank> = "ranks of messages have hosts";
        /// Ranks that were started together.
        processes: shared::processes;
        /// Pairs that worked at once.
        pairs: u64 = Setting "pairs";
        /// Messages under way at once.
        window: u64 = Setting "window";
        /// `single` for one buffer, `multiple` for one a message of the window; `cuda, device to device` and the like for
        /// buffers in the memory of devices.
        buffers: String = Setting "buffers";
        /// Threads of the sender and of the receiver.
        threads: shared::threads as Setting of Vec<u64> = "sender and receiver may have different numbers";
        /// Interval between readings of the clock: a `batch` or `each` operation.
        timing: String = Setting "timing";
        /// MPI library and launcher of the ranks.
        mpi: MpiConfig = Setting "MPI", omits_label;
        /// Route of the messages without MPI: `ring` in shared memory, `process_vm_readv`, `tcp`.
        route: String = Choice "route";
        /// Starts whose samples are together here.
        starts: u64 = Observation "starts";
        /// Operations that count.
        operations: shared::operations;
        /// Operations of the last batch.
        batch_operations: u64 = Observation "operations of a batch";
        /// Reason why the size ended: `stable`, `samples` or `limit`.
        stop: String = Observation "stop";
        /// True if the data arrived as it was sent; absent if it was not checked.
        validated: bool = Observation "validated";
        /// Round trip of a bare cache line between the two cores, seconds.
        round_trip_s: shared::round_trip_s;
        /// Mean time of the fastest rank of a collective, seconds.
        fastest_rank: f64 = Observation "fastest rank";
        /// Mean time of the slowest rank of a collective, seconds.
        slowest_rank: f64 = Observation "slowest rank";
        /// Least batch.
        min: f64 = Observation "least";
        /// Greatest batch.
        max: f64 = Observation "greatest";
        /// Median, as another program prints it.
        p50: f64 = Observation "50th percentile";
        /// 90th percentile, as another program prints it.
        p90: f64 = Observation "90th percentile";
        /// 99 of 100 batches are at least as good.
        p99: f64 = Observation "99th percentile";
        /// The figure before it was measured again because it fell out of its curve.
        dip: DipConfig = Observation "dip";
        /// Properties of the curve over all sizes, in the figure of the first size.
        curve: MessageCurve = Observation "curve";
        /// The figure over that of the OSU micro-benchmarks.
        over_osu: f64 = Observation "over OSU";
        /// The figure against what the hardware allows.
        floor: FloorConfig = Observation "of floor";
        /// Rounds that count of the probe and an OSU program by turns.
        rounds: shared::rounds;
    }
}

/// A rank, with its CPUs or its host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairRank {
    /// Number of the rank among those that were started.
    pub rank: u32,
    /// CPUs that it was bound to; empty where its host placed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Host of the rank, where ranks are on several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// An MPI, as far as it tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MpiConfig {
    /// `Open MPI`, `MPICH`, ...
    pub library: Option<String>,
    /// Version of the library.
    pub version: Option<String>,
    /// Version of the MPI standard.
    pub standard: Option<String>,
    /// MPICH's device.
    pub device: Option<String>,
    /// Transport of the messages.
    pub transport: Option<String>,
    /// Reason why this MPI was chosen, and how it was found.
    pub chosen: Option<String>,
    /// `compiled` by the wrapper, or `precompiled` with this program for an ABI.
    pub probe: Option<String>,
    /// The compiler wrapper.
    pub mpicc: Option<String>,
    /// Compiler that the wrapper calls.
    pub compiler: Option<String>,
    /// The launcher with its options.
    pub launcher: Option<String>,
    /// Version of the launcher.
    pub launcher_version: Option<String>,
}

/// A figure that fell out of its curve and was measured again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DipConfig {
    /// The first figure.
    pub first: f64,
}

/// Share of the built-in transport's performance that an MPI reaches: the transport's time over the MPI's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FloorConfig {
    /// The floor's figure.
    pub value: f64,
    /// The floor's time over the MPI's: 1 where the MPI is as fast.
    pub share: Fraction,
    /// 95 % confidence interval of the share, of three starts by turns and more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

/// Part by which the variation of starts may raise an MPI above the floor.
const ABOVE: f64 = 0.03;

impl FloorConfig {
    /// True if the MPI is not faster than the floor. An MPI that is faster shows that the floor was disturbed, or that
    /// the built-in transport is slower for this size, so that its time is not a lower bound.
    pub fn is_bound(&self) -> bool {
        self.share.0 <= 1.0 + ABOVE
    }
}
