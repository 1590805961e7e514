//! Memory that is available to a run, given its policy and its kind of pages.

use crate::{ArenaError, PagedMapping, RequestedPages};
use nodegauge_machine::{NumaNodeId, SysRoot};
use nodegauge_measure::Bytes;
use nodegauge_measure::record::{HugePages, Machine};
use nodegauge_placement::MemoryPolicy;

/// Returns the memory that is available for the arrays of a run, on the NUMA nodes to which the policy binds them. For
/// reserved huge pages, it is the size of the free ones; for other pages, the available memory. Returns `None` if the
/// kernel does not report the memory, e.g. without `/proc`.
pub fn available_memory(
    machine: &Machine,
    pages: Option<RequestedPages>,
    policy: &MemoryPolicy,
) -> Option<Bytes> {
    if let Some(page) = pages.and_then(RequestedPages::reserved_page_size) {
        // When memory is mapped, the kernel checks the reserved pages of all nodes and ignores the policy. If a node of
        // the policy had too few pages, the program would be killed at first touch.
        let free = match policy {
            MemoryPolicy::Bind(nodes) => {
                nodes.iter().map(|node| node_free_bytes(*node, page)).sum()
            }
            _ => machine.pages.as_ref().and_then(|reported| free_in(&reported.huge, page)),
        };
        // `ArraysConfig::check` refuses a run without any reserved pages and reports the reason.
        if let Some(free) = free.filter(|free| *free > 0) {
            return Some(Bytes(free));
        }
    }
    let anywhere = machine.memory.available?;
    let MemoryPolicy::Bind(nodes) = policy else { return Some(Bytes(anywhere)) };
    let there: Option<u64> = nodes.iter().map(|node| available_on(machine, *node)).sum();
    Some(Bytes(there.map_or(anywhere, |there| there.min(anywhere))))
}

/// Returns the size in bytes of the free reserved pages of one page size; `None` if there is no pool for this page
/// size.
fn free_in(pools: &[HugePages], page: Bytes) -> Option<u64> {
    pools.iter().find(|huge| huge.bytes == page.0).map(|huge| huge.free * huge.bytes)
}

/// Returns the size in bytes of a NUMA node's free reserved pages of one page size.
fn node_free_bytes(node: NumaNodeId, page: Bytes) -> Option<u64> {
    free_in(&nodegauge_machine::memory::numa_node_huge_pages(&SysRoot::live(), node), page)
}

/// Returns the available memory of a NUMA node, bytes.
fn available_on(machine: &Machine, id: NumaNodeId) -> Option<u64> {
    machine.numa_nodes.iter().find(|node| node.id == id.0)?.available
}

/// Sets the memory policy of a mapping. It must be set before the mapping is touched.
///
/// # Errors
/// Fails if the kernel refuses the policy, or if the nodes of the policy have too few reserved pages.
pub fn apply_policy(mapping: &PagedMapping, policy: &MemoryPolicy) -> Result<(), ArenaError> {
    let (start, length) = mapping.address_and_length();
    PagedMapping::check_bound(Bytes(length as u64), mapping.requested_pages(), policy, 1)?;
    Ok(policy.apply_to(start, length)?)
}

/// Returns the default pages: transparent huge pages, or base pages if they are disabled in the kernel.
pub fn default_pages(machine: &Machine) -> RequestedPages {
    match machine.pages.as_ref().and_then(|pages| pages.thp.as_deref()) {
        Some("never") | None => RequestedPages::Base,
        Some(_) => RequestedPages::Transparent,
    }
}
