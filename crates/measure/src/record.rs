//! The record of a run, schema `nodegauge/1`: what scripts, reports and other programs read.
//!
//! Rates are SI per second, times seconds, sizes bytes. A value that is not known is `null`, never
//! a guess. Readers ignore fields they do not know; a field's meaning changes only with a new
//! schema number. Gauges make [`Measurement`]s; the command puts them into a [`Record`].

use crate::stats::Summary;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// The schema that this version writes.
pub const SCHEMA: &str = "nodegauge/1";

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// A ULID: sorts by time.
    pub id: String,
    /// When the run started, RFC 3339.
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// False when the run was interrupted before everything was measured.
    pub complete: bool,
    /// The program that wrote this.
    pub tool: Tool,
    /// The arguments as typed, without the program's name.
    pub command: Vec<String>,
    /// `--label KEY=VALUE`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The node.
    pub machine: Machine,
    /// What on the node would spoil a measurement, worst first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What was clamped, rounded, replaced or taken from the environment in this run.
    #[serde(default)]
    pub notices: Vec<String>,
    /// The figures.
    pub measurements: Vec<Measurement>,
}

/// The program that wrote a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Version of nodegauge.
    pub version: String,
    /// Commit it was built from, when known.
    pub commit: Option<String>,
}

/// What the node is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Host name; `null` for a described machine.
    pub host: Option<String>,
    /// The processors.
    pub processor: Processor,
    /// Caches, level 1 first.
    pub caches: Vec<Cache>,
    /// NUMA nodes by number.
    pub numa_nodes: Vec<NumaNode>,
    /// Main memory.
    pub memory: Memory,
    /// Theoretical peak of double-precision arithmetic, FLOP/s.
    pub peak_flops: Option<Figure>,
    /// Kernel name and release, e.g. `Linux 6.1.0`.
    pub kernel: Option<String>,
    /// The hypervisor, e.g. `kvm`; `null` on bare metal or when not known.
    #[serde(rename = "virtual")]
    pub virtualisation: Option<String>,
    /// Page sizes and huge pages; `null` for a described machine.
    #[serde(default)]
    pub pages: Option<Pages>,
    /// Frequency governor of CPU 0, when the kernel shows one.
    #[serde(default)]
    pub governor: Option<String>,
    /// Where this description comes from: `live`, `xml` or `synthetic`.
    #[serde(default)]
    pub source: String,
}

/// The processors of a node; counts are over all sockets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Processor {
    /// Marketing name as the processor or firmware gives it.
    pub model: Option<String>,
    /// `x86_64`, `aarch64`, ...
    #[serde(default)]
    pub architecture: Option<String>,
    /// E.g. `Zen 4`; `null` when the table does not know the processor.
    pub microarchitecture: Option<String>,
    /// Vendor, family, model, stepping, as the processor identifies itself.
    #[serde(default)]
    pub identification: Option<String>,
    /// Processor packages.
    pub sockets: u32,
    /// Physical cores.
    pub cores: u32,
    /// Hardware threads.
    pub threads: u32,
    /// Hardware threads a core.
    #[serde(default)]
    pub threads_per_core: u32,
    /// Instruction-set extensions that matter here, e.g. `sse2`, `avx2`, `avx512f`.
    #[serde(default)]
    pub isa: Vec<String>,
    /// Double-precision operations a core completes in a cycle.
    pub flops_per_cycle: Option<u32>,
    /// How `flops_per_cycle` is made up, e.g. `2 FMA units x 4 lanes x 2`.
    #[serde(default)]
    pub flops_basis: Option<String>,
    /// Clock on which the peak rests, Hz.
    pub hz: Option<f64>,
    /// Where `hz` comes from, e.g. `measured`, `catalog: base clock`.
    #[serde(default)]
    pub hz_basis: Option<String>,
}

/// Caches of one level and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3, ...
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Size of one, bytes; `null` when a description does not say.
    pub bytes: Option<u64>,
    /// How many there are on the node.
    pub count: u32,
    /// Cores that share one.
    pub cores: u32,
    /// Line size in bytes.
    #[serde(default)]
    pub line: Option<u32>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The operating system's number.
    pub id: u32,
    /// Its memory, bytes; `null` when not known.
    pub bytes: Option<u64>,
    /// Free memory, bytes.
    #[serde(default)]
    pub free: Option<u64>,
    /// The operating system's numbers of its hardware threads.
    pub cpus: Vec<u32>,
    /// Relative distances to all nodes, in node order, when the kernel gives them.
    #[serde(default)]
    pub distances: Option<Vec<u32>>,
}

/// Main memory of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// What is installed or given to the guest, bytes.
    pub bytes: Option<u64>,
    /// What a process may take now, under its cgroup's limit as well, bytes.
    pub available: Option<u64>,
    /// The tightest cgroup limit, bytes; `null` when there is none.
    #[serde(default)]
    pub cgroup_limit: Option<u64>,
    /// Swap in use, bytes.
    #[serde(default)]
    pub swap_used: Option<u64>,
    /// Memory channels, all sockets.
    pub channels: Option<u32>,
    /// Transfers per second of one channel.
    pub transfers_per_s: Option<f64>,
    /// `DDR4`, `DDR5`, ...
    #[serde(default)]
    pub technology: Option<String>,
    /// Populated modules as firmware lists them.
    #[serde(default)]
    pub dimms: Vec<Dimm>,
    /// Channels x transfers/s x 8 B.
    pub theoretical: Option<Figure>,
}

