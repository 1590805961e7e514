//! Checks of other load: running tasks, CPU time that other processes used while this process slept, and time that the
//! hypervisor gave to other guests.

use super::{DetectedProblem, ExaminedNode, found};
use crate::root::SysRoot;
use nodegauge_measure::Fraction;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Severity;
use std::time::Duration;

/// Duration of the observation. `/proc/stat` counts ticks of 10 ms per CPU. Two to three ticks are sufficient to
/// distinguish an idle node from a busy one, without a noticeable delay for the user.
const OBSERVATION_TIME: Duration = Duration::from_millis(25);

/// Minimum number of busy ticks in an observation. A smaller number may be the kernel's own work.
const MIN_TICKS: u64 = 3;

/// Share of CPU time used by other processes above which results are affected. Memory-bound kernels lose at least this
/// share, because a spinning barrier waits for the slowest thread.
const LOAD_SHARE: f64 = 0.02;
/// Share of CPU time used by other processes above which results are wrong.
const HEAVY_LOAD_SHARE: f64 = 0.20;

/// Share of CPU time that the hypervisor gave to other guests since boot, above which samples in a guest are
/// doubtful.
const MAX_STOLEN_SHARE: f64 = 0.005;

/// Minimum load average per CPU at which the last minute counts as busy.
const BUSY_LOAD_PER_CPU: f64 = 0.05;
/// Minimum load average of the node at which the last minute counts as busy.
const BUSY_LOAD: f64 = 0.5;

/// CPU time of all CPUs since boot, in ticks, from the first line of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CpuTimes {
    /// Time spent in processes and in the kernel, in ticks.
    busy: u64,
    /// Time in which CPUs were idle or waited for a disk, in ticks.
    idle: u64,
    /// Time in which a CPU was ready to run but the hypervisor ran another guest, in ticks.
    stolen: u64,
}

impl CpuTimes {
    /// Reads the current times.
    fn read(root: &SysRoot) -> Option<Self> {
        Self::parse(&root.text("proc/stat")?)
    }

    /// Parses the line `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest time is
    /// included in user time.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|text| text.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = ticks[..] else {
            return None;
        };
        Some(Self { busy: user + nice + system + irq + softirq, idle: idle + iowait, stolen })
    }

    /// Returns the sum of all times in ticks.
    fn total(&self) -> u64 {
        self.busy + self.idle + self.stolen
    }

    /// Returns the difference between these times and `earlier`.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            stolen: self.stolen.saturating_sub(earlier.stolen),
        }
    }
}

/// Load by other processes, observed for a short time in which this process slept.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LoadSample {
    /// CPU time during the observation.
    times: CpuTimes,
    /// Number of other running tasks at the start or at the end of the observation, whichever is lower.
    running: u64,
    /// Load average of the last minute.
    load: f64,
}

impl LoadSample {
    /// Observes a live machine for 25 ms. The files of a recorded machine do not change and are read without a pause.
    /// Returns `None` if a file cannot be read.
    fn take(root: &SysRoot) -> Option<Self> {
        let before = CpuTimes::read(root)?;
        let (_, running_before) = load_average(&root.text("proc/loadavg")?)?;
        if root.is_live() {
            std::thread::sleep(OBSERVATION_TIME);
        }
        let (load, running_after) = load_average(&root.text("proc/loadavg")?)?;
        Some(Self {
            times: CpuTimes::read(root)?.since(&before),
            // The task that reads the file is one of the running tasks and is subtracted.
            running: running_before.min(running_after).saturating_sub(1),
            load,
        })
    }
}

/// Parses the load average of the last minute and the number of running tasks from a line such as `0.01 0.04 0.05 1/84
/// 7392`.
fn load_average(text: &str) -> Option<(f64, u64)> {
    let mut words = text.split_whitespace();
    let minute = words.next()?.parse().ok()?;
    let (running, _) = words.nth(2)?.split_once('/')?;
    Some((minute, running.parse().ok()?))
}

pub(super) fn other_load_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    judge_load(&LoadSample::take(node.root)?, node.topology.threads.len())
}

