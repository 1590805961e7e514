//! Tests of unusual topologies: without cores, with caches in front of memory, with several kinds of memory, with
//! CPUs that the process may not use.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use nodegauge_machine::{CpuId, DescribeOptions, SysRoot, Topology, TopologySource, describe};
use nodegauge_measure::record::Machine;
use std::path::PathBuf;

fn synthetic(text: &str) -> Topology {
    Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap()
}

fn recorded(name: &str) -> Topology {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/topologies");
    Topology::load(&TopologySource::Xml(folder.join(format!("{name}.xml")))).unwrap()
}

fn machine(name: &str) -> Machine {
    describe(&recorded(name), &SysRoot::live(), &DescribeOptions::default())
}

#[test]
fn hardware_threads_count_as_cores_in_a_topology_without_cores() {
    let sandbox = synthetic("Package:2 L3Cache:2(size=4MB) PU:4");
    assert_eq!((sandbox.cores.len(), sandbox.threads.len()), (16, 16));
    assert_eq!(sandbox.cores, (0..16).collect::<Vec<_>>());
    assert_eq!(sandbox.threads_per_core(), 1);
    let l3 = sandbox.caches.last().unwrap();
    assert_eq!((l3.count, l3.cores, l3.least_cores), (4, 4, None));
}

#[test]
fn memory_side_caches_are_not_last_level_caches() {
    let memory_mode = recorded("memory-mode");
    let sizes: Vec<_> = memory_mode.nodes.iter().map(|node| node.cache_bytes).collect();
    assert_eq!(sizes, [Some(1 << 30), Some(1 << 30)]);
    let cpus: Vec<CpuId> = memory_mode.threads.iter().map(|thread| thread.cpu).collect();
    assert_eq!(memory_mode.llc_bytes_and_count(&cpus), Some((32 << 20, 2)));

    let hybrid_mode = recorded("hybrid-mode");
    let levels: Vec<u32> = hybrid_mode.caches.iter().map(|cache| cache.level).collect();
    assert_eq!((levels, hybrid_mode.llcs.len()), (vec![2], 2));
    let memory: Vec<_> =
        hybrid_mode.nodes.iter().map(|node| (node.kind.as_deref(), node.cache_bytes)).collect();
    assert_eq!(memory, [(Some("DRAM"), Some(2 << 30)), (Some("MCDRAM"), None)]);
    // Threads are near to the larger memory.
    assert!(hybrid_mode.threads.iter().all(|thread| thread.node == Some(0)));
}

#[test]
fn caches_of_different_sizes_are_separate_entries() {
    let topology = recorded("l3-sizes");
    let l3: Vec<_> =
        topology.caches.iter().map(|cache| (cache.level, cache.count, cache.bytes)).collect();
    assert_eq!(l3, [(3, 1, Some(32 << 20)), (3, 1, Some(96 << 20))]);
    let of = |cpus: &[u32]| {
        let cpus: Vec<CpuId> = cpus.iter().map(|cpu| CpuId(*cpu)).collect();
        topology.llc_bytes_and_count(&cpus)
    };
    assert_eq!(of(&[0, 1, 2, 3]), Some((128 << 20, 2)));
    assert_eq!((of(&[0]), of(&[2, 3])), (Some((96 << 20, 1)), Some((32 << 20, 1))));
}

#[test]
fn last_cache_of_a_core_outside_the_highest_level_is_counted() {
    let topology = recorded("three-classes");
    let cpus: Vec<CpuId> = topology.threads.iter().map(|thread| thread.cpu).collect();
    // The two slowest cores share a level-2 cache of 2 MiB, and have no level-3 cache.
    assert_eq!(topology.llc_bytes_and_count(&cpus), Some((26 << 20, 2)));
    assert_eq!(topology.llc_bytes_and_count(&[CpuId(12), CpuId(13)]), Some((2 << 20, 1)));
}

