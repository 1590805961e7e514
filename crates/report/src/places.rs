//! Pages of `places`: the locations of the threads and of their memory. The columns are those of the ccNUMA lecture
//! (rank, socket, memory, core), and cache and CPU.

use crate::machine;
use nodegauge_gauge::view::{Block, Column, Section, Table, TableCell};
use nodegauge_machine::number_ranges as ranges;
use nodegauge_placement::RankDevice;
use nodegauge_placement::json::{PlacesDocument, ThreadEntry};
use nodegauge_placement::pairs::PairRow;

/// Column of the table of places.
struct PlacesColumn {
    /// True if the column has information on this machine.
    shown: bool,
    title: &'static str,
    cell: fn(&ThreadEntry) -> String,
}

impl PlacesColumn {
    fn new(shown: bool, title: &'static str, cell: fn(&ThreadEntry) -> String) -> Self {
        Self { shown, title, cell }
    }
}

/// Returns a table with one line per thread. Columns without information on this machine are left out.
///
/// Ranks are shown in the columns of the lecture. The column for memory shows the NUMA nodes; a line below the table
/// shows the policy. Thread numbers are shown only if a rank has several threads, and CPU numbers only if they differ
/// from the core numbers.
pub fn view(document: &PlacesDocument) -> Section {
    let threads = &document.threads;
    let ranks = threads.iter().any(|thread| thread.rank.is_some());
    let several_threads = threads.iter().any(|t| t.thread > 0);
    let cpus_differ = threads.iter().any(|t| t.cpus != t.cores);
    let has_devices = threads.iter().any(|t| !t.devices.is_empty());
    let mut columns = vec![
        PlacesColumn::new(ranks, "rank", rank),
        PlacesColumn::new(!ranks || several_threads, "thread", |t| t.thread.to_string()),
        PlacesColumn::new(true, "socket", |t| ranges(&t.sockets)),
        PlacesColumn::new(true, "memory", if ranks { nodes } else { memory }),
        PlacesColumn::new(true, "core", |t| ranges(&t.cores)),
        PlacesColumn::new(document.topology.llcs > 0, "LLC", |t| ranges(&t.llcs)),
        PlacesColumn::new(!ranks || cpus_differ, "cpu", |t| ranges(&t.cpus)),
        PlacesColumn::new(has_devices, "device", devices),
    ];
    columns.retain(|column| column.shown);
    let mut table = Table::default();
    for PlacesColumn { title, .. } in &columns {
        // Numbers are right-aligned, addresses left-aligned.
        table.columns.push(Column { title: (*title).into(), right: *title != "device" });
    }
    for thread in threads {
        table.row(columns.iter().map(|column| TableCell::text((column.cell)(thread))));
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

/// Returns the rank of a thread.
fn rank(thread: &ThreadEntry) -> String {
    thread.rank.map_or("-".to_owned(), |rank| rank.to_string())
}

/// Returns the location of the memory: the NUMA node of first touch, or the policy with its nodes.
fn memory(thread: &ThreadEntry) -> String {
    match (&thread.memory.nodes, thread.memory.policy) {
        (Some(nodes), policy) => format!("{policy} {}", ranges(nodes)),
        (None, _) => ranges(&thread.numa_nodes),
    }
}

/// Returns the NUMA nodes of the memory without the policy.
fn nodes(thread: &ThreadEntry) -> String {
    ranges(thread.memory.nodes.as_ref().unwrap_or(&thread.numa_nodes))
}

/// Returns the devices of a thread's rank, with number and bus address.
fn devices(thread: &ThreadEntry) -> String {
    let device = |device: &RankDevice| {
        let far = if device.near == Some(false) { " (far)" } else { "" };
        format!("{} {}{far}", device.number, device.address)
    };
    thread.devices.iter().map(device).collect::<Vec<_>>().join(", ")
}

/// Describes how a memory policy uses the nodes in the table.
fn in_words(policy: &str) -> &str {
    match policy {
        "bind" => "bound to these nodes",
        "interleave" => "interleaved over these nodes",
        "preferred" => "on this node as long as it has free memory",
        "local" => "on the node of the CPU that touches it first (local)",
        _ => "no policy; on the node of the CPU that touches it first",
    }
}

/// Returns the table of pairs of hardware threads between which messages are measured.
pub fn pairs(rows: &[PairRow]) -> Section {
    let two = |ends: [u32; 2]| TableCell::text(format!("{} - {}", ends[0], ends[1]));
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
        section.push(Block::Text("no pairs: there is only one hardware thread".to_owned()));
    }
    section
}
