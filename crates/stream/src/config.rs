//! Keys of `config` of the gauge's measurements: one struct for each kind of figure.

use nodegauge_arena::{ArrayLayout, keys};
use nodegauge_kernels::STREAM_ARRAY_COUNT;
use nodegauge_measure::config;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::Traffic;
use nodegauge_measure::{Fraction, Seconds};
use nodegauge_passes::traffic::CountedTraffic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

config! {
    /// Configuration of figures of STREAM's kernels: native loops, loops that a compiler of this system has compiled,
    /// and stream.c.
    pub struct StreamConfig including of: shared::HostConfig {
        /// Origin of the loops: `native`, `compiled`, or a program such as `stream.c`.
        engine: shared::engine;
        engine_version: shared::engine_version;
        threads: shared::threads;
        places: shared::places;
        places_asked: shared::places_asked;
        bind: shared::bind;
        /// Number of processes that measure together, each with its own arrays.
        processes: shared::processes;
        /// Number of threads of each process.
        threads_per_rank: u64 = Setting "threads per rank";
        /// Each rank: its memory, its CPUs, and the best and the median of its own rates.
        ranks: shared::ranks as Observation of Vec<RankConfig> = "ranks of STREAM have memory";
        stores: shared::stores;
        pages: keys::pages;
        prefetch: shared::prefetch;
        element: shared::element;
        arrays: shared::arrays;
        array_bytes: shared::array_bytes;
        array_elements: shared::array_elements;
        array_times_llc: shared::array_times_llc;
        measured_cache_bytes: shared::measured_cache_bytes;
        reported_cache_bytes: shared::reported_cache_bytes;
        /// Result of the check whether a cache holds part of the arrays.
        size_check: SizeCheckConfig = Observation "size check";
        /// Layout of the arrays relative to each other.
        layout: ArrayLayout = Setting "layout";
        memory_policy: keys::memory_policy;
        numa: keys::numa;
        /// Number of passes after the warm-up.
        passes: keys::passes;
        stopped: shared::stopped;
        loops_tried: shared::loops_tried;
        /// Lead of the selected loop over the second fastest in the trial.
        loop_lead: LeadConfig = Observation "lead of the loop";
        checks: shared::checks;
        /// Smallest step of the clock, seconds.
        clock_granularity_s: f64 = Observation "clock granularity";
        round_trip_s: shared::round_trip_s;
        isa: shared::isa;
        vector_bits: keys::vector_bits;
        unroll: shared::unroll;
        side_by_side: keys::side_by_side;
        compiler: shared::compiler;
        /// Properties of the compiled code; `null` if it could not be read.
        code: CodeConfig = Observation "code";
        /// Traffic counted by the memory controllers.
        counters: CountersConfig = Observation "counters";
        /// Computed traffic on the memory bus; present only if traffic was also counted.
        traffic_computed: Traffic = Observation "computed traffic";
        sweep: shared::sweep;
        /// Rate divided by the rate of the configuration with which the sweep compares.
        relative: RelativeRateConfig = Observation "relative";
        /// Source that was compiled.
        source: shared::source;
        /// Number of passes of stream.c, which does not count the first one.
        ntimes: u64 = Setting "NTIMES";
        /// Environment variables that were set for stream.c.
        environment: BTreeMap<String, String> = Setting "environment";
        /// Stack limit of stream.f, if it was raised for the run: bytes, or `unlimited`.
        stack_limit: String = Setting "stack limit";
        /// Number of runs of stream.c.
        runs: u64 = Observation "runs";
        times_s: shared::times_s;
        /// Complete output of stream.c in the fastest run; only in the figure of Triad.
        printed: String = Observation "printed";
    }
}

impl StreamConfig {
    /// Number of arrays of a pass.
    pub(crate) fn array_count(&self) -> u64 {
        self.arrays.unwrap_or(STREAM_ARRAY_COUNT as u64)
    }
}

