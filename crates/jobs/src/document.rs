//! JSON document of `where`, schema `nodegauge-where/1`. The types are plain data for serde. CPUs, cores, sockets and
//! NUMA nodes have the numbers of the operating system. Lists of CPUs have the notation of the kernel, `0-3,8`, because
//! a node has thousands of hardware threads.

use nodegauge_measure::record::Finding;
use nodegauge_measure::{Fraction, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the schema.
pub const SCHEMA: &str = "nodegauge-where/1";

/// Returns the JSON Schema of the document.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(WhereDocument)
}

/// JSON document of `where`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhereDocument {
    /// Name of the schema, which is always `nodegauge-where/1`.
    pub schema: String,
    /// Version of the program.
    pub version: String,
    /// Hosts, in the order of their first ranks.
    pub hosts: Vec<JobHost>,
    /// Reasons why hosts or ranks are missing.
    pub missing: Vec<String>,
    /// Conditions that make the job slower, worst first.
    pub findings: Vec<Finding>,
}

/// Processes of a job on one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobHost {
    /// Host name.
    pub host: String,
    /// Time between the first and the last reading.
    pub window: Seconds,
    /// Number of readings.
    pub readings: u32,
    /// CPU time that all readings took.
    pub cost: Seconds,
    /// Time that reading the pages of all processes took.
    pub pages_time: Seconds,
    /// True if a launcher started this program instead of the user's program, so that the processes are those of this
    /// program.
    pub in_place: bool,
    /// CPUs of the control group of the processes, or of the node if there is none.
    pub available: String,
    /// Busy processes and ranks, in rank order. A process is busy if one of its threads is busy.
    pub processes: Vec<JobProcess>,
    /// Other processes.
    pub idle: Vec<IdleProcess>,
    /// Parts that could not be read, with the reasons.
    pub unread: Vec<String>,
    /// Cores of each NUMA node, with the processes that ran on them.
    pub picture: Vec<NumaNodeCores>,
    /// Conditions on this host that make the job slower.
    pub findings: Vec<Finding>,
}

/// Process that waits for other processes: a shell, a launcher, a daemon of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct IdleProcess {
    /// Process identifier.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
}

/// Process of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobProcess {
    /// Process identifier.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
    /// Number of the user to whom the process belongs.
    pub user: u32,
    /// Rank of the process, according to the variables of its launcher; `None` without a launcher.
    pub rank: Option<u32>,
    /// Number of ranks of the job.
    pub ranks: Option<u32>,
    /// Launcher that started the ranks.
    pub launcher: Option<String>,
    /// Resident memory, bytes.
    pub resident: Option<u64>,
    /// Memory that was swapped out, bytes.
    pub swapped: Option<u64>,
    /// Pages of the process; `None` if they were not read.
    pub memory: Option<PrivateMemory>,
    /// NUMA nodes on which the process may allocate memory.
    pub memory_nodes: String,
    /// Control group of the process that limits its CPU time.
    pub control_group: Option<String>,
    /// CPU time per second that control groups allow, i.e. a number of CPUs.
    pub cpu_quota: Option<f64>,
    /// Memory that control groups allow, bytes.
    pub memory_limit: Option<u64>,
    /// Devices of the process.
    pub devices: Vec<JobDevice>,
    /// Variables of OpenMP, of BLAS libraries and of launchers with which the process was started.
    pub environment: BTreeMap<String, String>,
    /// Number of threads that the variables request; `None` if they request none.
    pub requested_threads: Option<u32>,
    /// Threads, beginning with the first.
    pub threads: Vec<JobThread>,
    /// Parts of the process that could not be read, with the reasons.
    pub unread: Vec<String>,
}

/// Private memory of a process: anonymous memory, heap, stacks and reserved huge pages, without mapped files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrivateMemory {
    /// Memory policy of most of the pages: `default`, `local`, `bind:0-1`, `interleave:0-3`, `prefer:0`.
    pub policy: String,
    /// Bytes on each NUMA node.
    pub nodes: BTreeMap<u32, u64>,
    /// Bytes on pages of each size.
    pub page_sizes: BTreeMap<u64, u64>,
    /// Share of the bytes that are on the NUMA nodes on which the busy threads ran; `None` without memory.
    pub local: Option<Fraction>,
}

impl PrivateMemory {
    /// Returns the bytes on all NUMA nodes.
    pub fn bytes(&self) -> u64 {
        self.nodes.values().sum()
    }

    /// Returns the share of the bytes that are on huge pages; `None` without memory.
    pub fn huge_page_share(&self) -> Option<Fraction> {
        let total: u64 = self.page_sizes.values().sum();
        let base = nodegauge_os::page_bytes() as u64;
        let larger: u64 = self.page_sizes.range(base + 1..).map(|(_, bytes)| bytes).sum();
        (total > 0).then(|| Fraction(larger as f64 / total as f64))
    }
}

/// Device of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDevice {
    /// PCI address.
    pub address: String,
    /// Name of the device in its driver, or its kind.
    pub name: String,
    /// True if the device sends messages, false if it computes.
    pub is_network: bool,
    /// NUMA node next to the device.
    pub numa_node: Option<u32>,
    /// True if a thread of the process ran on a CPU next to the device; `None` if the CPUs next to the device are
    /// unknown.
    pub near: Option<bool>,
    /// Reason why the device belongs to the process: a variable with its value, or an open file.
    pub basis: String,
}

/// Thread of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobThread {
    /// Thread identifier.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// True if the thread ran or waited for a CPU during at least half of the window.
    pub busy: bool,
    /// CPUs on which the thread may run.
    pub allowed: String,
    /// CPU on which the thread ran in most readings.
    pub cpu: u32,
    /// Number of CPUs on which the thread ran.
    pub cpus_seen: u32,
    /// Number of NUMA nodes on which the thread ran.
    pub numa_nodes_seen: u32,
    /// Core of the CPU in `cpu`.
    pub core: Option<u32>,
    /// Last-level cache of the CPU in `cpu`.
    pub llc: Option<u32>,
    /// Socket of the CPU in `cpu`.
    pub socket: Option<u32>,
    /// NUMA node of the CPU in `cpu`.
    pub numa_node: Option<u32>,
    /// Share of the window during which the thread ran.
    pub running: Option<Fraction>,
    /// Waiting time divided by the sum of running and waiting time. It covers the window, or the time since the start
    /// of the thread if the thread was idle during the window.
    pub waiting: Option<Fraction>,
    /// Number of migrations between CPUs since the start of the thread.
    pub migrations: Option<u64>,
    /// Number of involuntary context switches since the start of the thread.
    pub involuntary_switches: Option<u64>,
}

/// NUMA node with its cores, for a picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNodeCores {
    /// Number of the socket.
    pub socket: u32,
    /// Number of the NUMA node; `None` if the machine has none.
    pub numa_node: Option<u32>,
    /// Cores in logical order.
    pub cores: Vec<PictureCore>,
}

/// Core in a picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PictureCore {
    /// Number of the core's last-level cache.
    pub llc: Option<u32>,
    /// True if the processes may use the core.
    pub available: bool,
    /// Indices of the processes whose busy threads ran on the core, one entry per thread.
    pub processes: Vec<usize>,
}
