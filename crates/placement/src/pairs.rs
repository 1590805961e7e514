//! Distance between hardware threads, and the pairs between which messages are measured: one pair for each distance
//! that occurs on the machine. The module performs no system calls.

use nodegauge_machine::topology::HardwareThread;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::UnknownName;
use nodegauge_measure::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

/// Distance between two hardware threads, named after the objects that they share; nearest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(crate = "nodegauge_measure::schemars")]
pub enum Distance {
    /// Hardware threads of the same core.
    #[serde(rename = "same core")]
    Core,
    /// Cores that share a last-level cache.
    #[serde(rename = "same cache")]
    Cache,
    /// Cores of the same NUMA node.
    #[serde(rename = "same node")]
    Node,
    /// Cores of the same socket.
    #[serde(rename = "same socket")]
    Socket,
    /// Cores of different sockets of a host.
    #[serde(rename = "other socket")]
    OtherSocket,
    /// Cores of different hosts.
    #[serde(rename = "other host")]
    OtherHost,
}

/// Name of each distance in records, with the short names that options accept.
const NAMES: [(Distance, &str, &[&str]); 6] = [
    (Distance::Core, "same core", &["smt"]),
    (Distance::Cache, "same cache", &["l3", "l2"]),
    (Distance::Node, "same node", &["numa"]),
    (Distance::Socket, "same socket", &["socket"]),
    (Distance::OtherSocket, "other socket", &["node"]),
    (Distance::OtherHost, "other host", &["network"]),
];

impl Distance {
    /// Returns the name of the distance in records and tables.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Returns the distance between two hardware threads of the same host.
    pub fn between(a: &HardwareThread, b: &HardwareThread) -> Self {
        if a.core == b.core {
            Self::Core
        } else if a.llc.is_some() && a.llc == b.llc {
            Self::Cache
        } else if a.node.is_some() && a.node == b.node && a.socket == b.socket {
            Self::Node
        } else if a.socket == b.socket {
            Self::Socket
        } else {
            Self::OtherSocket
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Distance {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let known = NAMES.iter().find(|(_, name, short)| *name == text || short.contains(&text));
        known.map(|(distance, ..)| *distance).ok_or_else(|| UnknownName {
            what: "distance",
            given: text.to_owned(),
            known: NAMES.iter().map(|(.., short)| short[0]).collect(),
        })
    }
}

/// Pair of hardware threads with their distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuPair {
    /// Distance between the two hardware threads.
    pub distance: Distance,
    /// Hardware thread of rank 0.
    pub first: CpuId,
    /// Hardware thread of rank 1.
    pub second: CpuId,
}

/// Returns the distance between two CPUs of a machine; `None` if one of the CPUs does not exist.
pub fn distance(topology: &Topology, a: CpuId, b: CpuId) -> Option<Distance> {
    Some(Distance::between(topology.thread(a)?, topology.thread(b)?))
}

/// Returns one pair for each distance that occurs between hardware threads that this process may use, nearest
/// first. The first hardware thread of a pair is the first one that has a partner at this distance. If possible,
/// the partner has the same number within its core.
pub fn pairs_by_distance(topology: &Topology) -> Vec<CpuPair> {
    let mut pairs: Vec<CpuPair> = Vec::new();
    for whole in [true, false] {
        // Each thread is compared only with the first thread of each object that contains it. This finds every
        // distance: if two threads have a distance, at least one of the two has the same distance from the first thread
        // of the object that both share.
        let mut firsts: HashMap<(usize, usize), &HardwareThread> = HashMap::new();
        for b in topology.allowed_threads() {
            let objects = [Some(b.core), b.llc, b.node, Some(b.socket), Some(0)];
            for (level, object) in objects.into_iter().enumerate() {
                let Some(object) = object else { continue };
                let a = *firsts.entry((level, object)).or_insert(b);
                let distance = Distance::between(a, b);
                let fits =
                    distance == Distance::Core || a.index_in_core == b.index_in_core || !whole;
                let known = pairs.iter().any(|pair| pair.distance == distance);
                if a.cpu != b.cpu && fits && !known {
                    pairs.push(CpuPair { distance, first: a.cpu, second: b.cpu });
                }
            }
        }
    }
    pairs.sort_by_key(|pair| pair.distance);
    pairs
}

/// Returns one hardware thread for each core that this process may use, in the topology's order. These are the ranks of
/// a core-to-core matrix.
pub fn one_cpu_per_core(topology: &Topology) -> Vec<CpuId> {
    let mut cores = BTreeSet::new();
    topology.allowed_threads().filter(|thread| cores.insert(thread.core)).map(|t| t.cpu).collect()
}

/// Row for a pair of hardware threads in the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PairRow {
    /// Distance between the two hardware threads.
    pub distance: Distance,
    /// Numbers of the hardware threads of rank 0 and rank 1.
    pub cpus: [u32; 2],
    /// Numbers of the cores of rank 0 and rank 1.
    pub cores: [u32; 2],
    /// Numbers of the nearest NUMA nodes, if the machine has NUMA nodes.
    pub numa_nodes: [Option<u32>; 2],
    /// Numbers of the sockets of rank 0 and rank 1.
    pub sockets: [u32; 2],
}

