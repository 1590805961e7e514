//! Checks of memory: pages, background activity of the kernel, limits and memory modules.

use super::{DetectedProblem, ExaminedNode, found};
use crate::catalog::SocketMemory;
use crate::topology::TopologySource;
use crate::{dimms, host, memory};
use nodegauge_measure::record::Severity;
use nodegauge_measure::{Bytes, BytesPerSec, stream_rule};

/// Share of free memory in blocks of at least 2 MiB, below which huge pages are scarce. Above it, the kernel finds
/// enough blocks for arrays in half of the free memory.
const MIN_LARGE_BLOCKS: f64 = 0.5;

/// Ratio of used swap space to memory above which pages of a program may be swapped out.
const MAX_SWAP_SHARE: f64 = 0.01;

/// Amount of file data not yet written to disk, divided by the size of the memory, above which disk and memory stay
/// busy for a while.
const MAX_DIRTY_SHARE: f64 = 0.01;

/// Maximum relative difference between the total memory of the NUMA nodes and the memory of the machine. Normally
/// there is no difference, because the kernel counts both in the same way.
const MAX_DIFFERENCE: f64 = 0.02;

/// Ratio of the memory speed to the supported speed, below which rounding (2666, 2667) cannot explain the
/// difference.
const MIN_SPEED_RATIO: f64 = 0.98;

pub(super) fn process_limit_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let memory = &node.machine.memory;
    let limit = memory.process_limit?;
    let all = memory.bytes?;
    (limit < all).then(|| {
        found(
            format!("each process is limited to {} of the node's {}", Bytes(limit), Bytes(all)),
            "ulimit -v unlimited -d unlimited; ask the administrator if the hard limit prevents it",
        )
    })
}

pub(super) fn memory_limit_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let memory = &node.machine.memory;
    let limit = memory.cgroup_limit?;
    let all = memory.bytes?;
    (limit < all).then(|| {
        let left = memory
            .available
            .map_or_else(String::new, |left| format!("; {} are available", Bytes(left)));
        found(
            format!(
                "the control group is limited to {} of the node's {}{left}",
                Bytes(limit),
                Bytes(all)
            ),
            "request all of the memory, e.g. `srun --mem=0`, or `docker run` without --memory",
        )
    })
}

pub(super) fn huge_pages_off_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let pages = node.machine.pages.as_ref()?;
    (pages.thp.as_deref() == Some("never")).then(|| DetectedProblem {
        cost: Some(
            "Triad loses 5 to 10 %, read-only loops lose 25 % (measured on a 2-core Zen 4 guest)",
        ),
        ..found(
            format!(
                "transparent huge pages are off (never): memory is mapped in pages of {}",
                Bytes(pages.base)
            ),
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )
    })
}

pub(super) fn swap_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let memory = &node.machine.memory;
    let used = memory.swap_used.filter(|used| *used > 0)?;
    let all = memory.bytes?;
    let much = used as f64 >= all as f64 * MAX_SWAP_SHARE;
    Some(DetectedProblem {
        severity: much.then_some(Severity::Warning),
        ..found(
            format!(
                "{} are swapped out: memory was short, and reading these pages back requires disk accesses",
                Bytes(used)
            ),
            "sudo swapoff -a && sudo swapon -a",
        )
    })
}

pub(super) fn numa_balancing_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let mode: u32 = node.root.value("proc/sys/kernel/numa_balancing")?;
    // On a machine with a single node, the kernel has no other node to which it could move pages.
    (mode != 0 && node.machine.numa_nodes.len() > 1).then(|| {
        found(
            format!("automatic NUMA balancing is on ({mode}): the kernel unmaps pages to find out which CPUs use them, and moves them during a run"),
            "sudo sysctl kernel.numa_balancing=0",
        )
    })
}

pub(super) fn fragmented_memory_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let share = memory::free_share_in_large_blocks(node.root)?;
    (share.0 < MIN_LARGE_BLOCKS).then(|| {
        found(
            format!(
                "only {} of the free memory is in blocks of 2 MiB or more: huge pages may be unavailable",
                share
            ),
            "echo 1 | sudo tee /proc/sys/vm/compact_memory",
        )
    })
}

