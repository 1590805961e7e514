//! Information from the guest's kernel, which does not depend on nodegauge: the NUMA nodes (`numactl --hardware`), the
//! memory policies and NUMA nodes of measuring processes (`/proc/PID/numa_maps`), and the CPUs of their threads
//! (`taskset`).

use crate::fields::measurements;
use crate::guest::Guest;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// State of a process after it has allocated all its memory.
#[derive(Debug, Default)]
pub struct Process {
    pub mappings: Vec<Mapping>,
    /// CPUs of its threads as bit masks, without repetitions.
    pub masks: BTreeSet<u64>,
}

/// Large mapping without a file.
#[derive(Debug)]
pub struct Mapping {
    /// Policy as the kernel writes it, e.g. `interleave:0-3`.
    pub policy: String,
    /// Page size in KiB.
    pub page_kib: u64,
    /// Memory on each NUMA node in KiB.
    pub nodes: BTreeMap<u32, u64>,
}

impl Mapping {
    /// Returns the share of the memory on a NUMA node, 0 to 1.
    pub fn share(&self, node: u32) -> f64 {
        let all: u64 = self.nodes.values().sum();
        self.nodes.get(&node).copied().unwrap_or(0) as f64 / all as f64
    }
}

/// Returns the large mappings of all processes.
pub fn mappings(processes: &[Process]) -> impl Iterator<Item = &Mapping> {
    processes.iter().flat_map(|process| &process.mappings)
}

/// Returns the CPU masks of the threads of all processes.
pub fn masks(processes: &[Process]) -> BTreeSet<u64> {
    processes.iter().flat_map(|process| process.masks.clone()).collect()
}

/// Returns the machine that nodegauge describes. Its NUMA nodes are compared with the output of numactl.
#[track_caller]
pub fn machine_of(guest: &Guest) -> Value {
    let hardware = Hardware::parse(&guest.result("numactl").exits(0));
    let machine = guest.result("machine").exits(0).json()["machine"].clone();
    hardware.assert_describes(&machine);
    machine
}

/// Returns the names of the pairs of NUMA nodes that `memory matrix` measured, sorted. Names of write bandwidths have a
/// suffix.
pub fn pairs_of_nodes(record: &Value) -> BTreeSet<&str> {
    let pairs = measurements(record).iter().filter(|m| m["config"]["from_node"].is_number());
    pairs.map(|m| m["name"].as_str().unwrap().trim_end_matches("_write")).collect()
}

/// NUMA nodes as `numactl --hardware` prints them.
#[derive(Debug)]
struct Hardware {
    /// CPUs of each NUMA node.
    cpus: Vec<Vec<u32>>,
    /// Memory of each NUMA node in MiB.
    mib: Vec<u64>,
    /// Distances from each NUMA node.
    distances: Vec<Vec<u32>>,
}

impl Hardware {
    /// Parses the output of numactl.
    #[track_caller]
    fn parse(numactl: &Outcome) -> Self {
        fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        }
        let after = |mark: &str| {
            let lines = numactl.stdout.lines().filter(|line| line.starts_with("node "));
            lines.filter_map(|line| Some(line.split_once(mark)?.1)).collect::<Vec<_>>()
        };
        let rows = numactl.stdout.lines().filter_map(|line| {
            let (node, distances) = line.trim_start().split_once(':')?;
            node.parse::<u32>().ok().map(|_| numbers(distances))
        });
        let found = Self {
            cpus: after(" cpus:").into_iter().map(numbers).collect(),
            mib: after(" size:").into_iter().flat_map(numbers::<u64>).collect(),
            distances: rows.collect(),
        };
        if found.cpus.is_empty() || found.mib.len() != found.cpus.len() {
            numactl.fail("expected the nodes of this machine");
        }
        found
    }

    /// Checks that the NUMA nodes of the machine in a record are the same.
    #[track_caller]
    fn assert_describes(&self, machine: &Value) {
        let nodes = machine["numa_nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), self.cpus.len(), "{self:?}");
        for (number, node) in nodes.iter().enumerate() {
            assert_eq!(node["id"], json!(number));
            assert_eq!(node["cpus"], json!(self.cpus[number]));
            assert_eq!(node["bytes"].as_u64().unwrap() >> 20, self.mib[number]);
            assert_eq!(node["distances"], json!(self.distances[number]));
        }
    }
}

/// Parses the output of the command that prints `/tmp/look`.
#[track_caller]
pub fn processes(look: &Outcome) -> Vec<Process> {
    let mut found: BTreeMap<&str, Process> = BTreeMap::new();
    for line in look.stdout.lines() {
        let Some((path, rest)) = line.split_once(' ').filter(|_| line.starts_with("/proc/")) else {
            look.fail("the look at the processes failed");
        };
        let process = found.entry(path).or_default();
        match rest.rsplit_once("affinity mask: ") {
            Some((_, mask)) => {
                process.masks.insert(u64::from_str_radix(mask, 16).unwrap());
            }
            None => process.mappings.push(mapping(rest)),
        }
    }
    found.into_values().filter(|process| !process.mappings.is_empty()).collect()
}

/// Parses a line of `numa_maps`.
#[track_caller]
pub fn mapping(line: &str) -> Mapping {
    let fields: BTreeMap<&str, &str> =
        line.split(' ').filter_map(|word| word.split_once('=')).collect();
    let Some(page_kib) = fields.get("kernelpagesize_kB").and_then(|size| size.parse().ok()) else {
        panic!("not a line of numa_maps: {line}");
    };
    let node = |(name, pages): (&&str, &&str)| {
        let node = name.strip_prefix('N')?.parse().ok()?;
        Some((node, pages.parse::<u64>().ok()? * page_kib))
    };
    Mapping {
        policy: line.split(' ').nth(1).unwrap().to_owned(),
        page_kib,
        nodes: fields.iter().filter_map(node).collect(),
    }
}

#[test]
fn numa_maps_and_affinity_lines_are_parsed() {
    let text = "/proc/7/numa_maps 7f00 bind:0-1 anon=9 dirty=9 N0=6 N1=3 kernelpagesize_kB=4 KiB=36\n\
                /proc/7/numa_maps pid 8's current affinity mask: f0\n";
    let look = Outcome::new(String::new(), Some(0), text.to_owned(), String::new());
    let processes = processes(&look);
    let mapping = &processes[0].mappings[0];
    assert_eq!((mapping.policy.as_str(), mapping.nodes[&1]), ("bind:0-1", 12));
    assert!((mapping.share(0) - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(processes[0].masks, BTreeSet::from([0xf0]));
}