config! {
    /// Configuration of figures of `--tune`.
    pub struct TuneConfig {
        /// Stage of the search: `placements` or `final`.
        stage: String = Setting "stage";
        threads: shared::threads;
        places_asked: shared::places_asked;
        bind: shared::bind;
        pages: keys::pages;
        stores: shared::stores as Setting = "the tuner compares kinds of stores";
        loops: shared::loops;
        element: shared::element;
        /// True if a run without tuning would use this configuration.
        plain: bool = Setting "plain";
        /// Selected configuration.
        choice: ChoiceConfig = Observation "choice";
        /// Rate without tuning, B/s.
        from: keys::from;
        /// Rate of the selected configuration, B/s.
        to: keys::to;
        /// Number of passes of the whole search.
        passes: keys::passes;
    }
}

config! {
    /// Configuration of figures of `explain`: the contribution of each choice.
    pub struct ExplainConfig {
        engine: shared::engine;
        /// Kernel that is explained.
        kernel: keys::kernel;
        /// Setting that the step changes.
        what: keys::what;
        /// Value of the option before and after the step, e.g. `4k` and `thp`.
        step_options: Vec<String> = Observation "options";
        /// 95 % confidence interval of the factor, low and high.
        interval: Vec<f64> = Observation "interval";
        /// Rate of consecutive passes of the last step.
        stream: StreamAgreement = Observation "stream";
        /// Factor of each kernel.
        factors: Map<String, Value> = Observation "factors";
        /// Configuration of the baseline.
        baseline: String = Observation "baseline";
        /// Rate of the baseline, B/s.
        from: keys::from;
        /// Rate after the step, B/s.
        to: keys::to;
        rounds: shared::rounds;
        /// Number of rounds that do not count.
        rounds_left_out: u64 = Observation "rounds left out";
        /// Budget that would suffice for ten rounds, seconds; absent if at least ten rounds of this run count.
        enough_budget_s: Seconds = Observation "budget for ten rounds";
        array_bytes: shared::array_bytes;
        array_times_llc: shared::array_times_llc;
        measured_cache_bytes: shared::measured_cache_bytes;
        reported_cache_bytes: shared::reported_cache_bytes;
    }
}

/// Best rate of consecutive passes, as `stream` measures them, compared with the last step of `explain`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamAgreement {
    /// Number of passes that count.
    pub passes: usize,
    /// Best rate of the passes that count, B/s.
    pub rate: f64,
    /// Best rate of the passes that count, divided by the best rate of the last step.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio.
    pub interval: Option<[f64; 2]>,
}

/// Configuration that `--tune` chose. Absent values are those of a run without tuning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChoiceConfig {
    /// Number of threads.
    pub threads: Option<u32>,
    /// Places of the threads.
    pub places: Option<String>,
    /// Binding of threads to places.
    pub bind: Option<String>,
    /// Number of threads per last-level cache.
    pub per_cache: Option<u32>,
    /// Kind of pages.
    pub pages: String,
    /// Type of the elements for which the loops were chosen.
    pub element: String,
    /// Loop of each kernel.
    pub loops: BTreeMap<String, LoopConfig>,
}

/// Native loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopConfig {
    /// Instruction set.
    pub isa: String,
    /// `regular` or `nontemporal`.
    pub stores: String,
    /// Unroll factor.
    pub unroll: u8,
    /// Number of 4 KiB pages that the loop traverses side by side; absent for one page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_by_side: Option<u8>,
    /// Software prefetch.
    pub prefetch: String,
}

/// One of several processes that measure together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankConfig {
    /// Number of the rank.
    pub rank: u32,
    /// CPUs on which the rank may run, as reported by the kernel.
    pub cpus: Vec<u32>,
    /// Requested memory policy.
    pub memory: RankMemory,
    /// Share of the rank's pages on each NUMA node, 0 to 1.
    pub memory_got: Option<BTreeMap<u32, Fraction>>,
    /// Best rate of the rank, B/s.
    pub best: Option<f64>,
    /// Median rate of the rank, B/s.
    pub median: Option<f64>,
}

/// Memory policy of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankMemory {
    /// Name of the policy: `local`, `bind`, ...
    pub policy: String,
    /// NUMA nodes of the policy.
    pub nodes: Option<Vec<u32>>,
}

