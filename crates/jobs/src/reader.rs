//! Reader that reads processes repeatedly, and the description of a host that is derived from the readings.

use crate::cpus::CpuTable;
use crate::devices::{open_device_files, process_devices};
use crate::document::{IdleProcess, JobHost, JobProcess, JobThread, PrivateMemory};
use crate::environment::ProcessVariables;
use crate::pages::{PagesReader, PagesResult, ProcessPages};
use crate::process::{self, ProcessReading, ThreadReading, UnreadableReason};
use crate::{findings, picture, selection};
use nodegauge_machine::cgroup::{self, CgroupLimits};
use nodegauge_machine::{SysRoot, Topology, host_name, number_list, number_ranges};
use nodegauge_measure::interference::ThreadCounts;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{Fraction, Seconds};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Minimum share of the window during which a busy thread runs or waits.
const BUSY: f64 = 0.5;
/// Nanoseconds per clock tick in the files of the kernel, which always count 100 ticks per second (proc(5), `USER_HZ`).
const NANOSECONDS_PER_TICK: u64 = 10_000_000;
/// Minimum time in nanoseconds that a thread must run or wait within the window. Below it, the share of waiting is
/// computed for the time since the start of the thread.
const MIN_RUNNABLE_TIME: u64 = 1_000_000;

/// Time limit for reading the pages of all processes; zero skips the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagesTimeLimit(pub Duration);

/// Reader of the processes of a job, with all readings so far.
#[derive(Debug)]
pub struct JobReader<'r> {
    root: &'r SysRoot,
    tracks: BTreeMap<u32, ProcessTrack>,
    /// Processes that are listed even if they are idle.
    named: BTreeSet<u32>,
    readings: u32,
    first: Seconds,
    last: Seconds,
    cost: Seconds,
    pages_time: Seconds,
    unread: BTreeSet<String>,
}

/// All readings of a process.
#[derive(Debug)]
struct ProcessTrack {
    last: ProcessReading,
    threads: HashMap<u32, ThreadTrack>,
    variables: Result<ProcessVariables, UnreadableReason>,
    limits: CgroupLimits,
    control_group: Option<String>,
    cpuset: Option<BTreeSet<u32>>,
    device_files: BTreeSet<String>,
    pages: Option<PagesResult>,
}

/// All readings of a thread.
#[derive(Debug)]
struct ThreadTrack {
    began: Seconds,
    ended: Seconds,
    first: ThreadReading,
    last: ThreadReading,
    readings: u32,
    /// Number of readings in which the thread ran or waited for a CPU.
    runnable: u32,
    /// Number of readings on each CPU.
    cpus: BTreeMap<u32, u32>,
}

impl ThreadTrack {
    fn new(reading: ThreadReading, at: Seconds) -> Self {
        Self {
            began: at,
            ended: at,
            first: reading.clone(),
            readings: 1,
            runnable: u32::from(reading.state == 'R'),
            cpus: BTreeMap::from([(reading.cpu, 1)]),
            last: reading,
        }
    }

    fn add(&mut self, reading: ThreadReading, at: Seconds) {
        self.readings += 1;
        self.runnable += u32::from(reading.state == 'R');
        *self.cpus.entry(reading.cpu).or_default() += 1;
        self.ended = at;
        self.last = reading;
    }

    /// Returns the running time and the waiting time in the window.
    fn window_times(&self) -> WindowTimes {
        match (self.first.schedule, self.last.schedule) {
            (Some(first), Some(last)) => WindowTimes {
                running: last.running.saturating_sub(first.running),
                waiting: Some(last.waiting.saturating_sub(first.waiting)),
            },
            _ => WindowTimes {
                running: self.last.ticks.saturating_sub(self.first.ticks) * NANOSECONDS_PER_TICK,
                waiting: None,
            },
        }
    }

    fn nanoseconds(&self) -> f64 {
        (self.ended - self.began).0 * 1e9
    }

