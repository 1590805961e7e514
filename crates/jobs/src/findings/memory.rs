//! Findings on the memory of processes: NUMA nodes, page sizes, and swapped memory.

use super::{finding, process_names};
use crate::cpus::CpuTable;
use crate::document::{JobHost, JobProcess, PrivateMemory};
use nodegauge_machine::{CpuId, number_ranges};
use nodegauge_measure::quantity::number_form;
use nodegauge_measure::record::{Finding, Severity};
use nodegauge_measure::{Bytes, Fraction};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum share of far memory for a finding.
const MAJORITY: f64 = 0.5;
/// Minimum share of the memory on one NUMA node that suggests that a single thread touched all memory first.
const NEARLY_ALL: f64 = 0.9;
/// Minimum memory for which small pages cost time: with 4 KiB pages, the second-level TLB of current processors covers
/// less.
const MANY_PAGES: Bytes = Bytes(1 << 30);
/// Maximum share of huge pages with which memory counts as memory on small pages.
const FEW_HUGE: f64 = 0.1;
/// Minimum share of swapped memory for a finding. Pages that a program uses only at its start may be swapped out
/// without harm.
const SWAPPED: f64 = 0.01;

pub(super) fn findings(host: &JobHost, table: &CpuTable<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(swapped(host));
    // If this program runs in place of the user's program, its own memory is irrelevant.
    if !host.in_place {
        found.extend(far_memory(host, table));
        found.extend(single_node_memory(host, table));
        found.extend(small_pages(host));
    }
    found
}

/// Returns the memory of a process if its NUMA nodes matter: if the process is busy, and its memory is larger than the
/// caches in use and not interleaved.
fn placed_memory<'h>(process: &'h JobProcess, table: &CpuTable<'_>) -> Option<&'h PrivateMemory> {
    let memory = process.memory.as_ref()?;
    let cpus: Vec<CpuId> = process.used_cpus().into_iter().map(CpuId).collect();
    let caches = table.topology.llc_bytes_and_count(&cpus).map_or(0, |(bytes, _)| bytes);
    let is_interleaved = memory.policy.contains("interleave");
    (memory.bytes() > caches && !is_interleaved && process.is_busy()).then_some(memory)
}

/// Finds processes most of whose memory is on another socket than their threads, or on another NUMA node of the same
/// socket.
fn far_memory(host: &JobHost, table: &CpuTable<'_>) -> Vec<Finding> {
    let mut on_other_socket: Vec<&JobProcess> = Vec::new();
    let mut on_other_node: Vec<&JobProcess> = Vec::new();
    for process in &host.processes {
        let Some(memory) = placed_memory(process, table) else { continue };
        let sockets = table.sockets(&process.used_cpus());
        let nodes: BTreeSet<u32> =
            process.used_cpus().iter().filter_map(|cpu| table.numa_node_number(*cpu)).collect();
        let mut other_socket = 0;
        let mut other_node = 0;
        for (node, bytes) in &memory.nodes {
            // Memory on a NUMA node without CPUs, e.g. HBM, is equally far from all sockets.
            let Some(socket) = node_socket(table, *node) else { continue };
            if !sockets.contains(&socket) {
                other_socket += bytes;
            } else if !nodes.contains(node) {
                other_node += bytes;
            }
        }
        let half = MAJORITY * memory.bytes() as f64;
        if other_socket as f64 > half {
            on_other_socket.push(process);
        } else if (other_socket + other_node) as f64 > half {
            on_other_node.push(process);
        }
    }
    let mut found = Vec::new();
    found.extend(far(&on_other_socket, "memory-on-other-socket", "another socket"));
    found.extend(far(&on_other_node, "memory-on-other-node", "another NUMA node"));
    found
}

fn far(hit: &[&JobProcess], id: &str, place: &str) -> Option<Finding> {
    let first = hit.first()?;
    let memory = first.memory.as_ref()?;
    let verb = number_form(hit.len(), "has", "have");
    let share = memory.local.unwrap_or_default().in_whole_percent();
    let text = format!(
        "{} {verb} most memory on {place}: {} of the memory of {} is local, threads on NUMA {}, memory on NUMA {}",
        process_names(hit),
        share,
        first.title(),
        thread_nodes(first),
        number_ranges(memory.nodes.keys()),
    );
    let severity =
        if id == "memory-on-other-socket" { Severity::Critical } else { Severity::Warning };
    let remedy = "bind each rank before it allocates: numactl --localalloc with bound CPUs, or --cpunodebind with \
                  --membind of the same node; with threads, initialise arrays in parallel";
    Some(finding(id, severity, text, remedy))
}

