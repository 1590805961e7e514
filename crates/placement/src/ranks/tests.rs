use super::*;
use crate::tests::{ROME, T2K, machine};
use proptest::prelude::*;

fn planned(description: &str, request: RankRequest) -> RankPlan {
    plan_ranks(&machine(description), &request).unwrap_or_else(|error| panic!("{error}"))
}

fn lecture(ranks: u32, policy: u8, map: RankMap) -> RankRequest {
    RankRequest { ranks, policy: RankPolicy::new(policy), map: Some(map), ..RankRequest::default() }
}

/// Returns the socket, the memory policy and the core of each rank on a node of T2K.
fn rows(request: RankRequest) -> Vec<(Vec<u32>, String, Vec<u32>)> {
    let topology = machine(T2K);
    planned(T2K, request)
        .ranks
        .iter()
        .map(|rank| {
            let all = ThreadPlace { thread: 0, cpus: rank.placement.cpus() };
            (all.sockets(&topology), rank.memory.to_string(), all.cores(&topology))
        })
        .collect()
}

fn sockets(request: RankRequest) -> Vec<u32> {
    rows(request).iter().map(|(sockets, _, _)| sockets[0]).collect()
}

#[test]
fn sixteen_ranks_are_placed_as_in_the_lecture() {
    let block: Vec<u32> = (0..16).map(|rank| rank / 4 % 4).collect();
    let cyclic: Vec<u32> = (0..16).map(|rank| rank % 4).collect();
    assert_eq!(sockets(lecture(16, 3, RankMap::Block)), block);
    assert_eq!(sockets(lecture(16, 3, RankMap::Cyclic)), cyclic);
    let by_core = rows(lecture(16, 4, RankMap::Core));
    for (rank, row) in (0..).zip(by_core) {
        assert_eq!(row, (vec![rank / 4], "local".to_owned(), vec![rank]));
    }
}