    /// True if the thread ran or waited for a CPU during at least half of the window; with a single reading, true if it
    /// is runnable. The kernel updates the times of a thread with a delay if the thread runs or waits without
    /// interruption. Therefore a thread that is runnable in all readings is also busy.
    fn is_busy(&self) -> bool {
        if self.readings < 2 {
            return self.last.state == 'R';
        }
        let times = self.window_times();
        let wanted = times.running + times.waiting.unwrap_or(0);
        wanted as f64 >= BUSY * self.nanoseconds() || self.runnable == self.readings
    }

    fn running(&self) -> Option<Fraction> {
        let share = self.window_times().running as f64 / self.nanoseconds();
        (self.readings > 1).then(|| Fraction(share.min(1.0)))
    }

    fn waiting(&self) -> Option<Fraction> {
        let window = self.window_times();
        let since_start = self.last.schedule?;
        let in_window =
            window.waiting.filter(|waiting| window.running + waiting >= MIN_RUNNABLE_TIME);
        let (waiting, running) = match in_window {
            Some(waiting) => (waiting, window.running),
            None => (since_start.waiting, since_start.running),
        };
        let wanted = waiting + running;
        (wanted > 0).then(|| Fraction(waiting as f64 / wanted as f64))
    }

    /// Returns the CPU on which the thread ran in most readings; in a tie, the CPU of the last reading if it is among
    /// the tied CPUs.
    fn cpu(&self) -> u32 {
        let count = |cpu: u32| self.cpus.get(&cpu).copied().unwrap_or(0);
        let max = self.cpus.values().max().copied().unwrap_or(0);
        if count(self.last.cpu) == max {
            return self.last.cpu;
        }
        self.cpus.iter().find(|(_, n)| **n == max).map_or(self.last.cpu, |(cpu, _)| *cpu)
    }

    fn numa_nodes(&self, table: &CpuTable<'_>) -> BTreeSet<u32> {
        self.cpus.keys().filter_map(|cpu| table.numa_node_number(*cpu)).collect()
    }

    fn entry(&self, table: &CpuTable<'_>, in_place: bool) -> JobThread {
        let cpu = self.cpu();
        JobThread {
            tid: self.last.tid,
            name: self.last.name.clone(),
            busy: in_place || self.is_busy(),
            allowed: self.last.allowed.clone(),
            cpu,
            cpus_seen: self.cpus.len() as u32,
            numa_nodes_seen: self.numa_nodes(table).len() as u32,
            core: table.core_number(cpu),
            llc: table.llc_number(cpu),
            socket: table.socket_number(cpu),
            numa_node: table.numa_node_number(cpu),
            running: self.running(),
            waiting: self.waiting(),
            migrations: self.last.migrations,
            involuntary_switches: self.last.involuntary_switches,
        }
    }
}

/// Times of a thread during the window, in nanoseconds.
struct WindowTimes {
    running: u64,
    waiting: Option<u64>,
}

impl<'r> JobReader<'r> {
    /// Creates a reader without readings. Processes in `named` are listed even if they are idle.
    pub fn new(root: &'r SysRoot, named: impl IntoIterator<Item = u32>) -> Self {
        Self {
            root,
            tracks: BTreeMap::new(),
            named: named.into_iter().collect(),
            readings: 0,
            first: Seconds(0.0),
            last: Seconds(0.0),
            cost: Seconds(0.0),
            pages_time: Seconds(0.0),
            unread: BTreeSet::new(),
        }
    }

    /// Reads processes at the time `at`. Processes that have ended keep their earlier readings.
    pub fn read(&mut self, pids: &[u32], at: Seconds) {
        self.read_found(at, |_| pids.to_vec());
    }

    /// Reads all descendants of a process at the time `at`.
    pub fn read_descendants(&mut self, ancestor: u32, at: Seconds) {
        self.read_found(at, |root| selection::descendants(root, &[ancestor]).into_iter().collect());
    }

