//! Machine with two sockets of two cores and one NUMA node each. 32 pages of 2 MiB are reserved, and one page of 1 GiB
//! on NUMA node 1.

use crate::fields::{measurements, texts};
use crate::guest::{Guest, Shape, Shared};
use crate::jobs::jobs;
use crate::look::{machine_of, mappings, masks, pairs_of_nodes, processes};
use serde_json::{Value, json};
use std::collections::BTreeSet;

static SHARED: Shared = Shared::new();
static TWO: Shape = Shape {
    name: "two",
    qemu: &[
        "-cpu",
        "Haswell-v4,+pdpe1gb",
        "-smp",
        "4,sockets=2,cores=2",
        "-m",
        "5120",
        "-object",
        "memory-backend-ram,id=m0,size=1536M",
        "-numa",
        "node,nodeid=0,memdev=m0,cpus=0-1",
        "-object",
        "memory-backend-ram,id=m1,size=3584M",
        "-numa",
        "node,nodeid=1,memdev=m1,cpus=2-3",
        "-numa",
        "dist,src=0,dst=1,val=21",
    ],
    kernel: "hugepagesz=1G hugepages=1 hugepagesz=2M hugepages=32",
    commands: &[
        ("numactl", "numactl --hardware"),
        ("machine", "nodegauge machine --json"),
        (
            "local",
            "look 1 20 nodegauge stream --pages 4k --size 1000000elements --kernels triad --samples 5 --json -",
        ),
        ("local-look", "cat /tmp/look"),
        (
            "bound",
            "look 1 20 nodegauge stream --numa bind:1 --size 1000000elements --kernels triad --samples 5 --json -",
        ),
        ("bound-look", "cat /tmp/look"),
        (
            "huge",
            "look 1 40 nodegauge stream --numa interleave --pages 2m --size 2000000elements --kernels copy \
             --samples 5 --json -",
        ),
        ("huge-look", "cat /tmp/look"),
        (
            "gigantic",
            "look 1 20 nodegauge stream --numa bind:1 --pages 1g --size 1000000elements --kernels copy --samples 5 \
             --json -",
        ),
        ("gigantic-look", "cat /tmp/look"),
        (
            "few-pages",
            "nodegauge stream --numa interleave --pages 2m --size 200000elements --kernels copy --samples 2",
        ),
        (
            "ranks",
            "nodegauge stream --ranks 4 --policy 3 --size 300000elements --kernels triad --samples 2",
        ),
        (
            "inherited",
            "numactl --interleave=all taskset 4 nodegauge stream --size 300000elements --kernels copy --samples 2 \
             --json -",
        ),
        (
            "where",
            "echo RUN bind:1, 2 MiB; where_of 1 12 nodegauge stream --numa bind:1 --pages 2m --size 600000elements \
             --kernels triad --samples 2 --no-save
             echo RUN interleave; where_of 1 12 nodegauge stream --numa interleave --size 600000elements \
             --kernels triad --samples 2 --no-save",
        ),
        ("matrix", "nodegauge memory matrix --size 8MiB --samples 1 --json -"),
        ("no-node", "nodegauge stream --numa bind:7"),
        ("no-pages", "nodegauge stream --pages 2m --size 10000000elements"),
        ("no-gigantic", "nodegauge stream --numa bind:0 --pages 1g --size 1000000elements"),
        ("no-cpu", "taskset 1 nodegauge stream --cpus 2 --size 1000000elements"),
    ],
    ..Shape::PLAIN
};

fn guest() -> Option<&'static Guest> {
    TWO.guest(&SHARED)
}

#[test]
fn two_numa_nodes_match_numactl() {
    let Some(guest) = guest() else { return };
    let machine = machine_of(guest);
    assert_eq!(machine["processor"]["sockets"], 2);
    assert_eq!(machine["numa_nodes"][0]["distances"], json!([10, 21]));
    let pages = machine["pages"]["huge"].as_array().unwrap();
    let total = |bytes: u64| &pages.iter().find(|pages| pages["bytes"] == bytes).unwrap()["total"];
    assert_eq!((total(2 << 20), total(1 << 30)), (&json!(32), &json!(1)));
}

#[test]
fn two_numa_nodes_contain_the_memory_of_their_threads() {
    let Some(guest) = guest() else { return };
    let record = guest.result("local").exits(0).json();
    let numa = numa(&record);
    assert!(numa["held"].as_f64().unwrap() > 0.95, "{numa}");
    assert_eq!(measurements(&record)[0]["config"]["places"], json!([[0], [1], [2], [3]]));
    let local = processes(&guest.result("local-look").exits(0));
    // A measuring thread has a single CPU; other threads may have several.
    assert!([1, 2, 4, 8].iter().all(|mask| masks(&local).contains(mask)), "{local:?}");
    for mapping in mappings(&local) {
        assert_eq!((mapping.policy.as_str(), mapping.page_kib), ("default", 4));
        assert!((mapping.share(0) - 0.5).abs() < 0.05, "{mapping:?}");
    }
}

