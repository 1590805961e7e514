//! What `config` of the gauge's measurements holds: one struct for each kind of figure.

use nodegauge_arena::{Layout, NumaConfig, PagesConfig};
use nodegauge_measure::config;
use nodegauge_measure::record::Traffic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

config! {
    /// Configuration of figures of STREAM's kernels: native loops, what compilers made of them, and
    /// stream.c itself.
    pub struct StreamConfig {
        /// Whose loops: `native`, `compiled`, or a program such as `stream.c`.
        engine: String = Setting "engine" @ 26, speaks;
        /// The program's own version.
        engine_version: String = Setting "engine version" @ 45;
        /// Threads, of all processes together.
        threads: u64 = Setting "threads" @ 20;
        /// CPUs on which each thread may run, as the kernel says.
        places: Vec<Vec<u32>> = Setting "places";
        /// Places as they were asked for, as in `OMP_PLACES`.
        places_asked: String = Setting "places asked" @ 60;
        /// How threads are bound to places, as in `OMP_PROC_BIND`.
        bind: String = Setting "bind" @ 21;
        /// Processes that measure together, each with arrays of its own.
        processes: u64 = Setting "processes" @ 51;
        /// Threads of each of them.
        threads_per_rank: u64 = Setting "threads per rank";
        /// Each of them.
        ranks: Vec<RankConfig> = Observation "ranks";
        /// `regular` or `nontemporal`; absent for kernels that only read, and where it is not known.
        stores: String = Choice "stores" @ 24;
        /// Pages of the arrays.
        pages: PagesConfig = Setting "pages" @ 25;
        /// Software prefetch: `off`, or distances in bytes.
        prefetch: String = Choice "prefetch" @ 61;
        /// Type of the elements.
        element: String = Identity "elements" @ 23;
        /// Bytes of one array.
        array_bytes: u64 = Identity "array size" @ 22, speaks;
        /// Elements of one array.
        array_elements: u64 = Observation "array elements";
        /// Size of an array over the last-level caches in use.
        array_times_llc: f64 = Observation "arrays over caches";
        /// Whether a cache helps the arrays.
        size_check: SizeCheckConfig = Observation "size check";
        /// How the arrays lie to each other.
        layout: Layout = Setting "layout";
        /// The policy that the arrays' memory was given.
        memory_policy: String = Setting "memory policy" @ 59;
        /// On which NUMA nodes the memory is.
        numa: NumaConfig = Setting "numa";
        /// Passes behind the warm-up.
        passes: u64 = Observation "passes";
        /// Why measuring ended.
        stopped: String = Observation "stopped";
        /// Loops of which the fastest was chosen; 0 where none was left open.
        loops_tried: u64 = Observation "loops tried";
        /// How far the loop was ahead of the next in the trial.
        loop_lead: LeadConfig = Observation "lead of the loop";
        /// How often all elements were checked.
        checks: u64 = Observation "checks";
        /// Smallest step of the clock, seconds.
        clock_granularity_s: f64 = Observation "clock granularity";
        /// Round trip of a cache line between two threads, of the regime of the figures, seconds.
        round_trip_s: f64 = Observation "round trip";
        /// Instruction set of the loop.
        isa: String = Choice "isa";
        /// Width of its vectors.
        vector_bits: u64 = Choice "vector bits";
        /// How often its body is repeated.
        unroll: u64 = Choice "unroll";
        /// Pages of 4 KiB that it walks side by side; absent where it is one after another.
        side_by_side: u64 = Choice "pages side by side";
        /// Who compiled it.
        compiler: CompilerConfig = Setting "compiler" @ 27, speaks;
        /// What the compiled code says; `null` where it could not be read.
        code: CodeConfig = Observation "code";
        /// What the memory controllers counted.
        counters: CountersConfig = Observation "counters";
        /// What would cross the memory bus by computation, where it was counted.
        traffic_computed: Traffic = Observation "computed traffic";
        /// The value of each axis of a sweep.
        sweep: Map<String, Value> = Observation "sweep" @ 56;
        /// The rate over that of the reference of a sweep.
        relative: RelativeConfig = Observation "relative";
        /// The source that was compiled.
        source: String = Setting "source";
        /// Passes of stream.c, the first of which it does not count.
        ntimes: u64 = Setting "NTIMES";
        /// Variables that stream.c was given.
        environment: BTreeMap<String, String> = Setting "environment";
        /// Runs of stream.c.
        runs: u64 = Observation "runs";
        /// What stream.c printed of the fastest run.
        times_s: TimesConfig = Observation "times";
        /// All that it printed in that run, with Triad.
        printed: String = Observation "printed";
    }
}

config! {
    /// Configuration of figures of `--tune`.
    pub struct TuneConfig {
        /// Which stage of the search: `placements` or `final`.
        stage: String = Setting "stage" @ 63;
        /// Threads.
        threads: u64 = Setting "threads" @ 20;
        /// Places as they were asked for.
        places_asked: String = Setting "places asked" @ 60;
        /// How threads are bound to places.
        bind: String = Setting "bind" @ 21;
        /// Pages of the arrays.
        pages: PagesConfig = Setting "pages" @ 25;
        /// `regular` or `nontemporal`.
        stores: String = Setting "stores" @ 24;
        /// The loops of all kernels in words.
        loops: String = Choice "loops";
        /// Type of the elements.
        element: String = Identity "elements" @ 23;
        /// Whether it is what a run without tuning would take.
        plain: bool = Setting "plain";
        /// The choice itself.
        choice: ChoiceConfig = Observation "choice";
        /// Rate without tuning, B/s.
        from: f64 = Observation "from";
        /// Rate of the choice, B/s.
        to: f64 = Observation "to";
        /// Passes of the whole search.
        passes: u64 = Observation "passes";
    }
}

