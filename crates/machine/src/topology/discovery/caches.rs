//! Caches of an hwloc topology: caches of cores, and caches in front of memory.

use super::info;
use crate::ids::CpuId;
use crate::topology::{HardwareThread, LastCache, TopologyNumaNode, TopologySource};
use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{CacheType, ObjectType};
use nodegauge_measure::record::{Cache, CacheKind};
use std::collections::{BTreeMap, BTreeSet};

/// Subtype by which hwloc marks a cache in front of memory, e.g. MCDRAM in cache mode.
const MEMORY_SIDE: &str = "MemorySideCache";

/// Kinds of memory that can be a cache of other memory. NUMA nodes of these kinds have no such cache themselves.
const FAST_KINDS: [&str; 2] = ["HBM", "MCDRAM"];

/// Types of caches of cores, in ascending order of level.
const TYPES: [ObjectType; 8] = [
    ObjectType::L1Cache,
    ObjectType::L1ICache,
    ObjectType::L2Cache,
    ObjectType::L2ICache,
    ObjectType::L3Cache,
    ObjectType::L3ICache,
    ObjectType::L4Cache,
    ObjectType::L5Cache,
];

/// True if the object is a cache in front of memory. Older descriptions list such caches among the caches of cores.
fn is_memory_side(cache: &TopologyObject) -> bool {
    let by_subtype = cache.subtype().is_some_and(|name| name.to_bytes() == MEMORY_SIDE.as_bytes());
    by_subtype || info(cache, "Type").as_deref() == Some(MEMORY_SIDE)
}

/// Returns the caches of cores of one type.
fn core_caches(hwloc: &Hwloc, kind: ObjectType) -> Vec<&TopologyObject> {
    hwloc.objects_with_type(kind).filter(|cache| !is_memory_side(cache)).collect()
}

/// Returns the type of the highest level of data or unified caches above level 1.
pub(super) fn last_level_cache_type(hwloc: &Hwloc) -> Option<ObjectType> {
    [ObjectType::L5Cache, ObjectType::L4Cache, ObjectType::L3Cache, ObjectType::L2Cache]
        .into_iter()
        .find(|kind| !core_caches(hwloc, *kind).is_empty())
}

/// Caches of cores.
pub(super) struct CoreCaches {
    /// Caches by level, type and size.
    pub caches: Vec<Cache>,
    /// Last data cache of every hardware thread that has one.
    pub last: Vec<LastCache>,
}

impl CoreCaches {
    /// Reads the caches of cores. `threads` are all hardware threads of the machine.
    pub fn from_hwloc(hwloc: &Hwloc, source: &TopologySource, threads: &[HardwareThread]) -> Self {
        let cores: BTreeMap<CpuId, usize> =
            threads.iter().map(|thread| (thread.cpu, thread.core)).collect();
        let mut found = Self { caches: Vec::new(), last: Vec::new() };
        let mut users: Vec<BTreeSet<CpuId>> = Vec::new();
        for kind in TYPES {
            for (bytes, caches) in by_size(&core_caches(hwloc, kind), source) {
                let Some(cache) = described(&caches, bytes, source, &cores) else { continue };
                if cache.contains_data() {
                    for object in caches {
                        let cpus = super::cpus(object.cpuset());
                        let entry = found.caches.len();
                        found.last.push(LastCache { entry, cpus: Vec::new() });
                        users
                            .push(cpus.into_iter().filter(|cpu| cores.contains_key(cpu)).collect());
                    }
                }
                found.caches.push(cache);
            }
        }
        // The types are in ascending order of level, so that the last cache of a hardware thread is found first here.
        let mut seen = BTreeSet::new();
        for (last, cpus) in found.last.iter_mut().zip(users).rev() {
            last.cpus = cpus.into_iter().filter(|cpu| seen.insert(*cpu)).collect();
        }
        found.last.retain(|last| !last.cpus.is_empty());
        found
    }
}

/// Returns the caches of one type by size, the smallest first. The size is `None` if it is unknown.
fn by_size<'a>(
    caches: &[&'a TopologyObject],
    source: &TopologySource,
) -> BTreeMap<Option<u64>, Vec<&'a TopologyObject>> {
    let mut sizes: BTreeMap<Option<u64>, Vec<&TopologyObject>> = BTreeMap::new();
    for cache in caches {
        let Some(ObjectAttributes::Cache(attributes)) = cache.attributes() else { continue };
        let bytes = attributes.size().map(std::num::NonZero::get);
        let is_known = has_known_size(source, attributes.depth() as u32);
        sizes.entry(bytes.filter(|_| is_known)).or_default().push(cache);
    }
    sizes
}

