//! Memory: pages, what moves or reclaims them behind a program's back, limits, modules.

use super::{Examined, Found, found, percent};
use crate::catalog::SocketMemory;
use crate::memory;
use nodegauge_measure::record::Severity;
use nodegauge_measure::{Bytes, BytesPerSec};

/// Share of free memory in blocks of 2 MiB below which huge pages are hard to get. Above it, the
/// kernel finds enough of them for arrays of half the free memory.
const FRAGMENTED: f64 = 0.5;

/// Swap in use from which a program's own pages may be out, as a share of memory.
const SWAPPED: f64 = 0.01;

/// Unwritten data that keeps the disk and memory busy for a while, as a share of memory.
const DIRTY: f64 = 0.01;

/// How far the nodes' sum may be from the machine's memory: the kernel counts both alike.
const NODES_DIFFER: f64 = 0.02;

/// A speed this far under what the processor supports is not a rounding of the name (2666, 2667).
const SLOWER: f64 = 0.98;

pub(super) fn limit(node: &Examined<'_>) -> Option<Found> {
    let memory = &node.machine.memory;
    let (limit, all) = (memory.cgroup_limit?, memory.bytes?);
    (limit < all).then(|| {
        let left =
            memory.available.map_or_else(String::new, |left| format!("; {} are left", Bytes(left)));
        found(
            format!(
                "the control group may take {} of the node's {}{left}",
                Bytes(limit),
                Bytes(all)
            ),
            "ask for all of the memory, e.g. `srun --mem=0`, `docker run` without --memory",
        )
    })
}

pub(super) fn huge_pages_off(node: &Examined<'_>) -> Option<Found> {
    let pages = node.machine.pages.as_ref()?;
    (pages.thp.as_deref() == Some("never")).then(|| Found {
        cost: Some(
            "Triad 5 to 10 %, loops that only read a quarter (measured on a 2-core Zen 4 guest)",
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

pub(super) fn swap(node: &Examined<'_>) -> Option<Found> {
    let memory = &node.machine.memory;
    let (used, all) = (memory.swap_used.filter(|used| *used > 0)?, memory.bytes?);
    let much = used as f64 >= all as f64 * SWAPPED;
    Some(Found {
        severity: much.then_some(Severity::Warning),
        ..found(
            format!(
                "{} are swapped out: memory was short, and reading them back takes the disk's time",
                Bytes(used)
            ),
            "sudo swapoff -a && sudo swapon -a",
        )
    })
}

pub(super) fn balancing(node: &Examined<'_>) -> Option<Found> {
    let mode: u32 = node.root.value("proc/sys/kernel/numa_balancing")?;
    // With one node there is nowhere to move pages to.
    (mode != 0 && node.machine.numa_nodes.len() > 1).then(|| {
        found(
            format!("automatic NUMA balancing is on ({mode}): the kernel unmaps pages to see who uses them, and moves them during a run"),
            "sudo sysctl kernel.numa_balancing=0",
        )
    })
}

pub(super) fn fragmented(node: &Examined<'_>) -> Option<Found> {
    let share = memory::share_in_large_blocks(node.root)?;
    (share < FRAGMENTED).then(|| {
        found(
            format!(
                "{} of the free memory lies in blocks of 2 MiB or more: huge pages may not be had",
                percent(share)
            ),
            "echo 1 | sudo tee /proc/sys/vm/compact_memory",
        )
    })
}

pub(super) fn dirty(node: &Examined<'_>) -> Option<Found> {
    let info = memory::info(node.root);
    let (dirty, all) = (info.dirty?, info.total?);
    (dirty as f64 >= all as f64 * DIRTY).then(|| {
        found(
            format!(
                "{} of file data wait to be written: disks and memory are busy with them",
                Bytes(dirty)
            ),
            "sync",
        )
    })
}

/// The memory of the processor, where the catalog does not only know its upper limit.
fn sure(node: &Examined<'_>) -> Option<SocketMemory> {
    node.processor()?.memory.filter(|memory| !memory.at_most)
}

/// Channels that the processors have and that hold no module, by firmware's list.
pub(super) fn channels(node: &Examined<'_>) -> Option<Found> {
    let memory = &node.machine.memory;
    let figure = memory.theoretical.as_ref().filter(|figure| figure.basis == "DMI")?;
    let supported = sure(node)?;
    let all = supported.channels * node.machine.processor.sockets;
    let used = memory.channels.filter(|used| *used < all)?;
    Some(found(
        format!(
            "{used} of {all} memory channels hold a module: at most {} can be reached",
            BytesPerSec(figure.value)
        ),
        "put a module of the same kind into every channel",
    ))
}

/// Modules that run slower than the processors support.
pub(super) fn speed(node: &Examined<'_>) -> Option<Found> {
    let memory = &node.machine.memory;
    memory.theoretical.as_ref().filter(|figure| figure.basis == "DMI")?;
    let (runs, supported) = (memory.transfers_per_s?, sure(node)?.transfers_per_s);
    (runs < supported * SLOWER).then(|| {
        found(
            format!("memory runs at {:.0} MT/s, the processor supports {:.0}", runs / 1e6, supported / 1e6),
            "look for slower modules, for two modules on a channel, and for a power-saving setting in the firmware",
        )
    })
}

pub(super) fn reclaim(node: &Examined<'_>) -> Option<Found> {
    let mode: u32 = node.root.value("proc/sys/vm/zone_reclaim_mode")?;
    (mode != 0 && node.machine.numa_nodes.len() > 1).then(|| {
        found(
            format!("vm.zone_reclaim_mode is {mode}: a full node drops file caches before it takes memory of another, which delays allocation"),
            "sudo sysctl vm.zone_reclaim_mode=0",
        )
    })
}

pub(super) fn growing(node: &Examined<'_>) -> Option<Found> {
    let sum = node.machine.numa_nodes.iter().map(|node| node.bytes).sum::<Option<u64>>()?;
    let all = node.machine.memory.bytes?;
    (sum.abs_diff(all) as f64 > all as f64 * NODES_DIFFER).then(|| {
        found(
            format!(
                "the NUMA nodes' memory sums to {}, the kernel can use {}: memory comes and goes under this guest",
                Bytes(sum),
                Bytes(all)
            ),
            "believe /proc/meminfo; numactl and lstopo show the former",
        )
    })
}

pub(super) fn none_reserved(node: &Examined<'_>) -> Option<Found> {
    let huge = &node.machine.pages.as_ref()?.huge;
    let smallest = huge.first()?;
    huge.iter().all(|size| size.total == 0).then(|| {
        found(
            format!("no huge pages are reserved: --pages {} will find none", short(smallest.bytes)),
            format!(
                "echo COUNT | sudo tee /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages",
                smallest.bytes >> 10
            ),
        )
    })
}

/// `2m`, `1g`: page sizes as the option names them.
fn short(bytes: u64) -> String {
    Bytes(bytes).to_string().replace(" MiB", "m").replace(" GiB", "g").replace(" KiB", "k")
}

/// A theoretical bandwidth that no source gives.
pub(super) fn theoretical(node: &Examined<'_>) -> Option<Found> {
    node.machine.memory.theoretical.is_none().then(|| {
        found(
            "the theoretical memory bandwidth is not known: results are not held against it",
            "say what is populated, e.g. `--dimms 16x3200` for 16 channels at 3200 MT/s, or run as root to read it from firmware",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_named_as_the_option_takes_them() {
        assert_eq!(short(2 << 20), "2m");
        assert_eq!(short(1 << 30), "1g");
    }
}