fn judge_load(sample: &LoadSample, cpus: usize) -> Option<DetectedProblem> {
    let LoadSample { times, running, load } = sample;
    let taken = times.busy + times.stolen;
    let share = taken as f64 / times.total().max(1) as f64;
    let watched = taken >= MIN_TICKS && share >= LOAD_SHARE;
    let running_share = *running as f64 / cpus.max(1) as f64;
    let last_minute = *load >= BUSY_LOAD && load / cpus.max(1) as f64 >= BUSY_LOAD_PER_CPU;
    if !watched && *running == 0 && !last_minute {
        return None;
    }
    let severity = if (watched && share >= HEAVY_LOAD_SHARE) || running_share >= HEAVY_LOAD_SHARE {
        Severity::Critical
    } else if watched || *running > 0 {
        Severity::Warning
    } else {
        Severity::Info
    };
    let mut text = format!("load average {load:.2} on {}", count_in_words(cpus, "CPU"));
    text = match running {
        0 => format!("{text}; no other task is running now"),
        1 => format!("1 other task is running; {text}"),
        n => format!("{n} other tasks are running; {text}"),
    };
    if watched {
        text = format!(
            "{text}; other processes used {} of the CPU time in the last 25 ms",
            Fraction(share)
        );
    }
    let remedy = "find the processes with `top`; wait until they end, or request exclusive use of the node, e.g. `srun --exclusive`";
    Some(DetectedProblem { severity: Some(severity), ..found(text, remedy) })
}

pub(super) fn steal_problem(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    judge_steal(&CpuTimes::read(node.root)?)
}

fn judge_steal(since_boot: &CpuTimes) -> Option<DetectedProblem> {
    let share = since_boot.stolen as f64 / since_boot.total().max(1) as f64;
    (share >= MAX_STOLEN_SHARE).then(|| {
        found(
            format!(
                "the hypervisor gave {} of this guest's CPU time to other guests since boot",
                Fraction(share)
            ),
            "use a dedicated host or dedicated cores; samples with stolen time are excluded",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_read_and_subtracted() {
        let before =
            CpuTimes::parse("cpu  100 1 50 1000 10 2 3 4 90 0\ncpu0 1 1 1 1 1 1 1 1").unwrap();
        assert_eq!(before, CpuTimes { busy: 156, idle: 1010, stolen: 4 });
        let after = CpuTimes { busy: 160, idle: 1012, stolen: 5 };
        assert_eq!(after.since(&before), CpuTimes { busy: 4, idle: 2, stolen: 1 });
        assert_eq!(CpuTimes::parse("cpu 1 2 3"), None);
    }

    #[test]
    fn idle_node_has_no_finding_about_load() {
        let times = CpuTimes { busy: 1, idle: 5, stolen: 0 };
        assert_eq!(judge_load(&LoadSample { times, running: 0, load: 0.1 }, 2), None);
        assert_eq!(judge_load(&LoadSample { times, running: 0, load: 0.6 }, 128), None);
    }

    #[test]
    fn load_severity_increases_with_load() {
        let severity = |busy, idle, running, load| {
            let times = CpuTimes { busy, idle, stolen: 0 };
            judge_load(&LoadSample { times, running, load }, 128).and_then(|found| found.severity)
        };
        assert_eq!(severity(0, 300, 0, 20.0), Some(Severity::Info));
        assert_eq!(severity(0, 300, 1, 0.1), Some(Severity::Warning));
        assert_eq!(severity(9, 291, 0, 0.1), Some(Severity::Warning));
        assert_eq!(severity(100, 200, 40, 30.0), Some(Severity::Critical));
    }

    #[test]
    fn load_finding_states_tasks_and_cpu_time() {
        let times = CpuTimes { busy: 3, idle: 3, stolen: 0 };
        let found = judge_load(&LoadSample { times, running: 2, load: 1.9 }, 2).unwrap();
        assert_eq!(
            found.text,
            "2 other tasks are running; load average 1.90 on 2 CPUs; other processes used 50 % of the CPU time in the last 25 ms"
        );
    }

    #[test]
    fn stolen_time_is_reported_as_share_since_boot() {
        let times = CpuTimes { busy: 900, idle: 90, stolen: 10 };
        assert!(judge_steal(&times).unwrap().text.contains("gave 1 % of this guest's CPU time"));
        assert_eq!(judge_steal(&CpuTimes { stolen: 4, ..times }), None);
    }
}
