//! Keys of `config` that figures of STREAM and of the memory curves share.

use nodegauge_measure::{BytesPerSec, Fraction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

nodegauge_measure::keys! {
    /// Requested and actual pages of the memory.
    pages: PagesConfig = Setting "pages";
    /// Requested and actual NUMA nodes of the memory.
    numa: NumaConfig = Setting "numa";
    /// Memory policy, named as in numactl.
    memory_policy: String = Setting "memory policy";
    /// Name of the kernel.
    kernel: String = Identity "kernel", omits_label;
    /// Vector width of the loop in bits.
    vector_bits: u64 = Choice "vector bits";
    /// Number of 4 KiB pages that the loop traverses side by side; absent if pages are traversed one after another.
    side_by_side: u64 = Choice "pages side by side";
    /// Number of measured passes.
    passes: u64 = Observation "passes";
    /// Description of the figure.
    what: String = Observation "what";
    /// Size of the working set of all threads together, bytes.
    set_bytes: u64 = Setting "set size";
    /// Number of reads in the ratio of reads to writes, e.g. 3 of 3:1.
    reads: u64 = Setting "reads";
    /// Number of writes in the ratio of reads to writes, e.g. 1 of 3:1.
    writes: u64 = Setting "writes";
    /// Share of the full rate at which the loading threads are set to read, 0 to 1.
    load_share: f64 = Observation "load share";
    /// Pause of the loading threads between blocks, seconds.
    wait_s: f64 = Observation "wait";
    /// Distance between two loads of a chain, bytes.
    stride_bytes: u64 = Setting "stride";
    /// Rate before a step of `explain` or without the tuning, B/s.
    from: BytesPerSec = Observation "from";
    /// Rate after a step of `explain` or with the tuning, B/s.
    to: BytesPerSec = Observation "to";
}

/// Requested and actual pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PagesConfig {
    /// Requested kind of pages: `4k`, `thp`, `2m` or `1g`.
    pub asked: String,
    /// Share of the memory on pages of each size in bytes, 0 to 1; `null` if unknown.
    pub got: Option<BTreeMap<u64, Fraction>>,
}

/// Requested and actual NUMA nodes of memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NumaConfig {
    /// Requested memory policy, e.g. `bind:1`; if ranks have different policies, all of them.
    pub asked: String,
    /// Share of the memory on each NUMA node, 0 to 1; `null` if unknown.
    pub got: Option<BTreeMap<u32, Fraction>>,
    /// Share of each array on each NUMA node, 0 to 1; absent if all arrays have the same shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrays: Option<BTreeMap<String, BTreeMap<u32, Fraction>>>,
    /// Share of the pages on the NUMA nodes that the policy names; absent if it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Fraction>,
    /// Reason why the pages cannot be compared with the policy although it names NUMA nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
    /// Threads most of whose pages are not on the NUMA nodes that the policy names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads_astray: Vec<usize>,
    /// Number of NUMA nodes of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
}