#[test]
fn eight_ranks_follow_rank_map() {
    assert_eq!(sockets(lecture(8, 3, RankMap::Block)), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(sockets(lecture(8, 3, RankMap::Cyclic)), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(sockets(lecture(8, 3, RankMap::Spread)), [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn even_map_distributes_ranks_over_sockets() {
    let even = |ranks| sockets(lecture(ranks, 4, RankMap::Even));
    assert_eq!(even(1), [0]);
    assert_eq!(even(2), [0, 1]);
    assert_eq!(even(4), [0, 1, 2, 3]);
    assert_eq!(even(8), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(even(16), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    assert_eq!(even(3), [0, 1, 2]);
    assert_eq!(even(6), [0, 0, 1, 1, 2, 3]);
    assert_eq!(even(7), [0, 0, 1, 1, 2, 2, 3]);
    // Without a policy, every rank has its own core of the same socket.
    let own = RankRequest { ranks: 6, map: Some(RankMap::Even), ..RankRequest::default() };
    let cores: Vec<Vec<u32>> = rows(own).into_iter().map(|(_, _, cores)| cores).collect();
    assert_eq!(cores, [[0], [1], [4], [5], [8], [12]]);
}

#[test]
fn even_map_counts_usable_cpus_only() {
    let on = |cpus: &[u32], ranks: u32, threads: u32| -> Vec<u32> {
        let topology = crate::launchers::restrict_cpus(&machine(T2K), cpus);
        let request = RankRequest { threads: Some(threads), ..lecture(ranks, 4, RankMap::Even) };
        let plan = plan_ranks(&topology, &request).unwrap();
        let together = |rank: &RankPlace| ThreadPlace { thread: 0, cpus: rank.placement.cpus() };
        plan.ranks.iter().map(|rank| together(rank).sockets(&topology)[0]).collect()
    };
    // A control group leaves one CPU of socket 0, none of socket 1, and all of the others.
    let cpus = [3, 8, 9, 10, 11, 12, 13, 14, 15];
    assert_eq!(on(&cpus, 2, 1), [0, 2]);
    assert_eq!(on(&cpus, 3, 1), [0, 2, 3]);
    assert_eq!(on(&cpus, 7, 1), [0, 2, 2, 2, 3, 3, 3]);
    assert_eq!(on(&cpus, 8, 1), [0, 2, 2, 2, 2, 3, 3, 3]);
    assert_eq!(on(&cpus, 3, 2), [2, 2, 3]);
    // No socket has CPUs for a whole rank.
    assert_eq!(on(&[0, 4, 8, 12], 2, 2), [0, 1]);
}

#[test]
fn policy_list_accepts_maps() {
    let of = |text: &str| -> Vec<String> {
        text.parse::<Policies>().unwrap().into_iter().map(|of| of.to_string()).collect()
    };
    assert_eq!(of("5,3/block, 4,4/even"), ["5", "3/block", "4", "4/even"]);
    assert_eq!(of("0..1/cyclic,5"), ["0/cyclic", "1/cyclic", "5"]);
    let wrong = |text: &str| text.parse::<Policies>().unwrap_err().at;
    for (text, at) in [("4/", 2), ("4/evn", 2), ("4/even3", 6), ("4//even", 2), ("6/even", 0)] {
        assert_eq!(wrong(text), at, "{text}");
    }
}

#[test]
fn policies_have_the_cpus_and_memory_of_the_lecture() {
    let of_rank_5 = |policy| rows(lecture(16, policy, RankMap::Block)).swap_remove(5);
    let all: Vec<u32> = (0..16).collect();
    let (own, everywhere) = (vec![1], vec![0, 1, 2, 3]);
    for (policy, memory, bound) in [
        (0, "default", false),
        (1, "interleave:0-3", true),
        (2, "interleave:1", true),
        (3, "bind:1", true),
        (4, "local", true),
        (5, "local", false),
    ] {
        let (sockets, cores) =
            if bound { (own.clone(), vec![4, 5, 6, 7]) } else { (everywhere.clone(), all.clone()) };
        assert_eq!(of_rank_5(policy), (sockets, memory.to_owned(), cores), "policy {policy}");
        let plan = planned(T2K, lecture(16, policy, RankMap::Block));
        assert_eq!(plan.ranks[5].bound_cpus().is_some(), bound);
    }
    let (sockets, memory, cores) = rows(lecture(16, 3, RankMap::Core)).swap_remove(5);
    assert_eq!((sockets, memory.as_str(), cores), (vec![1], "bind:1", vec![5]));
}

#[test]
fn policy_description_matches_effect() {
    for number in 0..=5 {
        let policy = RankPolicy::new(number).unwrap();
        let plan = planned(T2K, lecture(16, number, RankMap::Block));
        let bound = plan.ranks[5].bound_cpus().is_some();
        let memory = match &plan.ranks[5].memory {
            MemoryPolicy::Default => "no memory policy",
            MemoryPolicy::Local => "local allocation",
            MemoryPolicy::Interleave(nodes) if nodes.len() == 4 => {
                "memory interleaved over all NUMA nodes"
            }
            MemoryPolicy::Interleave(_) => "memory interleaved over its own NUMA nodes",
            MemoryPolicy::Bind(_) => "memory bound to its own NUMA nodes",
            MemoryPolicy::Preferred(_) => panic!("no policy prefers a node"),
        };
        let cpus = if bound { "CPUs of the socket" } else { "any CPU" };
        assert_eq!(policy.description(), format!("{cpus}, {memory}"), "policy {policy}");
    }
}

#[test]
fn socket_policy_uses_all_numa_nodes_of_socket() {
    let plan = planned(ROME, lecture(2, 3, RankMap::Spread));
    assert_eq!(plan.ranks[1].memory.to_string(), "bind:4-7");
    let by_core = planned(ROME, lecture(128, 3, RankMap::Core));
    assert_eq!(by_core.ranks[127].memory.to_string(), "bind:7");
}

#[test]
fn memory_is_not_bound_to_numa_nodes_without_usable_memory() {
    let mut topology = machine("Package:2 NUMANode:2(memory=8GB) Core:2 PU:1");
    topology.nodes[1].bytes = Some(0);
    topology.nodes[2].is_forbidden = true;
    let plan = plan_ranks(&topology, &lecture(2, 3, RankMap::Cyclic)).unwrap();
    let memory: Vec<String> = plan.ranks.iter().map(|rank| rank.memory.to_string()).collect();
    assert_eq!(memory, ["bind:0", "bind:3"]);
    assert_eq!(plan.notices, ["policy 3 leaves out NUMA nodes 1-2, which have no usable memory"]);
    topology.nodes[0].bytes = Some(0);
    let refused = plan_ranks(&topology, &lecture(2, 3, RankMap::Cyclic)).unwrap_err();
    assert!(refused.to_string().contains("requires NUMA nodes with memory"), "{refused}");
    let local = plan_ranks(&topology, &lecture(2, 4, RankMap::Cyclic)).unwrap();
    assert!(local.notices.is_empty());
}

#[test]
fn threads_without_policy_have_distinct_cpus() {
    let cpus = |ranks, threads, map| -> Vec<Vec<u32>> {
        let plan = planned(
            "Package:2 NUMANode:1 Core:4 PU:2",
            RankRequest { ranks, threads, map, ..RankRequest::default() },
        );
        let of = |rank: &RankPlace| rank.placement.threads.iter().map(|t| t.cpus[0].0).collect();
        plan.ranks.iter().map(of).collect()
    };
    assert_eq!(cpus(4, None, None), [[0], [4], [8], [12]]);
    assert_eq!(cpus(2, Some(2), None), [[0, 4], [8, 12]]);
    assert_eq!(cpus(3, None, Some(RankMap::Block)), [[0], [2], [4]]);
    assert_eq!(cpus(3, Some(2), Some(RankMap::Cyclic)), [[0, 2], [8, 10], [4, 6]]);
    // All cores are used before second hardware threads.
    assert_eq!(cpus(10, None, Some(RankMap::Core))[8..], [[1], [3]]);
    assert_eq!(cpus(8, Some(2), Some(RankMap::Core))[4..6], [[1, 3], [5, 7]]);
}

#[test]
fn places_or_binding_replace_the_rank_map() {
    let default = PlacementRequest::default;
    for (all_threads, canonical_text, cpus) in [
        (default(), "spread", [0, 64]),
        (
            PlacementRequest { places: "{3},{5}".parse().ok(), ..default() },
            "places {3},{5}",
            [3, 5],
        ),
        (PlacementRequest { bind: Some(Binding::Close), ..default() }, "places cores", [0, 1]),
        (PlacementRequest { per_cache: Some(1), ..default() }, "places per-cache 1", [0, 64]),
        (
            PlacementRequest { kmp: "compact".parse().ok(), ..default() },
            "places KMP_AFFINITY=compact",
            [0, 1],
        ),
    ] {
        let plan = planned(ROME, RankRequest { ranks: 2, all_threads, ..RankRequest::default() });
        assert_eq!(plan.canonical_text, canonical_text);
        let expected = cpus.map(|cpu| Some(vec![CpuId(cpu)]));
        assert_eq!(plan.ranks.iter().map(RankPlace::bound_cpus).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn cpu_list_has_entries_per_thread_or_rank() {
    let cpus = |list: &str, ranks, threads| {
        let request = RankRequest {
            ranks,
            threads: Some(threads),
            cpus: Some(list.parse().unwrap()),
            ..RankRequest::default()
        };
        let plan = planned(T2K, request);
        let of = |rank: &RankPlace| {
            rank.placement.threads.iter().map(|t| cpus::format_ranges(&t.cpus)).collect::<Vec<_>>()
        };
        (plan.ranks.iter().map(of).collect::<Vec<_>>(), plan.notices)
    };
    assert_eq!(cpus("5,3", 2, 1).0, [["5"], ["3"]]);
    assert_eq!(cpus("0-3", 2, 2).0, [["0", "1"], ["2", "3"]]);
    assert_eq!(cpus("{0-3},{4-7}", 2, 2).0, [["0-3", "0-3"], ["4-7", "4-7"]]);
    assert_eq!(cpus("{0-3},{3-7}", 2, 1).1, ["ranks share cpus 3"]);
}

#[test]
fn policy_with_cpus_places_memory_only() {
    let of = |policy| {
        let cpus = "4,0,12".parse().ok();
        let policy = RankPolicy::new(policy);
        planned(T2K, RankRequest { ranks: 3, cpus, policy, ..RankRequest::default() })
    };
    for (policy, memory) in [
        (0, ["default"; 3]),
        (1, ["interleave:0-3"; 3]),
        (2, ["interleave:1", "interleave:0", "interleave:3"]),
        (3, ["bind:1", "bind:0", "bind:3"]),
        (4, ["local"; 3]),
        (5, ["local"; 3]),
    ] {
        let plan = of(policy);
        let got: Vec<String> = plan.ranks.iter().map(|rank| rank.memory.to_string()).collect();
        assert_eq!(got, memory, "policy {policy}");
        let cpus: Vec<Vec<CpuId>> = plan.ranks.iter().filter_map(RankPlace::bound_cpus).collect();
        assert_eq!(cpus, [4, 0, 12].map(|cpu| vec![CpuId(cpu)]));
    }
    assert_eq!(of(3).canonical_text, "policy 3 cpus 4,0,12");
    let reported = "--cpus determines the CPUs of threads, and policy 3 the placement of memory";
    assert_eq!(of(3).notices, [reported]);
}

#[test]
fn rank_error_states_the_limits_of_the_machine() {
    let error = |request: RankRequest| plan_ranks(&machine(T2K), &request).unwrap_err().to_string();
    let some = RankRequest { ranks: 2, ..RankRequest::default() };
    assert_eq!(
        error(RankRequest { ranks: 17, ..some.clone() }),
        "cannot place 17 ranks of 1 thread: this process may use 16 hardware threads (0-15)\nhint: use 16 or fewer, e.g. --ranks 16"
    );
    assert_eq!(
        error(RankRequest { threads: Some(32), ..some.clone() }),
        "cannot place 2 ranks of 32 threads: this process may use 16 hardware threads (0-15)\nhint: use 16 or fewer threads per rank, e.g. --threads 16"
    );
    assert_eq!(
        error(RankRequest { cpus: "0-2".parse().ok(), ..some.clone() }),
        "--cpus has 3 entries for 2 ranks of 1 thread\nhint: give 2 CPUs, or one group per rank, e.g. --cpus '{0-3},{4-7}'"
    );
    let policy = RankRequest { policy: RankPolicy::new(3), ..some.clone() };
    assert_eq!(
        error(RankRequest { numa: "local".parse().ok(), ..policy.clone() }),
        "--policy and --numa both decide where memory goes\nhint: give only one of these options"
    );
    let map = RankRequest { map: Some(RankMap::Core), ..policy.clone() };
    assert_eq!(
        error(RankRequest { cpus: "0-1".parse().ok(), ..map }),
        "--cpus and --rank-map both decide where threads go\nhint: give only one of these options"
    );
    let all_threads =
        PlacementRequest { bind: Some(Binding::Close), ..PlacementRequest::default() };
    assert_eq!(
        error(RankRequest { all_threads, ..policy }),
        "--policy and --bind both decide where threads go\nhint: give only one of these options"
    );
    assert_eq!(error(RankRequest::default()), "cannot place 0 ranks\nhint: request at least 1");
    let wrong = "6".parse::<RankPolicy>().unwrap_err();
    assert_eq!((wrong.at, &*wrong.problem), (0, "policy 6 is out of range: expected 0 to 5"));
}

proptest! {
    #[test]
    fn even_map_balances_ranks(
        sockets in 1usize..9, cores in 1usize..9, share in 0.0f64..1.0,
    ) {
        let all = sockets * cores;
        let ranks = 1 + (share * (all - 1) as f64) as usize;
        let topology = machine(&format!("Package:{sockets} NUMANode:1 Core:{cores} PU:1"));
        let request = lecture(ranks as u32, 4, RankMap::Even);
        let plan = plan_ranks(&topology, &request).unwrap();
        let socket = |rank: &RankPlace| rank.placement.cpus()[0].0 as usize / cores;
        let rank_sockets: Vec<usize> = plan.ranks.iter().map(socket).collect();
        prop_assert!(rank_sockets.is_sorted(), "{rank_sockets:?}");
        let used = sockets.min(ranks);
        let count = |wanted: usize| rank_sockets.iter().filter(|one| **one == wanted).count();
        for one in 0..sockets {
            let expected = ranks / sockets..=ranks.div_ceil(sockets);
            prop_assert!(expected.contains(&count(one)), "{rank_sockets:?}");
            prop_assert_eq!(count(one) > 0, one < used);
        }
    }

    #[test]
    fn threads_without_policy_share_no_cpu(
        ranks in 1u32..20, threads in 1u32..6, map in 0usize..RankMap::ALL.len(),
    ) {
        let topology = machine("Package:2 NUMANode:1 L3Cache:2 Core:4 PU:2");
        let map = Some(RankMap::ALL[map]);
        let request = RankRequest { ranks, threads: Some(threads), map, ..RankRequest::default() };
        match plan_ranks(&topology, &request) {
            Ok(plan) => {
                prop_assert_eq!(plan.ranks.len(), ranks as usize);
                prop_assert_eq!(plan.threads(), (ranks * threads) as usize);
                prop_assert_eq!(plan.all_threads().cpus().len(), plan.threads());
            }
            Err(_) => prop_assert!(ranks * threads > 32),
        }
    }
}
