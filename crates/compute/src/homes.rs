//! Which NUMA node has which columns of the matrix, and which threads update them: a column lies where
//! its updates are done, because a product reads and writes its C once and A and B are small beside it.
//! Pure.

use nodegauge_machine::Topology;
use nodegauge_placement::{Bind, Placement, ThreadPlace};
use std::ops::Range;

/// Groups of columns that each node has at least, where there are so many blocks: columns fall out of the
/// work from the left, and with fewer groups some nodes would run out of them long before others.
const GROUPS: usize = 8;

/// The NUMA node of each thread; none where a thread may be on several.
pub fn of_threads(topology: &Topology, placement: &Placement) -> Vec<usize> {
    let bound = placement.threads.iter().filter(|_| placement.bind != Bind::None);
    let node = |thread: &ThreadPlace| match thread.nodes(topology).as_slice() {
        [node] => Some(node.0 as usize),
        _ => None,
    };
    bound.map(node).collect::<Option<_>>().unwrap_or_default()
}

/// Columns by node, and threads by node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homes {
    /// Node of each thread; empty where all memory is alike to all.
    threads: Vec<usize>,
    /// Columns of a group, whole blocks.
    group: usize,
    /// Node of each group.
    groups: Vec<usize>,
}

impl Homes {
    /// All memory is alike to all threads.
    pub fn one() -> Self {
        Self { threads: Vec::new(), group: 1, groups: Vec::new() }
    }

    /// Columns of a matrix of this order in blocks of `nb` for threads on these nodes: neighbouring blocks
    /// go together as far as products of at most `widest` columns take them together, and groups are dealt
    /// out by turns, each node as many as it has threads.
    pub fn of(threads: &[usize], (order, nb): (usize, usize), widest: usize) -> Self {
        let mut nodes = threads.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() < 2 {
            return Self::one();
        }
        let nb = nb.max(1);
        let blocks = order.div_ceil(nb);
        let together = (blocks / (GROUPS * nodes.len())).clamp(1, (widest / nb).max(1));
        let mut dealt = vec![0usize; nodes.len()];
        let groups = (0..blocks.div_ceil(together)).map(|_| {
            let fewest = (0..nodes.len()).min_by_key(|at| {
                let has = threads.iter().filter(|node| **node == nodes[*at]).count();
                // In thousandths of what its threads ask for.
                (dealt[*at] + 1) * 1000 / has
            });
            let at = fewest.unwrap_or(0);
            dealt[at] += 1;
            nodes[at]
        });
        Self { groups: groups.collect(), threads: threads.to_vec(), group: together * nb }
    }

    /// The node of a column; the right-hand side is with the last.
    pub fn of_column(&self, column: usize) -> usize {
        let last = self.groups.len().saturating_sub(1);
        self.groups.get((column / self.group).min(last)).copied().unwrap_or(0)
    }

    /// The node of a thread.
    pub fn of_thread(&self, thread: usize) -> usize {
        self.threads.get(thread).copied().unwrap_or(0)
    }

    /// How many of `all` threads are on a node.
    pub fn threads_on(&self, node: usize, all: usize) -> usize {
        match self.threads.is_empty() {
            true => all,
            false => self.threads.iter().filter(|of| **of == node).count().max(1),
        }
    }

    /// The columns of `columns` that one of `all` threads makes: those of its node by
    /// turns with the node's other threads, `together` at a time.
    pub fn made_by(
        &self,
        thread: usize,
        all: usize,
        columns: Range<usize>,
        together: usize,
    ) -> impl Iterator<Item = usize> {
        let node = self.of_thread(thread);
        let mine = |other: &usize| self.of_thread(*other) == node;
        let (rank, peers) = ((0..thread).filter(mine).count(), (0..all).filter(mine).count());
        columns.filter(move |column| {
            self.of_column(*column) == node && column / together % peers == rank
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_dealt_out_by_the_threads_of_each_node() {
        // Three threads on node 4, one on node 7.
        let homes = Homes::of(&[4, 4, 7, 4], (9600, 100), 1000);
        let on = |node| (0..9600).filter(|column| homes.of_column(*column) == node).count();
        assert_eq!((on(4), on(7)), (7200, 2400));
        assert_eq!((homes.threads_on(4, 4), homes.threads_on(7, 4)), (3, 1));
        // Six blocks go together: 96 blocks are eight groups for each of two nodes.
        assert!(
            (0..9600).all(|column| homes.of_column(column) == homes.of_column(column / 600 * 600))
        );
        assert_eq!(homes.of_column(9600), homes.of_column(9599));
        assert_eq!(Homes::of(&[3; 8], (9600, 100), 1000), Homes::one());
    }

    #[test]
    fn every_column_is_made_once_by_a_thread_of_its_node() {
        for (nodes, order) in [(vec![0, 0, 1, 1], 1000), (vec![1, 0, 2], 333), (vec![0; 3], 100)] {
            let homes = Homes::of(&nodes, (order, 32), 1024);
            let mut makers = vec![0; order + 1];
            for (thread, node) in nodes.iter().enumerate() {
                for column in homes.made_by(thread, nodes.len(), 0..order + 1, 16) {
                    makers[column] += 1;
                    assert!(homes.of_column(column) == *node);
                }
            }
            assert!(makers.iter().all(|made| *made == 1), "{nodes:?}");
        }
    }
}
