//! Keys of `config` that figures of STREAM and of curves share.

use nodegauge_measure::{BytesPerSec, Fraction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

nodegauge_measure::keys! {
    /// Pages of the memory, as asked and as got.
    pages: PagesConfig = Setting "pages";
    /// NUMA nodes that the memory is on.
    numa: NumaConfig = Setting "numa";
    /// Policy of the memory, as in numactl.
    memory_policy: String = Setting "memory policy";
    /// Name of the kernel.
    kernel: String = Identity "kernel", speaks;
    /// Width of the loop's vectors.
    vector_bits: u64 = Choice "vector bits";
    /// Pages of 4 KiB that the loop walks side by side; absent where it is one after another.
    side_by_side: u64 = Choice "pages side by side";
    /// Passes that were measured.
    passes: u64 = Observation "passes";
    /// Description of the figure.
    what: String = Observation "what";
    /// Rate before, B/s.
    from: BytesPerSec = Observation "from";
    /// Rate after, B/s.
    to: BytesPerSec = Observation "to";
}

/// Pages as asked and as got.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PagesConfig {
    /// `4k`, `thp`, `2m`, `1g`.
    pub asked: String,
    /// Share of the memory on pages of each size in bytes, 0 to 1; `null` where it is not known.
    pub got: Option<BTreeMap<u64, Fraction>>,
}

/// Requested and actual NUMA nodes of memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NumaConfig {
    /// The policy, e.g. `bind:1`.
    pub asked: String,
    /// Share of the memory on each node, 0 to 1; `null` where it is not known.
    pub got: Option<BTreeMap<u32, Fraction>>,
    /// Share of each array on each node, if the arrays differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrays: Option<BTreeMap<String, BTreeMap<u32, Fraction>>>,
    /// Share of the pages on the nodes of the policy; absent if the policy names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Fraction>,
    /// Threads most of whose pages are elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads_astray: Vec<usize>,
    /// NUMA nodes of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
}
