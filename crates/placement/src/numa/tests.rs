use super::*;
use crate::tests::{ROME, T2K, machine};
use proptest::prelude::*;

fn parse(text: &str) -> NumaSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn numa_option_resolves_to_numa_nodes() {
    let t2k = machine(T2K);
    for (text, policy) in [
        ("local", "local"),
        ("interleave", "interleave:0-3"),
        ("interleave:all", "interleave:0-3"),
        ("Interleave: 0, 2-3", "interleave:0,2-3"),
        ("bind:1", "bind:1"),
        ("bind:3,1,1", "bind:1,3"),
        ("preferred:2", "preferred:2"),
    ] {
        assert_eq!(parse(text).resolve(&t2k).unwrap().to_string(), policy, "{text}");
    }
    assert_eq!(MemoryPolicy::default().to_string(), "default");
    assert_eq!(
        parse("bind:7").resolve(&machine(ROME)).unwrap().numa_nodes(),
        Some(vec![NumaNodeId(7)])
    );
}

#[test]
fn numa_node_without_usable_memory_is_refused() {
    let mut topology = machine("Package:1 NUMANode:3(memory=8GB) Core:2 PU:1");
    topology.nodes[1].bytes = Some(0);
    topology.nodes[2].is_forbidden = true;
    let error = |text: &str| parse(text).resolve(&topology).unwrap_err().to_string();
    let hint = "hint: NUMA nodes with usable memory: 0";
    assert_eq!(error("bind:0-1"), format!("NUMA node 1 has no memory\n{hint}"));
    let forbidden = "this process may not use the memory of NUMA node 2";
    assert_eq!(error("preferred:2"), format!("{forbidden}\n{hint}"));
    assert_eq!(parse("interleave").resolve(&topology).unwrap().to_string(), "interleave:0");
    topology.nodes.iter_mut().for_each(|node| node.bytes = Some(0));
    // Without any size, nothing is known.
    assert_eq!(parse("bind:0").resolve(&topology).unwrap().to_string(), "bind:0");
}

#[test]
fn nonexistent_numa_node_is_reported() {
    let error = |text: &str, description: &str| {
        parse(text).resolve(&machine(description)).unwrap_err().to_string()
    };
    assert_eq!(
        error("bind:0-4000000000", T2K),
        "NUMA node 4 does not exist: this machine has nodes 0-3"
    );
    assert_eq!(
        error("preferred:1", "Package:1 NUMANode:1 Core:4 PU:1"),
        "NUMA node 1 does not exist: this machine has node 0 only"
    );
}

#[test]
fn invalid_policy_is_reported_with_its_column() {
    for (text, at, problem) in [
        ("", 0, "expected local, interleave, bind or preferred"),
        ("locale", 0, "expected local, interleave, bind or preferred"),
        ("local:0", 5, "expected the end"),
        ("interleave:", 11, "expected the number of a NUMA node, or all"),
        ("interleave:some", 11, "expected the number of a NUMA node, or all"),
        ("interleave 0", 11, "expected ',' or the end"),
        ("bind", 4, "expected ':' and NUMA nodes after bind"),
        ("bind:0,", 7, "expected the number of a NUMA node, or all"),
        ("bind:0-", 7, "expected the last NUMA node after '-'"),
        ("bind:3-1", 7, "a range must begin with the smaller number"),
        ("bind:0;1", 6, "expected ',' or the end"),
        ("bind:all,0", 8, "expected ',' or the end"),
        ("preferred", 9, "expected ':' and a NUMA node after preferred"),
        ("preferred:all", 10, "expected the number of a NUMA node"),
        ("preferred:0,1", 11, "expected the end"),
        ("bind:4294967296", 5, "this number is too large"),
    ] {
        let error = text.parse::<NumaSpec>().unwrap_err();
        assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
    }
}

/// Returns whole, page-aligned pages of this process that have not been touched yet.
fn untouched(pages: usize) -> (Vec<u8>, usize, usize) {
    let page = nodegauge_os::page_bytes();
    let memory: Vec<u8> = Vec::with_capacity((pages + 1) * page);
    let address = (memory.as_ptr() as usize).next_multiple_of(page);
    (memory, address, pages * page)
}

