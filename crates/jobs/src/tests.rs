//! Synthetic processes on synthetic topologies. They are written as files in the format of Linux 6.18 and read by the
//! same reader as live processes.

use crate::document::JobHost;
use crate::reader::{JobReader, PagesTimeLimit};
use nodegauge_machine::{SysRoot, Topology, TopologySource, number_list};
use nodegauge_measure::Seconds;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Node of the T2K cluster: four sockets without shared caches.
pub(crate) const T2K: &str = "Package:4 NUMANode:1 Core:4 PU:1";
/// Two sockets with two NUMA nodes and two hardware threads per core.
pub(crate) const SMT: &str = "Package:2 NUMANode:2 L3Cache:1(size=16777216) Core:4 PU:2";

/// Thread of a synthetic process.
#[derive(Debug, Clone)]
pub(crate) struct SyntheticThread {
    pub(crate) allowed: String,
    /// CPUs on which the thread is at the first and at the second reading.
    pub(crate) cpus: [u32; 2],
    /// Shares of the second between the readings during which the thread runs and waits.
    pub(crate) running: f64,
    pub(crate) waiting: f64,
}

/// Returns a busy thread that is bound to one CPU.
pub(crate) fn bound(cpu: u32) -> SyntheticThread {
    on(&cpu.to_string(), cpu)
}

/// Returns a busy thread that may run on these CPUs and runs on one of them.
pub(crate) fn on(allowed: &str, cpu: u32) -> SyntheticThread {
    SyntheticThread { allowed: allowed.to_owned(), cpus: [cpu; 2], running: 0.99, waiting: 0.0 }
}

impl SyntheticThread {
    /// Sets the share of time for which the thread waits.
    pub(crate) fn waits(self, share: f64) -> Self {
        Self { running: 1.0 - share, waiting: share, ..self }
    }

    /// Makes the thread sleep.
    pub(crate) fn sleeps(self) -> Self {
        Self { running: 0.0, waiting: 0.0, ..self }
    }
}

/// Synthetic process.
#[derive(Debug, Clone, Default)]
pub(crate) struct SyntheticProcess {
    pub(crate) threads: Vec<SyntheticThread>,
    pub(crate) environment: String,
    /// Lines of `numa_maps` after the address.
    pub(crate) maps: Vec<String>,
    /// Transparent huge pages, KiB.
    pub(crate) huge_kib: u64,
    pub(crate) swapped_kib: u64,
    pub(crate) group: String,
}

/// Returns a rank that Slurm started, with these threads.
pub(crate) fn rank(number: u32, ranks: u32, threads: Vec<SyntheticThread>) -> SyntheticProcess {
    let variables = [
        format!("SLURM_PROCID={number}"),
        format!("SLURM_STEP_NUM_TASKS={ranks}"),
        "SLURM_STEP_NUM_NODES=1".to_owned(),
        "SECRET=x".to_owned(),
    ];
    SyntheticProcess { threads, environment: variables.join("\0"), ..SyntheticProcess::default() }
}

impl SyntheticProcess {
    /// Adds private memory with a policy: `nodes` has pairs of NUMA node and MiB.
    pub(crate) fn memory(mut self, policy: &str, nodes: &[(u32, u64)]) -> Self {
        let pages: u64 = nodes.iter().map(|(_, mib)| mib * 256).sum();
        let mut line = format!("{policy} anon={pages} dirty={pages} active=0");
        for (node, mib) in nodes {
            let _ = write!(line, " N{node}={}", mib * 256);
        }
        self.maps.push(format!("{line} kernelpagesize_kB=4"));
        self
    }

    /// Adds a variable.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.environment, "\0{name}={value}");
        self
    }
}

