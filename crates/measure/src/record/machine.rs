//! What a node is, as the record keeps it. Unknown is `null`.

use super::{Device, Figure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What the node is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// What else decides how fast it is; not there for a described machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circumstances: Option<Circumstances>,
    /// Accelerators and the adapters of fast networks, in the order of the bus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Origin of this description.
    #[serde(default)]
    pub source: MachineSource,
}

/// Origin of the description of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MachineSource {
    /// The running system.
    Live,
    /// An XML file that `lstopo` wrote.
    Xml,
    /// A synthetic description of hwloc.
    Synthetic,
    /// An output that another program printed, perhaps elsewhere: only what the user gives is known.
    Import,
    /// Absent in older records, or unknown to this version.
    #[default]
    #[serde(rename = "", other)]
    Unknown,
}

impl MachineSource {
    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Xml => "xml",
            Self::Synthetic => "synthetic",
            Self::Import => "import",
            Self::Unknown => "",
        }
    }
}

impl Machine {
    /// Whether it is known from a description alone.
    pub fn is_described(&self) -> bool {
        matches!(self.source, MachineSource::Xml | MachineSource::Synthetic)
    }

    /// Whether the figures with it were imported.
    pub fn is_imported(&self) -> bool {
        self.source == MachineSource::Import
    }
}

/// What firmware, the kernel and the environment decide about a node's speed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Circumstances {
    /// Revision of CPU 0's microcode.
    pub microcode: Option<String>,
    /// What the kernel does about each vulnerability that the processor has, by the kernel's name.
    pub mitigations: BTreeMap<String, String>,
    /// Where the kernel's clock comes from, e.g. `tsc`.
    pub clocksource: Option<String>,
    /// Whether cores may run above their base clock.
    pub boost: Option<bool>,
    /// Whether cores run more than one thread now.
    pub smt: Option<bool>,
    /// Whether the kernel moves pages to the NUMA nodes that use them.
    pub numa_balancing: Option<bool>,
    /// Variables of this process that OpenMP runtimes and BLAS libraries read.
    pub environment: BTreeMap<String, String>,
    /// What the process was started with; not there in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited: Option<Inherited>,
}

/// Where the process that measured was started to run and to have its memory, as `numactl --show` tells it:
/// what holds wherever nothing else is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Inherited {
    /// The memory policy by numactl's name, e.g. `interleave`; `null` when the kernel does not tell.
    pub policy: Option<String>,
    /// NUMA nodes that the policy names.
    pub nodes: Vec<u32>,
    /// CPUs that it may run on.
    pub cpus: Vec<u32>,
    /// NUMA nodes whose memory it may have.
    pub memory_nodes: Vec<u32>,
}

/// The processors of a node; counts are over all sockets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// Whether regular stores are known to read each line that they miss; not there where they may avoid
    /// it, as on Intel's from Ice Lake on and on Arm, or nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_allocate: Option<bool>,
    /// Double-precision operations a core completes in a cycle.
    pub flops_per_cycle: Option<u32>,
    /// How `flops_per_cycle` is made up, e.g. `2 FMA units x 4 lanes x 2`.
    #[serde(default)]
    pub flops_basis: Option<String>,
    /// Clock on which the peak rests, Hz.
    pub hz: Option<f64>,
    /// Where `hz` comes from, e.g. `catalog: base clock`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub hz_basis: Option<ClockBasis>,
    /// Clock measured with every core at scalar work, Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_hz: Option<f64>,
}

/// Where a clock comes from; the record has it in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ClockBasis {
    /// Measured on this node.
    Measured,
    /// The base clock that the catalog has.
    Catalog,
    /// The base clock in the processor's name.
    Name,
    /// The base clock that the kernel's frequency control gives.
    Kernel,
    /// What another version of nodegauge wrote.
    Other(String),
}

impl ClockBasis {
    /// In words.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Measured => "measured: chain of dependent adds",
            Self::Catalog => "catalog: base clock",
            Self::Name => "processor name: base clock",
            Self::Kernel => "kernel: base clock",
            Self::Other(words) => words,
        }
    }
}

impl From<String> for ClockBasis {
    fn from(words: String) -> Self {
        let known = [Self::Measured, Self::Catalog, Self::Name, Self::Kernel];
        known.into_iter().find(|basis| basis.as_str() == words).unwrap_or(Self::Other(words))
    }
}

impl From<ClockBasis> for String {
    fn from(basis: ClockBasis) -> Self {
        basis.as_str().to_owned()
    }
}

/// Content of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    Unified,
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Instruction => "instruction",
            Self::Unified => "unified",
        })
    }
}

impl Cache {
    /// True if it holds data.
    pub fn holds_data(&self) -> bool {
        self.kind != CacheKind::Instruction
    }
}

/// Caches of one level and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// 1, 2, 3, ...
    pub level: u32,
    /// Content.
    #[serde(rename = "type")]
    pub kind: CacheKind,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// The operating system's number.
    pub id: u32,
    /// Its memory, bytes; `null` when not known.
    pub bytes: Option<u64>,
    /// Free memory, bytes.
    #[serde(default)]
    pub free: Option<u64>,
    /// What can be had without swapping, page cache that can be given up among it, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// Bytes of caches that stand before it, such as HBM in cache mode; not there without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// The operating system's numbers of its hardware threads.
    pub cpus: Vec<u32>,
    /// The device whose memory it is, by its place on the bus; not there for the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Relative distances to all nodes, in node order, when the kernel gives them.
    #[serde(default)]
    pub distances: Option<Vec<u32>>,
}

/// Main memory of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugePages {
    /// Page size, bytes.
    pub bytes: u64,
    /// Reserved.
    pub total: u64,
    /// Reserved and free.
    pub free: u64,
}
