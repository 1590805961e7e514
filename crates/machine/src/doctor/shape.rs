//! Checks for unusual machines: cores of several speeds, unknown cores, memory of several kinds, caches in front of
//! memory, and limited shares of the last-level cache.

use super::{DetectedProblem, ExaminedNode, found};
use crate::memory::is_known_not_dram;
use crate::root::{SysRoot, number_ranges};
use nodegauge_measure::Bytes;
use nodegauge_measure::quantity::{count_in_words, number_form};
use std::collections::{BTreeMap, BTreeSet};

/// Percentage of the memory bandwidth that a resctrl group without a limit may use.
const WHOLE_BANDWIDTH: u32 = 100;

/// Reports that cores belong to several speed classes.
pub(super) fn speed_classes_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let classes = &node.machine.processor.core_classes;
    let parts: Vec<String> = classes
        .iter()
        .map(|class| {
            let cores = count_in_words(class.cores as usize, "core");
            format!("{cores} of class {} (cpus {})", class.name, number_ranges(&class.cpus))
        })
        .collect();
    (parts.len() > 1).then(|| {
        found(
            format!("cores differ in speed: {}; threads use the fast ones", parts.join(", ")),
            "add `--cores all` to measure with all cores, or `--cores slow`",
        )
    })
}

/// Reports that the description has no cores.
pub(super) fn unknown_cores_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    node.topology.lacks_cores.then(|| {
        found(
            "the cores are unknown: each hardware thread counts as a core, although two may share one",
            "measure with half of the threads, too (`--threads`), or run outside the sandbox or guest",
        )
    })
}

/// Reports caches in front of memory.
pub(super) fn side_caches_problem(examined: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let behind = examined.machine.numa_nodes.iter().filter(|node| node.cache_bytes.is_some());
    let nodes: Vec<u32> = behind.clone().map(|node| node.id).collect();
    let largest = behind.filter_map(|node| node.cache_bytes).max()?;
    Some(found(
        format!(
            "the memory of {} is behind memory-side caches of {}: smaller arrays measure the cache",
            numa_nodes_in_words(&nodes),
            Bytes(largest)
        ),
        "keep the automatic size, which counts these caches, or change the memory mode in the firmware",
    ))
}