    /// Reads the processes that `find` returns, and measures the CPU time of the search and the reading.
    fn read_found(&mut self, at: Seconds, find: impl FnOnce(&SysRoot) -> Vec<u32>) {
        let before = ThreadCounts::now();
        for pid in &find(self.root) {
            match process::read(self.root, *pid) {
                Ok(reading) => self.add(reading, at),
                Err(UnreadableReason::Missing) => {}
                Err(reason) => {
                    self.unread.insert(format!("process {pid}: {reason}"));
                }
            }
        }
        if self.readings == 0 {
            self.first = at;
        }
        self.last = at;
        self.readings += 1;
        let used = ThreadCounts::now() - before;
        self.cost = Seconds(self.cost.0 + used.cpu_nanos as f64 * 1e-9);
    }

    fn add(&mut self, reading: ProcessReading, at: Seconds) {
        let pid = reading.pid;
        let known = self.tracks.remove(&pid);
        // A process that has executed another program has other variables, so it gets a new entry.
        let known = known.filter(|track| track.last.name == reading.name);
        let mut track = known.unwrap_or_else(|| ProcessTrack {
            last: ProcessReading::default(),
            threads: HashMap::new(),
            variables: ProcessVariables::read(self.root, pid),
            limits: cgroup::limits_for(self.root, &pid.to_string()),
            control_group: cpu_group(self.root, pid),
            cpuset: cgroup::cpuset_for(self.root, &pid.to_string()),
            device_files: BTreeSet::new(),
            pages: None,
        });
        for thread in &reading.threads {
            match track.threads.get_mut(&thread.tid) {
                Some(earlier) => earlier.add(thread.clone(), at),
                None => {
                    track.threads.insert(thread.tid, ThreadTrack::new(thread.clone(), at));
                }
            }
        }
        track.last = reading;
        self.tracks.insert(pid, track);
    }

    /// True if at least one process was read.
    pub fn has_processes(&self) -> bool {
        !self.tracks.is_empty()
    }

    /// Returns the mean CPU time of a reading.
    pub fn reading_cost(&self) -> Seconds {
        Seconds(self.cost.0 / f64::from(self.readings.max(1)))
    }

    /// Returns the resident memory of all processes, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.tracks.values().filter_map(|track| track.last.resident).sum()
    }

    /// Reads the pages and the open device files of all processes, smallest memory first. The function must be called
    /// only once.
    pub fn read_pages(&mut self, limit: PagesTimeLimit) {
        let mut by_memory: Vec<(u64, u32)> = self
            .tracks
            .iter()
            .map(|(pid, track)| (track.last.resident.unwrap_or(0), *pid))
            .collect();
        by_memory.sort_unstable();
        let mut pages = PagesReader::new(limit.0);
        for (resident, pid) in by_memory {
            let Some(track) = self.tracks.get_mut(&pid) else { continue };
            track.device_files = open_device_files(self.root, pid);
            track.pages = Some(pages.read(self.root, pid, resident));
        }
        self.pages_time = Seconds(pages.elapsed.as_secs_f64());
    }

    /// Creates the description of the host from all readings. If `in_place` is true, the processes are those of this
    /// program, and their first threads count as busy.
    pub fn describe_host(&self, topology: &Topology, in_place: bool) -> JobHost {
        let table = CpuTable::new(topology);
        let mut processes = Vec::new();
        let mut cpusets = BTreeSet::new();
        for track in self.tracks.values() {
            processes.push(self.entry(track, &table, in_place));
            cpusets.extend(track.cpuset.iter().flatten().copied());
        }
        let (mut processes, idle) = split_idle(processes, &self.named);
        processes.sort_by_key(|process| (process.rank.is_none(), process.rank, process.pid));
        if cpusets.is_empty() {
            cpusets.extend(topology.threads.iter().map(|thread| thread.cpu.0));
        }
        let mut host = JobHost {
            host: host_name(self.root).unwrap_or_default(),
            window: self.last - self.first,
            readings: self.readings,
            cost: self.cost,
            pages_time: self.pages_time,
            in_place,
            available: number_ranges(&cpusets),
            processes,
            idle,
            unread: self.unread.iter().cloned().collect(),
            picture: Vec::new(),
            findings: Vec::new(),
        };
        add_findings(&mut host, topology);
        host
    }

    fn entry(&self, track: &ProcessTrack, table: &CpuTable<'_>, in_place: bool) -> JobProcess {
        let last = &track.last;
        let mut threads: Vec<JobThread> =
            track.threads.values().map(|thread| thread.entry(table, in_place)).collect();
        threads.sort_by_key(|thread| thread.tid);
        if in_place {
            threads.truncate(1);
        }
        let variables = track.variables.as_ref().ok();
        let job = variables.and_then(|variables| variables.job.as_ref());
        let mut process = JobProcess {
            pid: last.pid,
            name: last.name.clone(),
            user: last.user,
            rank: job.map(|job| job.rank),
            ranks: job.map(|job| job.ranks),
            launcher: job.map(|job| job.launcher.to_owned()),
            resident: last.resident,
            swapped: last.swapped,
            memory: None,
            memory_nodes: last.memory_nodes.clone(),
            control_group: track.control_group.clone(),
            cpu_quota: track.limits.cpus,
            memory_limit: track.limits.memory,
            devices: Vec::new(),
            environment: variables.map(|known| known.shown_variables.clone()).unwrap_or_default(),
            requested_threads: variables.and_then(ProcessVariables::requested_threads),
            threads,
            unread: unread(track),
        };
        if let Some(PagesResult::Read(pages)) = &track.pages {
            process.memory = Some(private_memory(pages, &process));
        }
        let files = &track.device_files;
        let used_cpus = process.used_cpus();
        process.devices =
            process_devices(self.root, table.topology, files, &process.environment, &used_cpus);
        process
    }
}

