//! Memory as reported by the kernel: sizes, swap, page sizes, huge pages, free blocks. The module only reads values.
//! The limits of control groups are in [`crate::cgroup`], memory modules and channels in `dimms`.

use crate::ids::NumaNodeId;
use crate::root::{SysRoot, number_after_key};
use crate::{cgroup, process_limits};
use nodegauge_measure::record::{HugePages, NumaNode, PageSettings};
use nodegauge_measure::{Bytes, BytesPerSec, Fraction, Seconds};

/// Minimum size of a large block, which is a huge page of 2 MiB.
const MIN_LARGE_BLOCK: Bytes = Bytes::mib(2);

/// Contents of `/proc/meminfo` in bytes; a missing field is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemInfo {
    /// Usable memory of the machine, in bytes.
    pub total: Option<u64>,
    /// Memory that is available without swapping, in bytes.
    pub available: Option<u64>,
    /// Swap space in use, in bytes.
    pub swap_used: Option<u64>,
    /// File data that programs have written but that have not reached the disk yet, in bytes.
    pub dirty: Option<u64>,
}

/// Reads `/proc/meminfo`. On a live machine without it, e.g. in a container without `/proc`, the system call reports
/// the total and the free memory.
pub fn info(root: &SysRoot) -> MemInfo {
    let Some(text) = root.text("proc/meminfo") else {
        return if root.is_live() { from_system_call() } else { MemInfo::default() };
    };
    let swap = number_after_key(&text, "SwapTotal").zip(number_after_key(&text, "SwapFree"));
    let unwritten = number_after_key(&text, "Dirty").zip(number_after_key(&text, "Writeback"));
    MemInfo {
        total: number_after_key(&text, "MemTotal"),
        available: number_after_key(&text, "MemAvailable"),
        swap_used: swap.map(|(total, free)| total - free.min(total)),
        dirty: unwritten.map(|(dirty, writeback)| dirty + writeback),
    }
}

fn from_system_call() -> MemInfo {
    let memory = nodegauge_os::system_memory();
    MemInfo {
        total: memory.map(|memory| memory.total),
        available: memory.map(|memory| memory.free),
        ..MemInfo::default()
    }
}

/// Returns the memory in bytes that this process can still use, within its own limits and those of its control
/// groups; `None` if it is unknown.
pub fn remaining_bytes(root: &SysRoot) -> Option<u64> {
    let of_groups = cgroup::limits(root).memory_left;
    let of_process = process_limits::limits(root).memory_left;
    [info(root).available, of_groups, of_process].into_iter().flatten().min()
}

/// Returns the total, the free and the available memory of a NUMA node in bytes. Available memory can be used without
/// swapping.
pub(crate) fn numa_node_memory(root: &SysRoot, node: NumaNodeId) -> Option<(u64, u64, u64)> {
    let text = root.text(&format!("sys/devices/system/node/node{node}/meminfo"))?;
    // Lines have the form `Node 0 MemTotal:  1234 kB`.
    let prefix = format!("Node {node} ");
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
    let fields = lines.join("\n");
    let free = number_after_key(&fields, "MemFree")?;
    // The kernel does not report MemAvailable per node. Its formula for the whole machine counts at most half of the
    // page cache as available.
    let cache = ["Active(file)", "Inactive(file)", "SReclaimable"];
    let cache: u64 = cache.into_iter().filter_map(|key| number_after_key(&fields, key)).sum();
    Some((number_after_key(&fields, "MemTotal")?, free, free + cache / 2))
}

/// Returns the online NUMA nodes with their memory sizes in bytes.
pub(crate) fn numa_node_sizes(root: &SysRoot) -> Vec<(NumaNodeId, u64)> {
    let online = root.numbers("sys/devices/system/node/online").unwrap_or_default();
    let mut nodes = Vec::new();
    for node in online.into_iter().map(NumaNodeId) {
        if let Some((bytes, ..)) = numa_node_memory(root, node) {
            nodes.push((node, bytes));
        }
    }
    nodes
}