/// True if the source contains the size of the caches of this level. For a synthetic machine without cache sizes, hwloc
/// assumes sizes, so that the real size is unknown.
fn has_known_size(source: &TopologySource, level: u32) -> bool {
    match source {
        TopologySource::Synthetic(text) => crate::synthetic::contains_cache_size(text, level),
        TopologySource::Live | TopologySource::Xml(_) => true,
    }
}

/// Describes caches of one type and size; `None` if there are none. `cores` contains the core of each hardware thread.
fn described(
    caches: &[&TopologyObject],
    bytes: Option<u64>,
    source: &TopologySource,
    cores: &BTreeMap<CpuId, usize>,
) -> Option<Cache> {
    let Some(ObjectAttributes::Cache(first)) = caches.first()?.attributes() else { return None };
    let level = first.depth() as u32;
    let line = first.line_size().map(|line| line.get() as u32);
    let counts: Vec<u32> = caches.iter().map(|cache| cache_cores(cache, cores)).collect();
    let max = counts.iter().copied().max().unwrap_or(0);
    Some(Cache {
        level,
        kind: match first.cache_type() {
            CacheType::Instruction => CacheKind::Instruction,
            CacheType::Data => CacheKind::Data,
            _ => CacheKind::Unified,
        },
        bytes,
        line: line.filter(|_| has_known_size(source, level)),
        count: caches.len() as u32,
        cores: max,
        least_cores: counts.into_iter().min().filter(|min| *min < max),
    })
}

/// Returns the number of cores that share a cache.
fn cache_cores(cache: &TopologyObject, cores: &BTreeMap<CpuId, usize>) -> u32 {
    let sharing: BTreeSet<usize> =
        super::cpus(cache.cpuset()).iter().filter_map(|cpu| cores.get(cpu).copied()).collect();
    sharing.len() as u32
}

/// Adds the sizes of caches in front of memory to the NUMA nodes behind them. The CPUs and kinds of the NUMA nodes
/// must be set.
pub(super) fn add_memory_side_caches(hwloc: &Hwloc, nodes: &mut [TopologyNumaNode]) {
    for cache in hwloc.objects_with_type(ObjectType::MemCache) {
        let behind: BTreeSet<u32> = cache
            .nodeset()
            .map(|set| set.iter_set().map(|node| usize::from(node) as u32).collect())
            .unwrap_or_default();
        add(cache, nodes.iter_mut().filter(|node| behind.contains(&node.id.0)));
    }
    for kind in TYPES {
        for cache in hwloc.objects_with_type(kind).filter(|cache| is_memory_side(cache)) {
            let cpus: BTreeSet<CpuId> = super::cpus(cache.cpuset()).into_iter().collect();
            let is_behind = |node: &&mut TopologyNumaNode| {
                let is_fast = node.kind.as_deref().is_some_and(|name| FAST_KINDS.contains(&name));
                !is_fast && node.cpus.iter().any(|cpu| cpus.contains(cpu))
            };
            add(cache, nodes.iter_mut().filter(is_behind));
        }
    }
}

/// Adds the size of a cache to NUMA nodes.
fn add<'a>(cache: &TopologyObject, nodes: impl Iterator<Item = &'a mut TopologyNumaNode>) {
    let bytes = match cache.attributes() {
        Some(ObjectAttributes::Cache(attributes)) => attributes.size().map(std::num::NonZero::get),
        _ => size_in_text(&format!("{cache:?}")),
    };
    let Some(bytes) = bytes else { return };
    for node in nodes {
        node.cache_bytes = Some(node.cache_bytes.unwrap_or(0) + bytes);
    }
}

/// Returns the size of a cache in bytes from hwloc's full text, which contains it in KiB: `size=1048576KB`. The
/// bindings have no attributes for caches in front of memory.
fn size_in_text(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("size=")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let (kib, unit) = rest.split_at(digits);
    let is_kib = unit.starts_with("KB") || unit.starts_with("KiB");
    kib.parse::<u64>().ok().filter(|_| is_kib)?.checked_shl(10)
}

#[cfg(test)]
mod tests {
    use super::size_in_text;

    #[test]
    fn memory_side_cache_size_is_read_from_text() {
        assert_eq!(size_in_text("MemCache (size=1048576KB, linesize=64)"), Some(1 << 30));
        assert_eq!(size_in_text("MemCache (size=16KiB)"), Some(16 << 10));
        assert_eq!(size_in_text("MemCache (size=16GB)"), None);
        assert_eq!(size_in_text("MemCache"), None);
    }
}
