//! NUMA nodes of an hwloc topology, with their CPUs and the kind of their memory.

use super::info;
use crate::ids::{CpuId, NumaNodeId};
use crate::topology::{HardwareThread, TopologyNumaNode, TopologySource};
use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use std::collections::{BTreeMap, BTreeSet};

/// NUMA nodes while a topology is read. The CPUs near a NUMA node follow from the CPUs of all NUMA nodes.
pub(super) struct HwlocNumaNodes {
    nodes: Vec<TopologyNumaNode>,
    /// Hardware threads of each NUMA node, including threads that the description does not contain.
    complete: Vec<Vec<CpuId>>,
    /// Nearest NUMA node of each hardware thread.
    nearest: BTreeMap<CpuId, usize>,
}

impl HwlocNumaNodes {
    /// Reads the NUMA nodes.
    pub(super) fn from_hwloc(hwloc: &Hwloc, source: &TopologySource) -> Self {
        // For a synthetic machine without memory sizes, hwloc assumes 1 GiB per node, so that the size is unknown.
        let known = match source {
            TopologySource::Synthetic(text) => text.contains("memory="),
            TopologySource::Live | TopologySource::Xml(_) => true,
        };
        let mut objects: Vec<&TopologyObject> = hwloc
            .objects_with_type(ObjectType::NUMANode)
            .filter(|object| object.os_index().is_some() && object.cpuset().is_some())
            .collect();
        objects.sort_by_key(|object| object.os_index());
        let tiers: Vec<Option<String>> =
            objects.iter().map(|object| info(object, "MemoryTier")).collect();
        let distinct: BTreeSet<&Option<String>> = tiers.iter().collect();
        let has_tiers = distinct.len() > 1;
        let allowed = hwloc.allowed_nodeset();
        let mut nodes = Vec::new();
        let mut complete = Vec::new();
        for (object, tier) in objects.iter().zip(&tiers) {
            let tier = tier.as_ref().filter(|_| has_tiers).map(|tier| format!("tier {tier}"));
            nodes.push(TopologyNumaNode {
                id: NumaNodeId(object.os_index().unwrap_or_default() as u32),
                bytes: known.then(|| object.total_memory()),
                cpus: super::cpus(object.cpuset()),
                absent_cpus: Vec::new(),
                kind: subtype(object).or(tier),
                cache_bytes: None,
                device: info(object, "PCIBusID").map(|address| address.to_lowercase()),
                is_forbidden: object.os_index().is_some_and(|index| !allowed.is_set(index)),
            });
            // On the live machine, the kernel reports which CPUs are offline; all others are in the topology.
            let is_described = *source != TopologySource::Live;
            complete.push(super::cpus(object.complete_cpuset().filter(|_| is_described)));
        }
        let nearest = nearest(nodes.iter().map(|node| node.cpus.as_slice()), &nodes);
        Self { nodes, complete, nearest }
    }

    /// Returns the index of the nearest NUMA node of a hardware thread, which is the smallest NUMA node that contains
    /// the thread.
    pub(super) fn nearest(&self, cpu: CpuId) -> Option<usize> {
        self.nearest.get(&cpu).copied()
    }

    /// Returns the NUMA nodes, each with the CPUs for which it is the nearest. hwloc assigns the CPUs of other NUMA
    /// nodes to memory without CPUs, such as device memory.
    pub(super) fn into_numa_nodes(mut self, threads: &[HardwareThread]) -> Vec<TopologyNumaNode> {
        let absent = nearest(self.complete.iter().map(Vec::as_slice), &self.nodes);
        let listed: BTreeSet<CpuId> = threads.iter().map(|thread| thread.cpu).collect();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.cpus.retain(|cpu| listed.contains(cpu) && self.nearest.get(cpu) == Some(&at));
            let own = self.complete[at].iter().filter(|cpu| absent.get(cpu) == Some(&at));
            node.absent_cpus = own.filter(|cpu| !listed.contains(cpu)).copied().collect();
        }
        self.nodes
    }
}

/// Returns the kind of memory that hwloc found.
fn subtype(object: &TopologyObject) -> Option<String> {
    let name = object.subtype()?.to_string_lossy().trim().to_owned();
    (!name.is_empty()).then_some(name)
}

/// Returns for each CPU the index of the smallest set that contains it; NUMA nodes of devices are ignored.
fn nearest<'a>(
    sets: impl Iterator<Item = &'a [CpuId]>,
    nodes: &[TopologyNumaNode],
) -> BTreeMap<CpuId, usize> {
    let mut found: BTreeMap<CpuId, (usize, usize)> = BTreeMap::new();
    for (at, cpus) in sets.enumerate() {
        if nodes[at].device.is_some() {
            continue;
        }
        for cpu in cpus {
            let smallest = found.entry(*cpu).or_insert((cpus.len(), at));
            if cpus.len() < smallest.0 {
                *smallest = (cpus.len(), at);
            }
        }
    }
    found.into_iter().map(|(cpu, (_, at))| (cpu, at)).collect()
}