/// Returns the size in bytes of the memory-side caches of a NUMA node, such as HBM in cache mode; `None` if the kernel
/// reports no such cache.
pub(crate) fn memory_side_cache_bytes(root: &SysRoot, node: NumaNodeId) -> Option<u64> {
    let folder = format!("sys/devices/system/node/node{node}/memory_side_cache");
    let levels = root.names(&folder).into_iter().filter(|name| name.starts_with("index"));
    let bytes = levels.map(|level| root.value::<u64>(&format!("{folder}/{level}/size")));
    bytes.sum::<Option<u64>>().filter(|bytes| *bytes > 0)
}

/// Bandwidth and latency that the firmware reports (HMAT), for accesses from the nearest CPUs to the memory of a
/// NUMA node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FirmwareMemorySpeed {
    /// NUMA nodes of these CPUs.
    pub initiators: Vec<NumaNodeId>,
    /// Read bandwidth.
    pub read: Option<BytesPerSec>,
    /// Write bandwidth.
    pub write: Option<BytesPerSec>,
    /// Latency of a read.
    pub latency: Option<Seconds>,
}

/// Returns the values of the firmware for a NUMA node; `None` if the kernel reports none. In the kernel's files,
/// the units are MB/s and ns.
pub fn firmware_memory_speed(root: &SysRoot, node: NumaNodeId) -> Option<FirmwareMemorySpeed> {
    // Class 1 contains only CPUs, class 0 other initiators of accesses, too; older kernels have only class 0.
    let folders = ["access1", "access0"]
        .map(|class| format!("sys/devices/system/node/node{node}/{class}/initiators"));
    let folder = folders.into_iter().find(|folder| !root.names(folder).is_empty())?;
    let names = root.names(&folder);
    let initiators = names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    let access = FirmwareMemorySpeed {
        initiators: initiators.map(NumaNodeId).collect(),
        read: firmware_value(root, &folder, "read_bandwidth").map(|mb| BytesPerSec(mb * 1e6)),
        write: firmware_value(root, &folder, "write_bandwidth").map(|mb| BytesPerSec(mb * 1e6)),
        latency: firmware_value(root, &folder, "read_latency").map(|ns| Seconds(ns * 1e-9)),
    };
    let is_empty = access.read.is_none() && access.write.is_none() && access.latency.is_none();
    (!is_empty).then_some(access)
}

/// Returns a value of the firmware; `None` if it is zero, which means unknown.
fn firmware_value(root: &SysRoot, folder: &str, file: &str) -> Option<f64> {
    root.value(&format!("{folder}/{file}")).filter(|value| *value > 0.0)
}

/// Returns the relative distances from a NUMA node to all NUMA nodes.
pub(crate) fn numa_distances(root: &SysRoot, node: NumaNodeId) -> Option<Vec<u32>> {
    let text = root.text(&format!("sys/devices/system/node/node{node}/distance"))?;
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// Returns the page sizes and huge pages of the machine.
pub(crate) fn pages(root: &SysRoot) -> PageSettings {
    let thp =
        |file: &str| chosen(&root.text(&format!("sys/kernel/mm/transparent_hugepage/{file}"))?);
    PageSettings {
        base: nodegauge_os::page_bytes() as u64,
        thp: thp("enabled"),
        thp_defrag: thp("defrag"),
        huge: huge_pages_below(root, "sys/kernel/mm/hugepages"),
    }
}

/// Returns the reserved huge pages of one NUMA node by page size.
pub fn numa_node_huge_pages(root: &SysRoot, node: NumaNodeId) -> Vec<HugePages> {
    huge_pages_below(root, &format!("sys/devices/system/node/node{node}/hugepages"))
}

fn huge_pages_below(root: &SysRoot, folder: &str) -> Vec<HugePages> {
    let mut sizes: Vec<HugePages> = root
        .names(folder)
        .iter()
        .filter_map(|name| {
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some(HugePages {
                bytes: kib << 10,
                total: root.value(&format!("{folder}/{name}/nr_hugepages"))?,
                free: root.value(&format!("{folder}/{name}/free_hugepages"))?,
            })
        })
        .collect();
    sizes.sort_by_key(|size| size.bytes);
    sizes
}

/// Returns the selected value of a kernel setting, which is in brackets: `madvise` for `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(choice, _)| choice.to_owned())
}

/// Returns the share (0 to 1) of free memory in blocks of at least 2 MiB, from `/proc/buddyinfo`. The kernel can use
/// these blocks as huge pages immediately.
pub(crate) fn free_share_in_large_blocks(root: &SysRoot) -> Option<Fraction> {
    large_share(&root.text("proc/buddyinfo")?, nodegauge_os::page_bytes() as u64)
}

