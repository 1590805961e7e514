//! Configuration values of figures of memory: pages and their places, as asked and as got.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pages as asked and as got.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PagesConfig {
    /// `4k`, `thp`, `2m`, `1g`.
    pub asked: String,
    /// Share of the memory on pages of each size in bytes, 0 to 1; `null` where it is not known.
    pub got: Option<BTreeMap<u64, f64>>,
}

/// Where memory was asked to be, and where it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NumaConfig {
    /// The policy, e.g. `bind:1`.
    pub asked: String,
    /// Share of the memory on each node, 0 to 1; `null` where it is not known.
    pub got: Option<BTreeMap<u32, f64>>,
    /// The same of each array, where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrays: Option<BTreeMap<String, BTreeMap<u32, f64>>>,
    /// Share of the pages that are where the policy wants them; absent where it wants nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<f64>,
    /// Threads most of whose pages are elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads_astray: Vec<usize>,
    /// NUMA nodes of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
}