/// Properties of a kernel's machine code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeConfig {
    /// Width of the vectors in bits; `null` without arithmetic.
    pub vector_bits: Option<u64>,
    /// True if the code uses non-temporal stores.
    pub nontemporal: bool,
    /// True if the code uses fused multiply-add instructions.
    pub fma: bool,
    /// True if the code uses prefetch instructions.
    pub prefetch: bool,
    /// Functions that the code calls.
    pub calls: Vec<String>,
}

/// Rates of a loop over half the arrays and over the whole arrays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeCheckConfig {
    /// Kernel of the measured loop.
    pub kernel: String,
    /// Rate over half the arrays divided by the rate over the whole arrays, median of the rounds.
    pub half_over_whole: f64,
    /// Interval of the median of the ratios: 95 %, or the range of all ratios if there are fewer than six.
    pub within: [f64; 2],
    /// Number of rounds.
    pub rounds: usize,
    /// True if a cache increases the rate over half the arrays significantly.
    pub cached: bool,
}

/// Counts of the memory controllers, or the reason why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CountersConfig {
    /// The traffic was not counted.
    Unavailable {
        /// Reason why the traffic was not counted.
        unavailable: String,
    },
    /// The traffic was counted.
    Counted(CountedTrafficConfig),
}

/// Counts of the memory controllers for a kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedTrafficConfig {
    /// Family of the counters.
    pub family: String,
    /// Number of counters that were read.
    pub events: usize,
    /// Number of passes that were counted.
    pub passes: usize,
    /// Traffic while the threads are idle, B/s.
    pub at_rest_bytes_per_s: Option<f64>,
    /// Bytes read per byte that STREAM counts.
    pub read_factor: Option<f64>,
    /// Bytes written per byte that STREAM counts.
    pub write_factor: Option<f64>,
    /// Bytes read and written per byte that STREAM counts.
    pub factor: Option<f64>,
}

impl CountedTrafficConfig {
    /// Returns the counts of the kernel with index `i`: the bytes moved, divided by the bytes that STREAM counts
    /// (`counted`).
    pub(crate) fn for_kernel(seen: &CountedTraffic, i: usize, counted: f64) -> Self {
        let moved = seen.kernels.get(i).copied().flatten();
        Self {
            family: seen.family.clone(),
            events: seen.counters,
            passes: seen.passes,
            at_rest_bytes_per_s: seen.idle_rate,
            read_factor: moved.and_then(|moved| moved.read).map(|bytes| bytes / counted),
            write_factor: moved.and_then(|moved| moved.write).map(|bytes| bytes / counted),
            factor: moved.map(|moved| moved.total / counted),
        }
    }
}

/// Rate divided by that of the same kernel in the reference combination of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelativeRateConfig {
    /// Values of the reference combination on the axes.
    pub to: Map<String, Value>,
    /// Median rate divided by the median rate of the reference combination.
    pub median: Option<f64>,
}

/// Lead of the fastest candidate of a trial over the second best.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeadConfig {
    /// Rate of the fastest candidate divided by the rate of the second best.
    pub ratio: f64,
    /// Largest relative difference that the noise of the trial may cause between two equal candidates. A ratio closer
    /// to 1 is not significant.
    pub noise: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::counters::MemoryTraffic;

    #[test]
    fn configuration_has_traffic_per_counted_byte() {
        let counted = CountedTraffic {
            family: "AMD UMC".to_owned(),
            counters: 48,
            kernels: vec![
                Some(MemoryTraffic { read: Some(2.1e9), write: Some(1.0e9), total: 3.1e9 }),
                Some(MemoryTraffic { read: None, write: None, total: 3.2e9 }),
                None,
            ],
            passes: 5,
            idle_rate: Some(1e8),
        };
        let reported = CountedTrafficConfig::for_kernel(&counted, 0, 3e9);
        assert_eq!((reported.family.as_str(), reported.events), ("AMD UMC", 48));
        assert!((reported.factor.unwrap() - 3.1 / 3.0).abs() < 1e-9);
        assert!((reported.read_factor.unwrap() - 0.7).abs() < 1e-9);
        assert_eq!(CountedTrafficConfig::for_kernel(&counted, 1, 3e9).read_factor, None);
        assert_eq!(CountedTrafficConfig::for_kernel(&counted, 2, 3e9).factor, None);
    }
}
