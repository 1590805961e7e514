//! The views of `places`: where each thread and its memory go, in the columns of the ccNUMA
//! lecture (rank, socket, memory, core), with cache and CPU.

use crate::machine;
use nodegauge_gauge::view::{Block, Cell, Column, Section, Table};
use nodegauge_machine::number_ranges as ranges;
use nodegauge_placement::RankDevice;
use nodegauge_placement::json::{PlacesDocument, ThreadEntry};
use nodegauge_placement::pairs::PairRow;

/// A column: whether it says something on this machine, its title, its cells.
type Shown = (bool, &'static str, fn(&ThreadEntry) -> String);

/// A table with one line a thread; columns that say nothing on this machine are left out.
///
/// Ranks are shown in the lecture's columns: their memory as nodes, with what the policy does with
/// them in a line below; thread numbers only where a rank has several, CPUs only where they are not
/// numbered like their cores.
pub fn view(document: &PlacesDocument) -> Section {
    let threads = &document.threads;
    let ranks = threads.iter().any(|thread| thread.rank.is_some());
    let columns: [Shown; 8] = [
        (ranks, "rank", |t| t.rank.map_or("-".to_owned(), |rank| rank.to_string())),
        (!ranks || threads.iter().any(|t| t.thread > 0), "thread", |t| t.thread.to_string()),
        (true, "socket", |t| ranges(&t.sockets)),
        (true, "memory", if ranks { nodes } else { memory }),
        (true, "core", |t| ranges(&t.cores)),
        (document.topology.llcs > 0, "LLC", |t| ranges(&t.llcs)),
        (!ranks || threads.iter().any(|t| t.cpus != t.cores), "cpu", |t| ranges(&t.cpus)),
        (threads.iter().any(|t| !t.devices.is_empty()), "device", devices),
    ];
    let columns: Vec<Shown> = columns.into_iter().filter(|(shown, ..)| *shown).collect();
    // Numbers are right-aligned; addresses are read from the left.
    let right = |title: &str| title != "device";
    let titles =
        columns.iter().map(|(_, title, _)| Column { title: (*title).into(), right: right(title) });
    let mut table = Table { columns: titles.collect(), ..Table::default() };
    for thread in threads {
        table.row(columns.iter().map(|(.., cell)| Cell::text(cell(thread))));
    }
    let mut section = Section::new("places");
    section.push(table);
    if let Some(first) = threads.first().filter(|_| ranks) {
        section.push(Block::Text(format!("memory: {}", in_words(first.memory.policy))));
    }
    if let Some(known) = &document.inherited {
        section.push(Block::Text(format!("inherited: {}", machine::inherited(known))));
    }
    section
}

/// Where the memory goes: the node that first touch gives, or the policy with its nodes.
fn memory(thread: &ThreadEntry) -> String {
    match (&thread.memory.nodes, thread.memory.policy) {
        (Some(nodes), policy) => format!("{policy} {}", ranges(nodes)),
        (None, _) => ranges(&thread.numa_nodes),
    }
}

/// The nodes of the memory, whatever is done with them.
fn nodes(thread: &ThreadEntry) -> String {
    ranges(thread.memory.nodes.as_ref().unwrap_or(&thread.numa_nodes))
}

/// The devices of a thread's rank, each with its number and its place on the bus.
fn devices(thread: &ThreadEntry) -> String {
    let device = |device: &RankDevice| {
        let far = if device.near == Some(false) { " (far)" } else { "" };
        format!("{} {}{far}", device.number, device.address)
    };
    thread.devices.iter().map(device).collect::<Vec<_>>().join(", ")
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
pub fn pairs(rows: &[PairRow]) -> Section {
    let two = |ends: [u32; 2]| Cell::text(format!("{} - {}", ends[0], ends[1]));
    let node = |node: Option<u32>| node.map_or_else(|| "-".to_owned(), |node| node.to_string());
    let mut table = Table::new(&["distance", "cpus", "cores", "NUMA nodes", "sockets"]);
    for row in rows {
        let nodes = row.numa_nodes.map(node).join(" - ");
        let distance = row.distance.name().into();
        table.row([distance, two(row.cpus), two(row.cores), nodes.into(), two(row.sockets)]);
    }
    let mut section = Section::new("pairs");
    section.push(table);
    if rows.is_empty() {
        section.push(Block::Text("one hardware thread has no partner".to_owned()));
    }
    section
}