#[test]
fn two_numa_nodes_have_bound_memory_only_on_the_given_numa_node() {
    let Some(guest) = guest() else { return };
    let record = guest.result("bound").exits(0).json();
    assert_eq!(numa(&record)["got"], json!({"1": 1.0}));
    let bound = processes(&guest.result("bound-look").exits(0));
    for mapping in mappings(&bound) {
        assert_eq!((mapping.policy.as_str(), mapping.share(1)), ("bind:1", 1.0));
    }
}

#[test]
fn two_kinds_of_reserved_pages_come_from_the_numa_nodes_of_the_policy() {
    let Some(guest) = guest() else { return };
    let huge = guest.result("huge").exits(0).json();
    assert_eq!(measurements(&huge)[0]["config"]["pages"]["got"], json!({"2097152": 1.0}));
    assert!(numa(&huge)["held"].as_f64().unwrap() > 0.9, "{}", numa(&huge));
    for mapping in mappings(&processes(&guest.result("huge-look").exits(0))) {
        assert_eq!((mapping.policy.as_str(), mapping.page_kib), ("interleave:0-1", 2048));
        assert!((mapping.share(0) - 0.5).abs() < 0.05, "{mapping:?}");
    }
    let gigantic = guest.result("gigantic").exits(0).json();
    assert_eq!(measurements(&gigantic)[0]["config"]["pages"]["got"], json!({"1073741824": 1.0}));
    for mapping in mappings(&processes(&guest.result("gigantic-look").exits(0))) {
        assert_eq!((mapping.policy.as_str(), mapping.page_kib), ("bind:1", 1 << 20));
        assert_eq!(mapping.share(1), 1.0);
    }
}

#[test]
fn two_numa_nodes_with_too_few_pages_are_not_checked() {
    let Some(guest) = guest() else { return };
    let page = guest.result("few-pages").exits(0);
    page.prints_words(
        "requested interleave:0-1: not checked: too few pages for 2 NUMA nodes (3 pages of 2 MiB)",
    )
    .never_prints("not evenly distributed");
}

#[test]
fn two_sockets_have_ranks_with_local_memory() {
    let Some(guest) = guest() else { return };
    guest
        .result("ranks")
        .exits(0)
        .prints_words("4 ranks of 1 thread (policy 3 block) bound to cpus {0-1}, {0-1}, {2-3}, {2-3}")
        .prints_words(
            "requested bind:0 (ranks 0-1), bind:1 (ranks 2-3): 100 % of the pages on the NUMA nodes of the \
             policy; 50 % on NUMA node 0, 50 % on NUMA node 1",
        );
}

#[test]
fn two_numa_nodes_and_one_cpu_are_inherited_from_numactl_and_taskset() {
    let Some(guest) = guest() else { return };
    let record = guest.result("inherited").exits(0).json();
    let inherited = &record["machine"]["circumstances"]["inherited"];
    assert_eq!(inherited["policy"], "interleave");
    assert_eq!((&inherited["nodes"], &inherited["cpus"]), (&json!([0, 1]), &json!([2])));
    assert_eq!(measurements(&record)[0]["config"]["places"], json!([[2]]));
}

#[test]
fn two_numa_nodes_have_jobs_as_reported_by_the_kernel() {
    let Some(guest) = guest() else { return };
    let jobs = jobs(&guest.result("where").exits(0));
    assert_eq!(jobs.len(), 2);
    for (name, job) in &jobs {
        job.assert_matches_kernel(name, 2);
    }
    assert!(jobs[0].1.processes[0]["memory"]["page_sizes"]["2097152"].is_u64(), "{jobs:#?}");
}

#[test]
fn two_numa_nodes_make_a_matrix_of_four_pairs() {
    let Some(guest) = guest() else { return };
    let record = guest.result("matrix").exits(0).json();
    let pairs = ["n0->n0", "n0->n1", "n1->n0", "n1->n1"];
    assert_eq!(pairs_of_nodes(&record), BTreeSet::from(pairs), "{record:#}");
    let on_node = |m: &Value| m["config"]["on_node"].as_f64().is_none_or(|share| share > 0.98);
    assert!(measurements(&record).iter().all(on_node), "{record:#}");
}

#[test]
fn two_socket_machine_refuses_missing_numa_nodes_pages_and_cpus() {
    let Some(guest) = guest() else { return };
    guest
        .result("no-node")
        .exits(2)
        .only_error("NUMA node 7 does not exist: this machine has nodes 0-1");
    guest
        .result("no-pages")
        .exits(3)
        .warns("need 228.9 MiB, but only 64 MiB of memory is available")
        .prints_nothing();
    guest
        .result("no-gigantic")
        .exits(3)
        .warns("reserved pages of 1 GiB on NUMA node 0: 0 of 0 free, 1 needed")
        .warns("/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages")
        .prints_nothing();
    guest.result("no-cpu").exits(2).warns("error: ").prints_nothing();
    let notes = guest.result("bound").json();
    assert!(texts(&notes["notices"]).iter().all(|note| !note.contains("cannot")), "{notes:#}");
}

#[test]
fn two_socket_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    guest.assert_unchanged();
}

/// Returns the location of the memory of the first figure.
fn numa(record: &Value) -> &Value {
    &measurements(record)[0]["config"]["numa"]
}
