//! Counters of the kernel, read before and after a measurement: interrupts and softirqs by name (`/proc/interrupts`,
//! `/proc/softirqs`), time that the hypervisor stole (`/proc/stat`), and the tasks that ran, with their times
//! (`/proc/PID/task/TID/schedstat`).

use crate::config::NoiseSource;
use crate::lengths::DetourLengths;
use nodegauge_jobs::{ScheduleTimes, TaskStat};
use nodegauge_machine::SysRoot;
use std::collections::BTreeMap;

/// Number of ticks per second in `/proc/stat` (proc(5), `USER_HZ`).
const TICKS: f64 = 100.0;
/// Maximum number of sources per kind; the most frequent ones are kept.
const MAX_SOURCES: usize = 6;

/// Values of the counters at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SourceReading {
    interrupts: BTreeMap<String, u64>,
    softirqs: BTreeMap<String, u64>,
    stolen_ticks: u64,
    /// Tasks by thread ID.
    tasks: BTreeMap<u32, TaskReading>,
}

/// Values of the counters of one thread, of a process or of the kernel.
#[derive(Debug, Clone, Default, PartialEq)]
struct TaskReading {
    name: String,
    is_kernel: bool,
    /// Start of the task, in clock ticks since boot. It distinguishes tasks, because the kernel reuses thread IDs.
    started: u64,
    /// CPU on which the task last ran.
    cpu: u32,
    times: TaskTimes,
}

/// Times of a task, or sums over several tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct TaskTimes {
    /// Time on CPUs, nanoseconds.
    time: u64,
    slices: u64,
}

/// Measurement to which the increases of the counters are related.
pub(crate) struct MeasuredPeriod<'a> {
    /// Time between the two readings of the counters, seconds.
    pub seconds: f64,
    /// CPUs on which the loop ran.
    pub cpus: &'a [u32],
    /// Lengths of the recorded detours.
    pub lengths: &'a DetourLengths,
    /// Recorded time per CPU, seconds; at most `seconds`.
    pub recorded_seconds: f64,
}

impl SourceReading {
    /// Reads the counters of these CPUs and of all tasks, except the threads of the process `own`.
    pub(crate) fn take(root: &SysRoot, cpus: &[u32], own: u32) -> Self {
        let interrupts = root.text("proc/interrupts").unwrap_or_default();
        let softirqs = root.text("proc/softirqs").unwrap_or_default();
        let stat = root.text("proc/stat").unwrap_or_default();
        Self {
            interrupts: counted(&interrupts, cpus),
            softirqs: counted(&softirqs, cpus),
            stolen_ticks: stolen(&stat, cpus),
            tasks: tasks(root, own),
        }
    }

    /// True if irqbalance runs, the daemon that moves interrupts among CPUs.
    pub(crate) fn has_irqbalance(&self) -> bool {
        self.tasks.values().any(|task| task.name == "irqbalance")
    }

    /// Returns the sources whose counters grew since `earlier` on the measuring CPUs: the most frequent interrupts and
    /// softirqs, stolen time, and the tasks that took the most time.
    pub(crate) fn since(&self, earlier: &Self, measured: &MeasuredPeriod<'_>) -> Vec<NoiseSource> {
        let mut sources = Vec::new();
        sources.extend(frequent_events(
            "interrupt",
            &self.interrupts,
            &earlier.interrupts,
            measured,
        ));
        sources.extend(frequent_events("softirq", &self.softirqs, &earlier.softirqs, measured));
        let stolen = self.stolen_ticks.saturating_sub(earlier.stolen_ticks) as f64 / TICKS;
        if stolen > 0.0 {
            sources.push(NoiseSource {
                kind: "steal".to_owned(),
                name: "time for other guests".to_owned(),
                share: Some(stolen / (measured.seconds * measured.cpus.len() as f64)),
                ..NoiseSource::default()
            });
        }
        sources.extend(self.tasks_since(earlier, measured));
        sources
    }

