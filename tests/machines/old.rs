//! Machine with one CPU of 2008, which has SSE 4.2 and no AVX.

use crate::fields::measurements;
use crate::guest::{Guest, Shape, Shared};
use serde_json::json;

static SHARED: Shared = Shared::new();
static OLD: Shape = Shape {
    name: "old",
    qemu: &["-cpu", "Nehalem", "-smp", "1", "-m", "1536"],
    commands: &[
        ("machine", "nodegauge machine --json"),
        ("stream", "nodegauge stream --size 300000elements --samples 2 --json -"),
        ("hpl", "nodegauge hpl -N 128 --nb 32 --samples 1 --budget 1 --json -"),
        ("matrix", "nodegauge memory matrix --size 1MiB --samples 1 --json -"),
        ("no-ranks", "nodegauge stream --ranks 2"),
        ("no-threads", "nodegauge stream --threads 2"),
        ("no-node", "nodegauge stream --numa interleave:0-1"),
    ],
    ..Shape::PLAIN
};

fn guest() -> Option<&'static Guest> {
    OLD.guest(&SHARED)
}

#[test]
fn old_processors_use_loops_without_avx() {
    let Some(guest) = guest() else { return };
    let machine = guest.result("machine").exits(0).json()["machine"].clone();
    assert_eq!(machine["processor"]["isa"], json!(["sse2", "sse4.2"]));
    assert_eq!(machine["processor"]["threads"], 1);
    let record = guest.result("stream").exits(0).json();
    for m in measurements(&record) {
        let isa = m["config"]["isa"].as_str().unwrap();
        assert!(["portable", "sse2"].contains(&isa), "{m:#}");
        assert_eq!(m["config"]["threads"], 1);
        assert!(m["value"].as_f64().unwrap() > 0.0, "{m:#}");
    }
}

#[test]
fn old_processors_solve_a_linear_system() {
    let Some(guest) = guest() else { return };
    let record = guest.result("hpl").exits(0).json();
    let rating = measurements(&record).iter().find(|m| m["name"] == "rating").unwrap();
    assert_ne!(rating["validity"]["status"], "invalid", "{rating:#}");
    assert!(rating["value"].as_f64().unwrap() > 0.0, "{rating:#}");
}

#[test]
fn old_machines_have_a_matrix_of_one_numa_node() {
    let Some(guest) = guest() else { return };
    let record = guest.result("matrix").exits(0).json();
    let mut names: Vec<&str> =
        measurements(&record).iter().map(|m| m["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["n0->n0", "n0->n0_write"], "{record:#}");
}

#[test]
fn old_machines_refuse_a_second_cpu_and_numa_node() {
    let Some(guest) = guest() else { return };
    guest.result("no-ranks").exits(2).warns("cannot place 2 ranks").prints_nothing();
    guest.result("no-threads").exits(2).warns("error: ").prints_nothing();
    guest.result("no-node").exits(2).warns("NUMA node 1 does not exist").prints_nothing();
}

#[test]
fn old_guest_is_unchanged_after_all_commands() {
    let Some(guest) = guest() else { return };
    guest.assert_unchanged();
}