/// Returns the path of the control group that limits the CPU time of a process.
fn cpu_group(root: &SysRoot, pid: u32) -> Option<String> {
    let text = process::file_text(root, &format!("proc/{pid}/cgroup")).ok()?;
    let mut unified = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        if controllers.split(',').any(|name| name == "cpu") {
            return Some(path.to_owned());
        }
        if controllers.is_empty() {
            unified = Some(path.to_owned());
        }
    }
    unified
}

/// Adds the picture and the findings to the description of a host.
pub(crate) fn add_findings(host: &mut JobHost, topology: &Topology) {
    let table = CpuTable::new(topology);
    host.picture = picture::cores_by_numa_node(host, &table);
    host.findings = findings::host_findings(host, &table);
}

/// Returns the parts of a process that could not be read, with the reasons.
fn unread(track: &ProcessTrack) -> Vec<String> {
    let mut unread = Vec::new();
    if let Err(reason) = &track.variables {
        unread.push(format!("variables: {reason}"));
    }
    match &track.pages {
        Some(PagesResult::Unreadable(reason)) => unread.push(format!("pages: {reason}")),
        Some(PagesResult::Skipped(predicted)) if predicted.is_zero() => {
            unread.push("pages: skipped".to_owned());
        }
        Some(PagesResult::Skipped(predicted)) => {
            let seconds = Seconds(predicted.as_secs_f64());
            unread.push(format!("pages: skipped, reading them takes about {seconds}"));
        }
        Some(PagesResult::Read(_)) => {}
        None => unread.push("pages: the program ended before they were read".to_owned()),
    }
    unread
}

fn private_memory(pages: &ProcessPages, process: &JobProcess) -> PrivateMemory {
    let nodes: BTreeSet<u32> =
        process.working_threads().filter_map(|thread| thread.numa_node).collect();
    let total: u64 = pages.nodes.values().sum();
    let near: u64 =
        pages.nodes.iter().filter(|(node, _)| nodes.contains(node)).map(|(_, bytes)| bytes).sum();
    PrivateMemory {
        policy: pages.policy().unwrap_or("default").to_owned(),
        nodes: pages.nodes.clone(),
        page_sizes: pages.sizes.clone(),
        local: (total > 0 && !nodes.is_empty()).then(|| Fraction(near as f64 / total as f64)),
    }
}