#[test]
fn applied_policy_is_read_back_from_kernel() {
    // The memory is large enough that the allocator uses a separate mapping.
    let (_memory, address, bytes) = untouched(1024);
    let node = Topology::load(&nodegauge_machine::TopologySource::Live).unwrap().nodes[0].id;
    for policy in
        [MemoryPolicy::Bind(vec![node]), MemoryPolicy::Preferred(node), MemoryPolicy::Local]
    {
        match policy.apply_to(address, bytes) {
            Ok(()) => assert_eq!(MemoryPolicy::from_address(address).unwrap(), Some(policy)),
            // Some containers forbid the call.
            Err(error) => assert!(
                matches!(error, SysError { call: "mbind", errno: libc::EPERM | libc::ENOSYS }),
                "{error}"
            ),
        }
    }
    let unaligned = MemoryPolicy::Local.apply_to(address + 1, bytes);
    assert!(unaligned.is_err_and(|error| error.call == "mbind"));
    assert_eq!(MemoryPolicy::Default.apply_to(1, 1), Ok(()));
}

#[test]
fn bind_policy_of_thread_is_reported_as_inherited() {
    let node = Topology::load(&nodegauge_machine::TopologySource::Live).unwrap().nodes[0].id;
    let inherited = |policy: MemoryPolicy| {
        // The test uses a separate thread, because the policy belongs to the thread.
        std::thread::spawn(move || policy.apply_to_thread().map(|()| MemoryPolicy::inherited()))
            .join()
            .unwrap()
    };
    let bind = MemoryPolicy::Bind(vec![node]);
    for (policy, expected) in [(bind.clone(), Some(bind)), (MemoryPolicy::Local, None)] {
        match inherited(policy) {
            Ok(found) => assert_eq!(found, expected),
            // Some containers forbid the call.
            Err(error) => assert!(
                matches!(
                    error,
                    SysError { call: "set_mempolicy", errno: libc::EPERM | libc::ENOSYS }
                ),
                "{error}"
            ),
        }
    }
}

#[test]
fn touched_pages_have_numa_nodes() {
    let (mut memory, address, bytes) = untouched(64);
    let before = match count_pages_by_numa_node(address, bytes, 16) {
        Ok(before) => before,
        Err(SysError { call: "move_pages", errno: libc::EPERM | libc::ENOSYS }) => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(before.nodes.values().sum::<u64>() + before.unknown, 16);
    memory.resize(memory.capacity(), 1);
    let after = count_pages_by_numa_node(address, bytes, usize::MAX).unwrap();
    assert_eq!((after.nodes.values().sum::<u64>(), after.unknown), (64, 0));
    assert_eq!(count_pages_by_numa_node(address, 0, 16).unwrap(), PageCounts::default());
}

#[test]
fn sampled_interleaved_pages_cover_all_numa_nodes() {
    for nodes in [2, 3, 4, 8] {
        for (asked, count) in [(1000, 262_144), (1000, 1_000_000), (64, 4096), (1000, 1500)] {
            let mut seen = vec![0; nodes];
            (0..asked).for_each(|k| seen[sampled(k, asked, count) % nodes] += 1);
            let (min, max) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
            assert!(*max < *min * 2 + 6, "{asked} of {count} over {nodes}: {seen:?}");
        }
    }
    assert_eq!((0..5).map(|k| sampled(k, 5, 5)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

fn nodes() -> impl Strategy<Value = NumaNodeList> {
    prop_oneof![
        Just(NumaNodeList::All),
        prop::collection::vec((any::<u32>(), any::<u32>()), 1..4).prop_map(|pairs| {
            NumaNodeList::Ranges(pairs.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect())
        }),
    ]
}

proptest! {
    #[test]
    fn numa_policy_round_trips(spec in prop_oneof![
        Just(NumaSpec::Local),
        nodes().prop_map(NumaSpec::Interleave),
        nodes().prop_map(NumaSpec::Bind),
        any::<u32>().prop_map(NumaSpec::Preferred),
    ]) {
        prop_assert_eq!(parse(&spec.to_string()), spec);
    }

    #[test]
    fn numa_parser_never_panics(text in "(local|bind|interleave|preferred)?[:0-9,\\-al ]{0,12}|.{0,16}") {
        let _ = text.parse::<NumaSpec>();
    }
}