#[test]
fn unusable_cpus_are_listed_by_numa_node_and_do_not_count_as_threads() {
    let job = machine("cpuset");
    let cpus: Vec<_> =
        job.numa_nodes.iter().map(|node| (node.cpus.clone(), node.unusable_cpus.clone())).collect();
    assert_eq!(
        cpus,
        [(vec![0, 1], vec![]), (vec![2, 3], vec![3]), (vec![4, 5, 6, 7], vec![4, 5, 6, 7])]
    );
    let l3 = job.caches.last().unwrap();
    assert_eq!((l3.count, l3.cores, l3.least_cores), (2, 2, Some(1)));
    assert_eq!(job.processor.threads, 3);
    let whole = machine("two-kinds");
    assert!(whole.numa_nodes.iter().all(|node| node.unusable_cpus.is_empty()));
}

#[test]
fn core_classes_are_listed_fastest_first() {
    let classes = machine("five-kinds").processor.core_classes;
    let found: Vec<_> = classes.iter().map(|c| (c.name.as_str(), c.cores, c.capacities)).collect();
    assert_eq!(found, [("fast", 10, Some([997, 1024])), ("slow", 10, Some([718, 731]))]);
    assert_eq!(classes[1].cpus, (0..5).chain(10..15).collect::<Vec<_>>());
    let designs = machine("two-kinds").processor.core_classes;
    assert_eq!(
        (&designs[0].designs[0], &designs[1].designs[0]),
        (&"IntelCore".to_owned(), &"IntelAtom".to_owned())
    );
    assert!(machine("gh200").processor.core_classes.is_empty());
}

#[test]
fn cores_of_no_kind_form_a_class() {
    let classes = machine("part-of-kinds").processor.core_classes;
    let found: Vec<_> = classes.iter().map(|c| (c.name.as_str(), c.cpus.clone())).collect();
    assert_eq!(
        found,
        [
            ("fast", (0..8).collect::<Vec<_>>()),
            ("slow", (8..12).collect()),
            ("unknown", vec![12, 13])
        ]
    );
}

#[test]
fn kinds_that_share_all_their_cores_are_no_classes() {
    // Each of the two cores has a hardware thread of either kind.
    let split = recorded("split-core-kinds");
    assert!(split.core_classes.is_empty());
    assert!(split.threads.iter().all(|thread| thread.speed_class.is_none()));
}

/// Returns the error for a topology file with this text.
fn refusal(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.xml");
    std::fs::write(&file, text).unwrap();
    Topology::load(&TopologySource::Xml(file)).unwrap_err().to_string()
}

#[test]
fn unreadable_topology_file_is_refused_with_an_explanation() {
    let newer = refusal("<topology version=\"3.0\">\n</topology>\n");
    assert!(newer.contains("--export-xml-flags v2"), "{newer}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies/two-kinds.xml");
    let whole = std::fs::read_to_string(file).unwrap();
    let cut_off = refusal(&whole[..1500]);
    assert!(cut_off.contains("does not end with </topology>"), "{cut_off}");
}

#[test]
fn file_in_another_encoding_is_refused_with_a_command_that_converts_it() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |bytes: &[u8]| {
        let file = folder.path().join("node.xml");
        std::fs::write(&file, bytes).unwrap();
        Topology::load(&TopologySource::Xml(file)).unwrap_err().to_string()
    };
    let wide = refused(b"\xff\xfe<\0t\0");
    assert!(wide.contains("it is in UTF-16\n"), "{wide}");
    assert!(wide.contains("`iconv -f UTF-16 -t UTF-8 "), "{wide}");
    let latin = refused(b"<info value=\"\xe9\"/>");
    assert!(latin.contains("`iconv -f LATIN1 -t UTF-8 "), "{latin}");
}

#[test]
fn machine_of_4096_cpus_is_read() {
    let large = synthetic("Package:8 NUMANode:4 L3Cache:4 L2Cache:8 L1dCache:1 Core:1 PU:4");
    assert_eq!((large.threads.len(), large.cores.len()), (4096, 1024));
    assert_eq!(large.caches.last().unwrap().cores, 8);
}
