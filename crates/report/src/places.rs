//! Pages of `places`: the CPUs and the memory of each thread. The columns are those of a lecture on ccNUMA (rank,
//! socket, memory, core), and also cache and CPU.

use crate::machine;
use nodegauge_gauge::view::{Block, ColumnList, Section};
use nodegauge_machine::number_ranges as ranges;
use nodegauge_placement::RankDevice;
use nodegauge_placement::json::{PlacesDocument, ThreadEntry};
use nodegauge_placement::pairs::PairRow;
use std::fmt::Display;

/// Returns a table with one line per thread. Columns without information on this machine are left out, e.g. the socket
/// on a machine with one socket.
///
/// With ranks, the first column contains the rank, the column for memory shows the NUMA nodes, and a line below the
/// table shows the policy. Thread numbers are shown only if a rank has several threads, and CPU numbers only if they
/// differ from the core numbers.
pub fn places_section(document: &PlacesDocument) -> Section {
    let threads = &document.threads;
    let ranks = threads.iter().any(|thread| thread.rank.is_some());
    let several_threads = threads.iter().any(|t| t.thread > 0);
    let cpus_differ = threads.iter().any(|t| t.cpus != t.cores);
    let has_devices = threads.iter().any(|t| !t.devices.is_empty());
    // Numbers are right-aligned; addresses are left-aligned.
    let columns = ColumnList::<ThreadEntry>::new()
        .add_if(ranks, |columns| columns.right_or_dash("rank", |t| Some(t.rank?.to_string())))
        .add_if(!ranks || several_threads, |columns| {
            columns.right("thread", |t| t.thread.to_string())
        })
        .right("socket", |t| ranges(&t.sockets))
        .right("memory", if ranks { nodes } else { memory })
        .right("core", |t| ranges(&t.cores))
        .add_if(document.topology.llcs > 0, |columns| columns.right("LLC", |t| ranges(&t.llcs)))
        .add_if(!ranks || cpus_differ, |columns| columns.right("cpu", |t| ranges(&t.cpus)))
        .add_if(has_devices, |columns| columns.left("device", devices));
    let mut section = Section::new("places");
    section.push(columns.table(threads));
    if let Some(first) = threads.first().filter(|_| ranks) {
        section.push(Block::Text(format!("memory: {}", in_words(first.memory.policy))));
    }
    if let Some(known) = &document.inherited {
        section.push(Block::Text(format!("inherited: {}", machine::inherited_in_words(known))));
    }
    section
}

/// Describes where the memory of a thread is: the NUMA node of first touch, or the policy with its nodes.
fn memory(thread: &ThreadEntry) -> String {
    match (&thread.memory.nodes, thread.memory.policy) {
        (Some(nodes), policy) => format!("{policy} {}", ranges(nodes)),
        (None, _) => ranges(&thread.numa_nodes),
    }
}

/// Returns the NUMA nodes of the memory, without the policy.
fn nodes(thread: &ThreadEntry) -> String {
    ranges(thread.memory.nodes.as_ref().unwrap_or(&thread.numa_nodes))
}

/// Returns the devices of a thread's rank, with numbers and bus addresses.
fn devices(thread: &ThreadEntry) -> String {
    let each = thread.devices.iter().map(|RankDevice { number, address, near, .. }| {
        format!("{number} {address}{}", if *near == Some(false) { " (far)" } else { "" })
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Describes how a memory policy uses the NUMA nodes in the table.
fn in_words(policy: &str) -> &str {
    match policy {
        "bind" => "bound to these NUMA nodes",
        "interleave" => "interleaved over these NUMA nodes",
        "preferred" => "on this NUMA node as long as it has free memory",
        "local" => "on the NUMA node of the CPU that touches it first (local)",
        _ => "no policy; on the NUMA node of the CPU that touches it first",
    }
}

/// Returns the table of the pairs of hardware threads that exchange messages.
pub fn pairs_section(rows: &[PairRow]) -> Section {
    let columns = ColumnList::<PairRow>::new()
        .left("distance", |row| row.distance.name())
        .left("cpus", |row| in_pair(row.cpus))
        .left("cores", |row| in_pair(row.cores))
        .left("NUMA nodes", |row| {
            in_pair(row.numa_nodes.map(|node| match node {
                Some(node) => node.to_string(),
                None => "-".to_owned(),
            }))
        })
        .left("sockets", |row| in_pair(row.sockets));
    let mut section = Section::new("pairs");
    section.push(columns.table(rows));
    if rows.is_empty() {
        section.push(Block::Text("no pairs: there is only one hardware thread".to_owned()));
    }
    section
}

/// Formats a pair: `0 - 4`.
fn in_pair(ends: [impl Display; 2]) -> String {
    format!("{} - {}", ends[0], ends[1])
}
