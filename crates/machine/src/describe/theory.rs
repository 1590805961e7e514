//! Scope of a theoretical bandwidth on machines with several kinds of memory, with caches in front of it, or with
//! sockets without memory. The memory modules that the firmware lists are DRAM. The functions are pure.

use crate::memory::is_known_not_dram;
use crate::root::number_ranges;
use crate::topology::Topology;
use nodegauge_measure::Bytes;
use nodegauge_measure::record::{Figure, Machine};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the number of sockets whose channels have modules. Sockets whose NUMA nodes are known to have no memory
/// are excluded.
pub(super) fn sockets_with_memory(topology: &Topology) -> u32 {
    let with_memory: BTreeSet<usize> = topology
        .threads
        .iter()
        .filter(|thread| {
            let node = thread.node.and_then(|node| topology.nodes.get(node));
            node.is_some_and(|node| node.bytes != Some(0))
        })
        .map(|thread| thread.socket)
        .collect();
    let count = if with_memory.is_empty() { topology.sockets.len() } else { with_memory.len() };
    count as u32
}

/// Adds to a theoretical bandwidth the part of the memory to which it applies, if it does not apply to all memory.
pub(super) fn with_scope(machine: &Machine, figure: Figure, sockets: u32) -> Figure {
    let mut figure = figure;
    let mut parts = Vec::new();
    let without = machine.processor.sockets.saturating_sub(sockets);
    if without > 0 && machine.virtualisation.is_none() {
        parts.push(format!("{without} of {} sockets without memory", machine.processor.sockets));
    }
    for (kind, nodes) in other_kinds(machine) {
        parts.push(format!(
            "of DRAM only; the bandwidth of {kind} (NUMA nodes {}) is unknown",
            number_ranges(&nodes)
        ));
    }
    let sizes: BTreeSet<u64> =
        machine.numa_nodes.iter().filter_map(|node| node.cache_bytes).collect();
    if let Some(largest) = sizes.last() {
        let largest = Bytes(*largest);
        if has_memory_on_package(machine) {
            parts.push(format!("of the memory behind memory-side caches of {largest}"));
        } else {
            // The data of memory in such a mode pass through the DRAM that caches it.
            figure.at_most = true;
            parts.push(format!(
                "of the DRAM that is a memory-side cache of {largest}; the bandwidth of the memory behind it is unknown"
            ));
        }
    }
    if parts.is_empty() {
        return figure;
    }
    let basis = figure.detail.take().unwrap_or_else(|| figure.basis.clone());
    figure.detail = Some(format!("{basis}; {}", parts.join("; ")));
    figure
}

/// Returns the kinds of memory that are not DRAM, with the NUMA nodes of each.
fn other_kinds(machine: &Machine) -> BTreeMap<&str, Vec<u32>> {
    let mut kinds: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for node in machine.numa_nodes.iter().filter(|node| is_known_not_dram(node)) {
        kinds.entry(node.kind.as_deref().unwrap_or_default()).or_default().push(node.id);
    }
    kinds
}

/// True for processors with memory on the package, which may be a cache for the memory of modules: Xeon Phi and
/// Xeon Max.
fn has_memory_on_package(machine: &Machine) -> bool {
    let processor = &machine.processor;
    let model = processor.model.as_deref().unwrap_or_default();
    let design = processor.microarchitecture.as_deref().unwrap_or_default();
    model.contains("Xeon Phi") || model.contains("CPU Max") || design.starts_with("Knights")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DescribeOptions, SysRoot, TopologySource, describe, node_bandwidth};

    fn recorded(name: &str) -> Topology {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies");
        Topology::load(&TopologySource::Xml(format!("{folder}/{name}.xml").into())).unwrap()
    }

    fn described(topology: &Topology, processor: &str) -> Machine {
        let options = DescribeOptions {
            processor: Some(processor.to_owned()),
            dimms: Some("6x2400".parse().unwrap()),
            ..DescribeOptions::default()
        };
        describe(topology, &SysRoot::live(), &options)
    }

    fn detail(machine: &Machine) -> &str {
        machine.memory.theoretical.as_ref().unwrap().detail.as_deref().unwrap()
    }

    #[test]
    fn memory_mode_has_bandwidth_of_modules_behind_cache() {
        let machine = described(&recorded("memory-mode"), "Xeon Gold 6230");
        assert!(machine.memory.theoretical.as_ref().unwrap().at_most);
        let text = detail(&machine);
        assert!(text.contains("of the DRAM that is a memory-side cache of 1 GiB"), "{text}");
    }

    #[test]
    fn module_bandwidth_excludes_memory_on_package() {
        let machine = described(&recorded("hybrid-mode"), "Xeon Phi 7110P");
        let text = detail(&machine);
        assert!(
            text.contains("of DRAM only; the bandwidth of MCDRAM (NUMA nodes 1) is unknown"),
            "{text}"
        );
        assert!(text.contains("of the memory behind memory-side caches of 2 GiB"), "{text}");
        assert!(!machine.memory.theoretical.as_ref().unwrap().at_most);
        assert!(node_bandwidth(&machine, &[0]).is_some());
        assert_eq!(node_bandwidth(&machine, &[1]), None);
        assert_eq!(node_bandwidth(&machine, &[0, 1]), None);
    }

    #[test]
    fn sockets_without_memory_have_no_channels() {
        let text = "Package:2 NUMANode:1(memory=8GB) Core:2 PU:1".to_owned();
        let mut topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        assert_eq!(sockets_with_memory(&topology), 2);
        topology.nodes[0].bytes = Some(0);
        assert_eq!(sockets_with_memory(&topology), 1);
        let options = DescribeOptions {
            processor: Some("EPYC 9654".to_owned()),
            ..DescribeOptions::default()
        };
        let machine = describe(&topology, &SysRoot::live(), &options);
        assert_eq!(machine.memory.channels, Some(12));
        assert!(detail(&machine).ends_with("1 of 2 sockets without memory"), "{machine:?}");
        topology.nodes[1].bytes = Some(0);
        assert_eq!(sockets_with_memory(&topology), 2);
    }
}
