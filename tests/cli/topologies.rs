//! Tests of `machine`, `places`, `hpl --plan` and `doctor` with recreated descriptions of machines with unusual
//! topologies.

use crate::harness::{Harness, Part};
use crate::program;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies");

fn described(name: &str) -> String {
    format!("{FOLDER}/{name}.xml")
}

#[test]
fn pages_and_plans_agree_with_the_topology_files() {
    let harness = Harness::new();
    if !harness.has(Part::Python, "python3") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/topologies");
    let checked = harness.run_other(&["python3", script, FOLDER, program::path()], &[]).exits(0);
    checked.prints_words("0 checks failed");
}

#[test]
fn unusable_cpus_are_listed_separately() {
    Harness::new()
        .run(&["machine", "--topology", &described("cpuset")])
        .exits(0)
        .prints_words("node 0: 16 GiB, cpus 0-1")
        .prints_words("node 1: 16 GiB, cpus 2, cpus 3 not allowed here, or offline")
        .prints_words("node 2: 16 GiB, cpus 4-7 not allowed here, or offline")
        .prints_words("L3 unified: 2 x 4 MiB, each shared by 1 to 2 cores");
}

#[test]
fn memory_kind_and_memory_side_cache_are_printed() {
    Harness::new()
        .run(&["machine", "--topology", &described("hybrid-mode"), "--dimms", "6x2400"])
        .exits(0)
        .prints_words("node 0: 8 GiB of DRAM behind a memory-side cache of 2 GiB, cpus 0-3")
        .prints_words("node 1: 2 GiB of MCDRAM, no cpus")
        .prints_words("of DRAM only; the bandwidth of MCDRAM (NUMA node 1) is unknown");
}

#[test]
fn cores_are_chosen_by_their_class() {
    let five_kinds = described("five-kinds");
    Harness::new()
        .run(&["machine", "--topology", &five_kinds])
        .exits(0)
        .prints_words("cores fast: 10 cores, cpus 5-9,15-19, capacity 997 to 1024")
        .prints_words("cores slow: 10 cores, cpus 0-4,10-14, capacity 718 to 731");
    for (cores, threads) in [("fast", 10), ("slow", 10), ("all", 20)] {
        let args = ["places", "--json", "--topology", &five_kinds, "--cores", cores];
        let document = Harness::new().run(&args).exits(0).warns_nothing().json();
        assert_eq!(document["threads"].as_array().unwrap().len(), threads, "{cores}");
    }
    let args = ["places", "--topology", &five_kinds, "--cores", "IntelAtom"];
    Harness::new().run(&args).exits(2).warns("use all, fast, slow");
}

#[test]
fn plan_has_the_peak_of_the_chosen_cores() {
    let three_classes = described("three-classes");
    let plan = |options: &[&str]| {
        let args = ["hpl", "--plan", "--memory", "4GiB", "--processor", "EPYC 9654"];
        let args = [&args[..], &["--topology", &three_classes], options].concat();
        Harness::new().run(&args).exits(0)
    };
    plan(&["--cores", "slow"])
        .prints_words("Rpeak at most 40.00 GFLOP/s = (2 slow cores x 1.250 GHz)")
        .prints_words("native 2 threads; one thread factors a panel");
    plan(&["--cores", "class2"])
        .prints_words("Rpeak at most 121.6 GFLOP/s = (4 class2 cores x 1.900 GHz)");
    plan(&[]).prints_words("Rpeak at most 153.6 GFLOP/s = (4 fast cores x 2.400 GHz)");
    let ranks = ["hpl", "--plan", "--order", "1000", "--ranks", "8"];
    let args = [&ranks[..], &["--topology", "synthetic:Package:1 Core:1 PU:1"]].concat();
    Harness::new().run(&args).exits(2).warns("cannot place 8 ranks of 1 thread");
}

#[test]
fn threads_that_are_not_bound_use_no_class() {
    let three_classes = described("three-classes");
    let args = ["places", "--topology", &three_classes, "--bind", "none"];
    Harness::new()
        .run(&args)
        .exits(0)
        .prints_words("threads are not bound and may run on every core");
}

#[test]
fn cache_sizes_are_listed_separately() {
    Harness::new()
        .run(&["machine", "--topology", &described("l3-sizes")])
        .exits(0)
        .prints_words("L3 unified: 1 x 96 MiB")
        .prints_words("L3 unified: 1 x 32 MiB");
}

#[test]
fn memory_outside_the_cpuset_is_not_counted() {
    let disallowed = described("disallowed-nodes");
    Harness::new()
        .run(&["doctor", "--topology", &disallowed])
        .exits(0)
        .prints_words("this process may not use the memory of NUMA node 1 (64 GiB)");
    let bound = ["places", "--topology", &disallowed, "--numa", "bind:1"];
    Harness::new().run(&bound).exits(2).warns("may not use the memory of NUMA node 1");
}

#[cfg(unix)]
#[test]
fn value_that_is_not_utf8_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    let value = std::ffi::OsStr::from_bytes(b"2\xff");
    let run = std::process::Command::new(program::path())
        .args(["places", "--topology", "synthetic:Package:1 Core:4 PU:1"])
        .env("OMP_NUM_THREADS", value)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("OMP_NUM_THREADS"), "{run:?}");
}

#[test]
fn gomp_cpu_affinity_is_honoured_and_kmp_hw_subset_is_ignored() {
    let variables = [("GOMP_CPU_AFFINITY", "4-7:1 0"), ("KMP_HW_SUBSET", "1s")];
    Harness::new()
        .run_with(&variables, &["places", "--topology", "synthetic:Package:1 Core:8 PU:1"])
        .exits(0)
        .prints_words("GOMP_CPU_AFFINITY=4-7:1 0 honoured")
        .prints_words("KMP_HW_SUBSET=1s ignored");
}

#[test]
fn doctor_reports_findings_about_a_described_machine() {
    let args = ["doctor", "--topology", "synthetic:Package:1 Core:8 PU:1"];
    Harness::new().run(&args).exits(0).prints_words("the theoretical memory bandwidth is unknown");
    Harness::new().run(&["doctor", "--topology", &described("five-kinds")]).exits(0).prints_words(
        "cores differ in speed: 10 cores of class fast (cpus 5-9,15-19), 10 cores of class slow",
    );
}
