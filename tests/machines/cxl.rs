//! Machine with two sockets that have one NUMA node each, and with a NUMA node without CPUs. One CPU is offline, and 64
//! pages of 2 MiB are reserved.

use crate::fields::measurements;
use crate::guest::{Guest, Shape, Shared};
use crate::look::{machine_of, mappings, masks, pairs_of_nodes, processes};
use serde_json::json;
use std::collections::BTreeSet;

static SHARED: Shared = Shared::new();
static CXL: Shape = Shape {
    name: "cxl",
    qemu: &[
        "-cpu",
        "Haswell-v4",
        "-smp",
        "4,sockets=2,cores=2",
        "-m",
        "3584",
        "-object",
        "memory-backend-ram,id=m0,size=1024M",
        "-numa",
        "node,nodeid=0,memdev=m0,cpus=0-1",
        "-object",
        "memory-backend-ram,id=m1,size=1024M",
        "-numa",
        "node,nodeid=1,memdev=m1,cpus=2-3",
        "-object",
        "memory-backend-ram,id=m2,size=1536M",
        "-numa",
        "node,nodeid=2,memdev=m2",
        "-numa",
        "dist,src=0,dst=1,val=32",
        "-numa",
        "dist,src=0,dst=2,val=17",
        "-numa",
        "dist,src=1,dst=2,val=28",
    ],
    kernel: "hugepages=64",
    setup: "echo 0 >/sys/devices/system/cpu/cpu3/online",
    commands: &[
        ("numactl", "numactl --hardware"),
        ("machine", "nodegauge machine --json"),
        (
            "far",
            "look 1 20 nodegauge stream --numa bind:2 --size 1000000elements --kernels triad --samples 5 --json -",
        ),
        ("far-look", "cat /tmp/look"),
        (
            "huge",
            "look 1 10 nodegauge stream --numa bind:2 --pages 2m --size 500000elements --kernels copy --samples 5 \
             --json -",
        ),
        ("huge-look", "cat /tmp/look"),
        ("matrix", "nodegauge memory matrix --size 8MiB --samples 1 --json -"),
        (
            "ranks",
            "nodegauge stream --ranks 3 --policy 3 --size 200000elements --kernels triad --samples 2 --json -",
        ),
        ("no-cpu", "nodegauge stream --ranks 1 --cpus 3"),
        (
            "no-pages",
            "nodegauge stream --numa bind:2 --pages 2m --memory-fraction 1 --size 3000000elements",
        ),
    ],
    ..Shape::PLAIN
};

fn guest() -> Option<&'static Guest> {
    CXL.guest(&SHARED)
}

#[test]
fn cxl_memory_is_a_numa_node_without_cpus() {
    let Some(guest) = guest() else { return };
    let machine = machine_of(guest);
    assert_eq!(machine["numa_nodes"][2]["cpus"], json!([]));
    assert_eq!(machine["numa_nodes"][1]["cpus"], json!([2]));
    assert_eq!(machine["processor"]["threads"], 3);
}

#[test]
fn cxl_memory_is_used_when_selected() {
    let Some(guest) = guest() else { return };
    let record = guest.result("far").exits(0).json();
    assert_eq!(measurements(&record)[0]["config"]["numa"]["got"], json!({"2": 1.0}));
    let far = processes(&guest.result("far-look").exits(0));
    for mapping in mappings(&far) {
        assert_eq!((mapping.policy.as_str(), mapping.share(2)), ("bind:2", 1.0));
    }
    // The offline CPU has no thread.
    assert!(masks(&far).iter().all(|mask| mask & 8 == 0), "{far:?}");
    assert!([1, 2, 4].iter().all(|mask| masks(&far).contains(mask)), "{far:?}");
}

#[test]
fn cxl_memory_provides_the_reserved_pages_of_arrays() {
    let Some(guest) = guest() else { return };
    let record = guest.result("huge").exits(0).json();
    assert_eq!(measurements(&record)[0]["config"]["pages"]["got"], json!({"2097152": 1.0}));
    for mapping in mappings(&processes(&guest.result("huge-look").exits(0))) {
        assert_eq!((mapping.policy.as_str(), mapping.page_kib), ("bind:2", 2048));
        assert_eq!(mapping.share(2), 1.0);
    }
}

#[test]
fn cxl_memory_is_read_by_the_cpus_of_other_numa_nodes() {
    let Some(guest) = guest() else { return };
    let record = guest.result("matrix").exits(0).json();
    let pairs = ["n0->n0", "n0->n1", "n0->n2", "n1->n0", "n1->n1", "n1->n2"];
    assert_eq!(pairs_of_nodes(&record), BTreeSet::from(pairs));
}

#[test]
fn cxl_ranks_are_on_the_cpus_that_are_online() {
    let Some(guest) = guest() else { return };
    let record = guest.result("ranks").exits(0).json();
    let config = &measurements(&record)[0]["config"];
    let cpus: Vec<&serde_json::Value> =
        config["ranks"].as_array().unwrap().iter().map(|rank| &rank["cpus"]).collect();
    assert_eq!(cpus, [&json!([0, 1]), &json!([0, 1]), &json!([2])]);
    assert_eq!(config["numa"]["asked"], "bind:0 (ranks 0-1), bind:1 (rank 2)");
    assert_eq!(config["numa"]["held"], 1.0);
}

#[test]
fn cxl_refuses_an_offline_cpu_and_too_few_reserved_pages() {
    let Some(guest) = guest() else { return };
    guest.result("no-cpu").exits(2).warns("error: ").prints_nothing();
    guest.result("no-pages").exits(3).warns("memory is available").prints_nothing();
}

#[test]
fn cxl_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    guest.assert_unchanged();
}