fn large_share(buddyinfo: &str, page: u64) -> Option<Fraction> {
    let mut all = 0u64;
    let mut large = 0u64;
    // Lines have the form `Node 0, zone   Normal   1146   1614 ...`: numbers of free blocks of 1, 2, 4, ...
    // pages.
    for line in buddyinfo.lines() {
        let blocks = line.split_whitespace().skip(4);
        for (order, count) in blocks.enumerate() {
            let bytes = count.parse::<u64>().ok()?.saturating_mul(page << order);
            all += bytes;
            if page << order >= MIN_LARGE_BLOCK.0 {
                large += bytes;
            }
        }
    }
    (all > 0).then(|| Fraction(large as f64 / all as f64))
}

/// Kind of the memory in modules.
const DRAM: &str = "DRAM";

/// True if the memory of a NUMA node is known not to be DRAM. A rank such as `tier 1` does not identify the kind.
pub(crate) fn is_known_not_dram(node: &NumaNode) -> bool {
    let kind = node.kind.as_deref().filter(|kind| !kind.starts_with("tier "));
    node.device.is_none() && kind.is_some_and(|kind| kind != DRAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_value_is_read_from_brackets() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always defer [defer+madvise] never").as_deref(), Some("defer+madvise"));
        assert_eq!(chosen("no choice"), None);
    }

    #[test]
    fn free_memory_in_large_blocks_is_read() {
        // There are 512 single pages and one block of 512 pages, so that half of the memory is in a large block.
        let text = "Node 0, zone   Normal    512 0 0 0 0 0 0 0 0 1 0";
        assert_eq!(large_share(text, 4096), Some(Fraction(0.5)));
        assert_eq!(large_share("Node 0, zone   Normal 0 0", 4096), None);
        // With pages of 64 KiB, blocks of 32 pages are large.
        assert_eq!(large_share("Node 0, zone   Normal 32 0 0 0 0 1", 65536), Some(Fraction(0.5)));
    }

    #[test]
    fn memory_is_read_from_proc_and_from_system_call() {
        let info = info(&SysRoot::live());
        assert!(info.total > info.available && info.available > Some(0));
        assert!(remaining_bytes(&SysRoot::live()) > Some(0));
        // Without /proc, the system call reports the same memory, and no more of it is available.
        let called = from_system_call();
        let total = |of: MemInfo| of.total.unwrap() as f64;
        assert!((total(called) / total(info) - 1.0).abs() < 0.1, "{called:?} {info:?}");
        assert!(called.available > Some(0) && called.available < called.total);
        assert!(pages(&SysRoot::live()).base.is_power_of_two());
    }

    #[test]
    fn firmware_values_have_units_and_initiators() {
        let folder = tempfile::tempdir().unwrap();
        let initiators = folder.path().join("sys/devices/system/node/node2/access0/initiators");
        std::fs::create_dir_all(initiators.join("node0")).unwrap();
        let values =
            [("read_bandwidth", "5120"), ("write_bandwidth", "0"), ("read_latency", "250")];
        for (file, value) in values {
            std::fs::write(initiators.join(file), value).unwrap();
        }
        let root = SysRoot::recorded(folder.path());
        let access = firmware_memory_speed(&root, NumaNodeId(2)).unwrap();
        assert_eq!(access.initiators, [NumaNodeId(0)]);
        assert_eq!((access.read, access.write), (Some(BytesPerSec(5.12e9)), None));
        assert!((access.latency.unwrap().0 - 250e-9).abs() < 1e-15);
        assert_eq!(firmware_memory_speed(&root, NumaNodeId(0)), None);
    }

    #[test]
    fn memory_in_cache_mode_is_cache_of_numa_node() {
        let folder = tempfile::tempdir().unwrap();
        let level = folder.path().join("sys/devices/system/node/node1/memory_side_cache/index1");
        std::fs::create_dir_all(&level).unwrap();
        std::fs::write(level.join("size"), "68719476736\n").unwrap();
        let root = SysRoot::recorded(folder.path());
        assert_eq!(memory_side_cache_bytes(&root, NumaNodeId(1)), Some(64 << 30));
        assert_eq!(memory_side_cache_bytes(&root, NumaNodeId(0)), None);
    }
}