    /// Returns the tasks that ran on the measuring CPUs, largest share of the time first. Threads with the same name
    /// are one source.
    fn tasks_since(&self, earlier: &Self, measured: &MeasuredPeriod<'_>) -> Vec<NoiseSource> {
        let mut by_name: BTreeMap<(&str, bool), TaskTimes> = BTreeMap::new();
        for (id, task) in &self.tasks {
            if !measured.cpus.contains(&task.cpu) {
                continue;
            }
            // A task that started after the first reading counts from zero.
            let known = earlier.tasks.get(id).filter(|before| before.started == task.started);
            let before = known.map_or_else(TaskTimes::default, |before| before.times);
            let sum = by_name.entry((&task.name, task.is_kernel)).or_default();
            sum.time += task.times.time.saturating_sub(before.time);
            sum.slices += task.times.slices.saturating_sub(before.slices);
        }
        let mut sources = Vec::new();
        for ((name, is_kernel), TaskTimes { time, slices }) in by_name {
            if slices == 0 {
                continue;
            }
            let mean = time / slices;
            let expected = slices as f64 * (measured.recorded_seconds / measured.seconds).min(1.0);
            let found = measured.lengths.count_near(mean);
            sources.push(NoiseSource {
                kind: if is_kernel { "kernel thread" } else { "task" }.to_owned(),
                name: name.to_owned(),
                per_s: Some(slices as f64 / measured.seconds),
                mean_s: Some(mean as f64 * 1e-9),
                share: Some(time as f64 * 1e-9 / (measured.seconds * measured.cpus.len() as f64)),
                found: Some((found as f64 / expected.max(1.0)).min(1.0)),
            });
        }
        sources.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
        sources.truncate(2 * MAX_SOURCES);
        sources
    }
}

fn frequent_events(
    kind: &str,
    now: &BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
    measured: &MeasuredPeriod<'_>,
) -> Vec<NoiseSource> {
    let mut grown = Vec::new();
    for (name, count) in now {
        let events = count.saturating_sub(before.get(name).copied().unwrap_or(0));
        if events > 0 {
            grown.push(NoiseSource {
                kind: kind.to_owned(),
                name: name.clone(),
                per_s: Some(events as f64 / measured.seconds),
                ..NoiseSource::default()
            });
        }
    }
    grown.sort_by(|a, b| b.per_s.unwrap_or(0.0).total_cmp(&a.per_s.unwrap_or(0.0)));
    grown.truncate(MAX_SOURCES);
    grown
}

/// Returns the count of each line of `/proc/interrupts` or `/proc/softirqs`, summed over some CPUs. The first line
/// names the CPUs of the columns; after the columns, a line may describe its source.
fn counted(text: &str, cpus: &[u32]) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let columns: Vec<u32> =
        head.split_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let mut counts = BTreeMap::new();
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let mut words = rest.split_whitespace();
        let mut sum = 0;
        for cpu in &columns {
            let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) else { break };
            if cpus.contains(cpu) {
                sum += count;
            }
        }
        let described = words.collect::<Vec<_>>().join(" ");
        let name = format!("{}: {described}", label.trim());
        counts.insert(name.trim_end_matches([':', ' ']).to_owned(), sum);
    }
    counts
}

/// Returns the number of stolen ticks, summed over some CPUs.
fn stolen(stat: &str, cpus: &[u32]) -> u64 {
    let mut ticks = 0;
    for line in stat.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { break };
        let mut words = rest.split_whitespace();
        let number = words.next().and_then(|word| word.parse::<u32>().ok());
        if rest.starts_with(' ') || !number.is_some_and(|cpu| cpus.contains(&cpu)) {
            continue;
        }
        // user nice system idle iowait irq softirq steal
        ticks += words.nth(7).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    ticks
}

/// Reads the counters of all tasks, except the threads of the process `own`.
fn tasks(root: &SysRoot, own: u32) -> BTreeMap<u32, TaskReading> {
    let mut tasks = BTreeMap::new();
    for pid in root.names("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        if pid == own {
            continue;
        }
        let folder = format!("proc/{pid}/task");
        for thread in root.names(&folder).iter().filter_map(|name| name.parse::<u32>().ok()) {
            if let Some(task) = task(root, &format!("{folder}/{thread}")) {
                tasks.insert(thread, task);
            }
        }
    }
    tasks
}

/// Reads the counters of a thread; `None` if the thread has ended.
fn task(root: &SysRoot, folder: &str) -> Option<TaskReading> {
    let schedule = root.text(&format!("{folder}/schedstat"))?;
    let times = ScheduleTimes::parse(&schedule).unwrap_or_default();
    let text = root.text(&format!("{folder}/stat"))?;
    let stat = TaskStat::parse(&text)?;
    Some(TaskReading {
        name: task_name(stat.name).to_owned(),
        is_kernel: stat.is_kernel_thread()?,
        started: stat.start_ticks()?,
        cpu: stat.cpu()?,
        times: TaskTimes { time: times.running, slices: times.slices },
    })
}

