//! Node of the T2K cluster: four sockets, each with four cores without AVX and one NUMA node.

use crate::fields::measurements;
use crate::guest::{Guest, Shape, Shared};
use crate::jobs::jobs;
use crate::look::{Mapping, machine_of, mapping, mappings, processes};
use crate::memattrs::{self, MeasuredTopology, attributes};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

static SHARED: Shared = Shared::new();
static T2K: Shape = Shape {
    name: "t2k",
    qemu: &[
        "-cpu",
        "Opteron_G3",
        "-smp",
        "16,sockets=4,cores=4",
        "-m",
        "4096",
        "-object",
        "memory-backend-ram,id=m0,size=1024M",
        "-numa",
        "node,nodeid=0,memdev=m0,cpus=0-3",
        "-object",
        "memory-backend-ram,id=m1,size=1024M",
        "-numa",
        "node,nodeid=1,memdev=m1,cpus=4-7",
        "-object",
        "memory-backend-ram,id=m2,size=1024M",
        "-numa",
        "node,nodeid=2,memdev=m2,cpus=8-11",
        "-object",
        "memory-backend-ram,id=m3,size=1024M",
        "-numa",
        "node,nodeid=3,memdev=m3,cpus=12-15",
    ],
    setup: SETUP,
    commands: &[
        ("numactl", "numactl --hardware"),
        ("machine", "nodegauge machine --json"),
        ("places", "nodegauge places --ranks 16 --policy 3 --rank-map cyclic --json"),
        // The arrays of all policies exist at the same time.
        (
            "policies",
            "look 4 84 nodegauge stream --ranks 4 --rank-map cyclic --sweep policy=0-5 --size 600000elements \
             --kernels triad --samples 2 --json -",
        ),
        ("policies-look", "cat /tmp/look"),
        (
            "bound",
            "nodegauge stream --ranks 4 --rank-map cyclic --policy 3 --size 300000elements --kernels triad \
             --samples 2",
        ),
        (
            "iccg",
            "nodegauge apps iccg --ranks 4 --rank-map cyclic --policy 3 --elements 6,6,6 --samples 1 --json -",
        ),
        ("program", "nodegauge sweep policy=0-5 --samples 2 --no-save -- ./placed"),
        ("program-placed", "cat placed.txt"),
        ("where", "jobs_of_all_policies"),
        (
            "matrix",
            "nodegauge memory matrix --size 1MiB --samples 1 --emit hwloc --output /tmp/matrix.xml --accept-suspect",
        ),
        ("xml", "cat /tmp/matrix.xml; rm /tmp/matrix.xml"),
        ("no-pages", "nodegauge stream --pages 2m --size 100000elements"),
        ("no-map", "nodegauge stream --ranks 17 --policy 3"),
        ("no-policy", "nodegauge stream --ranks 4 --policy 6"),
    ],
    ..Shape::PLAIN
};

/// `placed` is a program that touches 8 MiB of memory. It appends its CPUs, as a bit mask, and the line of its
/// numa_maps for this memory to a file. With an argument, it sleeps then. The shell function starts four of them, as
/// ranks of the rank maps `block` and `cyclic`, with the options of numactl for each policy; all 48 exist at the same
/// time.
const SETUP: &str = r#"
cat >placed <<'END'
#!/bin/sh
exec awk 'BEGIN {
    text = "x"
    while (length(text) < 8000000) text = text text
    while ((getline line < "/proc/self/status") > 0)
        if (line ~ /^Cpus_allowed:/) { sub(/.*\t/, "", line); cpus = line }
    while ((getline line < "/proc/self/numa_maps") > 0)
        if (line ~ /anon=[0-9][0-9][0-9][0-9]/) { print cpus, line >> "placed.txt"; break }
    close("placed.txt")
    if (ARGC > 1) system("sleep 300")
}' "$@"
END
chmod 755 placed
cat >>/commands/functions <<'END'
jobs_of_all_policies() {
    rm placed.txt
    processes=
    for map in block cyclic; do
        for policy in 0 1 2 3 4 5; do
            for rank in 0 1 2 3; do
                socket=0
                [ $map = block ] || socket=$rank
                case $policy in
                0) options= ;;
                1) options="--cpunodebind=$socket --interleave=all" ;;
                2) options="--cpunodebind=$socket --interleave=$socket" ;;
                3) options="--cpunodebind=$socket --membind=$socket" ;;
                4) options="--cpunodebind=$socket --localalloc" ;;
                5) options="--localalloc" ;;
                esac
                ${options:+numactl} $options ./placed sleep &
                processes="$processes $!"
            done
        done
    done
    until [ "$(wc -l 2>/dev/null <placed.txt)" = 48 ]; do sleep 1; done
    echo "RUN all policies and maps"
    compare_where $processes
    kill $processes
}
END
"#;

