//! Lists of CPUs in the range notation of Linux (`0-31,64`), and the CPUs of a topology.
//!
//! The module performs no system calls. All errors and records of this crate format CPUs with [`format_ranges`], so
//! that users can paste the text into `taskset -c` or a cpuset.

use crate::error::PlacementError;
pub use nodegauge_machine::number_ranges;
use nodegauge_machine::topology::HardwareThread;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::quantity::count_in_words;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Formats the items with commas between them.
pub(crate) fn join_with_commas(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

/// Formats CPUs in range notation, e.g. `0-3,8`.
pub fn format_ranges(cpus: &[CpuId]) -> String {
    number_ranges(cpus.iter().map(|cpu| cpu.0))
}

/// Returns the CPUs that this process may use, in numeric order.
pub fn allowed_cpus(topology: &Topology) -> Vec<CpuId> {
    sort_and_deduplicate(topology.allowed_threads().map(|thread| thread.cpu))
}

/// Formats the number and the list of the CPUs that this process may use, e.g. `2 hardware threads (0-1)`.
pub(crate) fn usable_in_words(topology: &Topology) -> String {
    let allowed = allowed_cpus(topology);
    format!("{} ({})", count_in_words(allowed.len(), "hardware thread"), format_ranges(&allowed))
}

/// Groups the allowed CPUs by object (core, cache, ...), in the order of the objects. `object` returns the index of
/// the object to which a hardware thread belongs. Objects without an allowed CPU are omitted.
pub(crate) fn cpus_by_object(
    topology: &Topology,
    object: impl Fn(&HardwareThread) -> Option<usize>,
) -> Vec<Vec<CpuId>> {
    let mut groups: Vec<Vec<CpuId>> = Vec::new();
    let mut known: BTreeMap<usize, usize> = BTreeMap::new();
    for thread in topology.allowed_threads() {
        let Some(index) = object(thread) else { continue };
        let at = *known.entry(index).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(thread.cpu);
    }
    groups.into_iter().map(sort_and_deduplicate).collect()
}

/// Existing and usable CPUs of a machine, for fast look-ups.
pub(crate) struct CpuLookup<'a> {
    topology: &'a Topology,
    allowed: BTreeMap<CpuId, bool>,
}

impl<'a> CpuLookup<'a> {
    pub(crate) fn new(topology: &'a Topology) -> Self {
        let allowed = topology.threads.iter().map(|thread| (thread.cpu, thread.allowed)).collect();
        Self { topology, allowed }
    }

    /// Returns the CPU with this number.
    ///
    /// # Errors
    /// Fails if the machine has no such CPU, or if this process may not use it.
    pub(crate) fn get(&self, number: i64) -> Result<CpuId, PlacementError> {
        let asked = u32::try_from(number).ok().map(CpuId);
        let known = asked.and_then(|cpu| Some((cpu, *self.allowed.get(&cpu)?)));
        if let Some((cpu, true)) = known {
            return Ok(cpu);
        }
        let usable = format_ranges(&allowed_cpus(self.topology));
        Err(PlacementError::new(match known {
            Some((cpu, _)) => {
                format!("cpu {cpu} is not among the CPUs that this process may use ({usable})")
            }
            None => format!(
                "cpu {number} is not on this machine, whose CPUs are {}; this process may use {usable}",
                number_ranges(self.allowed.keys().map(|cpu| cpu.0)),
            ),
        }))
    }
}

/// Sorts the CPUs and removes duplicates.
pub(crate) fn sort_and_deduplicate(cpus: impl IntoIterator<Item = CpuId>) -> Vec<CpuId> {
    let mut sorted: Vec<CpuId> = cpus.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_cpus_are_printed_as_range() {
        assert_eq!(number_ranges::<u32>([]), "");
        assert_eq!(number_ranges([5, 0, 1, 1, 2, 9, 8]), "0-2,5,8-9");
        assert_eq!(format_ranges(&[CpuId(u32::MAX - 1), CpuId(u32::MAX)]), "4294967294-4294967295");
    }
}
