//! Pictures of the hardware threads of a node, with the threads that a run placed on them.

use nodegauge_gauge::view::{Drawing, NumaNodeThreads, Picture};
use nodegauge_measure::Bytes;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{NumaNode, Record};

/// Maximum number of placements that are drawn. A run of all gauges has at most four.
const MAX_PLACEMENTS: usize = 4;

/// Returns one picture per distinct placement of a record, in order of appearance. Each shows the NUMA nodes of the
/// machine.
pub(crate) fn pictures(record: &Record) -> Vec<Picture> {
    let mut known: Vec<(&str, Vec<Vec<u32>>)> = Vec::new();
    for m in &record.measurements {
        let Some(places) = m.read_key::<shared::places>() else { continue };
        if known.iter().all(|(_, known)| *known != places) {
            known.push((&m.test, places));
        }
    }
    let all_nodes = record.machine.numa_nodes.iter();
    let nodes: Vec<&NumaNode> =
        all_nodes.filter(|node| node.bytes != Some(0) || !node.cpus.is_empty()).collect();
    let drawn = known.iter().take(MAX_PLACEMENTS).filter(|_| !nodes.is_empty());
    let pictures = drawn.map(|(test, places)| Picture {
        title: format!("threads of {test} by NUMA node"),
        drawing: Drawing::Placement(nodes.iter().map(|node| node_threads(node, places)).collect()),
    });
    pictures.collect()
}

fn node_threads(node: &NumaNode, places: &[Vec<u32>]) -> NumaNodeThreads {
    let memory = node.bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
    let cpus = node.cpus.iter().map(|cpu| (*cpu, threads_on(*cpu, places))).collect();
    NumaNodeThreads { name: format!("node {}{memory}", node.id), cpus }
}

/// Returns the indices of the threads that may run on a CPU.
fn threads_on(cpu: u32, places: &[Vec<u32>]) -> Vec<usize> {
    let here = places.iter().enumerate().filter(|(_, cpus)| cpus.contains(&cpu));
    here.map(|(thread, _)| thread).collect()
}
