//! Limits with which a figure is compared: the same rule for sentences, tables and pictures.

use nodegauge_measure::Unit;
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Limit, Machine, Measurement};
use serde::Serialize;
use std::collections::BTreeSet;

/// Value that the cores of a figure are known to reach. It is the end of the figure's bar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttainableValue {
    /// Value in the unit of the figure.
    pub value: f64,
    /// Source of this value, e.g. `fastest loop of this run`.
    pub basis: String,
}

/// Limits of a figure. If the run used the whole component that the figure's own limit (e.g. the theoretical bandwidth)
/// describes, this limit is the first, and the best value that the run itself reached is the second. If the run used
/// only a part, e.g. a few threads of a node, the best value of the run is the first limit, and the figure's own limit
/// is a remark.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FigureLimits {
    /// Limit to which the share refers.
    pub first: Option<AttainableValue>,
    /// Second limit, which pictures show as a mark next to the first; `None` if there is none.
    pub second: Option<AttainableValue>,
    /// Sentence about a limit that the run may be unable to reach; empty if there is none.
    pub remark: String,
}

impl FigureLimits {
    /// Returns the limits of a figure. `reach` is the best value that the run itself reached on the same cores.
    pub fn new(m: &Measurement, reach: Option<AttainableValue>, machine: &Machine) -> Self {
        let reach = reach.filter(|reach| reach.value > 0.0);
        let Some(own) = m.limit.as_ref().filter(|limit| limit.value > 0.0) else {
            return Self { first: reach, ..Self::default() };
        };
        if let Some(why) = partial_memory_reason(m, machine) {
            let whole = m.unit.in_words(own.value);
            let share = own.fraction.in_tenths();
            let remark = format!(
                "{share} of {whole} ({}), the limit of the whole memory; the run used only a part of it: {why}",
                own.basis
            );
            return Self { first: reach, second: None, remark };
        }
        let first = Some(AttainableValue { value: own.value, basis: own.basis.clone() });
        Self { first, second: reach, remark: String::new() }
    }
}

/// Returns the reason why a run used only a part of the memory whose theoretical bandwidth is its limit. Returns `None`
/// if the run used all of it according to the record, and for other limits. The number of lines that a core can request
/// simultaneously limits a thread to about the rate of one channel, so fewer threads than channels count as a part.
pub fn partial_memory_reason(m: &Measurement, machine: &Machine) -> Option<String> {
    let limit = m.limit.as_ref().filter(|_| m.unit == Unit::BytesPerSecond)?;
    let share = memory_share(limit, machine)?;
    if machine.virtualisation.is_some() {
        return Some("a virtual machine seldom has all of it".to_owned());
    }
    let nodes = machine.numa_nodes.iter().filter(|node| !node.cpus.is_empty());
    let places: Vec<Vec<u32>> = m.read_key::<shared::places>().unwrap_or_default();
    let cpus: BTreeSet<u32> = places.into_iter().flatten().collect();
    let used = nodes.clone().filter(|node| node.cpus.iter().any(|cpu| cpus.contains(cpu))).count();
    let needed = part_count(share, nodes.count());
    if !cpus.is_empty() && used < needed {
        return Some(format!("threads on {used} of its {needed} NUMA nodes"));
    }
    let threads = m.read_key::<shared::threads>().max(m.read_key::<shared::processes>())?;
    let channels = part_count(share, machine.memory.channels? as usize);
    // If memory has more channels than there are cores, all cores together count as using all channels. The cores of an
    // imported run are unknown.
    let cores = part_count(share, machine.processor.cores as usize);
    let enough = if cores == 0 { channels } else { channels.min(cores) };
    (threads < enough as u64).then(|| {
        format!(
            "{} for its {}",
            count_in_words(threads as usize, "thread"),
            count_in_words(channels, "channel")
        )
    })
}

/// Returns the number of parts, out of `all`, that corresponds to a share.
fn part_count(share: f64, all: usize) -> usize {
    (all as f64 * share).round() as usize
}