/// One memory module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dimm {
    /// Slot, as the board names it.
    pub slot: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Transfers per second that it runs at.
    pub transfers_per_s: Option<f64>,
    /// `DDR5`, ...
    pub technology: Option<String>,
}

/// Pages and huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pages {
    /// Base page, bytes.
    pub base: u64,
    /// Transparent huge pages: `always`, `madvise` or `never`; `null` without kernel support.
    pub thp: Option<String>,
    /// Defragmentation for them, as the kernel names it.
    pub thp_defrag: Option<String>,
    /// Reserved huge pages by size.
    pub huge: Vec<HugePages>,
}

/// Huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Page size, bytes.
    pub bytes: u64,
    /// Reserved.
    pub total: u64,
    /// Reserved and free.
    pub free: u64,
}

/// A figure that is not measured, with where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// In the unit of its place.
    pub value: f64,
    /// `DMI`, `catalog`, `option`, or the formula.
    pub basis: String,
    /// The basis in full, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs some performance or some trust.
    Warning,
    /// Makes figures wrong or much too low.
    Critical,
}

/// Something on the node that would spoil a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, e.g. `thp-never`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// What is so, with its value.
    pub text: String,
    /// What to do.
    pub remedy: String,
    /// What it costs, where that is known.
    #[serde(default)]
    pub cost: Option<String>,
}

/// What may be called what, after the STREAM licence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// The unmodified original.
    Standard,
    /// nodegauge's own kernels: "based on a variant of the STREAM benchmark code".
    Variant,
    /// Another program's figure.
    Reference,
}

/// Whether a figure may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Yes.
    Valid,
    /// With the reasons kept in mind.
    Suspect,
    /// No: it is not a result.
    Invalid,
}

/// Whether a figure may be believed, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The verdict.
    pub status: Status,
    /// Each reason in words; empty when valid.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Nothing against it.
    pub fn valid() -> Self {
        Self { status: Status::Valid, reasons: Vec::new() }
    }

    /// Adds a reason and lowers the verdict to `status` if it was better. The reason that decides
    /// stands first.
    pub fn add(&mut self, status: Status, reason: impl Into<String>) {
        if status > self.status {
            self.status = status;
            self.reasons.insert(0, reason.into());
        } else {
            self.reasons.push(reason.into());
        }
    }
}

/// What a figure is held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// In the measurement's unit.
    pub value: f64,
    /// Where it comes from.
    pub basis: String,
    /// Measured value over limit.
    pub fraction: f64,
}

/// Data that really moved, as opposed to the bytes that the benchmark counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// In the measurement's unit.
    pub value: f64,
    /// `no write-allocate`, `write-allocate` or `counters`.
    pub basis: String,
}

/// Samples taken in one regime of a machine whose CPUs are moved under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegimeSamples {
    /// Median core-to-core round trip that identifies the regime, seconds.
    pub round_trip_s: f64,
    /// Share of all clean samples that fell into this regime, 0 to 1.
    pub share: f64,
    /// Their statistics.
    pub summary: Summary,
    /// The samples, in order of time.
    pub samples: Vec<f64>,
}

/// One figure with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `memory`, `compute`, `messages`, `files`, `apps`.
    pub gauge: String,
    /// E.g. `stream`.
    pub test: String,
    /// E.g. `triad`.
    pub name: String,
    /// `B/s`, `FLOP/s`, `s`, `msg/s`, `op/s` or `x`.
    pub unit: String,
    /// What the field quotes; `null` when there is no result.
    pub value: Option<f64>,
    /// Statistics of the samples that count.
    pub summary: Option<Summary>,
    /// The samples that count, in order of time; with several regimes those of the headline's.
    pub samples: Vec<f64>,
    /// Samples set aside because something interfered, with the reason.
    #[serde(default)]
    pub disturbed: Vec<Disturbed>,
    /// Every regime met, fastest first; empty when only one was seen or regimes were not watched.
    #[serde(default)]
    pub regimes: Vec<RegimeSamples>,
    /// Configuration as asked and as got.
    pub config: Map<String, Value>,
    /// What really moved.
    pub moved: Option<Moved>,
    /// Standard, variant or reference.
    pub category: Category,
    /// What it is held against; `null` when not known.
    pub limit: Option<Limit>,
    /// Whether it may be believed.
    pub validity: Validity,
}

/// `config.engine` of a figure that was published elsewhere.
pub const PUBLISHED: &str = "published";

impl Measurement {
    /// Whether it is a figure published elsewhere, shown beside those of this run: never a result of
    /// the run, and nothing that a condition on its results may meet.
    pub fn is_published(&self) -> bool {
        self.category == Category::Reference
            && self.config.get("engine").and_then(Value::as_str) == Some(PUBLISHED)
    }
}

/// A sample that something interfered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbed {
    /// The sample, in the measurement's unit.
    pub value: f64,
    /// What interfered.
    pub reason: String,
}

/// An identifier for a new record: a ULID of now.
pub fn new_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ulid::Ulid::from_parts(now.as_millis() as u64, fastrand::u128(..)).to_string()
}

/// A time in RFC 3339 with whole seconds; `None` before 1970 and after 9999.
pub fn rfc3339(time: SystemTime) -> Option<String> {
    time.duration_since(UNIX_EPOCH).ok()?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
    Some(text)
}

/// Now, in RFC 3339 with whole seconds.
pub fn now_rfc3339() -> String {
    rfc3339(SystemTime::now()).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}