/// Returns the name of a task without the current work of a kernel worker, which changes: `kworker/u8:2` for
/// `kworker/u8:2-events_unbound`.
fn task_name(name: &str) -> &str {
    let worker = name.starts_with("kworker/").then(|| name.split_once(['-', '+'])).flatten();
    worker.map_or(name, |(worker, _)| worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "            CPU0       CPU1       \n  9:          0          3   IO-APIC   9-fasteoi   acpi\nLOC:    1000       2000   Local timer interrupts\nERR:          0\n";

    fn measured(lengths: &DetourLengths) -> MeasuredPeriod<'_> {
        MeasuredPeriod { seconds: 10.0, cpus: &[0, 1], lengths, recorded_seconds: 10.0 }
    }

    #[test]
    fn interrupts_are_counted_by_name_on_the_measuring_cpus() {
        let counts = counted(INTERRUPTS, &[1]);
        assert_eq!(counts["LOC: Local timer interrupts"], 2000);
        assert_eq!(counts["9: IO-APIC 9-fasteoi acpi"], 3);
        assert_eq!(counted(INTERRUPTS, &[0, 1])["LOC: Local timer interrupts"], 3000);
        let stat = "cpu  1 1 1 1 1 1 1 90 0 0\ncpu0 1 1 1 1 1 1 1 40 0 0\ncpu1 1 1 1 1 1 1 1 50 0 0\nintr 1\n";
        assert_eq!(stolen(stat, &[1]), 50);
    }

    #[test]
    fn increased_counters_become_rates() {
        let before =
            SourceReading { interrupts: counted(INTERRUPTS, &[0, 1]), ..SourceReading::default() };
        let mut after = before.clone();
        *after.interrupts.get_mut("LOC: Local timer interrupts").unwrap() += 5000;
        after.stolen_ticks = 100;
        let sources = after.since(&before, &measured(&DetourLengths::default()));
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].name, "LOC: Local timer interrupts");
        assert_eq!(sources[0].per_s, Some(500.0));
        assert_eq!(sources[1].kind, "steal");
        assert_eq!(sources[1].share, Some(0.05));
    }

    /// Returns the counters of a process's task on CPU 1.
    fn reading(name: &str, time: u64, slices: u64) -> TaskReading {
        TaskReading {
            name: task_name(name).to_owned(),
            is_kernel: false,
            started: 1,
            cpu: 1,
            times: TaskTimes { time, slices },
        }
    }

    #[test]
    fn task_is_compared_with_detours_of_its_length() {
        let mut before = SourceReading::default();
        let mut after = SourceReading::default();
        before.tasks.insert(7, reading("agent", 5_000_000, 5));
        // 100 times 1 ms in 10 s, and a task that ran only on a CPU that was not measured.
        after.tasks.insert(7, reading("agent", 105_000_000, 105));
        after.tasks.insert(8, TaskReading { cpu: 2, ..reading("agent", 900_000_000, 9) });
        let mut lengths = DetourLengths::default();
        for _ in 0..80 {
            lengths.add(1_100_000);
        }
        for _ in 0..1000 {
            lengths.add(4_000);
        }
        let sources = after.since(&before, &measured(&lengths));
        assert_eq!(sources.len(), 1);
        assert_eq!(sources[0].kind, "task");
        assert_eq!(sources[0].per_s, Some(10.0));
        assert_eq!(sources[0].mean_s, Some(1e-3));
        assert_eq!(sources[0].share, Some(0.005));
        assert_eq!(sources[0].found, Some(0.8));
    }

    #[test]
    fn kernel_worker_is_one_task_for_all_its_work() {
        let mut before = SourceReading::default();
        let mut after = SourceReading::default();
        before.tasks.insert(9, reading("kworker/0:1-events", 7_000_000_000, 1000));
        after.tasks.insert(9, reading("kworker/0:1+mm_percpu_wq", 7_000_020_000, 1002));
        let sources = after.since(&before, &measured(&DetourLengths::default()));
        assert_eq!(sources[0].name, "kworker/0:1");
        assert_eq!(sources[0].mean_s, Some(1e-5));
        // A task that reuses the thread ID of an ended task counts from its start.
        after.tasks.insert(9, TaskReading { started: 2, ..reading("agent", 40_000, 2) });
        assert_eq!(
            after.since(&before, &measured(&DetourLengths::default()))[0].mean_s,
            Some(2e-5)
        );
    }

    #[test]
    fn task_name_may_contain_parentheses() {
        let folder = tempfile::tempdir().unwrap();
        let task_folder = folder.path().join("proc/12/task/13");
        std::fs::create_dir_all(&task_folder).unwrap();
        let mut fields = vec!["0"; 50];
        fields[9 - 3] = "2097216";
        fields[39 - 3] = "3";
        let stat = format!("13 (a) b (c) {}", fields.join(" "));
        std::fs::write(task_folder.join("stat"), stat).unwrap();
        std::fs::write(task_folder.join("schedstat"), "1000 20 4\n").unwrap();
        let root = SysRoot::recorded(folder.path());
        let found = tasks(&root, 1);
        let task = &found[&13];
        assert_eq!(task.name, "a) b (c");
        assert!(task.is_kernel);
        assert_eq!((task.cpu, task.times.time, task.times.slices), (3, 1000, 4));
        assert!(tasks(&root, 12).is_empty());
    }
}
