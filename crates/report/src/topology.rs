//! The hardware threads of a node, and where those of a run were placed.

use nodegauge_gauge::view::{Drawing, NodeThreads, Picture};
use nodegauge_measure::Bytes;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{NumaNode, Record};

/// Placements that are drawn: those of a run of all gauges.
const MOST: usize = 4;

/// A picture of each placement of a record, in order of appearance, on the NUMA nodes that it names.
pub(crate) fn pictures(record: &Record) -> Vec<Picture> {
    let mut known: Vec<(&str, Vec<Vec<u32>>)> = Vec::new();
    for m in &record.measurements {
        let Some(places) = m.read_key::<shared::places>() else { continue };
        if known.iter().all(|(_, known)| *known != places) {
            known.push((&m.test, places));
        }
    }
    let nodes = record.machine.numa_nodes.iter();
    let nodes: Vec<&NumaNode> =
        nodes.filter(|node| node.bytes != Some(0) || !node.cpus.is_empty()).collect();
    let drawn = known.iter().take(MOST).filter(|_| !nodes.is_empty());
    let picture = |(test, places): &(&str, Vec<Vec<u32>>)| Picture {
        title: format!("where {test} ran, by NUMA node"),
        drawing: Drawing::Placement(nodes.iter().map(|node| on(node, places)).collect()),
    };
    drawn.map(picture).collect()
}

fn on(node: &NumaNode, places: &[Vec<u32>]) -> NodeThreads {
    let memory = node.bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
    let threads = |cpu: u32| {
        let here = places.iter().enumerate().filter(|(_, cpus)| cpus.contains(&cpu));
        here.map(|(thread, _)| thread).collect()
    };
    NodeThreads {
        name: format!("node {}{memory}", node.id),
        cpus: node.cpus.iter().map(|cpu| (*cpu, threads(*cpu))).collect(),
    }
}
