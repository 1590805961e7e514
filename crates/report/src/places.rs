//! The text of `places`: where each thread and its memory go, in the columns of the ccNUMA
//! lecture (rank, socket, memory, core), with cache and CPU.

use crate::table::{Style, table};
use nodegauge_machine::number_ranges;
use nodegauge_placement::json::{PlacesDocument, ThreadEntry};
use nodegauge_placement::pairs::PairRow;

/// A table with one line a thread; columns that say nothing on this machine are left out.
///
/// Ranks are shown in the lecture's columns: their memory as nodes, with what the policy does with
/// them in a line below; thread numbers only where a rank has several, CPUs only where they are not
/// numbered like their cores.
pub fn render(document: &PlacesDocument, style: Style) -> String {
    let threads = &document.threads;
    let ranks = threads.iter().any(|thread| thread.rank.is_some());
    let shown = |column: &Column| match column.name {
        "rank" => ranks,
        "thread" => !ranks || threads.iter().any(|thread| thread.thread > 0),
        "LLC" => document.topology.llcs > 0,
        "cpu" => !ranks || threads.iter().any(|thread| thread.cpus != thread.cores),
        _ => true,
    };
    let memory = if ranks { nodes } else { memory };
    let columns = [
        Column { name: "rank", cell: |t| t.rank.map_or("-".to_owned(), |rank| rank.to_string()) },
        Column { name: "thread", cell: |t| t.thread.to_string() },
        Column { name: "socket", cell: |t| number_ranges(&t.sockets) },
        Column { name: "memory", cell: memory },
        Column { name: "core", cell: |t| number_ranges(&t.cores) },
        Column { name: "LLC", cell: |t| number_ranges(&t.llcs) },
        Column { name: "cpu", cell: |t| number_ranges(&t.cpus) },
    ];
    let columns: Vec<Column> = columns.into_iter().filter(shown).collect();
    let header: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let row = |thread| columns.iter().map(|column| (column.cell)(thread)).collect();
    let rows: Vec<Vec<String>> = threads.iter().map(row).collect();
    let mut text = table(style, &header, &rows, &(0..header.len()).collect::<Vec<_>>());
    if ranks && let Some(first) = threads.first() {
        text.push_str(&format!("memory: {}\n", in_words(first.memory.policy)));
    }
    text
}

struct Column {
    name: &'static str,
    cell: fn(&ThreadEntry) -> String,
}

/// Where the memory goes: the node that first touch gives, or the policy with its nodes.
fn memory(thread: &ThreadEntry) -> String {
    match (&thread.memory.nodes, thread.memory.policy) {
        (Some(nodes), policy) => format!("{policy} {}", number_ranges(nodes)),
        (None, _) => number_ranges(&thread.numa_nodes),
    }
}

/// The nodes of the memory, whatever is done with them.
fn nodes(thread: &ThreadEntry) -> String {
    number_ranges(thread.memory.nodes.as_ref().unwrap_or(&thread.numa_nodes))
}

/// What a memory policy does with the nodes in the table.
fn in_words(policy: &str) -> &str {
    match policy {
        "bind" => "bound to these nodes",
        "interleave" => "interleaved over these nodes",
        "preferred" => "on this node while it has room",
        "local" => "on the node of the CPU that touches it first (local)",
        _ => "nothing said; on the node of the CPU that touches it first",
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
                row.distance.name().to_owned(),
                two(row.cpus),
                two(row.cores),
                format!("{} - {}", node(row.numa_nodes[0]), node(row.numa_nodes[1])),
                two(row.sockets),
            ]
        })
        .collect();
    table(style, &["distance", "cpus", "cores", "NUMA nodes", "sockets"], &rows, &[])
}
