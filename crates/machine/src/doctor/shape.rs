//! Checks for unusual machines: cores of several speeds, unknown cores, memory of several kinds, caches in front of
//! memory, and limited shares of the last-level cache.

use super::{DetectedProblem, ExaminedNode, found};
use crate::memory::is_known_not_dram;
use crate::root::{SysRoot, number_ranges};
use crate::topology::TopologySource;
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
    if parts.len() < 2 {
        return None;
    }
    let topology = node.topology;
    let has_usable_cores =
        |class: &usize| topology.allowed_threads().any(|thread| thread.speed_class == Some(*class));
    let usable = (0..topology.core_classes.len()).rev().filter(has_usable_cores);
    let usable: Vec<String> = usable.map(|class| topology.speed_class_name(class)).collect();
    let (used, remedy) = match usable.as_slice() {
        [] => return None,
        [only] => (
            format!("this process may use only {only} cores"),
            whole_node(node, "run without taskset, or request all CPUs of the node"),
        ),
        [fastest, .., slowest] => (
            format!("threads use the {fastest} ones"),
            format!("add `--cores all` to measure with all cores, or `--cores {slowest}`"),
        ),
    };
    Some(found(format!("cores differ in speed: {}; {used}", parts.join(", ")), remedy))
}

/// Returns the advice to use the whole node: `live` for a live machine, and the way to describe it otherwise.
fn whole_node(node: &ExaminedNode<'_>, live: &str) -> String {
    if node.topology.source == TopologySource::Live {
        return live.to_owned();
    }
    "describe the whole node: run lstopo outside of jobs and containers, and without taskset"
        .to_owned()
}

/// Reports NUMA nodes whose memory this process may not use.
pub(super) fn forbidden_memory_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let nodes = &node.topology.nodes;
    let forbidden = nodes.iter().filter(|one| one.is_forbidden && one.bytes != Some(0));
    let bytes: Option<u64> = forbidden.clone().map(|one| one.bytes).sum();
    let ids: Vec<u32> = forbidden.map(|one| one.id.0).collect();
    if ids.is_empty() {
        return None;
    }
    let size = bytes.map_or_else(String::new, |bytes| format!(" ({})", Bytes(bytes)));
    Some(found(
        format!("this process may not use the memory of {}{size}", numa_nodes_in_words(&ids)),
        whole_node(node, "request all memory of the node, e.g. `srun --exclusive --mem=0`"),
    ))
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
    let caches = number_form(nodes.len(), "a memory-side cache", "memory-side caches");
    Some(found(
        format!(
            "the memory of {} is behind {caches} of {}: smaller arrays measure the cache",
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
    let has_others = examined
        .machine
        .numa_nodes
        .iter()
        .any(|node| node.device.is_none() && node.bytes != Some(0) && !is_known_not_dram(node));
    if kinds.len() + usize::from(has_others) < 2 {
        return None;
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
    use crate::{DescribeOptions, Topology, describe};
    use std::fs;

    fn recorded(name: &str) -> Topology {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies");
        Topology::load(&TopologySource::Xml(format!("{folder}/{name}.xml").into())).unwrap()
    }

    fn ids(name: &str) -> Vec<String> {
        examined(&recorded(name))
    }

    /// Returns what `check` finds in a described machine.
    fn checked(
        topology: &Topology,
        check: fn(&ExaminedNode<'_>) -> Option<DetectedProblem>,
    ) -> Option<DetectedProblem> {
        let root = SysRoot::live();
        let machine = describe(topology, &root, &DescribeOptions::default());
        check(&ExaminedNode { topology, root: &root, machine: &machine })
    }

    #[test]
    fn remedy_for_core_classes_names_usable_classes() {
        let mut topology = recorded("three-classes");
        let all = checked(&topology, speed_classes_problem).unwrap();
        assert!(all.text.ends_with("threads use the fast ones"), "{all:?}");
        assert!(all.remedy.ends_with("or `--cores slow`"), "{all:?}");
        topology.threads.iter_mut().for_each(|thread| thread.allowed &= thread.cpu.0 >= 8);
        let without_fast = checked(&topology, speed_classes_problem).unwrap();
        assert!(without_fast.text.ends_with("threads use the class2 ones"), "{without_fast:?}");
        topology.threads.iter_mut().for_each(|thread| thread.allowed &= thread.cpu.0 >= 12);
        let one = checked(&topology, speed_classes_problem).unwrap();
        assert!(one.text.ends_with("this process may use only slow cores"), "{one:?}");
        assert!(one.remedy.starts_with("describe the whole node"), "{one:?}");
        assert_eq!(checked(&recorded("split-core-kinds"), speed_classes_problem), None);
    }

    #[test]
    fn memory_that_may_not_be_used_is_found() {
        let topology = recorded("disallowed-nodes");
        let problem = checked(&topology, forbidden_memory_problem).unwrap();
        assert_eq!(problem.text, "this process may not use the memory of NUMA node 1 (64 GiB)");
        let counted: Vec<u32> = topology.host_numa_nodes().map(|node| node.id.0).collect();
        assert_eq!(counted, [0]);
        let machine = describe(&topology, &SysRoot::live(), &DescribeOptions::default());
        assert_eq!(machine.memory.bytes, Some(64 << 30));
        assert_eq!(checked(&recorded("empty-node"), forbidden_memory_problem), None);
    }

    #[test]
    fn single_memory_side_cache_is_in_the_singular() {
        let found = checked(&recorded("hybrid-mode"), side_caches_problem).unwrap();
        assert!(found.text.contains("NUMA node 0 is behind a memory-side cache of"), "{found:?}");
    }

    #[test]
    fn single_kind_of_memory_is_no_finding() {
        let topology = recorded("hbm-only");
        assert_eq!(checked(&topology, memory_kinds_problem), None);
        assert!(!examined_with_all(&topology).contains(&"theoretical-unknown".to_owned()));
        assert!(checked(&recorded("hybrid-mode"), memory_kinds_problem).is_some());
    }

    fn examined(topology: &Topology) -> Vec<String> {
        let mut ids = examined_with_all(topology);
        ids.retain(|id| id != "theoretical-unknown");
        ids
    }

    fn examined_with_all(topology: &Topology) -> Vec<String> {
        let root = SysRoot::live();
        let machine = describe(topology, &root, &DescribeOptions::default());
        let findings = crate::examine(topology, &root, &machine);
        findings.into_iter().map(|finding| finding.id).collect()
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
