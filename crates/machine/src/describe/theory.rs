//! Memory to which a theoretical bandwidth applies, on machines with several kinds of memory, with caches in front
//! of it, or with sockets without memory. The memory modules that the firmware lists are DRAM. Memory on the
//! package, memory behind CXL and device memory have their own theoretical bandwidth.

use crate::catalog::{ProcessorEntry, SocketMemory};
use crate::cxl;
use crate::dimms::EVERY_CHANNEL;
use crate::ids::NumaNodeId;
use crate::memory::is_known_not_dram;
use crate::root::{SysRoot, number_ranges};
use crate::topology::Topology;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Machine, Memory, NumaNode, PciLink, TheoreticalValue};
use nodegauge_measure::{Bytes, BytesPerSec};
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

/// Removes the channels of NUMA nodes without memory from a memory whose channels come from the catalog. All NUMA nodes
/// of a socket have equal numbers of channels.
pub(super) fn without_empty_nodes(topology: &Topology, memory: Memory) -> Memory {
    let mut memory = memory;
    let (Some(figure), Some(channels)) = (&mut memory.theoretical, memory.channels) else {
        return memory;
    };
    let threads =
        || topology.threads.iter().filter_map(|thread| Some((thread.socket, thread.node?)));
    let has_memory =
        |node: usize| topology.nodes.get(node).is_some_and(|node| node.bytes != Some(0));
    let sockets: BTreeSet<usize> =
        threads().filter(|(_, node)| has_memory(*node)).map(|(socket, _)| socket).collect();
    let nodes: BTreeSet<usize> =
        threads().filter(|(socket, _)| sockets.contains(socket)).map(|(_, node)| node).collect();
    let all = nodes.len() as u32;
    let used = nodes.into_iter().filter(|node| has_memory(*node)).count() as u32;
    if figure.basis != "catalog" || used >= all || !(channels * used).is_multiple_of(all) {
        return memory;
    }
    memory.channels = Some(channels * used / all);
    figure.value *= f64::from(used) / f64::from(all);
    let detail = figure.detail.take().unwrap_or_default();
    figure.detail = Some(detail.replace(
        EVERY_CHANNEL,
        &format!("every channel of the {used} of {all} NUMA nodes with memory populated"),
    ));
    memory
}

