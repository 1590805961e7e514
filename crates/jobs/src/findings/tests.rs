//! Tests of the findings: placement mistakes on synthetic machines, and correct placements.

use super::all_findings;
use crate::document::{JobDevice, JobHost};
use crate::tests::{SMT, SyntheticProcess, SyntheticThread, T2K, bound, host, on, rank};
use nodegauge_measure::record::Severity;

const ALL_T2K: &str = "0-15";
const ALL_SMT: &str = "0-31";

fn ids(hosts: &[JobHost]) -> Vec<String> {
    all_findings(hosts).into_iter().map(|finding| finding.id).collect()
}

fn on_t2k(processes: &[SyntheticProcess]) -> JobHost {
    host(T2K, "n1", ALL_T2K, processes, false)
}

fn on_smt(processes: &[SyntheticProcess]) -> JobHost {
    host(SMT, "n1", ALL_SMT, processes, false)
}

/// Returns one process without a launcher.
fn process(threads: Vec<SyntheticThread>) -> SyntheticProcess {
    SyntheticProcess { threads, ..SyntheticProcess::default() }
}

/// Returns ranks with one thread each on these CPUs.
fn ranks(cpus: &[u32]) -> Vec<SyntheticProcess> {
    let count = cpus.len() as u32;
    (0..).zip(cpus).map(|(number, cpu)| rank(number, count, vec![bound(*cpu)])).collect()
}

fn threads(cpus: impl IntoIterator<Item = u32>) -> Vec<SyntheticThread> {
    cpus.into_iter().map(bound).collect()
}

#[test]
fn placement_mistakes_are_found() {
    let smt_far = rank(0, 2, threads([0, 2])).memory("bind:3", &[(3, 900)]);
    let smt_near = rank(1, 2, threads([16, 18])).memory("default", &[(2, 900)]);
    let swapped = SyntheticProcess { swapped_kib: 300_000, ..process(threads([0])) };
    let group = SyntheticProcess { group: "/job_7".to_owned(), ..process(threads(0..4)) };
    let mut moving = on("0-15", 1);
    moving.cpus = [1, 9];
    let small = process(threads([0])).memory("default", &[(0, 3000)]);
    let cases: Vec<(&str, JobHost)> = vec![
        ("one-cpu", on_t2k(&[process(vec![bound(3).waits(0.75); 4])])),
        ("one-cpu", on_t2k(&[rank(0, 2, threads([0, 0, 0])), rank(1, 2, threads([4, 4, 4]))])),
        ("shared-cpu", on_t2k(&ranks(&[0, 4, 4, 8, 12]))),
        ("shared-cpu", on_t2k(&[process((0..6).map(|at| on("0-3", at % 4)).collect())])),
        ("shared-cpu", on_t2k(&[process(vec![on("0-15", 2).waits(0.5), on("0-3", 2).waits(0.5)])])),
        ("smt-siblings", on_smt(&[process(threads([0, 1]))])),
        ("smt-siblings", on_smt(&[process(vec![on("0-1", 0), on("0-1", 1)])])),
        ("smt-siblings", on_smt(&ranks(&[0, 1, 16, 17]))),
        ("memory-on-other-socket", on_smt(&[smt_far, smt_near])),
        (
            "memory-on-other-node",
            on_smt(&[process(threads([0])).memory("default", &[(0, 10), (1, 900)])]),
        ),
        (
            "memory-on-one-node",
            on_t2k(&[process(threads([0, 4, 8, 12])).memory("default", &[(0, 900)])]),
        ),
        ("not-spread", on_t2k(&ranks(&[0, 1, 2, 3]))),
        ("not-spread", on_smt(&ranks(&[0, 8]))),
        ("quota", on_t2k(&[group])),
        ("swapped", on_t2k(&[swapped])),
        ("small-pages", on_t2k(&[small])),
        ("moving-threads", on_t2k(&[process(vec![moving])])),
        (
            "one-cpu",
            host(
                T2K,
                "n1",
                ALL_T2K,
                &[
                    rank(0, 2, threads([0])).variable("OMP_NUM_THREADS", "4"),
                    rank(1, 2, threads([4])),
                ],
                true,
            ),
        ),
        ("shared-cpu", host(T2K, "n1", ALL_T2K, &ranks(&[5, 5, 0, 8, 12]), true)),
        (
            "smt-siblings",
            host(
                SMT,
                "n1",
                ALL_SMT,
                &[
                    rank(0, 2, vec![on("0-1", 0)]).variable("OMP_NUM_THREADS", "2"),
                    rank(1, 2, vec![on("16-17", 16)]),
                ],
                true,
            ),
        ),
    ];
    for (expected, of_host) in cases {
        let found = ids(std::slice::from_ref(&of_host));
        assert_eq!(found, [expected], "{:#?}", all_findings(&[of_host]));
    }
}