/// Returns the share of the memory that a theoretical bandwidth describes: all of it or some NUMA nodes; `None` for
/// other limits.
fn memory_share(limit: &Limit, machine: &Machine) -> Option<f64> {
    let whole = machine.memory.theoretical.as_ref()?;
    let is_of_nodes = limit.basis.ends_with("NUMA nodes") && limit.value < whole.value;
    (limit.value == whole.value || is_of_nodes).then(|| limit.value / whole.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::{NumaNode, QuotedStatistic, TheoreticalValue};
    use serde_json::json;

    /// Returns a node with two sockets, 16 cores and 8 channels each, whose theoretical bandwidth is 409.6 GB/s.
    fn node() -> Machine {
        let mut machine = Machine::default();
        let theoretical = TheoreticalValue {
            value: 409.6e9,
            basis: "option".to_owned(),
            detail: None,
            at_most: false,
        };
        machine.memory.theoretical = Some(theoretical);
        machine.memory.channels = Some(16);
        machine.processor.cores = 32;
        machine.numa_nodes = [0, 1].map(|id| of_cpus(id, 16)).to_vec();
        machine
    }

    fn of_cpus(id: u32, count: u32) -> NumaNode {
        serde_json::from_value(json!({
            "id": id, "bytes": null, "cpus": (id * count..(id + 1) * count).collect::<Vec<u32>>(),
        }))
        .unwrap()
    }

    fn triad(threads: u64, limit: f64, basis: &str) -> Measurement {
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        let mut m = m.with_value(QuotedStatistic::Best, 320e9).with_limit(limit, basis);
        m.config.insert("threads".to_owned(), threads.into());
        m
    }

    fn placed(mut m: Measurement, cpus: std::ops::Range<u32>) -> Measurement {
        let places: Vec<[u32; 1]> = cpus.map(|cpu| [cpu]).collect();
        m.config.insert("places".to_owned(), json!(places));
        m
    }

    fn fastest() -> Option<AttainableValue> {
        Some(AttainableValue { value: 330e9, basis: "fastest loop of this run: add".to_owned() })
    }

    #[test]
    fn whole_node_is_compared_with_the_theoretical_bandwidth() {
        let cases = [
            (triad(16, 409.6e9, "option"), node()),
            (placed(triad(32, 409.6e9, "catalog"), 0..32), node()),
            (triad(8, 204.8e9, "DMI, 1 of 2 NUMA nodes"), node()),
            (placed(triad(16, 204.8e9, "DMI, 1 of 2 NUMA nodes"), 0..16), node()),
        ];
        for (m, machine) in cases {
            let limits = FigureLimits::new(&m, fastest(), &machine);
            assert_eq!(limits.first.map(|of| of.value), m.limit.map(|limit| limit.value));
            assert_eq!(limits.second, fastest());
            assert_eq!(limits.remark, "");
        }
    }

    #[test]
    fn all_cores_count_as_using_all_channels() {
        let mut machine = node();
        machine.memory.channels = Some(72);
        assert_eq!(partial_memory_reason(&triad(32, 409.6e9, "option"), &machine), None);
        assert!(partial_memory_reason(&triad(31, 409.6e9, "option"), &machine).is_some());
    }

    #[test]
    fn partial_run_is_compared_with_its_own_loops() {
        let mut guest = node();
        guest.virtualisation = Some("kvm".to_owned());
        let cases = [
            (triad(2, 409.6e9, "option"), node(), "2 threads for its 16 channels"),
            (triad(1, 204.8e9, "DMI, 1 of 2 NUMA nodes"), node(), "1 thread for its 8 channels"),
            (
                placed(triad(16, 409.6e9, "option"), 0..16),
                node(),
                "threads on 1 of its 2 NUMA nodes",
            ),
            (triad(32, 409.6e9, "option"), guest, "a virtual machine seldom has all of it"),
        ];
        for (m, machine, why) in cases {
            let limits = FigureLimits::new(&m, fastest(), &machine);
            assert_eq!((limits.first, limits.second), (fastest(), None));
            assert!(limits.remark.ends_with(why), "{}", limits.remark);
        }
    }

    #[test]
    fn partial_use_needs_a_thread_count_and_a_memory_limit() {
        let mut unknown = triad(0, 409.6e9, "catalog");
        unknown.config.clear();
        assert_eq!(partial_memory_reason(&unknown, &node()), None);
        assert_eq!(partial_memory_reason(&triad(1, 77e9, "peak in registers"), &node()), None);
        let none = FigureLimits::new(&unknown, None, &Machine::default());
        assert_eq!(none.first.map(|of| of.value), Some(409.6e9));
    }
}