/// Separates working processes from waiting processes. Several processes may have the same rank, e.g. a shell and its
/// program. Of these, the processes with busy threads work; if no thread is busy, the largest process works. If no
/// process works, the largest of all processes counts as working.
fn split_idle(all: Vec<JobProcess>, named: &BTreeSet<u32>) -> (Vec<JobProcess>, Vec<IdleProcess>) {
    let mut largest: HashMap<u32, (bool, u64, u32)> = HashMap::new();
    for process in &all {
        let Some(rank) = process.rank else { continue };
        let bytes = process.resident.unwrap_or(0);
        let key = (process.is_busy(), bytes, process.pid);
        let max = largest.entry(rank).or_insert(key);
        *max = key.max(*max);
    }
    let max = all.iter().max_by_key(|process| process.resident).map(|process| process.pid);
    let has_work = all
        .iter()
        .any(|process| process.is_busy() || process.rank.is_some() || named.contains(&process.pid));
    let mut working = Vec::new();
    let mut idle = Vec::new();
    for process in all {
        let represents = process
            .rank
            .is_some_and(|rank| largest.get(&rank).is_some_and(|(_, _, pid)| *pid == process.pid));
        let is_max = !has_work && Some(process.pid) == max;
        if process.is_busy() || represents || is_max || named.contains(&process.pid) {
            working.push(process);
        } else {
            idle.push(IdleProcess { pid: process.pid, name: process.name });
        }
    }
    idle.sort();
    (working, idle)
}

impl JobProcess {
    /// True if one of the threads is busy.
    pub fn is_busy(&self) -> bool {
        self.threads.iter().any(|thread| thread.busy)
    }

    /// Returns the busy threads, or the first thread if none is busy.
    pub fn working_threads(&self) -> impl Iterator<Item = &JobThread> {
        let is_busy = self.is_busy();
        let first = self.threads.first().map(|thread| thread.tid);
        self.threads
            .iter()
            .filter(move |thread| thread.busy || !is_busy && Some(thread.tid) == first)
    }

    /// Returns the CPUs on which the working threads ran.
    pub(crate) fn used_cpus(&self) -> BTreeSet<u32> {
        self.working_threads().map(|thread| thread.cpu).collect()
    }

    /// Returns the CPUs on which working threads may run.
    pub(crate) fn allowed_cpus(&self) -> BTreeSet<u32> {
        self.working_threads().flat_map(JobThread::allowed_cpus).collect()
    }

    /// Returns the name of the process for messages: `rank 3`, or `process 12 (solver)`.
    pub fn title(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {} ({})", self.pid, self.name),
        }
    }
}

impl JobThread {
    /// Returns the CPUs on which the thread may run.
    pub(crate) fn allowed_cpus(&self) -> Vec<u32> {
        number_list(&self.allowed).unwrap_or_default()
    }
}

impl JobHost {
    /// Describes the processes and their threads: `4 ranks with 16 busy threads`.
    pub fn in_words(&self) -> String {
        let ranks = self.processes.iter().filter(|process| process.rank.is_some()).count();
        let processes = match ranks {
            0 if self.processes.len() == 1 => "1 process".to_owned(),
            0 => format!("{} processes", self.processes.len()),
            ranks => count_in_words(ranks, "rank"),
        };
        let busy: usize = self
            .processes
            .iter()
            .map(|process| process.threads.iter().filter(|thread| thread.busy).count())
            .sum();
        if self.in_place {
            return processes;
        }
        format!("{processes} with {}", count_in_words(busy, "busy thread"))
    }
}