#[test]
fn correct_placements_have_no_finding() {
    let cases: Vec<(&str, JobHost)> = vec![
        ("a rank per socket", on_t2k(&ranks(&[0, 4, 8, 12]))),
        ("full node", on_t2k(&ranks(&(0..16).collect::<Vec<_>>()))),
        ("two ranks per socket", on_t2k(&ranks(&[0, 1, 4, 5, 8, 9, 12, 13]))),
        ("cyclic", on_t2k(&ranks(&[0, 4, 8, 12, 1, 5, 9, 13]))),
        ("fewer ranks than sockets", on_t2k(&ranks(&[0, 4]))),
        ("one thread", on_t2k(&[process(threads([7]))])),
        ("threads on all cores", on_t2k(&[process(threads(0..16))])),
        ("threads on one socket", on_t2k(&[process(threads(0..4))])),
        ("free threads", on_t2k(&[process((0..4).map(|cpu| on("0-15", 4 * cpu)).collect())])),
        (
            "first touch by all",
            on_t2k(&[process(threads([0, 4])).memory("default", &[(0, 450), (1, 450)])]),
        ),
        (
            "interleaved",
            on_t2k(&[process(threads([0]))
                .memory("interleave:0-3", &[(0, 200), (1, 200), (2, 200), (3, 200)])]),
        ),
        (
            "small memory of another node",
            on_smt(&[process(threads([0])).memory("default", &[(3, 8)])]),
        ),
        (
            "bound memory",
            on_smt(&[
                rank(0, 2, threads([0, 2])).memory("bind:0", &[(0, 900)]),
                rank(1, 2, threads([16, 18])).memory("bind:2", &[(2, 900)]),
            ]),
        ),
        ("every core of SMT", on_smt(&[process(threads((0..16).map(|core| 2 * core)))])),
        ("every hardware thread", on_smt(&[process(threads(0..32))])),
        (
            "siblings within half a node of which all cores are used",
            host(SMT, "n1", "0-7", &[process(threads(0..8))], false),
        ),
        (
            "huge pages",
            on_t2k(&[SyntheticProcess {
                huge_kib: 2_900_000,
                ..process(threads([0])).memory("default", &[(0, 3000)])
            }]),
        ),
        (
            "idle threads of a library",
            on_t2k(&[process(vec![bound(0), bound(0).sleeps(), bound(0).sleeps()])]),
        ),
        (
            "quota of the busy threads",
            on_t2k(&[SyntheticProcess { group: "/job_7".to_owned(), ..process(threads([0, 1])) }]),
        ),
        (
            "in place, with cores for the threads",
            host(
                T2K,
                "n1",
                ALL_T2K,
                &[
                    rank(0, 2, vec![on("0-3", 0)]).variable("OMP_NUM_THREADS", "4"),
                    rank(1, 2, vec![on("4-7", 4)]).variable("OMP_NUM_THREADS", "4"),
                ],
                true,
            ),
        ),
    ];
    assert_eq!(cases.len(), 20);
    for (name, of_host) in cases {
        assert!(of_host.findings.is_empty(), "{name}: {:#?}", of_host.findings);
    }
}

#[test]
fn host_with_different_placement_is_reported() {
    let mut hosts: Vec<JobHost> = Vec::new();
    for name in ["n1", "n2", "n3"] {
        let cpus = if name == "n2" { [0, 1, 8, 12] } else { [0, 4, 8, 12] };
        hosts.push(host(T2K, name, ALL_T2K, &ranks(&cpus), false));
    }
    let found = all_findings(&hosts);
    let differs: Vec<&str> = found
        .iter()
        .filter(|finding| finding.id == "placement-differs")
        .map(|finding| finding.text.as_str())
        .collect();
    let expected = "placement on n2 differs from that on 2 hosts: (CPUs 1, 1 busy, default) instead of (CPUs 4, 1 busy, default)";
    assert_eq!(differs, [expected]);
    hosts.remove(1);
    assert!(all_findings(&hosts).is_empty());
}

#[test]
fn far_device_is_reported_if_no_near_one_exists() {
    let mut of_host = on_t2k(&ranks(&[0, 4]));
    let device = |near| JobDevice {
        address: "0000:c1:00.0".to_owned(),
        name: "renderD129".to_owned(),
        is_network: false,
        numa_node: Some(3),
        near: Some(near),
        basis: "ROCR_VISIBLE_DEVICES=1".to_owned(),
    };
    of_host.processes[0].devices = vec![device(false)];
    of_host.processes[1].devices = vec![device(true), device(false)];
    let found = super::far_devices(&of_host);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].text,
        "rank 0 is far from the GPU, e.g. renderD129 (0000:c1:00.0) at NUMA node 3"
    );
    of_host.processes[0].devices[0].is_network = true;
    assert_eq!(super::far_devices(&of_host)[0].id, "network-far");
}

#[test]
fn findings_are_sorted_worst_first() {
    let far = rank(0, 2, threads([0, 1])).memory("bind:3", &[(3, 2000)]);
    let other = rank(1, 2, threads([2, 2]));
    let found = all_findings(&[on_smt(&[far, other])]);
    assert!(found.len() > 3, "{found:#?}");
    assert!(found.is_sorted_by(|a, b| a.severity >= b.severity));
    assert_eq!(found[0].severity, Severity::Critical);
}
