//! Machine with two sockets of two cores, two hardware threads per core, and one NUMA node per socket.

use crate::fields::measurements;
use crate::guest::{Guest, Shape, Shared};
use crate::jobs::jobs;
use crate::look::{machine_of, masks, processes};
use serde_json::{Value, json};
use std::collections::BTreeSet;

static SHARED: Shared = Shared::new();
static SMT: Shape = Shape {
    name: "smt",
    qemu: &[
        "-cpu",
        "Skylake-Server-v4",
        "-smp",
        "8,sockets=2,cores=2,threads=2",
        "-m",
        "2048",
        "-object",
        "memory-backend-ram,id=m0,size=1024M",
        "-numa",
        "node,nodeid=0,memdev=m0,cpus=0-3",
        "-object",
        "memory-backend-ram,id=m1,size=1024M",
        "-numa",
        "node,nodeid=1,memdev=m1,cpus=4-7",
    ],
    commands: &[
        ("numactl", "numactl --hardware"),
        ("siblings", "cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list"),
        ("machine", "nodegauge machine --json"),
        (
            "cores",
            "look 1 15 nodegauge stream --size 700000elements --kernels triad --samples 5 --json -",
        ),
        ("cores-look", "cat /tmp/look"),
        (
            "threads",
            "look 1 15 nodegauge stream --threads 8 --size 700000elements --kernels triad --samples 3 --json -",
        ),
        ("threads-look", "cat /tmp/look"),
        (
            "ranks",
            "nodegauge stream --ranks 4 --policy 4 --rank-map core --size 200000elements --kernels triad --samples 2 \
             --json -",
        ),
        (
            "where",
            "echo RUN threads; where_of 1 12 nodegauge stream --threads 8 --size 600000elements --kernels triad \
             --samples 2 --no-save",
        ),
        ("no-threads", "nodegauge stream --threads 9"),
    ],
    ..Shape::PLAIN
};

fn guest() -> Option<&'static Guest> {
    SMT.guest(&SHARED)
}

/// Returns the CPU mask of each core, from the kernel's list of siblings, e.g. `0-1`.
fn cores(guest: &Guest) -> BTreeSet<u64> {
    let siblings = guest.result("siblings").exits(0).stdout;
    let mask = |line: &str| {
        let cpus = line.split(['-', ',']).map(|cpu| 1u64 << cpu.parse::<u32>().unwrap());
        cpus.sum::<u64>()
    };
    siblings.lines().map(mask).collect()
}

/// Returns the masks that contain a single CPU; they belong to measuring threads.
fn single(guest: &Guest, look: &str) -> Vec<u64> {
    let all = masks(&processes(&guest.result(look).exits(0)));
    all.into_iter().filter(|mask| mask.count_ones() == 1).collect()
}

#[test]
fn smt_cores_match_those_that_the_kernel_reports() {
    let Some(guest) = guest() else { return };
    let machine = machine_of(guest);
    let processor = &machine["processor"];
    assert_eq!((&processor["cores"], &processor["threads"]), (&json!(4), &json!(8)));
    assert_eq!(processor["threads_per_core"], 2);
    assert_eq!(cores(guest).len(), 4);
}

#[test]
fn smt_memory_limit_includes_both_sockets() {
    let Some(guest) = guest() else { return };
    let memory = guest.result("machine").exits(0).json()["machine"]["memory"].clone();
    // Skylake-SP has six channels of DDR4-2666 per socket.
    assert_eq!(memory["channels"], 12, "{memory:#}");
    assert_eq!(memory["theoretical"]["at_most"], true);
    let detail = memory["theoretical"]["detail"].as_str().unwrap();
    assert!(detail.contains("whole sockets, of which the guest has only a part"), "{detail}");
}

#[test]
fn smt_cores_have_one_thread_each_unless_more_are_requested() {
    let Some(guest) = guest() else { return };
    let figure = |name: &str| measurements(&guest.result(name).exits(0).json())[0].clone();
    assert_eq!(figure("cores")["config"]["threads"], 4);
    let bound = single(guest, "cores-look");
    assert_eq!(bound.len(), 4);
    for core in cores(guest) {
        assert_eq!(bound.iter().filter(|mask| core & **mask != 0).count(), 1, "{bound:?}");
    }
    assert_eq!(figure("threads")["config"]["threads"], 8);
    assert_eq!(single(guest, "threads-look").len(), 8);
}

#[test]
fn smt_job_is_reported_as_by_the_kernel() {
    let Some(guest) = guest() else { return };
    let jobs = jobs(&guest.result("where").exits(0));
    let job = &jobs[0].1;
    job.assert_matches_kernel(&jobs[0].0, 4);
    // Each hardware thread has a measuring thread, and siblings are on the same core.
    let threads = job.processes[0]["threads"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    for thread in threads.iter().filter(|thread| is_bound_to_its_cpu(thread)) {
        let cpu = thread["cpu"].as_u64().unwrap();
        // The kernel numbers the cores of each socket.
        assert_eq!(thread["core"], json!(cpu % 4 / 2), "{thread}");
        seen.insert(cpu);
    }
    assert_eq!(seen.len(), 8, "{threads:#?}");
}

/// True if a thread in the document of `nodegauge where` may run only on the CPU on which it was.
fn is_bound_to_its_cpu(thread: &Value) -> bool {
    thread["allowed"].as_str() == Some(&thread["cpu"].to_string())
}

#[test]
fn smt_ranks_have_separate_cores() {
    let Some(guest) = guest() else { return };
    let record = guest.result("ranks").exits(0).json();
    let ranks = measurements(&record)[0]["config"]["ranks"].as_array().unwrap().clone();
    let mask = |cpu: &serde_json::Value| 1u64 << cpu.as_u64().unwrap();
    let places = ranks.iter().map(|rank| rank["cpus"].as_array().unwrap().iter().map(mask).sum());
    let places: Vec<u64> = places.collect();
    for core in cores(guest) {
        assert_eq!(places.iter().filter(|place| core & **place != 0).count(), 1, "{places:?}");
    }
    for (number, rank) in ranks.iter().enumerate() {
        let node = (number / 2).to_string();
        assert!(rank["memory_got"][node].as_f64().unwrap_or(0.0) > 0.98, "{rank:#}");
    }
}

#[test]
fn smt_refuses_more_threads_than_available() {
    let Some(guest) = guest() else { return };
    guest.result("no-threads").exits(2).warns("error: ").prints_nothing();
}

#[test]
fn smt_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    guest.assert_unchanged();
}