config! {
    /// Configuration of figures of `explain`: what each choice is worth.
    pub struct ExplainConfig {
        /// Whose loops: `native`.
        engine: String = Setting "engine" @ 26, speaks;
        /// The kernel that is explained.
        kernel: String = Identity "kernel" @ 58, speaks;
        /// What changes with the step.
        what: String = Observation "what";
        /// 95 % confidence interval of the factor, low and high.
        interval: Vec<f64> = Observation "interval";
        /// What passes of the last step one after another reached.
        stream: StreamAgreement = Observation "stream";
        /// The same factor of each kernel.
        factors: Map<String, Value> = Observation "factors";
        /// What the steps begin with.
        baseline: String = Observation "baseline";
        /// Rate of the baseline, B/s.
        from: f64 = Observation "from";
        /// Rate after the step, B/s.
        to: f64 = Observation "to";
        /// Rounds that count.
        rounds: u64 = Observation "rounds";
        /// Rounds in which something interfered.
        rounds_left_out: u64 = Observation "rounds left out";
        /// Bytes of one array.
        array_bytes: u64 = Identity "array size" @ 22, speaks;
    }
}

/// What passes one after another reach, as `stream` makes them, beside the end of `explain`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamAgreement {
    /// Passes that count.
    pub passes: usize,
    /// The best of them, B/s.
    pub rate: f64,
    /// The same over the best rate of the last step.
    pub ratio: f64,
    /// Its 95 % confidence interval.
    pub interval: Option<[f64; 2]>,
}

/// What `--tune` chose; what is absent is as in a run without tuning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChoiceConfig {
    /// Threads.
    pub threads: Option<u32>,
    /// Places.
    pub places: Option<String>,
    /// How threads are bound to places.
    pub bind: Option<String>,
    /// Threads on each last-level cache.
    pub per_cache: Option<u32>,
    /// Pages.
    pub pages: String,
    /// Type of the elements for which the loops were chosen.
    pub element: String,
    /// The loop of each kernel.
    pub loops: BTreeMap<String, LoopConfig>,
}

/// A native loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopConfig {
    /// Instruction set.
    pub isa: String,
    /// `regular` or `nontemporal`.
    pub stores: String,
    /// How often its body is repeated.
    pub unroll: u8,
    /// Pages of 4 KiB that it walks side by side; absent where it is one after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_by_side: Option<u8>,
    /// Software prefetch.
    pub prefetch: String,
}

/// One of several processes that measure together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankConfig {
    /// Its number.
    pub rank: u32,
    /// CPUs on which it may run, as the kernel says.
    pub cpus: Vec<u32>,
    /// Memory that it was asked to take.
    pub memory: RankMemory,
    /// Share of its memory on each NUMA node, 0 to 1.
    pub memory_got: Option<BTreeMap<u32, f64>>,
    /// Best rate of its own, B/s.
    pub best: Option<f64>,
    /// Median of its own rates, B/s.
    pub median: Option<f64>,
}

/// The memory policy of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankMemory {
    /// `local`, `bind`, ...
    pub policy: String,
    /// Its NUMA nodes.
    pub nodes: Option<Vec<u32>>,
}

/// Who compiled something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompilerConfig {
    /// The command with its flags.
    pub command: String,
    /// The first line of what it says of its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Flags behind those of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
}

/// What the machine code of a kernel says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeConfig {
    /// Width of its vectors; `null` without any arithmetic.
    pub vector_bits: Option<u64>,
    /// Whether it stores past the caches.
    pub nontemporal: bool,
    /// Whether it has fused multiply-adds.
    pub fma: bool,
    /// Whether it prefetches.
    pub prefetch: bool,
    /// Functions that it calls.
    pub calls: Vec<String>,
}

/// A loop over half the arrays, beside the same over the whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeCheckConfig {
    /// The loop.
    pub kernel: String,
    /// Rate over the half over that over the whole, median of the rounds.
    pub half_over_whole: f64,
    /// Where that median lies: its 95 % interval, or all ratios where there are fewer than six.
    pub within: [f64; 2],
    /// Rounds.
    pub rounds: usize,
    /// Whether a cache helps, as far as the noise lets tell.
    pub cached: bool,
}

/// What the memory controllers counted, or why they did not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CountersConfig {
    /// They did not.
    Unavailable {
        /// Why.
        unavailable: String,
    },
    /// They did.
    Counted(CountedConfig),
}

/// What the memory controllers counted of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedConfig {
    /// The family of counters.
    pub family: String,
    /// How many were read.
    pub events: usize,
    /// Passes that were counted.
    pub passes: usize,
    /// What moves while the threads rest, bytes a second.
    pub at_rest_bytes_per_s: Option<f64>,
    /// Bytes read over the bytes that STREAM counts.
    pub read_factor: Option<f64>,
    /// Bytes written over them.
    pub write_factor: Option<f64>,
    /// Both.
    pub factor: Option<f64>,
}

/// A rate over that of the same kernel in another cell of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelativeConfig {
    /// The axes of that cell.
    pub to: Map<String, Value>,
    /// Median over median.
    pub median: Option<f64>,
}

/// How far the winner of a trial is ahead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeadConfig {
    /// Its rate over that of the next.
    pub ratio: f64,
    /// By how much two equal ones may come apart in the trial, relatively: a ratio within it of 1 is
    /// none.
    pub noise: f64,
}

/// Times that stream.c prints, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimesConfig {
    /// Of all passes but the first.
    pub average: f64,
    /// Of the fastest.
    pub least: f64,
    /// Of the slowest.
    pub greatest: f64,
}