/// Reports memory that has been fragmented or swapped out since the node was booted. A reboot removes both problems;
/// some benchmark procedures begin with a reboot.
pub(super) fn degraded_memory_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let memory = &node.machine.memory;
    let all = memory.bytes?;
    let up = node.machine.circumstances.as_ref()?.uptime_seconds?;
    let share =
        memory::free_share_in_large_blocks(node.root).filter(|share| share.0 < MIN_LARGE_BLOCKS);
    let pieces = share.map(|share| format!("only {share} of the free memory is in large blocks"));
    let swapped = memory.swap_used.filter(|used| *used as f64 >= all as f64 * MAX_SWAP_SHARE);
    let swapped = swapped.map(|used| format!("{} are swapped out", Bytes(used)));
    let signs: Vec<String> = [pieces, swapped].into_iter().flatten().collect();
    (!signs.is_empty()).then(|| {
        found(
            format!(
                "the node has been up for {}, and {}",
                host::uptime_in_words(up),
                signs.join(", and ")
            ),
            "reboot before the measurement: sudo shutdown -r now",
        )
    })
}

pub(super) fn dirty_pages_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let info = memory::info(node.root);
    let dirty = info.dirty?;
    let all = info.total?;
    (dirty as f64 >= all as f64 * MAX_DIRTY_SHARE).then(|| {
        found(
            format!(
                "{} of file data have not been written yet: writing them keeps disks and memory busy",
                Bytes(dirty)
            ),
            "sync",
        )
    })
}

/// Returns the memory of the processor according to the catalog; `None` if the catalog contains only an upper
/// bound.
fn catalog_memory(node: &ExaminedNode<'_>) -> Option<SocketMemory> {
    node.processor()?.memory.filter(|memory| !memory.at_most)
}

/// Reports memory channels without a module, according to the firmware. The number of channels comes from the catalog;
/// for an unknown processor, it is the number of channels for which the board has slots.
pub(super) fn empty_channels_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let memory = &node.machine.memory;
    let figure = memory.theoretical.as_ref().filter(|figure| figure.basis == "DMI")?;
    let used = memory.channels?;
    let listed = used + memory.empty_channels.len() as u32;
    let sockets = node.machine.processor.sockets;
    let all = catalog_memory(node).map_or(listed, |supported| supported.channels * sockets);
    if used >= all {
        return None;
    }
    // Boards may have slots of channels that this processor does not have.
    let names: &[String] = if listed == all { &memory.empty_channels } else { &[] };
    let rate = BytesPerSec(figure.value);
    let limit = format!("the theoretical bandwidth is at most {used}/{all} of the maximum, {rate}");
    let text = match names {
        [name] => format!("memory channel {name} is empty: {limit}"),
        [] => format!("only {used} of {all} memory channels have a module: {limit}"),
        names => format!(
            "only {used} of {all} memory channels have a module: {limit}; empty: {}",
            names.join(", ")
        ),
    };
    Some(found(text, "install a module of the same kind in every channel"))
}

/// Reports channels with different amounts of memory, according to the firmware. The kernel interleaves addresses
/// over all channels only for the part of the memory that every channel has.
pub(super) fn unequal_channels_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let channels = dimms::group_by_channel(&node.machine.memory.dimms);
    let min = channels.iter().min_by_key(|channel| channel.bytes)?;
    let max = channels.iter().max_by_key(|channel| channel.bytes)?;
    (min.bytes < max.bytes).then(|| {
        found(
            format!(
                "memory channels have unequal capacities: {} on {}, {} on {}; at most {} are spread over all {} channels, the rest over fewer",
                Bytes(max.bytes),
                max.channel,
                Bytes(min.bytes),
                min.channel,
                Bytes(min.bytes * channels.len() as u64),
                channels.len()
            ),
            "install the same modules in every channel, or measure with arrays that fit into the part that is spread over all channels",
        )
    })
}

/// Reports memory modules that run at a lower speed than the processors support.
pub(super) fn module_speed_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let memory = &node.machine.memory;
    memory.theoretical.as_ref().filter(|figure| figure.basis == "DMI")?;
    let runs = memory.transfers_per_s?;
    let supported = catalog_memory(node)?.transfers_per_s;
    (runs < supported * MIN_SPEED_RATIO).then(|| {
        found(
            format!("memory runs at {runs}, the processor supports {supported}"),
            "check for slower modules, two modules per channel, and a power-saving setting in the firmware",
        )
    })
}

pub(super) fn zone_reclaim_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let mode: u32 = node.root.value("proc/sys/vm/zone_reclaim_mode")?;
    (mode != 0 && node.machine.numa_nodes.len() > 1).then(|| {
        found(
            format!("vm.zone_reclaim_mode is {mode}: a full NUMA node drops file caches before it allocates from another node, which delays allocation"),
            "sudo sysctl vm.zone_reclaim_mode=0",
        )
    })
}