fn thread_nodes(process: &JobProcess) -> String {
    let nodes: BTreeSet<u32> =
        process.working_threads().filter_map(|thread| thread.numa_node).collect();
    number_ranges(&nodes)
}

/// Returns the socket of a NUMA node; `None` for a node without CPUs.
fn node_socket(table: &CpuTable<'_>, node: u32) -> Option<u32> {
    let known = table.topology.nodes.iter().find(|known| known.id.0 == node)?;
    table.socket_number(known.cpus.first()?.0)
}

/// Finds processes whose threads are on several NUMA nodes and whose memory is on only one of them.
fn single_node_memory(host: &JobHost, table: &CpuTable<'_>) -> Option<Finding> {
    let mut hit: Vec<&JobProcess> = Vec::new();
    let mut target = 0;
    for process in &host.processes {
        let Some(memory) = placed_memory(process, table) else { continue };
        let mut threads_on: BTreeMap<u32, usize> = BTreeMap::new();
        for node in process.working_threads().filter_map(|thread| thread.numa_node) {
            *threads_on.entry(node).or_default() += 1;
        }
        let Some((node, bytes)) = memory.nodes.iter().max_by_key(|(_, bytes)| **bytes) else {
            continue;
        };
        let is_one = *bytes as f64 >= NEARLY_ALL * memory.bytes() as f64;
        if threads_on.len() > 1 && is_one && threads_on.contains_key(node) {
            target = *node;
            hit.push(process);
        }
    }
    let first = hit.first()?;
    let verb = number_form(hit.len(), "has", "have");
    let text = format!(
        "{} {verb} all memory on one NUMA node, {} on NUMA {target}, with threads on NUMA {}",
        process_names(&hit),
        first.title(),
        thread_nodes(first),
    );
    let remedy = "initialise arrays in parallel, by the threads that use them (first touch), or numactl --interleave=all";
    Some(finding("memory-on-one-node", Severity::Warning, text, remedy))
}

/// Finds processes with much memory on small pages.
fn small_pages(host: &JobHost) -> Option<Finding> {
    let hit: Vec<&JobProcess> = host
        .processes
        .iter()
        .filter(|process| {
            let Some(memory) = &process.memory else { return false };
            let few = memory.huge_page_share().is_some_and(|share| share.0 < FEW_HUGE);
            memory.bytes() >= MANY_PAGES.0 && few && nodegauge_os::page_bytes() <= 4096
        })
        .collect();
    let first = hit.first()?;
    let memory = first.memory.as_ref()?;
    let verb = number_form(hit.len(), "has", "have");
    let text = format!(
        "{} {verb} memory on 4 KiB pages: {} of {}, {} on larger pages",
        process_names(&hit),
        Bytes(memory.bytes()),
        first.title(),
        memory.huge_page_share().unwrap_or_default().in_whole_percent(),
    );
    let remedy = "transparent huge pages: madvise in the program, GLIBC_TUNABLES=glibc.malloc.hugetlb=1, or always in \
                  /sys/kernel/mm/transparent_hugepage/enabled";
    Some(finding("small-pages", Severity::Info, text, remedy))
}

/// Finds processes with swapped memory.
fn swapped(host: &JobHost) -> Option<Finding> {
    let hit: Vec<&JobProcess> = host
        .processes
        .iter()
        .filter(|process| {
            let swapped = process.swapped.unwrap_or(0) as f64;
            let resident = process.resident.unwrap_or(0) as f64;
            swapped > SWAPPED * (swapped + resident)
        })
        .collect();
    let first = hit.first()?;
    let verb = number_form(hit.len(), "has", "have");
    let swapped = first.swapped.unwrap_or_default();
    let resident = first.resident.unwrap_or_default();
    let share = Fraction(swapped as f64 / (swapped + resident).max(1) as f64);
    let text = format!(
        "{} {verb} memory swapped out: {}, {} of the memory of {}",
        process_names(&hit),
        Bytes(swapped),
        share.in_whole_percent(),
        first.title(),
    );
    let remedy = "use less memory per node: fewer ranks, smaller arrays, or more nodes; to make the job fail \
                  instead of swapping, run swapoff (as root)";
    Some(finding("swapped", Severity::Critical, text, remedy))
}
