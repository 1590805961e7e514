//! Pairs of hardware threads for messages, one for each distance that a machine has: how much of the
//! node two ranks share decides what a message between them costs. Pure.

use nodegauge_machine::topology::HardwareThread;
use nodegauge_machine::{CpuId, Topology};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

/// What the two ends of a message share, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// A core: two of its hardware threads.
    Smt,
    /// A level-2 cache, but not a core.
    L2,
    /// The last-level cache.
    L3,
    /// A NUMA node.
    Numa,
    /// A socket.
    Socket,
    /// A node of the cluster.
    Node,
    /// Nothing but the network.
    Network,
}

impl Distance {
    /// All of them, nearest first.
    pub const ALL: [Self; 7] =
        [Self::Smt, Self::L2, Self::L3, Self::Numa, Self::Socket, Self::Node, Self::Network];

    /// As options and records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smt => "smt",
            Self::L2 => "l2",
            Self::L3 => "l3",
            Self::Numa => "numa",
            Self::Socket => "socket",
            Self::Node => "node",
            Self::Network => "network",
        }
    }

    /// In words, for tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Smt => "same core",
            Self::L2 => "same L2",
            Self::L3 => "same L3",
            Self::Numa => "same NUMA node",
            Self::Socket => "same socket",
            Self::Node => "other socket",
            Self::Network => "other node",
        }
    }

    /// What two hardware threads of a node share.
    fn between(a: &HardwareThread, b: &HardwareThread) -> Self {
        let same = |x: Option<usize>, y: Option<usize>| x.is_some() && x == y;
        if a.core == b.core {
            Self::Smt
        } else if same(a.l2, b.l2) {
            Self::L2
        } else if same(a.llc, b.llc) {
            Self::L3
        } else if same(a.node, b.node) && a.socket == b.socket {
            Self::Numa
        } else if a.socket == b.socket {
            Self::Socket
        } else {
            Self::Node
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Distance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|distance| distance.name() == text).ok_or_else(|| {
            format!("unknown distance {text:?}: expected {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Two hardware threads and what they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// What they share.
    pub distance: Distance,
    /// The hardware thread of rank 0.
    pub first: CpuId,
    /// That of rank 1.
    pub second: CpuId,
}

/// What two CPUs of a machine share; `None` for a CPU that it does not have.
pub fn distance(topology: &Topology, a: CpuId, b: CpuId) -> Option<Distance> {
    Some(Distance::between(topology.thread(a)?, topology.thread(b)?))
}

/// One pair for each distance that occurs between hardware threads that this process may use,
/// nearest first. Pairs start at the first hardware thread where it has a partner at that distance,
/// and go to the same hardware thread of the partner's core where that may be used.
pub fn by_distance(topology: &Topology) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for whole in [true, false] {
        // A thread is held only against the first one of each object that it is in: of any two
        // threads at some distance, one has that distance from the first thread of what they share.
        let mut firsts: HashMap<(usize, usize), &HardwareThread> = HashMap::new();
        for b in topology.allowed() {
            let objects = [Some(b.core), b.l2, b.llc, b.node, Some(b.socket), Some(0)];
            for (level, object) in objects.into_iter().enumerate() {
                let Some(object) = object else { continue };
                let a = *firsts.entry((level, object)).or_insert(b);
                let distance = Distance::between(a, b);
                let fits = distance == Distance::Smt || a.sibling == b.sibling || !whole;
                let known = pairs.iter().any(|pair| pair.distance == distance);
                if a.cpu != b.cpu && fits && !known {
                    pairs.push(Pair { distance, first: a.cpu, second: b.cpu });
                }
            }
        }
    }
    pairs.sort_by_key(|pair| pair.distance);
    pairs
}

/// One hardware thread of each core that may be used, in the topology's order: the ranks of a
/// core-to-core matrix.
pub fn one_a_core(topology: &Topology) -> Vec<CpuId> {
    let mut cores = BTreeSet::new();
    topology.allowed().filter(|thread| cores.insert(thread.core)).map(|t| t.cpu).collect()
}

/// Two hardware threads in the form of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PairRow {
    /// What they share.
    pub distance: Distance,
    /// Number of the hardware thread of rank 0, and of rank 1.
    pub cpus: [u32; 2],
    /// Their cores.
    pub cores: [u32; 2],
    /// Their NUMA nodes, where there are any.
    pub numa_nodes: [Option<u32>; 2],
    /// Their sockets.
    pub sockets: [u32; 2],
}

/// Pairs with what people want to know of them; numbers are the operating system's.
pub fn rows(topology: &Topology, pairs: &[Pair]) -> Vec<PairRow> {
    pairs
        .iter()
        .filter_map(|pair| {
            let ends = [topology.thread(pair.first)?, topology.thread(pair.second)?];
            Some(PairRow {
                distance: pair.distance,
                cpus: ends.map(|end| end.cpu.0),
                cores: ends.map(|end| topology.cores[end.core]),
                numa_nodes: ends.map(|end| end.node.map(|node| topology.nodes[node].id.0)),
                sockets: ends.map(|end| topology.sockets[end.socket]),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::Source;

    fn machine(text: &str) -> Topology {
        Topology::load(&Source::Synthetic(text.to_owned())).unwrap()
    }

    fn pairs(text: &str) -> Vec<(&'static str, u32, u32)> {
        by_distance(&machine(text))
            .iter()
            .map(|pair| (pair.distance.name(), pair.first.0, pair.second.0))
            .collect()
    }

    #[test]
    fn rome_has_four_distances() {
        let rome = "Package:2 NUMANode:4 L3Cache:4 L2Cache:4 L1dCache:1 Core:1 PU:1";
        assert_eq!(pairs(rome), [("l3", 0, 1), ("numa", 0, 4), ("socket", 0, 16), ("node", 0, 64)]);
    }

    #[test]
    fn siblings_and_shared_level_2_caches_come_first() {
        assert_eq!(
            pairs("Package:2 NUMANode:1 L3Cache:2 L2Cache:2 Core:2 PU:2"),
            [("smt", 0, 1), ("l2", 0, 2), ("l3", 0, 4), ("numa", 0, 8), ("node", 0, 16)]
        );
    }

    #[test]
    fn where_no_cache_is_shared_the_node_is() {
        assert_eq!(pairs("Package:4 NUMANode:1 Core:4 PU:1"), [("numa", 0, 1), ("node", 0, 4)]);
        // The last level of a Xeon Phi is a core's own.
        assert_eq!(
            pairs("Package:1 NUMANode:1 L2Cache:61 L1dCache:1 Core:1 PU:4"),
            [("smt", 0, 1), ("numa", 0, 4)]
        );
    }

    #[test]
    fn one_cpu_has_no_pair() {
        assert_eq!(pairs("Package:1 Core:1 PU:1"), []);
    }

    #[test]
    fn a_distance_that_the_first_cpu_lacks_is_found_elsewhere() {
        let mut rome = machine("Package:1 NUMANode:1 L3Cache:2 L2Cache:4 Core:1 PU:1");
        // A cpuset that leaves one core of the first cache.
        for thread in &mut rome.threads[1..4] {
            thread.allowed = false;
        }
        let found: Vec<_> = by_distance(&rome)
            .iter()
            .map(|pair| (pair.distance.name(), pair.first.0, pair.second.0))
            .collect();
        assert_eq!(found, [("l3", 4, 5), ("numa", 0, 4)]);
    }

    #[test]
    fn a_matrix_has_one_rank_a_core() {
        let smt = machine("Package:1 Core:3 PU:2");
        let cpus: Vec<u32> = one_a_core(&smt).iter().map(|cpu| cpu.0).collect();
        assert_eq!(cpus, [0, 2, 4]);
        assert_eq!(distance(&smt, CpuId(0), CpuId(9)), None);
    }

    #[test]
    fn names_are_read_back() {
        for distance in Distance::ALL {
            assert_eq!(distance.name().parse(), Ok(distance));
        }
        assert!("L3".parse::<Distance>().unwrap_err().contains("smt, l2, l3"));
    }
}
