//! Comparison of `nodegauge where` with the guest's kernel: CPUs of threads from `/proc/PID/task`, memory from
//! `/proc/PID/numa_maps` and `smaps_rollup`. The processes are stopped meanwhile, so both describe the same state.

use crate::look::{Mapping, mapping};
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Size of a transparent huge page in KiB.
const HUGE_KIB: u64 = 2048;

/// Output of one call of the shell function `where_of`.
#[derive(Debug)]
pub struct Job {
    /// Processes in the document of `nodegauge where`.
    pub processes: Vec<Value>,
    kernel: BTreeMap<u64, KernelProcess>,
}

/// Process as the kernel reports it.
#[derive(Debug, Default)]
struct KernelProcess {
    /// CPU and allowed CPUs of each thread.
    threads: BTreeMap<u64, (u64, String)>,
    /// KiB of private memory with each policy.
    policies: BTreeMap<String, u64>,
    /// KiB of private memory on each NUMA node.
    nodes: BTreeMap<u32, u64>,
    /// KiB of private memory on pages of each size in KiB.
    sizes: BTreeMap<u64, u64>,
}

impl KernelProcess {
    /// Adds a line without the number of the process: `thread TID CPU ALLOWED`, `map LINE` or `huge KIB`.
    fn add(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "thread" => {
                let cpu = words[2].parse().unwrap();
                self.threads.insert(words[1].parse().unwrap(), (cpu, words[3].to_owned()));
            }
            "map" => self.add_mapping(&words[1..].join(" ")),
            _ => {
                let huge: u64 = words[1].parse().unwrap();
                *self.sizes.entry(4).or_default() -= huge;
                *self.sizes.entry(HUGE_KIB).or_default() += huge;
            }
        }
    }

    /// Adds a line of `numa_maps`. A mapped file is private memory if most of its pages are copies.
    fn add_mapping(&mut self, line: &str) {
        if !line.contains(" kernelpagesize_kB=") {
            // No page of this mapping is in memory.
            return;
        }
        let Mapping { policy, page_kib, nodes } = mapping(line);
        let kib: u64 = nodes.values().sum();
        let words: Vec<&str> = line.split(' ').collect();
        let is_file = words.iter().any(|word| word.starts_with("file="));
        let copied = words.iter().find_map(|word| word.strip_prefix("anon="));
        let copied_kib = copied.map_or(0, |pages| pages.parse::<u64>().unwrap() * page_kib);
        if is_file && !words.contains(&"huge") && 2 * copied_kib < kib {
            return;
        }
        for (node, kib_on_node) in nodes {
            *self.nodes.entry(node).or_default() += kib_on_node;
        }
        *self.policies.entry(policy).or_default() += kib;
        *self.sizes.entry(page_kib).or_default() += kib;
    }
}

/// Parses the outputs of `where_of` in the output of a command, each below a line `RUN NAME`.
#[track_caller]
pub fn jobs(outcome: &Outcome) -> Vec<(String, Job)> {
    let mut found = Vec::new();
    for part in outcome.stdout.split("RUN ").skip(1) {
        let (name, rest) = part.split_once('\n').unwrap();
        let Some((document, kernel)) = rest.split_once("\n}\n") else {
            outcome.fail(&format!("the processes of {name} were not stopped"));
        };
        let document: Value = serde_json::from_str(&format!("{document}\n}}")).unwrap();
        let mut job = Job {
            processes: document["hosts"][0]["processes"].as_array().unwrap().clone(),
            kernel: BTreeMap::new(),
        };
        for line in kernel.lines().filter_map(|line| line.strip_prefix("kernel ")) {
            let (pid, of_process) = line.split_once(' ').unwrap();
            job.kernel.entry(pid.parse().unwrap()).or_default().add(of_process);
        }
        found.push((name.to_owned(), job));
    }
    found
}

impl Job {
    /// Checks that the document reports the kernel's values: the threads of each process with their CPUs, sockets and
    /// NUMA nodes, and the private memory by NUMA node, policy and page size. Each socket has one NUMA node and
    /// `cpus_per_socket` CPUs with consecutive numbers.
    #[track_caller]
    pub fn assert_matches_kernel(&self, name: &str, cpus_per_socket: u64) {
        let pids: Vec<u64> =
            self.processes.iter().map(|process| process["pid"].as_u64().unwrap()).collect();
        let expected: Vec<u64> = self.kernel.keys().copied().collect();
        assert_eq!(sorted(pids), expected, "{name}");
        for process in &self.processes {
            let kernel = &self.kernel[&process["pid"].as_u64().unwrap()];
            let threads = process["threads"].as_array().unwrap();
            assert_eq!(threads.len(), kernel.threads.len(), "{name}: {process:#}");
            for thread in threads {
                let (cpu, allowed) = &kernel.threads[&thread["tid"].as_u64().unwrap()];
                assert_eq!(thread["cpu"], json!(cpu), "{name}: {thread}");
                assert_eq!(thread["allowed"], json!(allowed), "{name}: {thread}");
                assert_eq!(thread["socket"], json!(cpu / cpus_per_socket), "{name}: {thread}");
                assert_eq!(thread["numa_node"], json!(cpu / cpus_per_socket), "{name}: {thread}");
            }
            let memory = &process["memory"];
            assert_eq!(memory["nodes"], in_bytes(&kernel.nodes), "{name}: {kernel:#?}");
            assert_eq!(memory["page_sizes"], page_sizes(&kernel.sizes), "{name}: {kernel:#?}");
            let largest = kernel.policies.iter().max_by_key(|(_, kib)| **kib).unwrap();
            assert_eq!(memory["policy"], json!(largest.0), "{name}: {kernel:#?}");
        }
    }
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

/// Returns sizes in KiB as the document has them, in bytes.
fn in_bytes(sizes: &BTreeMap<u32, u64>) -> Value {
    sizes.iter().map(|(node, kib)| (node.to_string(), json!(kib << 10))).collect()
}

/// Returns the memory by page size as the document has it; both in bytes.
fn page_sizes(sizes: &BTreeMap<u64, u64>) -> Value {
    let used = sizes.iter().filter(|(_, kib)| **kib > 0);
    used.map(|(page, kib)| ((page << 10).to_string(), json!(kib << 10))).collect()
}

#[test]
fn outputs_of_jobs_are_parsed() {
    let text = "RUN 3 block\n{\n  \"hosts\": [{\"processes\": [{\"pid\": 7}]}]\n}\n\
                kernel 7 thread 8 5 4-7\n\
                kernel 7 map 7f00 bind:1 anon=9 dirty=9 N0=1 N1=1024 kernelpagesize_kB=4\n\
                kernel 7 map 7f01 default file=/bin/x mapped=6 N0=6 kernelpagesize_kB=4\n\
                kernel 7 huge 2048\n";
    let outcome = Outcome::new(String::new(), Some(0), text.to_owned(), String::new());
    let jobs = jobs(&outcome);
    assert_eq!(jobs[0].0, "3 block");
    let kernel = &jobs[0].1.kernel[&7];
    assert_eq!(kernel.threads[&8], (5, "4-7".to_owned()));
    assert_eq!(in_bytes(&kernel.nodes), json!({"0": 4096, "1": 4_194_304}));
    assert_eq!(page_sizes(&kernel.sizes), json!({"4096": 2_101_248, "2097152": 2_097_152}));
}