/// Reports memory of several kinds.
pub(super) fn memory_kinds_problem(examined: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let mut kinds: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for node in examined.machine.numa_nodes.iter().filter(|node| is_known_not_dram(node)) {
        kinds.entry(node.kind.as_deref().unwrap_or_default()).or_default().push(node.id);
    }
    let first = kinds.values().next()?;
    let nodes: Vec<String> = first.iter().map(u32::to_string).collect();
    let parts = kinds.iter().map(|(kind, ids)| {
        let have = number_form(ids.len(), "has", "have");
        format!("{} {have} {kind}", numa_nodes_in_words(ids))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    Some(found(
        format!(
            "memory is of several kinds: {parts}; without a policy, NUMA nodes near the threads are used first"
        ),
        format!("choose the memory, e.g. `--numa bind:{}`", nodes.join(",")),
    ))
}

/// Formats the numbers of NUMA nodes: `NUMA node 1`, `NUMA nodes 2-3`.
fn numa_nodes_in_words(nodes: &[u32]) -> String {
    let noun = number_form(nodes.len(), "NUMA node", "NUMA nodes");
    format!("{noun} {}", number_ranges(nodes))
}

/// Reports limits of the last-level cache and of the memory bandwidth that resctrl sets.
pub(super) fn resctrl_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let group = own_group(node.root)?;
    let folder = format!("sys/fs/resctrl/{}", group.trim_matches('/'));
    let folder = folder.trim_end_matches('/');
    let schemata = node.root.text(&format!("{folder}/schemata"))?;
    let mut limits = BTreeSet::new();
    for line in schemata.lines() {
        let Some((resource, domains)) = line.trim().split_once(':') else { continue };
        let values = domains.split(';').filter_map(|domain| Some(domain.split_once('=')?.1.trim()));
        if resource.starts_with("L3") {
            let all = node.root.text(&format!("sys/fs/resctrl/info/{resource}/cbm_mask"));
            let Some(all) = all.and_then(|text| ways(text.trim())) else { continue };
            let min = values.filter_map(ways).min().filter(|min| *min < all);
            limits.extend(min.map(|min| format!("{min} of {all} ways of the {resource} cache")));
        } else if resource == "MB" {
            let min = values.filter_map(|value| value.parse::<u32>().ok()).min();
            let min = min.filter(|min| *min < WHOLE_BANDWIDTH);
            limits.extend(min.map(|min| format!("{min} % of the memory bandwidth")));
        }
    }
    let limits: Vec<String> = limits.into_iter().collect();
    (!limits.is_empty()).then(|| {
        found(
            format!("resctrl limits this process to {} (group {group})", limits.join(" and ")),
            format!("measure in a group without limits: `echo $$ | sudo tee /sys/fs/resctrl/tasks`, or change /{folder}/schemata"),
        )
    })
}

/// Returns the resctrl group of this process; `None` if resctrl is not mounted.
fn own_group(root: &SysRoot) -> Option<String> {
    let text = root.text("proc/self/cpu_resctrl_groups")?;
    let group = text.lines().find_map(|line| line.strip_prefix("res:"))?.trim().to_owned();
    (!group.is_empty()).then_some(group)
}

/// Returns the number of ways in a bit mask of a cache.
fn ways(mask: &str) -> Option<u32> {
    u64::from_str_radix(mask, 16).ok().map(u64::count_ones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DescribeOptions, Topology, TopologySource, describe};
    use std::fs;

    fn ids(name: &str) -> Vec<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies");
        let source = TopologySource::Xml(format!("{folder}/{name}.xml").into());
        examined(&Topology::load(&source).unwrap())
    }

    fn examined(topology: &Topology) -> Vec<String> {
        let root = SysRoot::live();
        let machine = describe(topology, &root, &DescribeOptions::default());
        let findings = crate::examine(topology, &root, &machine);
        findings
            .into_iter()
            .map(|finding| finding.id)
            .filter(|id| id != "theoretical-unknown")
            .collect()
    }

    #[test]
    fn unusual_machine_shapes_give_findings() {
        assert_eq!(ids("five-kinds"), ["core-classes"]);
        assert_eq!(ids("memory-mode"), ["memory-side-cache"]);
        assert_eq!(ids("hybrid-mode"), ["memory-side-cache", "memory-kinds"]);
        assert!(ids("dgx-h100").is_empty());
        let sandbox = TopologySource::Synthetic("Package:1 PU:8".to_owned());
        assert_eq!(examined(&Topology::load(&sandbox).unwrap()), ["no-cores"]);
    }

    /// Returns the finding for a node whose resctrl group has this schemata.
    fn limit(schemata: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/self/cpu_resctrl_groups", "res:/low\nmon:/\n"),
            ("sys/fs/resctrl/low/schemata", schemata),
            ("sys/fs/resctrl/info/L3/cbm_mask", "fffff\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = SysRoot::recorded(folder.path());
        let source = TopologySource::Synthetic("Package:1 Core:2 PU:1".to_owned());
        let topology = Topology::load(&source).unwrap();
        let machine = describe(&topology, &root, &DescribeOptions::default());
        resctrl_problem(&ExaminedNode { topology: &topology, root: &root, machine: &machine })
            .map(|found| found.text)
    }

    #[test]
    fn resctrl_limits_are_findings() {
        assert_eq!(limit("    MB:0=100\n    L3:0=fffff;1=fffff\n"), None);
        assert_eq!(
            limit("    MB:0=100;1=50\n    L3:0=fffff;1=f\n").as_deref(),
            Some(
                "resctrl limits this process to 4 of 20 ways of the L3 cache and 50 % of the memory bandwidth (group /low)"
            )
        );
    }
}