/// Merges the descriptions that several ranks on one host have made. A process that several ranks have read is listed
/// once.
///
/// # Panics
/// Panics if `hosts` is empty.
pub fn merge_hosts(hosts: Vec<JobHost>, topology: &Topology) -> JobHost {
    let mut all = hosts.into_iter();
    let mut host = all.next().expect("a job has at least one rank");
    for other in all {
        host.cost += other.cost;
        host.pages_time += other.pages_time;
        host.window = Seconds(host.window.0.max(other.window.0));
        host.readings = host.readings.max(other.readings);
        let available = [&host.available, &other.available].map(|list| number_list(list));
        host.available = number_ranges(available.into_iter().flatten().flatten());
        host.processes.extend(other.processes);
        host.idle.extend(other.idle);
        host.unread.extend(other.unread);
    }
    host.processes.sort_by_key(|process| (process.rank.is_none(), process.rank, process.pid));
    host.processes.dedup_by_key(|process| process.pid);
    host.idle.sort();
    host.idle.dedup();
    host.unread.sort();
    host.unread.dedup();
    add_findings(&mut host, topology);
    host
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;

    /// Identifier of the process in the recorded readings: a program with two OpenMP threads that are bound to two
    /// cores of a busy machine.
    const RECORDED: u32 = 17167;

    fn recorded(second: u32) -> SysRoot {
        let tree = format!("{}/tests/recorded/openmp/{second}", env!("CARGO_MANIFEST_DIR"));
        SysRoot::recorded(tree)
    }

    #[test]
    fn recorded_program_has_the_values_of_the_kernel_files() {
        let source = TopologySource::Synthetic("Package:1 NUMANode:1 Core:2 PU:1".to_owned());
        let topology = Topology::load(&source).unwrap();
        let first = recorded(0);
        let second = recorded(1);
        let mut reader = JobReader::new(&first, []);
        reader.read(&[RECORDED], Seconds(0.0));
        reader.root = &second;
        reader.read(&[RECORDED], Seconds(1.0));
        reader.read_pages(PagesTimeLimit(Duration::from_secs(600)));
        let describe_host = reader.describe_host(&topology, false);
        assert_eq!(describe_host.in_words(), "1 process with 2 busy threads");
        let process = &describe_host.processes[0];
        assert_eq!((process.name.as_str(), process.user, process.rank), ("omp", 0, None));
        let variables: Vec<&str> = process.environment.keys().map(String::as_str).collect();
        assert_eq!(variables, ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND"]);
        let places: Vec<(&str, u32, Option<u32>)> = process
            .threads
            .iter()
            .map(|thread| (thread.allowed.as_str(), thread.cpu, thread.core))
            .collect();
        assert_eq!(places, [("0", 0, Some(0)), ("1", 1, Some(1))]);
        // According to `schedstat`, the thread ran for 0.19 s and waited for 1.01 s.
        let waiting = process.threads[0].waiting.unwrap().0;
        assert!((waiting - 0.839).abs() < 0.01, "{waiting}");
        let memory = process.memory.as_ref().unwrap();
        assert_eq!((memory.policy.as_str(), memory.local), ("default", Some(Fraction(1.0))));
        assert!((64 << 20..66 << 20).contains(&memory.bytes()), "{}", memory.bytes());
        assert_eq!(describe_host.findings, []);
    }

    #[test]
    fn readings_of_ranks_on_one_host_are_merged() {
        use crate::tests::{T2K, bound, host, rank};
        let alone = [0, 4].map(|cpu| {
            let of_rank = rank(cpu / 4, 2, vec![bound(cpu)]);
            let mut one = host(T2K, "n1", "0-15", &[of_rank], true);
            one.processes[0].pid += cpu;
            one
        });
        let source = TopologySource::Synthetic(T2K.to_owned());
        let both = merge_hosts(alone.into(), &Topology::load(&source).unwrap());
        assert_eq!(both.in_words(), "2 ranks");
        let used: Vec<Vec<usize>> =
            both.picture.iter().map(|node| node.cores[0].processes.clone()).collect();
        assert_eq!(used, [vec![0], vec![1], vec![], vec![]]);
    }
}
