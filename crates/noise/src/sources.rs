//! Kernel counters before and after a measurement: interrupts and softirqs by name (`/proc/interrupts`,
//! `/proc/softirqs`), stolen time (`/proc/stat`), and the tasks that ran (`/proc/PID/schedstat`).

use crate::config::NoiseSource;
use nodegauge_machine::SysRoot;
use std::collections::BTreeMap;

/// Ticks per second of `/proc/stat` (proc(5), `USER_HZ`).
const TICKS: f64 = 100.0;
/// Maximum number of sources per kind; the most frequent ones are kept.
const KEPT: usize = 6;

/// Reading of the counters.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SourceReading {
    interrupts: BTreeMap<String, u64>,
    softirqs: BTreeMap<String, u64>,
    stolen_ticks: u64,
    /// Number of time slices of each task, by process ID and name.
    tasks: BTreeMap<(u32, String), u64>,
}

impl SourceReading {
    /// Reads the counters of these CPUs, and the time slices of all tasks except those of the process `own`.
    pub(crate) fn take(root: &SysRoot, cpus: &[u32], own: u32) -> Self {
        let interrupts = root.text("proc/interrupts").unwrap_or_default();
        let softirqs = root.text("proc/softirqs").unwrap_or_default();
        let stat = root.text("proc/stat").unwrap_or_default();
        Self {
            interrupts: counted(&interrupts, cpus),
            softirqs: counted(&softirqs, cpus),
            stolen_ticks: stolen(&stat, cpus),
            tasks: slices(root, own),
        }
    }

    /// Returns the increases since `earlier`, per second and CPU; for each kind only the most frequent sources.
    pub(crate) fn since(&self, earlier: &Self, seconds: f64, cpus: usize) -> Vec<NoiseSource> {
        let per_cpu = seconds * cpus.max(1) as f64;
        let mut sources = Vec::new();
        sources.extend(top_sources("interrupt", &self.interrupts, &earlier.interrupts, per_cpu));
        sources.extend(top_sources("softirq", &self.softirqs, &earlier.softirqs, per_cpu));
        let stolen = self.stolen_ticks.saturating_sub(earlier.stolen_ticks) as f64 / TICKS;
        if stolen > 0.0 {
            let name = "time for other guests".to_owned();
            sources.push(NoiseSource { kind: "steal".to_owned(), name, per_s: stolen / per_cpu });
        }
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        let mut before: BTreeMap<String, u64> = BTreeMap::new();
        for (key, slices) in &self.tasks {
            // A task that started during the measurement counts from zero.
            *by_name.entry(key.1.clone()).or_default() += slices;
            let known = earlier.tasks.get(key).copied().unwrap_or(0);
            *before.entry(key.1.clone()).or_default() += known;
        }
        sources.extend(top_sources("task", &by_name, &before, per_cpu));
        sources
    }
}

fn top_sources(
    kind: &str,
    now: &BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
    per_cpu: f64,
) -> Vec<NoiseSource> {
    let mut grown = Vec::new();
    for (name, count) in now {
        let events = count.saturating_sub(before.get(name).copied().unwrap_or(0));
        if events > 0 {
            let per_s = events as f64 / per_cpu;
            grown.push(NoiseSource { kind: kind.to_owned(), name: name.clone(), per_s });
        }
    }
    grown.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
    grown.truncate(KEPT);
    grown
}

/// Returns the sums of each line of `/proc/interrupts` or `/proc/softirqs` over some CPUs. The first line contains the
/// CPUs of the columns; a line may end with a description of its source.
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

/// Returns the stolen ticks of some CPUs.
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

/// Returns the time slices of all tasks except those of a process.
fn slices(root: &SysRoot, own: u32) -> BTreeMap<(u32, String), u64> {
    let mut tasks = BTreeMap::new();
    for pid in root.names("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        if pid == own {
            continue;
        }
        let Some(schedule) = root.text(&format!("proc/{pid}/schedstat")) else { continue };
        let Some(name) = root.text(&format!("proc/{pid}/comm")) else { continue };
        let count = schedule.split_whitespace().nth(2).and_then(|word| word.parse::<u64>().ok());
        if let Some(count) = count {
            tasks.insert((pid, name), count);
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "            CPU0       CPU1       \n  9:          0          3   IO-APIC   9-fasteoi   acpi\nLOC:    1000       2000   Local timer interrupts\nERR:          0\n";

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
    fn sources_are_increases_per_second() {
        let before =
            SourceReading { interrupts: counted(INTERRUPTS, &[0, 1]), ..SourceReading::default() };
        let mut after = before.clone();
        *after.interrupts.get_mut("LOC: Local timer interrupts").unwrap() += 5000;
        after.tasks.insert((7, "agent".to_owned()), 10);
        after.stolen_ticks = 100;
        let sources = after.since(&before, 10.0, 2);
        let named: Vec<(&str, &str, f64)> = sources
            .iter()
            .map(|source| (source.kind.as_str(), source.name.as_str(), source.per_s))
            .collect();
        assert_eq!(
            named,
            [
                ("interrupt", "LOC: Local timer interrupts", 250.0),
                ("steal", "time for other guests", 0.05),
                ("task", "agent", 0.5)
            ]
        );
    }
}
