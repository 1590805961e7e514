//! Who else uses the CPUs: tasks that run, time that others took while nothing ran here, and time
//! that the hypervisor gave to other guests.

use super::{Examined, Found, found, percent};
use crate::root::SysRoot;
use nodegauge_measure::record::Severity;
use std::time::Duration;

/// How long to watch. `/proc/stat` counts in ticks of 10 ms on each CPU; two to three of them tell
/// an idle node from a busy one without delaying the user.
const WATCH: Duration = Duration::from_millis(25);

/// Ticks of others' work below which a short watch says nothing: single ones are the kernel's own.
const TICKS: u64 = 3;

/// Share of CPU time that others take from which results are off, and from which they are wrong.
/// Memory-bound kernels lose at least the share itself; a spinning barrier waits for the slowest.
const NOTICED: f64 = 0.02;
const WRONG: f64 = 0.20;

/// Share of time given to other guests since boot from which a guest's samples are in doubt.
const STOLEN: f64 = 0.005;

/// Load average, as a share of the CPUs, from which the last minute was busy; and its least value.
const BUSY_MINUTE: f64 = 0.05;
const BUSY_LOAD: f64 = 0.5;

/// CPU time of all CPUs since boot, in ticks, from the first line of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CpuTimes {
    /// At work.
    busy: u64,
    /// Idle or waiting for a disk.
    idle: u64,
    /// Wanted, and given by the hypervisor to others.
    stolen: u64,
}

impl CpuTimes {
    /// Reads the current times.
    fn read(root: &SysRoot) -> Option<Self> {
        Self::parse(&root.text("proc/stat")?)
    }

    /// `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest time is
    /// contained in user time.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|text| text.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = ticks[..] else {
            return None;
        };
        Some(Self { busy: user + nice + system + irq + softirq, idle: idle + iowait, stolen })
    }

    /// All ticks.
    fn total(&self) -> u64 {
        self.busy + self.idle + self.stolen
    }

    /// What passed since `earlier`.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            stolen: self.stolen.saturating_sub(earlier.stolen),
        }
    }
}

/// What others did during a short watch in which this process slept.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LoadSample {
    /// CPU time that passed.
    times: CpuTimes,
    /// Tasks that ran at both ends, besides this one.
    running: u64,
    /// Load average of the last minute.
    load: f64,
}

impl LoadSample {
    /// Watches a live machine for 25 ms; a recorded one stands still.
    fn take(root: &SysRoot) -> Option<Self> {
        let before = CpuTimes::read(root)?;
        let (_, running_before) = load_average(&root.text("proc/loadavg")?)?;
        if root.is_live() {
            std::thread::sleep(WATCH);
        }
        let (load, running_after) = load_average(&root.text("proc/loadavg")?)?;
        Some(Self {
            times: CpuTimes::read(root)?.since(&before),
            // The task that reads the file is one of those that run.
            running: running_before.min(running_after).saturating_sub(1),
            load,
        })
    }
}

/// Load of the last minute and tasks that run now: `0.01 0.04 0.05 1/84 7392`.
fn load_average(text: &str) -> Option<(f64, u64)> {
    let mut words = text.split_whitespace();
    let minute = words.next()?.parse().ok()?;
    let (running, _) = words.nth(2)?.split_once('/')?;
    Some((minute, running.parse().ok()?))
}

pub(super) fn other_load(node: &Examined<'_>) -> Option<Found> {
    judge_load(&LoadSample::take(node.root)?, node.topology.threads.len())
}

fn judge_load(sample: &LoadSample, cpus: usize) -> Option<Found> {
    let LoadSample { times, running, load } = sample;
    let taken = times.busy + times.stolen;
    let share = taken as f64 / times.total().max(1) as f64;
    let watched = taken >= TICKS && share >= NOTICED;
    let running_share = *running as f64 / cpus.max(1) as f64;
    let last_minute = *load >= BUSY_LOAD && load / cpus.max(1) as f64 >= BUSY_MINUTE;
    if !watched && *running == 0 && !last_minute {
        return None;
    }
    let severity = if (watched && share >= WRONG) || running_share >= WRONG {
        Severity::Critical
    } else if watched || *running > 0 {
        Severity::Warning
    } else {
        Severity::Info
    };
    let mut text = format!("load average {load:.2} on {cpus} CPUs");
    text = match running {
        0 => format!("{text}; nothing else runs at this moment"),
        1 => format!("1 other task is running; {text}"),
        n => format!("{n} other tasks are running; {text}"),
    };
    if watched {
        text = format!("{text}; others took {} of the CPU time just now", percent(share));
    }
    let remedy =
        "find it with `top`; wait for its end, or have the node alone, e.g. `srun --exclusive`";
    Some(Found { severity: Some(severity), ..found(text, remedy) })
}

pub(super) fn steal(node: &Examined<'_>) -> Option<Found> {
    judge_steal(&CpuTimes::read(node.root)?)
}

fn judge_steal(since_boot: &CpuTimes) -> Option<Found> {
    let share = since_boot.stolen as f64 / since_boot.total().max(1) as f64;
    (share >= STOLEN).then(|| {
        found(
            format!("the hypervisor gave {} of this guest's CPU time to others since boot", percent(share)),
            "use a dedicated host or dedicated cores; samples in which time was stolen are set aside",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_subtracted() {
        let before =
            CpuTimes::parse("cpu  100 1 50 1000 10 2 3 4 90 0\ncpu0 1 1 1 1 1 1 1 1").unwrap();
        assert_eq!(before, CpuTimes { busy: 156, idle: 1010, stolen: 4 });
        let after = CpuTimes { busy: 160, idle: 1012, stolen: 5 };
        assert_eq!(after.since(&before), CpuTimes { busy: 4, idle: 2, stolen: 1 });
        assert_eq!(CpuTimes::parse("cpu 1 2 3"), None);
    }

    #[test]
    fn a_quiet_node_makes_no_finding() {
        let times = CpuTimes { busy: 1, idle: 5, stolen: 0 };
        assert_eq!(judge_load(&LoadSample { times, running: 0, load: 0.1 }, 2), None);
        assert_eq!(judge_load(&LoadSample { times, running: 0, load: 0.6 }, 128), None);
    }

    #[test]
    fn load_is_worse_the_more_it_takes() {
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
    fn the_text_says_what_was_seen() {
        let times = CpuTimes { busy: 3, idle: 3, stolen: 0 };
        let found = judge_load(&LoadSample { times, running: 2, load: 1.9 }, 2).unwrap();
        assert_eq!(
            found.text,
            "2 other tasks are running; load average 1.90 on 2 CPUs; others took 50 % of the CPU time just now"
        );
    }

    #[test]
    fn stolen_time_is_a_share_since_boot() {
        let times = CpuTimes { busy: 900, idle: 90, stolen: 10 };
        assert!(judge_steal(&times).unwrap().text.contains("1.0 % of this guest's CPU time"));
        assert_eq!(judge_steal(&CpuTimes { stolen: 4, ..times }), None);
    }
}