fn write_file(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes the files of a process at the given second after the start: 0 or 1.
fn write_process(root: &Path, pid: u32, process: &SyntheticProcess, second: usize) {
    let resident: u64 = 1024
        + process
            .maps
            .iter()
            .filter_map(|line| line.split("anon=").nth(1)?.split(' ').next()?.parse::<u64>().ok())
            .sum::<u64>()
            * 4;
    let head = format!(
        "Name:\tsolver\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\nVmRSS:\t{resident} kB\nVmSwap:\t{} kB\nMems_allowed_list:\t0-3\n",
        process.swapped_kib
    );
    write_file(root, &format!("proc/{pid}/status"), &head);
    write_file(root, &format!("proc/{pid}/stat"), &format!("{pid} (solver) S 1 1 1 0\n"));
    write_file(root, &format!("proc/{pid}/environ"), &process.environment);
    let group = if process.group.is_empty() { "/" } else { &process.group };
    write_file(root, &format!("proc/{pid}/cgroup"), &format!("0::{group}\n"));
    let lines: Vec<String> =
        (0..).zip(&process.maps).map(|(at, line)| format!("7f{at:010x} {line}\n")).collect();
    write_file(root, &format!("proc/{pid}/numa_maps"), &lines.concat());
    let rollup = format!("Rss: {resident} kB\nAnonHugePages:     {} kB\n", process.huge_kib);
    write_file(root, &format!("proc/{pid}/smaps_rollup"), &rollup);
    for (at, thread) in (0..).zip(&process.threads) {
        let tid = pid + at;
        let folder = format!("proc/{pid}/task/{tid}");
        let cpu = thread.cpus[second];
        let state = if thread.running > 0.0 { 'R' } else { 'S' };
        let fields = "1 1 1 0 -1 4194304 16527 0 1 0";
        let ticks = (thread.running * 100.0) as u64 * second as u64;
        let rest = "0 0 20 0 2 0 5468748 78336000 16818 1844674407 1 1 1 0 0 0 0 6 0 0 0 0";
        let stat = format!("{tid} (solver) {state} {fields} {ticks} 0 {rest} 17 {cpu} 0 0 0\n");
        write_file(root, &format!("{folder}/stat"), &stat);
        let running = 1_000_000_000 + (thread.running * 1e9) as u64 * second as u64;
        let waiting = 1_000_000 + (thread.waiting * 1e9) as u64 * second as u64;
        write_file(root, &format!("{folder}/schedstat"), &format!("{running} {waiting} 51\n"));
        let sched =
            format!("solver ({tid}, #threads: 2)\n---\nse.nr_migrations      :    {second}\n");
        write_file(root, &format!("{folder}/sched"), &sched);
        let status = format!(
            "Name:\tsolver\nCpus_allowed_list:\t{}\nnonvoluntary_ctxt_switches:\t7\n",
            thread.allowed
        );
        write_file(root, &format!("{folder}/status"), &status);
    }
}

/// Reads processes on a machine twice within a second. `available` contains the CPUs of their control group.
pub(crate) fn host(
    machine: &str,
    name: &str,
    available: &str,
    processes: &[SyntheticProcess],
    in_place: bool,
) -> JobHost {
    let topology = Topology::load(&TopologySource::Synthetic(machine.to_owned())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_file(folder.path(), "proc/sys/kernel/hostname", name);
    let mounts = "30 20 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n";
    write_file(folder.path(), "proc/self/mountinfo", mounts);
    write_file(folder.path(), "sys/fs/cgroup/cpuset.cpus.effective", available);
    write_file(folder.path(), "sys/fs/cgroup/job_7/cpu.max", "200000 100000\n");
    write_file(folder.path(), "sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n");
    assert!(number_list(available).is_some());
    let root = SysRoot::recorded(folder.path());
    let pids: Vec<u32> = (0..processes.len() as u32).map(|at| 100 * (at + 1)).collect();
    let mut reader = JobReader::new(&root, []);
    for second in [0, 1] {
        for (pid, process) in pids.iter().zip(processes) {
            write_process(folder.path(), *pid, process, second);
        }
        reader.read(&pids, Seconds(second as f64));
    }
    reader.read_pages(PagesTimeLimit(Duration::from_secs(600)));
    reader.describe_host(&topology, in_place)
}
