//! Lists of CPUs in the range notation of Linux (`0-31,64`), and the CPUs of a topology.
//!
//! Pure; every error and record of this crate writes CPUs through [`ranges`], so that they can be
//! pasted into `taskset -c` or a cpuset.

use nodegauge_machine::{CpuId, Topology};

/// Numbers in range notation, sorted and without repeats: `0-3,8`; empty for none.
pub fn number_ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut sorted: Vec<u32> = numbers.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| b - a == 1);
    let words = runs.filter_map(|run| match (run.first()?, run.last()?) {
        (first, last) if first == last => Some(first.to_string()),
        (first, last) => Some(format!("{first}-{last}")),
    });
    words.collect::<Vec<_>>().join(",")
}

/// CPUs in range notation: `0-3,8`.
pub fn ranges(cpus: &[CpuId]) -> String {
    number_ranges(cpus.iter().map(|cpu| cpu.0))
}

/// `1 cache`, `2 caches`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The CPUs that this process may use, in numeric order.
pub fn allowed(topology: &Topology) -> Vec<CpuId> {
    sorted(topology.allowed().map(|thread| thread.cpu))
}

/// The allowed CPUs of each object, in the topology's order of objects; `object` says which one a
/// hardware thread belongs to. Objects without an allowed CPU are left out.
pub(crate) fn grouped(
    topology: &Topology,
    object: impl Fn(&nodegauge_machine::topology::HardwareThread) -> Option<usize>,
) -> Vec<Vec<CpuId>> {
    let mut order: Vec<usize> = Vec::new();
    let mut groups: std::collections::BTreeMap<usize, Vec<CpuId>> =
        std::collections::BTreeMap::new();
    for thread in topology.allowed() {
        let Some(index) = object(thread) else { continue };
        groups
            .entry(index)
            .or_insert_with(|| {
                order.push(index);
                Vec::new()
            })
            .push(thread.cpu);
    }
    order.iter().filter_map(|index| groups.remove(index)).map(sorted).collect()
}

/// Sorted, without repeats.
pub(crate) fn sorted(cpus: impl IntoIterator<Item = CpuId>) -> Vec<CpuId> {
    let mut cpus: Vec<CpuId> = cpus.into_iter().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_into_ranges() {
        assert_eq!(number_ranges([]), "");
        assert_eq!(number_ranges([5, 0, 1, 1, 2, 9, 8]), "0-2,5,8-9");
        assert_eq!(ranges(&[CpuId(u32::MAX - 1), CpuId(u32::MAX)]), "4294967294-4294967295");
    }
}