/// Returns the rows for pairs in the JSON document. Numbers are those of the operating system.
pub fn pair_rows(topology: &Topology, pairs: &[CpuPair]) -> Vec<PairRow> {
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
    use nodegauge_machine::TopologySource;

    fn machine(text: &str) -> Topology {
        Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap()
    }

    fn pairs(text: &str) -> Vec<(&'static str, u32, u32)> {
        pairs_by_distance(&machine(text))
            .iter()
            .map(|pair| (pair.distance.name(), pair.first.0, pair.second.0))
            .collect()
    }

    #[test]
    fn rome_has_four_distances() {
        let rome = "Package:2 NUMANode:4 L3Cache:4 L2Cache:4 L1dCache:1 Core:1 PU:1";
        assert_eq!(
            pairs(rome),
            [
                ("same cache", 0, 1),
                ("same node", 0, 4),
                ("same socket", 0, 16),
                ("other socket", 0, 64)
            ]
        );
    }

    #[test]
    fn smt_siblings_are_nearest_pair() {
        assert_eq!(
            pairs("Package:2 NUMANode:1 L3Cache:2 L2Cache:2 Core:2 PU:2"),
            [
                ("same core", 0, 1),
                ("same cache", 0, 2),
                ("same node", 0, 8),
                ("other socket", 0, 16)
            ]
        );
    }

    #[test]
    fn cores_without_a_shared_cache_share_only_their_numa_node() {
        assert_eq!(
            pairs("Package:4 NUMANode:1 Core:4 PU:1"),
            [("same node", 0, 1), ("other socket", 0, 4)]
        );
        // On a Xeon Phi, each core has its own last-level cache.
        assert_eq!(
            pairs("Package:1 NUMANode:1 L2Cache:61 L1dCache:1 Core:1 PU:4"),
            [("same core", 0, 1), ("same node", 0, 4)]
        );
    }

    #[test]
    fn single_cpu_has_no_pair() {
        assert_eq!(pairs("Package:1 Core:1 PU:1"), []);
    }

    #[test]
    fn pair_of_each_distance_is_searched_on_all_cpus() {
        let mut rome = machine("Package:1 NUMANode:1 L3Cache:2 L2Cache:4 Core:1 PU:1");
        // This cpuset leaves only one core of the first cache.
        for thread in &mut rome.threads[1..4] {
            thread.allowed = false;
        }
        let found: Vec<_> = pairs_by_distance(&rome)
            .iter()
            .map(|pair| (pair.distance.name(), pair.first.0, pair.second.0))
            .collect();
        assert_eq!(found, [("same cache", 4, 5), ("same node", 0, 4)]);
    }

    #[test]
    fn partner_has_the_same_sibling_number_if_possible() {
        let of = |allowed: &[u32]| {
            let mut smt = machine("Package:1 NUMANode:1 Core:3 PU:2");
            smt.threads
                .iter_mut()
                .for_each(|thread| thread.allowed = allowed.contains(&thread.cpu.0));
            let [pair] = pairs_by_distance(&smt)[..] else { panic!("one pair is expected") };
            (pair.distance, pair.first.0, pair.second.0)
        };
        assert_eq!(of(&[0, 3, 4]), (Distance::Node, 0, 4));
        assert_eq!(of(&[0, 3]), (Distance::Node, 0, 3));
    }

    #[test]
    fn core_matrix_has_one_cpu_per_core() {
        let smt = machine("Package:1 Core:3 PU:2");
        let cpus: Vec<u32> = one_cpu_per_core(&smt).iter().map(|cpu| cpu.0).collect();
        assert_eq!(cpus, [0, 2, 4]);
        assert_eq!(distance(&smt, CpuId(0), CpuId(9)), None);
    }

    #[test]
    fn distances_are_parsed_by_long_and_short_name() {
        for (index, (distance, name, short)) in NAMES.iter().enumerate() {
            assert_eq!((*distance as usize, distance.to_string().as_str()), (index, *name));
            assert_eq!(serde_json::to_value(distance).unwrap(), *name);
            for text in short.iter().chain([name]) {
                assert_eq!(text.parse(), Ok(*distance));
            }
        }
        let unknown = "L3".parse::<Distance>().unwrap_err().to_string();
        assert_eq!(unknown, "unknown distance 'L3': expected smt, l3, numa, socket, node, network");
    }
}
