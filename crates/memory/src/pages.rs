//! Where the pages of the arrays really are, asked of the kernel after first touch.

use nodegauge_machine::NodeId;
use nodegauge_placement::numa;
use std::collections::BTreeMap;

/// Pages that are asked about an array: enough that a share of a per cent shows.
const ASKED: usize = 1000;

/// Share (0 to 1) of a range of memory on each NUMA node, from a sample of its pages; `None` when
/// the kernel does not say.
pub fn node_shares(start: usize, length: usize) -> Option<BTreeMap<NodeId, f64>> {
    let counts = numa::pages_by_node(start, length, ASKED).ok()?.nodes;
    let total: u64 = counts.values().sum();
    (total > 0)
        .then(|| counts.into_iter().map(|(node, n)| (node, n as f64 / total as f64)).collect())
}
