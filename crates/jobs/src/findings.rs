//! Findings: conditions that make a job slower, derived from the resources of its processes. The worst finding is
//! first, and each has a remedy.
//!
//! A finding needs evidence in the readings, for example two threads that are bound to one CPU or waited for it, or
//! memory on a NUMA node without threads. Settings that a user may want are not findings: interleaved memory, unbound
//! threads, both hardware threads of a core.

use crate::cpus::CpuTable;
use crate::document::{JobHost, JobProcess, JobThread, SCHEMA, WhereDocument};
use nodegauge_machine::{number_list, number_ranges};
use nodegauge_measure::Fraction;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Finding, Severity};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

mod across;
mod memory;
#[cfg(test)]
mod tests;

/// Share of waiting from which two threads on one CPU count as disturbing each other. A thread alone on its CPU waits
/// for less than 1 % of its time (kernel threads, interrupts).
const MIN_WAITING: f64 = 0.1;
/// Maximum number of processes without ranks that a finding names.
const MAX_NAMED: usize = 4;
/// Minimum number of readings of a thread. If all of them are on one CPU, the thread counts as bound to this CPU.
const MIN_BOUND_READINGS: u32 = 3;

/// Creates the document for several hosts, with the findings on each host and on the differences between hosts.
pub fn where_document(version: String, hosts: Vec<JobHost>, missing: Vec<String>) -> WhereDocument {
    let findings = all_findings(&hosts);
    WhereDocument { schema: SCHEMA.to_owned(), version, hosts, missing, findings }
}

/// Returns the findings on all hosts and on their differences, worst first. With several hosts, each finding names its
/// host.
fn all_findings(hosts: &[JobHost]) -> Vec<Finding> {
    let mut found = Vec::new();
    for host in hosts {
        for finding in &host.findings {
            let mut finding = finding.clone();
            if hosts.len() > 1 {
                finding.text = format!("{}: {}", host.host, finding.text);
            }
            found.push(finding);
        }
    }
    found.extend(across::different_placements(hosts));
    found.sort_by_key(|finding| Reverse(finding.severity));
    found
}

/// Returns the findings on one host, worst first.
pub(crate) fn host_findings(host: &JobHost, table: &CpuTable<'_>) -> Vec<Finding> {
    let threads = working_threads(host);
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    found.extend(single_cpu_processes(host, table, &mut reported));
    found.extend(shared_cpus(&threads, &mut reported));
    found.extend(sibling_threads(host, table, &threads, &reported));
    found.extend(quota(host));
    found.extend(uneven_ranks(host, table));
    found.extend(moving_threads(&threads));
    found.extend(memory::findings(host, table));
    found.extend(far_devices(host));
    found.sort_by_key(|finding| Reverse(finding.severity));
    found
}

/// Thread that uses its CPU, with its process.
struct WorkingThread<'h> {
    process: &'h JobProcess,
    thread: &'h JobThread,
}

/// Returns the busy threads of all processes. If this program runs in place of the user's program, the first threads of
/// its processes count as busy.
fn working_threads(host: &JobHost) -> Vec<WorkingThread<'_>> {
    let mut threads = Vec::new();
    for process in &host.processes {
        let busy = process.threads.iter().filter(|thread| thread.busy);
        threads.extend(busy.map(|thread| WorkingThread { process, thread }));
    }
    threads
}

/// Returns the number of threads of a process. If this program runs in place of the user's program, returns the number
/// of requested threads.
fn thread_count(host: &JobHost, process: &JobProcess) -> usize {
    let busy = process.threads.iter().filter(|thread| thread.busy).count();
    let requested = process.requested_threads.unwrap_or(1) as usize;
    if host.in_place { requested } else { busy }
}

/// Names processes: `rank 2`, `ranks 0-3`, `process 12 (solver)`, `processes 12, 14`.
fn process_names(processes: &[&JobProcess]) -> String {
    let ranks: Vec<u32> = processes.iter().filter_map(|process| process.rank).collect();
    match processes {
        [one] => one.title(),
        _ if ranks.len() == processes.len() => format!("ranks {}", number_ranges(&ranks)),
        _ => {
            let shown = processes.len().min(MAX_NAMED);
            let titles: Vec<String> = processes[..shown].iter().map(|one| one.title()).collect();
            match processes.len() - shown {
                0 => titles.join(", "),
                more => format!("{} and {more} more", titles.join(", ")),
            }
        }
    }
}

