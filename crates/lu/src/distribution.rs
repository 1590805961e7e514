//! Distribution of the matrix's columns over NUMA nodes and threads. A column is placed on the NUMA node whose
//! threads update it: a product C -= A B reads and writes C once, and A and B are small compared with C. This
//! module does no I/O.

use nodegauge_machine::Topology;
use nodegauge_placement::{Binding, Placement, ThreadPlace};
use std::ops::Range;

/// Minimum number of column groups per NUMA node, if the matrix has enough blocks. The factorisation completes
/// columns from left to right; with fewer groups, some NUMA nodes would run out of columns long before others.
const GROUPS: usize = 8;

/// Returns the NUMA node of each thread. The list is empty if a bound thread may run on several NUMA nodes, or if no
/// thread is bound.
pub fn thread_numa_nodes(topology: &Topology, placement: &Placement) -> Vec<usize> {
    let bound = placement.threads.iter().filter(|_| placement.bind != Binding::None);
    bound.map(|thread| only_node(thread, topology)).collect::<Option<_>>().unwrap_or_default()
}

/// Returns the only NUMA node on which a thread may run; `None` if the thread may run on several.
fn only_node(thread: &ThreadPlace, topology: &Topology) -> Option<usize> {
    match thread.numa_node_ids(topology).as_slice() {
        [node] => Some(node.0 as usize),
        _ => None,
    }
}

/// Assignment of columns and threads to NUMA nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDistribution {
    /// NUMA node of each thread; empty if all memory has the same distance from all threads.
    threads: Vec<usize>,
    /// Number of columns of a group, a multiple of the block size.
    group: usize,
    /// NUMA node of each group.
    groups: Vec<usize>,
}

impl ColumnDistribution {
    /// Returns the distribution over a single NUMA node.
    pub fn single_numa_node() -> Self {
        Self { threads: Vec::new(), group: 1, groups: Vec::new() }
    }

    /// Returns the distribution of a matrix of `order` columns in blocks of `nb` over threads on these NUMA nodes.
    /// Neighbouring blocks form a group of at most `widest` columns, which one product updates together. The groups
    /// are distributed cyclically over the NUMA nodes, in proportion to their numbers of threads.
    pub fn new(threads: &[usize], order: usize, nb: usize, widest: usize) -> Self {
        let mut nodes = threads.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() < 2 {
            return Self::single_numa_node();
        }
        let nb = nb.max(1);
        let blocks = order.div_ceil(nb);
        let together = (blocks / (GROUPS * nodes.len())).clamp(1, (widest / nb).max(1));
        let mut dealt = vec![0usize; nodes.len()];
        let groups = (0..blocks.div_ceil(together)).map(|_| {
            let fewest = (0..nodes.len()).min_by_key(|at| {
                let has = threads.iter().filter(|node| **node == nodes[*at]).count();
                // Number of groups of the node per thread of the node, in thousandths.
                (dealt[*at] + 1) * 1000 / has
            });
            let at = fewest.unwrap_or(0);
            dealt[at] += 1;
            nodes[at]
        });
        Self { groups: groups.collect(), threads: threads.to_vec(), group: together * nb }
    }

    /// Returns the NUMA node of a column; the right-hand side is on the NUMA node of the last column.
    pub fn column_numa_node(&self, column: usize) -> usize {
        let last = self.groups.len().saturating_sub(1);
        self.groups.get((column / self.group).min(last)).copied().unwrap_or(0)
    }

    /// Returns the NUMA node of a thread.
    pub fn thread_numa_node(&self, thread: usize) -> usize {
        self.threads.get(thread).copied().unwrap_or(0)
    }

    /// Returns the number of threads on a NUMA node; `all` is the number of all threads.
    pub fn threads_on(&self, node: usize, all: usize) -> usize {
        if self.threads.is_empty() {
            return all;
        }
        self.threads.iter().filter(|of| **of == node).count().max(1)
    }

    /// Returns the columns among `columns` that `thread` generates; `all` is the number of threads. On each NUMA node,
    /// blocks of `together` columns are distributed cyclically over its threads.
    pub fn thread_columns(
        &self,
        thread: usize,
        all: usize,
        columns: Range<usize>,
        together: usize,
    ) -> impl Iterator<Item = usize> {
        let node = self.thread_numa_node(thread);
        let rank = (0..thread).filter(|other| self.thread_numa_node(*other) == node).count();
        let peers = (0..all).filter(|other| self.thread_numa_node(*other) == node).count();
        columns.filter(move |column| {
            self.column_numa_node(*column) == node && column / together % peers == rank
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_distributed_in_proportion_to_threads() {
        // Three threads on node 4, one on node 7.
        let distribution = ColumnDistribution::new(&[4, 4, 7, 4], 9600, 100, 1000);
        let on = |node| {
            (0..9600).filter(|column| distribution.column_numa_node(*column) == node).count()
        };
        assert_eq!((on(4), on(7)), (7200, 2400));
        assert_eq!((distribution.threads_on(4, 4), distribution.threads_on(7, 4)), (3, 1));
        // A group has six blocks, so the 96 blocks form eight groups for each of the two nodes.
        assert!((0..9600).all(|column| distribution.column_numa_node(column)
            == distribution.column_numa_node(column / 600 * 600)));
        assert_eq!(distribution.column_numa_node(9600), distribution.column_numa_node(9599));
        assert_eq!(
            ColumnDistribution::new(&[3; 8], 9600, 100, 1000),
            ColumnDistribution::single_numa_node()
        );
    }

    #[test]
    fn every_column_is_generated_once() {
        for (nodes, order) in [(vec![0, 0, 1, 1], 1000), (vec![1, 0, 2], 333), (vec![0; 3], 100)] {
            let distribution = ColumnDistribution::new(&nodes, order, 32, 1024);
            let mut makers = vec![0; order + 1];
            for (thread, node) in nodes.iter().enumerate() {
                for column in distribution.thread_columns(thread, nodes.len(), 0..order + 1, 16) {
                    makers[column] += 1;
                    assert!(distribution.column_numa_node(column) == *node);
                }
            }
            assert!(makers.iter().all(|made| *made == 1), "{nodes:?}");
        }
    }
}