pub(super) fn changing_memory_size_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let sum = node.machine.numa_nodes.iter().map(|node| node.bytes).sum::<Option<u64>>()?;
    let all = node.machine.memory.bytes?;
    let is_known = sum > 0;
    (is_known && sum.abs_diff(all) as f64 > all as f64 * MAX_DIFFERENCE).then(|| {
        found(
            format!(
                "the NUMA nodes have {} of memory in total, but the kernel has {}: the hypervisor adds and removes memory of this guest",
                Bytes(sum),
                Bytes(all)
            ),
            "use the value in /proc/meminfo; numactl and lstopo show the sum of the NUMA nodes",
        )
    })
}

pub(super) fn no_reserved_pages_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let huge = &node.machine.pages.as_ref()?.huge;
    let smallest = huge.first()?;
    let is_none = huge.iter().all(|size| size.total == 0);
    let pages = stream_array_pages(node, smallest.bytes);
    is_none.then(|| {
        let count = pages.map_or("COUNT".to_owned(), |pages| pages.to_string());
        let purpose = pages.map_or("", |_| " (for the arrays of stream)");
        found(
            format!("no huge pages are reserved: --pages {} will fail", page_text(smallest.bytes)),
            format!(
                "echo {count} | sudo tee /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages{purpose}",
                smallest.bytes >> 10
            ),
        )
    })
}

/// Number of arrays of `stream`.
const ARRAYS: u64 = 3;

/// Returns the number of pages of this size that the arrays of `stream` need: the size of STREAM's rule, at most
/// half of the available memory.
fn stream_array_pages(node: &ExaminedNode<'_>, page: u64) -> Option<u64> {
    let array = stream_rule::min_array_bytes(node.machine)?.0;
    // One more page per array, because each array may begin within a page.
    let pages = (array.div_ceil(page) + 1) * ARRAYS;
    let max = node.machine.memory.available? / 2 / page;
    Some(pages.min(max)).filter(|pages| *pages > 0)
}

/// Formats a page size in the notation of the option `--pages`, e.g. `2m` or `1g`.
fn page_text(bytes: u64) -> String {
    Bytes(bytes).to_string().replace(" MiB", "m").replace(" GiB", "g").replace(" KiB", "k")
}

/// Reports that the theoretical bandwidth is unknown.
pub(super) fn unknown_theoretical_bandwidth_problem(
    node: &ExaminedNode<'_>,
) -> Option<DetectedProblem> {
    node.machine.memory.theoretical.is_none().then(|| {
        found(
            "the theoretical memory bandwidth is unknown: results cannot be compared with it",
            if node.topology.source == TopologySource::Live {
                "specify the populated channels, e.g. `nodegauge machine --dimms 16x3200` for 16 channels at 3200 MT/s, or run as root to read them from firmware"
            } else {
                "specify the populated channels, e.g. `nodegauge machine --dimms 16x3200` for 16 channels at 3200 MT/s"
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DescribeOptions, SysRoot, Topology, describe};
    use nodegauge_measure::record::SystemSettings;

    /// Returns the advice to reboot for a recorded system that was booted `days` ago.
    fn advice(system: &str, days: Option<u64>) -> Option<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/systems/");
        let root = SysRoot::recorded(format!("{folder}{system}"));
        let source = TopologySource::Synthetic("Package:1 NUMANode:1 Core:2 PU:1".to_owned());
        let topology = Topology::load(&source).unwrap();
        let mut machine = describe(&topology, &root, &DescribeOptions::default());
        let info = memory::info(&root);
        machine.memory.bytes = info.total;
        machine.memory.swap_used = info.swap_used;
        let uptime_seconds = days.map(|days| days * 86_400);
        machine.circumstances =
            Some(SystemSettings { uptime_seconds, ..SystemSettings::default() });
        degraded_memory_problem(&ExaminedNode {
            topology: &topology,
            root: &root,
            machine: &machine,
        })
        .map(|found| found.text)
    }

    #[test]
    fn fragmented_or_swapped_memory_gives_advice_to_reboot() {
        let fragmented = advice("turin-kvm-guest", Some(40)).unwrap();
        assert!(
            fragmented.starts_with("the node has been up for 40 days, and only "),
            "{fragmented}"
        );
        assert!(fragmented.ends_with("of the free memory is in large blocks"), "{fragmented}");
        let swapped = advice("rome-bare-metal", Some(3));
        assert_eq!(
            swapped.as_deref(),
            Some("the node has been up for 3 days, and 4 GiB are swapped out")
        );
        // Uptime alone is no sign, and without it nothing is known about a reboot.
        assert_eq!(advice("milan-channel-empty", Some(400)), None);
        assert_eq!(advice("turin-kvm-guest", None), None);
    }

    #[test]
    fn page_size_is_printed_as_option_value() {
        assert_eq!(page_text(2 << 20), "2m");
        assert_eq!(page_text(1 << 30), "1g");
    }
}