/// Names the processes to which these threads belong, each process once.
fn owner_names<'h>(threads: &[&WorkingThread<'h>]) -> String {
    let mut processes: Vec<&JobProcess> = Vec::new();
    for thread in threads {
        if processes.iter().all(|known| known.pid != thread.process.pid) {
            processes.push(thread.process);
        }
    }
    process_names(&processes)
}

/// Returns the launcher options that give each rank enough CPUs for its threads.
fn binding_remedy(process: &JobProcess, threads: usize) -> String {
    match process.launcher.as_deref() {
        Some("Slurm") => format!(
            "srun --cpus-per-task={threads} --cpu-bind=cores; since Slurm 22.05, srun does not take this number from sbatch"
        ),
        Some("Open MPI") => format!("mpirun --map-by slot:PE={threads} --bind-to core"),
        Some("MPICH or Intel MPI" | "MVAPICH") => {
            format!(
                "mpiexec -bind-to core:{threads} -map-by core:{threads}, or I_MPI_PIN_DOMAIN=omp"
            )
        }
        Some(_) => {
            format!(
                "give each rank {} with the options of the launcher",
                count_in_words(threads, "core")
            )
        }
        None => format!(
            "start it on {}, e.g. taskset or numactl, with OMP_PLACES=cores OMP_PROC_BIND=close",
            count_in_words(threads, "core")
        ),
    }
}

fn finding(id: &str, severity: Severity, text: String, remedy: impl Into<String>) -> Finding {
    Finding { id: id.to_owned(), severity, text, remedy: remedy.into(), cost: None }
}

/// Finds processes whose threads may all run on one CPU only.
fn single_cpu_processes(
    host: &JobHost,
    table: &CpuTable<'_>,
    reported: &mut BTreeSet<u32>,
) -> Option<Finding> {
    let mut hit: Vec<&JobProcess> = Vec::new();
    let mut max = 0;
    for process in &host.processes {
        let count = thread_count(host, process);
        if count < 2 || !process.is_busy() || process.allowed_cpus().len() != 1 {
            continue;
        }
        max = max.max(count);
        hit.push(process);
        reported.extend(process.threads.iter().map(|thread| thread.tid));
    }
    let first = hit.first()?;
    let cpu = number_ranges(first.allowed_cpus());
    if table.topology.threads.len() < 2 {
        return None;
    }
    let each = if hit.len() == 1 { String::new() } else { " each".to_owned() };
    let verb = number_form(hit.len(), "runs", "run");
    let what = count_in_words(max, "thread");
    let example = if hit.len() == 1 { String::new() } else { format!("{} on ", first.title()) };
    let text =
        format!("{} {verb} {what} on one CPU{each}: {example}CPU {cpu}", process_names(&hit));
    Some(finding("one-cpu", Severity::Critical, text, binding_remedy(first, max)))
}