/// Returns the theoretical bandwidth of a machine on which no memory is DRAM, which is that of its NUMA nodes together;
/// `None` if a NUMA node has DRAM, or if the bandwidth of one of them is unknown.
pub(super) fn figure_without_dram(machine: &Machine) -> Option<TheoreticalValue> {
    let nodes = machine.numa_nodes.iter();
    let nodes: Vec<&NumaNode> =
        nodes.filter(|node| node.device.is_none() && node.bytes != Some(0)).collect();
    if nodes.is_empty() || !nodes.iter().all(|node| is_known_not_dram(node)) {
        return None;
    }
    let ids: Vec<u32> = nodes.iter().map(|node| node.id).collect();
    let figure = crate::dimms::node_bandwidth(machine, &ids)?;
    let kinds: BTreeSet<&str> = nodes.iter().filter_map(|node| node.kind.as_deref()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(" and ");
    let noun = number_form(ids.len(), "NUMA node", "NUMA nodes");
    let detail = format!("{kinds} of {noun} {}; no DRAM", number_ranges(&ids));
    Some(TheoreticalValue { detail: Some(detail), ..figure })
}

/// Kind of memory on the package of a processor in hwloc.
const PACKAGE_KIND: &str = "HBM";

/// Adds the theoretical bandwidth to the NUMA nodes whose memory is not DRAM, if it is known. `root` is the root
/// directory of a live machine.
pub(super) fn add_numa_node_bandwidths(
    machine: &mut Machine,
    entry: Option<&ProcessorEntry>,
    root: Option<&SysRoot>,
) {
    let figures: Vec<Option<TheoreticalValue>> =
        machine.numa_nodes.iter().map(|node| node_figure(machine, node, entry, root)).collect();
    for (node, figure) in machine.numa_nodes.iter_mut().zip(figures) {
        node.theoretical = figure;
    }
}

/// Returns the theoretical bandwidth of a NUMA node whose memory is not DRAM.
fn node_figure(
    machine: &Machine,
    node: &NumaNode,
    entry: Option<&ProcessorEntry>,
    root: Option<&SysRoot>,
) -> Option<TheoreticalValue> {
    if let Some(address) = &node.device {
        let device = machine.devices.iter().find(|device| device.address == *address)?;
        let mut figure = device.memory.as_ref()?.theoretical.clone()?;
        // The processors reach it through a link, which may be slower.
        figure.at_most = true;
        return Some(figure);
    }
    let links = root.map_or_else(Vec::new, |root| cxl::links(root, NumaNodeId(node.id)));
    if let Some(figure) = links_figure(&links) {
        return Some(figure);
    }
    if node.kind.as_deref() == Some(PACKAGE_KIND) {
        return Some(package_figure(machine, entry?.package_memory.as_ref()?));
    }
    None
}

/// Returns the theoretical bandwidth of one NUMA node with memory on the package.
fn package_figure(machine: &Machine, memory: &SocketMemory) -> TheoreticalValue {
    let kinds = machine.numa_nodes.iter().filter_map(|node| node.kind.as_deref());
    let nodes = kinds.filter(|kind| *kind == PACKAGE_KIND).count().max(1);
    let sockets = machine.processor.sockets.max(1);
    let all =
        f64::from(sockets * memory.channels * memory.channel_bytes) * memory.transfers_per_s.0;
    let shared = if nodes > 1 { format!(", one of {nodes} NUMA nodes") } else { String::new() };
    TheoreticalValue {
        value: all / nodes as f64,
        basis: "catalog".to_owned(),
        detail: Some(format!(
            "{sockets} x {} stacks of {}-{:.0} x {} B{shared}",
            memory.channels,
            memory.technology,
            memory.transfers_per_s.0 / 1e6,
            memory.channel_bytes
        )),
        at_most: machine.virtualisation.is_some(),
    }
}

/// Returns the theoretical read bandwidth of memory that is interleaved over devices with these links. Reads pass each
/// link in one direction. The slowest link limits all. `None` without links, or if the rate of a link is unknown.
fn links_figure(links: &[PciLink]) -> Option<TheoreticalValue> {
    let rates: Option<Vec<f64>> = links.iter().map(|link| Some(link.bytes_per_s?.0)).collect();
    let slowest = rates?.into_iter().reduce(f64::min)?;
    let words = links.first()?.in_words();
    Some(TheoreticalValue {
        value: slowest * links.len() as f64,
        basis: "link".to_owned(),
        detail: Some(format!("{}, {words}", count_in_words(links.len(), "CXL link"))),
        at_most: true,
    })
}

/// Returns a theoretical bandwidth with a description of the part of the memory to which it applies. The description is
/// missing if the bandwidth applies to all memory.
pub(super) fn with_scope(
    machine: &Machine,
    figure: TheoreticalValue,
    sockets: u32,
) -> TheoreticalValue {
    let mut figure = figure;
    let mut parts = Vec::new();
    let without = machine.processor.sockets.saturating_sub(sockets);
    if without > 0 && machine.virtualisation.is_none() {
        parts.push(format!("{without} of {} sockets without memory", machine.processor.sockets));
    }
    let has_dram = machine
        .numa_nodes
        .iter()
        .any(|node| node.device.is_none() && node.bytes != Some(0) && !is_known_not_dram(node));
    for (kind, nodes) in other_kinds(machine) {
        if !has_dram {
            continue;
        }
        let ids: Vec<u32> = nodes.iter().map(|node| node.id).collect();
        let rates: Option<f64> =
            nodes.iter().map(|node| Some(node.theoretical.as_ref()?.value)).sum();
        let of_kind = match rates {
            Some(all) => format!("{} theoretical", BytesPerSec(all)),
            None => "unknown".to_owned(),
        };
        let noun = number_form(ids.len(), "NUMA node", "NUMA nodes");
        parts.push(format!(
            "of DRAM only; the bandwidth of {kind} ({noun} {}) is {of_kind}",
            number_ranges(&ids)
        ));
    }
    let sizes: BTreeSet<u64> =
        machine.numa_nodes.iter().filter_map(|node| node.cache_bytes).collect();
    if let Some(largest) = sizes.last() {
        let largest = Bytes(*largest);
        if has_memory_on_package(machine) {
            let behind = machine.numa_nodes.iter().filter(|node| node.cache_bytes.is_some());
            let caches = number_form(behind.count(), "a memory-side cache", "memory-side caches");
            parts.push(format!("of the memory behind {caches} of {largest}"));
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
fn other_kinds(machine: &Machine) -> BTreeMap<&str, Vec<&NumaNode>> {
    let mut kinds: BTreeMap<&str, Vec<&NumaNode>> = BTreeMap::new();
    for node in machine.numa_nodes.iter().filter(|node| is_known_not_dram(node)) {
        kinds.entry(node.kind.as_deref().unwrap_or_default()).or_default().push(node);
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
    use nodegauge_measure::TransfersPerSec;

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
    fn memory_mode_has_the_bandwidth_of_the_dram_that_is_a_cache() {
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
            text.contains("of DRAM only; the bandwidth of MCDRAM (NUMA node 1) is unknown"),
            "{text}"
        );
        assert!(text.contains("of the memory behind a memory-side cache of 2 GiB"), "{text}");
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

    #[test]
    fn numa_nodes_without_memory_have_no_channels() {
        let text = "Package:2 NUMANode:4(memory=8GB) Core:2 PU:1".to_owned();
        let mut topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        topology.nodes[2].bytes = Some(0);
        topology.nodes[6].bytes = Some(0);
        let options = DescribeOptions {
            processor: Some("EPYC 9654".to_owned()),
            ..DescribeOptions::default()
        };
        let machine = describe(&topology, &SysRoot::live(), &options);
        assert_eq!(machine.memory.channels, Some(18));
        let printed = detail(&machine);
        let populated = "every channel of the 6 of 8 NUMA nodes with memory populated";
        assert!(printed.ends_with(populated), "{printed}");
        let node = node_bandwidth(&machine, &[0]).unwrap();
        assert_eq!(node.value, 3.0 * 38.4e9);
        assert!(node.basis.ends_with(", 1 of 6 NUMA nodes"), "{node:?}");
    }

    #[test]
    fn memory_on_the_package_has_the_bandwidth_of_its_stacks() {
        let text = "Package:2 NUMANode:1(memory=64GB) Core:2 PU:1".to_owned();
        let mut topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        for node in &mut topology.nodes {
            node.kind = Some("HBM".to_owned());
        }
        let options = DescribeOptions {
            processor: Some("Xeon CPU Max 9480".to_owned()),
            ..DescribeOptions::default()
        };
        let machine = describe(&topology, &SysRoot::live(), &options);
        let all = machine.memory.theoretical.as_ref().unwrap();
        assert_eq!((all.value, machine.memory.channels), (3276.8e9, None));
        assert_eq!(all.detail.as_deref(), Some("HBM of NUMA nodes 0-1; no DRAM"));
        assert_eq!(node_bandwidth(&machine, &[0]).unwrap().value, 1638.4e9);
        assert_eq!(node_bandwidth(&machine, &[0, 1]).unwrap().value, 3276.8e9);
        let figure = machine.numa_nodes[0].theoretical.as_ref().unwrap();
        let formula = figure.detail.as_deref().unwrap();
        assert_eq!(formula, "2 x 4 stacks of HBM2e-3200 x 128 B, one of 2 NUMA nodes");
    }

    #[test]
    fn bandwidth_of_dram_and_package_memory_is_at_most_their_sum() {
        let text = "Package:1 NUMANode:1(memory=64GB) Core:2 PU:1".to_owned();
        let mut topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        let mut package = topology.nodes[0].clone();
        package.id = NumaNodeId(1);
        package.kind = Some("HBM".to_owned());
        package.cpus.clear();
        topology.nodes[0].kind = Some("DRAM".to_owned());
        topology.nodes.push(package);
        let options = DescribeOptions {
            processor: Some("Xeon CPU Max 9480".to_owned()),
            dimms: Some("8x4800".parse().unwrap()),
            ..DescribeOptions::default()
        };
        let machine = describe(&topology, &SysRoot::live(), &options);
        assert_eq!(node_bandwidth(&machine, &[0]).unwrap().value, 307.2e9);
        assert_eq!(node_bandwidth(&machine, &[1]).unwrap().value, 1638.4e9);
        let both = node_bandwidth(&machine, &[0, 1]).unwrap();
        assert!((both.value - 1945.6e9).abs() < 1.0 && both.at_most, "{both:?}");
        let printed = detail(&machine);
        assert!(
            printed.contains("the bandwidth of HBM (NUMA node 1) is 1.638 TB/s theoretical"),
            "{printed}"
        );
    }

    fn link(width: u32) -> PciLink {
        PciLink {
            transfers_per_s: Some(TransfersPerSec(32e9)),
            width: Some(width),
            bytes_per_s: Some(PciLink::bandwidth(TransfersPerSec(32e9), width)),
            ..PciLink::default()
        }
    }

    #[test]
    fn slowest_link_limits_interleaved_memory() {
        let figure = links_figure(&[link(16), link(8)]).unwrap();
        let slowest = PciLink::bandwidth(TransfersPerSec(32e9), 8).0;
        assert!((figure.value / (2.0 * slowest) - 1.0).abs() < 1e-12);
        assert!(figure.at_most);
        assert_eq!(links_figure(&[]), None);
        assert_eq!(links_figure(&[link(16), PciLink::default()]), None);
    }
}