fn guest() -> Option<&'static Guest> {
    T2K.guest(&SHARED)
}

/// Policy of the lecture, with the memory that the kernel should report for a rank on a socket.
struct Policy {
    number: u64,
    /// Policy of the mapping. `N` stands for the number of the socket.
    kernel: &'static str,
    /// True if all pages must be on the NUMA node of the socket.
    own_node: bool,
}

/// Size of a rank's arrays for one policy, in KiB: three arrays of 600,000 elements.
const ARRAYS_KIB: u64 = 3 * 600_000 * 8 / 1024;

/// Policies 0 and 5 do not bind to CPUs, so the location of their pages is unknown.
const POLICIES: [Policy; 4] = [
    Policy { number: 1, kernel: "interleave:0-3", own_node: false },
    Policy { number: 2, kernel: "interleave:N", own_node: true },
    Policy { number: 3, kernel: "bind:N", own_node: true },
    Policy { number: 4, kernel: "local", own_node: true },
];

#[test]
fn t2k_numa_nodes_match_numactl() {
    let Some(guest) = guest() else { return };
    let machine = machine_of(guest);
    assert_eq!(machine["processor"]["sockets"], 4);
    assert_eq!(machine["processor"]["isa"], json!(["sse2"]));
    assert_eq!(machine["numa_nodes"].as_array().unwrap().len(), 4);
}

#[test]
fn t2k_policies_bind_processes_and_memory_in_the_kernel() {
    let Some(guest) = guest() else { return };
    let mut ranks = processes(&guest.result("policies-look").exits(0));
    // The process that coordinates the ranks may have memory, but no memory with a policy.
    ranks.retain(|rank| rank.mappings.iter().any(|mapping| mapping.policy != "default"));
    assert_eq!(ranks.len(), 4, "{ranks:?}");
    let sockets: BTreeSet<u64> = (0..4).map(|socket| 0xf << (4 * socket)).collect();
    for policy in POLICIES {
        let mut seen = BTreeSet::new();
        for rank in &ranks {
            // Each rank has threads on its socket; for policies 0 and 5, it also has threads on any CPU.
            let own: Vec<u64> = rank.masks.intersection(&sockets).copied().collect();
            assert_eq!(own.len(), 1, "{rank:?}");
            let socket = own[0].trailing_zeros() / 4;
            let name = policy.kernel.replace('N', &socket.to_string());
            let of = |mapping: &&Mapping| mapping.policy == name;
            let placed: Vec<&Mapping> = rank.mappings.iter().filter(of).collect();
            assert!(!placed.is_empty(), "no memory with {name}: {rank:?}");
            let kib =
                |node: u32| placed.iter().filter_map(|each| each.nodes.get(&node)).sum::<u64>();
            // Memory of policy 5 is local, on any NUMA node, and has the same policy in the kernel as that of policy 4.
            let elsewhere: u64 = (0..4).filter(|node| *node != socket).map(kib).sum();
            if policy.own_node {
                assert!(kib(socket) >= ARRAYS_KIB, "policy {}: {placed:?}", policy.number);
                assert!(elsewhere == 0 || name == "local", "policy {}: {placed:?}", policy.number);
            } else {
                assert!((0..4).all(|node| kib(node) > 0), "policy {}: {placed:?}", policy.number);
            }
            seen.insert(socket);
        }
        assert_eq!(seen.len(), 4, "policy {}", policy.number);
    }
    // This is memory of policy 0.
    assert!(mappings(&ranks).any(|mapping| mapping.policy == "default"));
    assert!(ranks.iter().all(|rank| rank.masks.contains(&0xffff)), "{ranks:?}");
}