/// Finds CPUs that several busy threads share. Either the threads are bound to fewer CPUs than there are threads, or
/// they ran on one CPU and waited for it.
fn shared_cpus(threads: &[WorkingThread<'_>], reported: &mut BTreeSet<u32>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut by_mask: BTreeMap<&str, Vec<&WorkingThread<'_>>> = BTreeMap::new();
    for working in threads.iter().filter(|working| !reported.contains(&working.thread.tid)) {
        by_mask.entry(&working.thread.allowed).or_default().push(working);
    }
    for (mask, group) in by_mask {
        let cpus = number_list(mask).unwrap_or_default().len();
        if cpus == 0 || group.len() <= cpus {
            continue;
        }
        reported.extend(group.iter().map(|working| working.thread.tid));
        let count = count_in_words(group.len(), "busy thread");
        let place = number_form(cpus, "CPU", "CPUs");
        let text = format!("{count} on {place} {mask}: {}", owner_names(&group));
        found.push(shared_cpu_finding(text, &group));
    }
    let mut by_cpu: BTreeMap<u32, Vec<&WorkingThread<'_>>> = BTreeMap::new();
    for working in threads.iter().filter(|working| !reported.contains(&working.thread.tid)) {
        let waits = working.thread.waiting.is_some_and(|share| share.0 >= MIN_WAITING);
        if waits {
            by_cpu.entry(working.thread.cpu).or_default().push(working);
        }
    }
    for (cpu, group) in by_cpu.into_iter().filter(|(_, group)| group.len() > 1) {
        reported.extend(group.iter().map(|working| working.thread.tid));
        let max = group.iter().filter_map(|working| working.thread.waiting).map(|share| share.0);
        let waited = Fraction(max.fold(0.0, f64::max)).in_whole_percent();
        let count = count_in_words(group.len(), "busy thread");
        let text = format!(
            "{count} ran on CPU {cpu} and waited up to {waited} of their time: {}",
            owner_names(&group)
        );
        found.push(shared_cpu_finding(text, &group));
    }
    found
}

fn shared_cpu_finding(text: String, group: &[&WorkingThread<'_>]) -> Finding {
    let remedy = match group.first() {
        Some(first) => binding_remedy(first.process, 1),
        None => String::new(),
    };
    finding(
        "shared-cpu",
        Severity::Critical,
        text,
        format!("bind each thread to a CPU of its own: {remedy}"),
    )
}

/// Finds threads that are bound to the hardware threads of one core while other cores are idle.
fn sibling_threads(
    host: &JobHost,
    table: &CpuTable<'_>,
    threads: &[WorkingThread<'_>],
    reported: &BTreeSet<u32>,
) -> Option<Finding> {
    let available: BTreeSet<u32> =
        number_list(&host.available).unwrap_or_default().into_iter().collect();
    let cores = table.cores(&available).len();
    let wanted: usize = host.processes.iter().map(|process| thread_count(host, process)).sum();
    if table.topology.threads_per_core() < 2 || wanted > cores {
        return None;
    }
    let mut by_core: BTreeMap<usize, Vec<&WorkingThread<'_>>> = BTreeMap::new();
    let mut narrow: Vec<&WorkingThread<'_>> = Vec::new();
    for working in threads.iter().filter(|working| !reported.contains(&working.thread.tid)) {
        let allowed: BTreeSet<u32> = working.thread.allowed_cpus().into_iter().collect();
        let on = table.cores(&allowed);
        let is_settled = host.readings >= MIN_BOUND_READINGS && working.thread.cpus_seen == 1;
        let is_bound = on.len() == 1;
        if !is_bound && !is_settled {
            continue;
        }
        if let Some(place) = table.thread(working.thread.cpu) {
            by_core.entry(place.core).or_default().push(working);
        }
        if host.in_place && thread_count(host, working.process) > on.len() {
            narrow.push(working);
        }
    }
    let mut crowded: Vec<&WorkingThread<'_>> = narrow;
    let mut pairs = 0;
    for group in by_core.values().filter(|group| group.len() > 1) {
        pairs += 1;
        crowded.extend(group);
    }
    let first = crowded.first()?;
    let core = table.core_number(first.thread.cpu).unwrap_or(0);
    let text = if pairs > 0 {
        let on = count_in_words(pairs, "core");
        format!(
            "busy threads share {on}, e.g. core {core}, while other cores are idle: {}",
            owner_names(&crowded)
        )
    } else {
        let count = count_in_words(thread_count(host, first.process), "thread");
        format!(
            "{}: {count} will share core {core}, while other cores are idle",
            owner_names(&crowded)
        )
    };
    let remedy = match first.process.launcher.as_deref() {
        Some("Slurm") => {
            "srun --hint=nomultithread, or twice the --cpus-per-task with OMP_PLACES=cores"
                .to_owned()
        }
        _ => format!(
            "OMP_PLACES=cores; {}",
            binding_remedy(first.process, thread_count(host, first.process).max(1))
        ),
    };
    Some(finding("smt-siblings", Severity::Warning, text, remedy))
}

/// Finds control groups whose CPU quota is below the number of their busy threads.
fn quota(host: &JobHost) -> Vec<Finding> {
    let mut groups: BTreeMap<&str, Vec<&JobProcess>> = BTreeMap::new();
    for process in host.processes.iter().filter(|process| process.cpu_quota.is_some()) {
        groups.entry(process.control_group.as_deref().unwrap_or("")).or_default().push(process);
    }
    let mut found = Vec::new();
    for group in groups.values() {
        let Some(quota) = group.first().and_then(|process| process.cpu_quota) else { continue };
        let count: usize = group.iter().map(|process| thread_count(host, process)).sum();
        if quota >= count as f64 {
            continue;
        }
        let threads = count_in_words(count, "busy thread");
        let verb = number_form(count, "has", "have");
        let text =
            format!("{threads} of {} {verb} a quota of only {quota:.2} CPUs", process_names(group));
        let remedy = format!(
            "raise the quota (cpu.max of the control group, docker --cpus, limits.cpu), or use {}",
            count_in_words(quota.floor().max(1.0) as usize, "thread")
        );
        found.push(finding("quota", Severity::Critical, text, remedy));
    }
    found
}

/// Finds sockets without ranks, although other sockets have ranks. On a machine with one socket, finds NUMA nodes
/// without ranks.
fn uneven_ranks(host: &JobHost, table: &CpuTable<'_>) -> Option<Finding> {
    let ranks: Vec<&JobProcess> =
        host.processes.iter().filter(|process| process.rank.is_some()).collect();
    let available: BTreeSet<u32> =
        number_list(&host.available).unwrap_or_default().into_iter().collect();
    let by_socket = table.sockets(&available).len() > 1;
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for cpu in &available {
        counts.extend(socket_or_node(table, *cpu, by_socket).map(|part| (part, 0)));
    }
    for process in &ranks {
        let parts: BTreeSet<u32> = process
            .allowed_cpus()
            .into_iter()
            .filter_map(|cpu| socket_or_node(table, cpu, by_socket))
            .collect();
        // A rank that may run on several sockets is not bound to any of them.
        if parts.len() != 1 {
            return None;
        }
        for part in parts {
            *counts.entry(part).or_default() += 1;
        }
    }
    let empty: Vec<u32> = counts.iter().filter(|(_, n)| **n == 0).map(|(part, _)| *part).collect();
    let (fullest, max) = counts.iter().max_by_key(|(_, n)| **n)?;
    if empty.is_empty() || *max < 2 {
        return None;
    }
    let noun = if by_socket { "socket" } else { "NUMA node" };
    let plural = number_form(empty.len(), "", "s");
    let text = format!(
        "{noun}{plural} {} without a rank, {} on {noun} {fullest}",
        number_ranges(&empty),
        count_in_words(*max, "rank")
    );
    let remedy = match ranks.first().and_then(|process| process.launcher.as_deref()) {
        Some("Slurm") => "srun --distribution=block:cyclic --cpu-bind=cores",
        Some("Open MPI") => "mpirun --map-by socket --bind-to core (package in Open MPI 5)",
        Some("MPICH or Intel MPI" | "MVAPICH") => "mpiexec -map-by socket -bind-to core",
        _ => {
            "spread the ranks over the sockets; nodegauge places --ranks N --rank-map cyclic --emit wrapper"
        }
    };
    Some(finding("not-spread", Severity::Warning, text, remedy))
}

/// Returns the number of a CPU's socket or NUMA node.
fn socket_or_node(table: &CpuTable<'_>, cpu: u32, by_socket: bool) -> Option<u32> {
    if by_socket { table.socket_number(cpu) } else { table.numa_node_number(cpu) }
}

/// Finds busy threads that moved between NUMA nodes during the readings.
fn moving_threads(threads: &[WorkingThread<'_>]) -> Option<Finding> {
    let moved: Vec<&WorkingThread<'_>> =
        threads.iter().filter(|working| working.thread.numa_nodes_seen > 1).collect();
    let first = moved.first()?;
    let verb = number_form(moved.len(), "thread", "threads");
    let text = format!(
        "{} busy {verb} moved between NUMA nodes during the readings: {}",
        moved.len(),
        owner_names(&moved)
    );
    let remedy = format!(
        "bind threads, e.g. OMP_PROC_BIND=close OMP_PLACES=cores; {}",
        binding_remedy(first.process, 1)
    );
    Some(finding("moving-threads", Severity::Warning, text, remedy))
}

/// Finds devices that are far from the CPUs of their processes.
fn far_devices(host: &JobHost) -> Vec<Finding> {
    let mut found = Vec::new();
    for is_network in [false, true] {
        let mut hit: Vec<&JobProcess> = Vec::new();
        let mut example = None;
        for process in &host.processes {
            let mut own = process.devices.iter().filter(|device| device.is_network == is_network);
            // A process with a near device of the same kind can use the near device.
            let far = own.clone().find(|device| device.near == Some(false));
            if let Some(device) = far.filter(|_| own.all(|device| device.near == Some(false))) {
                hit.push(process);
                example.get_or_insert(device);
            }
        }
        let Some(device) = example else { continue };
        let node = device.numa_node.map_or(String::new(), |node| format!(" at NUMA node {node}"));
        let kind = if is_network { "network adapter" } else { "GPU" };
        let verb = number_form(hit.len(), "is", "are");
        let text = format!(
            "{} {verb} far from the {kind}, e.g. {} ({}){node}",
            process_names(&hit),
            device.name,
            device.address
        );
        let remedy = if is_network {
            "set UCX_NET_DEVICES or NCCL_IB_HCA to the adapter near the rank; nodegauge machine lists the adapters"
        } else {
            "srun --gpu-bind=closest, or nodegauge places --devices --emit wrapper"
        };
        let severity = if is_network { Severity::Info } else { Severity::Warning };
        let id = if is_network { "network-far" } else { "gpu-far" };
        found.push(finding(id, severity, text, remedy));
    }
    found
}
