//! The text of `places`: where each thread and its memory go, in the columns of the ccNUMA
//! lecture (rank, socket, memory, core), with cache and CPU beside them.

use crate::table::{Style, table};
use crate::words::ranges;
use nodegauge_placement::json::PlacesDocument;
use nodegauge_placement::pairs::PairRow;

/// A table with one line a thread; columns that say nothing on this machine are left out.
pub fn render(document: &PlacesDocument, style: Style) -> String {
    let with_ranks = document.threads.iter().any(|thread| thread.rank.is_some());
    let with_llcs = document.topology.llcs > 0;
    let mut header = Vec::new();
    if with_ranks {
        header.push("rank");
    }
    header.extend(["thread", "socket", "memory", "core"]);
    if with_llcs {
        header.push("LLC");
    }
    header.push("cpu");
    let rows: Vec<Vec<String>> = document
        .threads
        .iter()
        .map(|thread| {
            let mut row = Vec::new();
            if with_ranks {
                row.push(thread.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()));
            }
            row.push(thread.thread.to_string());
            row.push(ranges(&thread.sockets));
            row.push(memory(thread));
            row.push(ranges(&thread.cores));
            if with_llcs {
                row.push(ranges(&thread.llcs));
            }
            row.push(ranges(&thread.cpus));
            row
        })
        .collect();
    table(style, &header, &rows, &(0..header.len()).collect::<Vec<_>>())
}

/// Where the memory goes: the node that first touch gives, or the policy with its nodes.
fn memory(thread: &nodegauge_placement::json::ThreadEntry) -> String {
    match (&thread.memory.nodes, thread.memory.policy) {
        (Some(nodes), policy) => format!("{policy} {}", ranges(nodes)),
        (None, _) => ranges(&thread.numa_nodes),
    }
}

/// The pairs of hardware threads between which messages are measured.
pub fn pairs(rows: &[PairRow], style: Style) -> String {
    let two = |ends: [u32; 2]| format!("{} - {}", ends[0], ends[1]);
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let node = |node: Option<u32>| node.map_or_else(|| "-".to_owned(), |n| n.to_string());
            vec![
                row.distance.words().to_owned(),
                two(row.cpus),
                two(row.cores),
                format!("{} - {}", node(row.numa_nodes[0]), node(row.numa_nodes[1])),
                two(row.sockets),
            ]
        })
        .collect();
    table(style, &["distance", "cpus", "cores", "NUMA nodes", "sockets"], &rows, &[])
}
