//! JSON document of `places --json`, schema `nodegauge/1`.
//!
//! The types are plain data for serde. CPUs and NUMA nodes have the numbers of the operating system. Threads of several
//! processes (ranks) are listed rank by rank; a single process has no rank.

use crate::devices::RankDevice;
use crate::numa::MemoryPolicy;
use crate::ranks::RankPlace;
use nodegauge_machine::Topology;
use nodegauge_measure::record::{InheritedBinding, MachineSource, SCHEMA};
use serde::Serialize;

/// JSON document of `places --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacesDocument {
    /// Name of the schema, which is always `nodegauge/1`.
    pub schema: &'static str,
    /// Summary of the machine.
    pub topology: TopologySummary,
    /// Settings that this process inherited; absent for a described machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited: Option<InheritedBinding>,
    /// Number of nodes with this placement; absent if it is not given. The other fields describe one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// One entry per thread, in thread order; with several ranks, rank by rank.
    pub threads: Vec<ThreadEntry>,
}

/// Number of objects of each kind in the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopologySummary {
    /// Source of the topology: `live`, `xml` or `synthetic`.
    pub source: MachineSource,
    /// Number of sockets.
    pub sockets: usize,
    /// Number of cores.
    pub cores: usize,
    /// Number of last-level caches.
    pub llcs: usize,
    /// Number of NUMA nodes.
    pub numa_nodes: usize,
}

/// Placement of one thread and of its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadEntry {
    /// Rank of the process; `None` if there is only one process.
    pub rank: Option<u32>,
    /// Thread number within the process.
    pub thread: u32,
    /// CPUs on which the thread may run.
    pub cpus: Vec<u32>,
    /// Numbers of the cores to which these CPUs belong.
    pub cores: Vec<u32>,
    /// Numbers of the last-level caches that these CPUs use.
    pub llcs: Vec<u32>,
    /// Numbers of the sockets to which these CPUs belong.
    pub sockets: Vec<u32>,
    /// Numbers of the NUMA nodes nearest to these CPUs.
    pub numa_nodes: Vec<u32>,
    /// Memory policy of the thread.
    pub memory: MemoryEntry,
    /// Devices of the rank; absent if none were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<RankDevice>,
}

/// Memory policy of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryEntry {
    /// Name of the policy: `default`, `local`, `bind`, `interleave` or `preferred`.
    pub policy: &'static str,
    /// NUMA nodes to which the policy applies; `None` for a policy without NUMA nodes.
    pub nodes: Option<Vec<u32>>,
}

impl PlacesDocument {
    /// Creates the document for one or more processes, without inherited settings and without devices.
    pub fn new(topology: &Topology, ranks: &[RankPlace]) -> Self {
        let threads = ranks.iter().flat_map(|rank| {
            let memory = MemoryEntry::from(&rank.memory);
            rank.placement.threads.iter().map(move |place| ThreadEntry {
                rank: rank.rank,
                thread: place.thread,
                cpus: place.cpus.iter().map(|cpu| cpu.0).collect(),
                cores: place.cores(topology),
                llcs: place.llcs(topology),
                sockets: place.sockets(topology),
                numa_nodes: place.numa_nodes(topology),
                memory: memory.clone(),
                devices: Vec::new(),
            })
        });
        Self {
            schema: SCHEMA,
            inherited: None,
            nodes: None,
            topology: TopologySummary {
                source: topology.source.machine_source(),
                sockets: topology.sockets.len(),
                cores: topology.cores.len(),
                llcs: topology.llcs.len(),
                numa_nodes: topology.nodes.len(),
            },
            threads: threads.collect(),
        }
    }
}

impl PlacesDocument {
    /// Adds the devices of each rank.
    #[must_use]
    pub fn with_devices(mut self, devices: &[Vec<RankDevice>]) -> Self {
        for thread in &mut self.threads {
            let of_rank = thread.rank.and_then(|rank| devices.get(rank as usize));
            thread.devices = of_rank.cloned().unwrap_or_default();
        }
        self
    }
}

impl From<&MemoryPolicy> for MemoryEntry {
    fn from(policy: &MemoryPolicy) -> Self {
        let nodes = policy.numa_nodes();
        Self {
            policy: policy.as_str(),
            nodes: nodes.map(|nodes| nodes.iter().map(|node| node.0).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{T2K, machine};
    use crate::{PlacementRequest, plan};
    use nodegauge_machine::NumaNodeId;
    use serde_json::json;

    #[test]
    fn single_process_has_no_rank() {
        let t2k = machine(T2K);
        let placement =
            plan(&t2k, &PlacementRequest { threads: Some(4), ..PlacementRequest::default() })
                .unwrap();
        let rank = RankPlace { rank: None, placement, memory: MemoryPolicy::Default };
        let document = PlacesDocument::new(&t2k, &[rank]);
        let value = serde_json::to_value(&document).unwrap();
        assert_eq!(value["schema"], "nodegauge/1");
        assert_eq!(
            value["topology"],
            json!({"source": "synthetic", "sockets": 4, "cores": 16, "llcs": 0, "numa_nodes": 4})
        );
        assert_eq!(value["threads"].as_array().map(Vec::len), Some(4));
        assert_eq!(
            value["threads"][1],
            json!({
                "rank": null, "thread": 1, "cpus": [4], "cores": [4], "llcs": [], "sockets": [1],
                "numa_nodes": [1], "memory": {"policy": "default", "nodes": null}
            })
        );
    }

    #[test]
    fn processes_are_listed_by_rank() {
        let t2k = machine(T2K);
        let placement =
            plan(&t2k, &PlacementRequest { threads: Some(2), ..PlacementRequest::default() })
                .unwrap();
        let memory = MemoryPolicy::Bind(vec![NumaNodeId(1), NumaNodeId(2)]);
        let ranks = [0, 1].map(|rank| RankPlace {
            rank: Some(rank),
            placement: placement.clone(),
            memory: memory.clone(),
        });
        let document = PlacesDocument::new(&t2k, &ranks);
        let numbers: Vec<_> = document.threads.iter().map(|t| (t.rank, t.thread)).collect();
        assert_eq!(numbers, [(Some(0), 0), (Some(0), 1), (Some(1), 0), (Some(1), 1)]);
        assert_eq!(
            serde_json::to_value(&document.threads[3].memory).unwrap(),
            json!({"policy": "bind", "nodes": [1, 2]})
        );
    }
}
