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
