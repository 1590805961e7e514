//! Picture of a node: sockets, NUMA nodes and cores, with the processes that ran on each core.

use crate::cpus::CpuTable;
use crate::document::{JobHost, NumaNodeCores, PictureCore};
use nodegauge_machine::number_list;
use std::collections::BTreeMap;

/// Returns the NUMA nodes with their cores, in logical order.
pub(crate) fn cores_by_numa_node(host: &JobHost, table: &CpuTable<'_>) -> Vec<NumaNodeCores> {
    let mut on_cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, process) in host.processes.iter().enumerate() {
        for thread in process.working_threads() {
            if let Some(place) = table.thread(thread.cpu) {
                on_cores.entry(place.core).or_default().push(at);
            }
        }
    }
    let available = number_list(&host.available).unwrap_or_default();
    let available = table.cores(&available.into_iter().collect());
    let mut nodes: Vec<NumaNodeCores> = Vec::new();
    let mut last_core = None;
    for thread in &table.topology.threads {
        if last_core == Some(thread.core) {
            continue;
        }
        last_core = Some(thread.core);
        let cpu = thread.cpu.0;
        let socket = table.socket_number(cpu).unwrap_or(0);
        let numa_node = table.numa_node_number(cpu);
        let core = PictureCore {
            llc: table.llc_number(cpu),
            available: available.contains(&thread.core),
            processes: on_cores.remove(&thread.core).unwrap_or_default(),
        };
        match nodes.last_mut() {
            Some(node) if (node.socket, node.numa_node) == (socket, numa_node) => {
                node.cores.push(core);
            }
            _ => nodes.push(NumaNodeCores { socket, numa_node, cores: vec![core] }),
        }
    }
    nodes
}

impl NumaNodeCores {
    /// Returns the cores as text: the number of the rank or process on each core, `.` for an idle core, `x` for an
    /// unavailable core, and `|` between last-level caches. The numbers of several processes on one core are joined by
    /// `+`.
    pub(crate) fn text(&self, names: &[String]) -> String {
        let cells: Vec<String> = self.cores.iter().map(|core| core.text(names)).collect();
        let width = cells.iter().map(String::len).max().unwrap_or(1);
        let mut text = String::new();
        for (at, (core, cell)) in self.cores.iter().zip(&cells).enumerate() {
            if at > 0 {
                let same = self.cores[at - 1].llc == core.llc;
                text.push_str(if same { " " } else { " | " });
            }
            text.push_str(&format!("{cell:>width$}"));
        }
        text
    }
}

impl PictureCore {
    fn text(&self, names: &[String]) -> String {
        if self.processes.is_empty() {
            return if self.available { "." } else { "x" }.to_owned();
        }
        let mut shown: Vec<&str> = Vec::new();
        for at in &self.processes {
            shown.push(names.get(*at).map_or("?", String::as_str));
        }
        shown.join("+")
    }
}