#[test]
fn t2k_record_contains_the_cpus_and_numa_nodes_of_each_rank() {
    let Some(guest) = guest() else { return };
    let record = guest.result("policies").exits(0).json();
    for policy in POLICIES {
        let config = config_of(&record, policy.number);
        let ranks = config["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), 4);
        for (socket, rank) in ranks.iter().enumerate() {
            let cpus: Vec<usize> = (4 * socket..4 * socket + 4).collect();
            assert_eq!(rank["cpus"], json!(cpus), "policy {}", policy.number);
            let on_own = rank["memory_got"][socket.to_string()].as_f64().unwrap_or(0.0);
            assert_eq!(on_own > 0.98, policy.own_node, "policy {}: {rank}", policy.number);
        }
        if policy.own_node {
            assert!(config["numa"]["held"].as_f64().unwrap() > 0.98, "{}", config["numa"]);
        }
    }
    for number in [0, 5] {
        let config = config_of(&record, number);
        assert_eq!(config["ranks"][3]["cpus"], json!((0..16).collect::<Vec<u32>>()));
        assert_eq!(config["numa"]["held"], Value::Null);
    }
    assert_eq!(
        config_of(&record, 3)["numa"]["asked"],
        "bind:0 (rank 0), bind:1 (rank 1), bind:2 (rank 2), bind:3 (rank 3)"
    );
}

/// A user's program without ranks is placed in the same way as the first rank.
#[test]
fn t2k_policies_determine_cpus_and_memory_of_a_program() {
    let Some(guest) = guest() else { return };
    guest.result("program").exits(0);
    let seen = guest.result("program-placed").exits(0).stdout;
    let mut placed: BTreeMap<(u64, String), Vec<Mapping>> = BTreeMap::new();
    for line in seen.lines() {
        let (mask, rest) = line.split_once(' ').unwrap();
        let found = mapping(rest);
        let mask = u64::from_str_radix(mask, 16).unwrap();
        placed.entry((mask, found.policy.clone())).or_default().push(found);
    }
    let (any, socket) = (0xffff, 0xf);
    let table = [
        (any, "default"),
        (socket, "interleave:0-3"),
        (socket, "interleave:0"),
        (socket, "bind:0"),
        (socket, "local"),
        (any, "local"),
    ];
    let table: BTreeSet<(u64, String)> =
        table.into_iter().map(|(mask, policy)| (mask, policy.to_owned())).collect();
    assert_eq!(placed.keys().cloned().collect::<BTreeSet<_>>(), table, "{seen}");
    for ((mask, policy), mappings) in &placed {
        // There are at least two runs, one of which is measured.
        assert!(mappings.len() >= 2, "{policy}: {seen}");
        for mapping in mappings {
            match policy.as_str() {
                "interleave:0-3" => {
                    assert!((0..4).all(|node| mapping.share(node) > 0.05), "{seen}")
                }
                _ if *mask == socket => assert!(mapping.share(0) > 0.999, "{policy}: {seen}"),
                _ => {}
            }
        }
    }
}

#[test]
fn t2k_jobs_are_reported_as_by_the_kernel_for_all_policies_and_maps() {
    let Some(guest) = guest() else { return };
    let jobs = jobs(&guest.result("where").exits(0));
    let [(name, job)] = &jobs[..] else { panic!("{} jobs", jobs.len()) };
    assert_eq!(job.processes.len(), 48);
    job.assert_matches_kernel(name, 4);
    // The processes of each policy have this policy: with the map `block`, those of socket 0.
    let expected = [
        ("default", 8),
        ("interleave:0-3", 8),
        ("local", 16),
        ("interleave:0", 5),
        ("bind:0", 5),
        ("interleave:3", 1),
        ("bind:3", 1),
    ];
    for (policy, count) in expected {
        let with_policy =
            job.processes.iter().filter(|process| process["memory"]["policy"] == policy);
        assert_eq!(with_policy.count(), count, "{policy}");
    }
}

#[test]
fn t2k_matrix_has_values_of_all_sockets_for_tools_of_hwloc() {
    let Some(guest) = guest() else { return };
    guest.result("matrix").exits(0);
    let topology = MeasuredTopology::new(&guest.result("xml").exits(0).stdout);
    let Some(printed) = topology.run(&["lstopo-no-graphics", "--memattrs"]) else { return };
    for name in memattrs::NAMES {
        // Four initiators have four targets each.
        assert_eq!(attributes(&printed, name).len(), 16, "{name}: {printed}");
    }
    for socket in 0..4 {
        let cpus = format!("0x{:08x}", 0xf << (4 * socket));
        topology.assert_best_is_chosen(&printed, &format!("pu:{}", 4 * socket), &cpus);
    }
}

#[test]
fn t2k_page_confirms_the_bound_memory_of_each_rank() {
    let Some(guest) = guest() else { return };
    guest
        .result("bound")
        .exits(0)
        .prints_words(
            "4 ranks of 1 thread (policy 3 cyclic) bound to cpus {0-3}, {4-7}, {8-11}, {12-15}",
        )
        .prints_words("100 % of the pages on the NUMA nodes of the policy")
        .never_prints("not bound");
}

#[test]
fn t2k_solver_measures_with_ranks_of_policy_3() {
    let Some(guest) = guest() else { return };
    let record = guest.result("iccg").exits(0).json();
    assert!(
        measurements(&record).iter().any(|m| m["config"]["policy"] == 3 && m["value"].is_number()),
        "{record:#}"
    );
}

#[test]
fn t2k_places_sixteen_ranks_on_four_sockets() {
    let Some(guest) = guest() else { return };
    let places = guest.result("places").exits(0).json();
    let ranks = places["threads"].as_array().unwrap();
    assert_eq!(ranks.len(), 16);
    for (number, rank) in ranks.iter().enumerate() {
        let socket = number % 4;
        let cpus: Vec<usize> = (4 * socket..4 * socket + 4).collect();
        assert_eq!((&rank["sockets"], &rank["cpus"]), (&json!([socket]), &json!(cpus)));
        assert_eq!(rank["memory"]["nodes"], json!([socket]), "{rank:#}");
    }
}

#[test]
fn t2k_refuses_unreserved_pages_too_many_ranks_and_unknown_policies() {
    let Some(guest) = guest() else { return };
    guest
        .result("no-pages")
        .exits(3)
        .warns("reserved pages of 2 MiB: 0 of 0 free, 3 needed")
        .warns("nr_hugepages")
        .prints_nothing();
    guest.result("no-map").exits(2).warns("cannot place 17 ranks").prints_nothing();
    guest.result("no-policy").exits(2).prints_nothing();
}

#[test]
fn t2k_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    guest.assert_unchanged();
}

/// Returns the configuration of Triad with this policy.
fn config_of(record: &Value, policy: u64) -> &Value {
    let sweep = json!({"policy": policy.to_string(), "ranks": "4"});
    let of = |m: &&Value| m["config"]["sweep"] == sweep;
    let found = measurements(record).iter().find(of);
    &found.unwrap_or_else(|| panic!("no figure of policy {policy}: {record:#}"))["config"]
}
