//! Detection of interference during a sample: time for which the measuring thread was off its CPU, page faults,
//! and time that the hypervisor stole.

use crate::Fraction;
use crate::quantity::{Seconds, count_in_words};
use std::fmt;

/// Counters that the kernel keeps for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ThreadCounts {
    /// Involuntary context switches: the thread lost the CPU although it was runnable.
    pub involuntary_switches: u64,
    /// Page faults, minor and major.
    pub faults: u64,
    /// Time for which the thread ran on a CPU, in nanoseconds.
    pub cpu_nanos: u64,
}

impl ThreadCounts {
    /// Returns the counters of the calling thread.
    pub fn now() -> Self {
        // SAFETY: both structures contain only numbers, for which zero is valid, and the kernel fills them.
        let (usage, cpu) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            let mut cpu: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut cpu);
            (usage, cpu)
        };
        Self {
            involuntary_switches: usage.ru_nivcsw as u64,
            faults: usage.ru_minflt as u64 + usage.ru_majflt as u64,
            cpu_nanos: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
        }
    }
}

impl std::ops::Sub for ThreadCounts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            faults: self.faults - earlier.faults,
            cpu_nanos: self.cpu_nanos - earlier.cpu_nanos,
        }
    }
}

/// Returns the time that the hypervisor gave to other guests since boot, summed over CPUs, in clock ticks
/// (usually 10 ms); `None` if the kernel does not report it.
pub fn stolen_ticks() -> Option<u64> {
    parse_stolen(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse_stolen(stat: &str) -> Option<u64> {
    // Columns of the line: cpu user nice system idle iowait irq softirq steal ...
    stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}

/// Two CPU times in seconds: the busy time of some CPUs since boot, for all processes, and the CPU time of this process
/// and of its ended children.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuTimeReading {
    all: f64,
    own: f64,
}

impl CpuTimeReading {
    /// Returns the current CPU times; the busy time is that of `cpus` (numbers of the operating system). Returns `None`
    /// if the kernel does not report the busy time.
    pub fn now(cpus: &[u32]) -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        // SAFETY: sysconf only reads a constant of the system.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        Some(Self { all: parse_busy_ticks(&stat, cpus)? as f64 / per_second, own: own_seconds() })
    }

    /// Returns the CPU time of other processes since `earlier`, in seconds.
    pub fn other_programs_time_since(self, earlier: Self) -> Seconds {
        Seconds(((self.all - earlier.all) - (self.own - earlier.own)).max(0.0))
    }
}

/// Returns the CPU time of this process and of its ended children, including their descendants, in seconds.
fn own_seconds() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| {
            // SAFETY: the structure contains only numbers, for which zero is valid, and the kernel fills it.
            let usage = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(who, &raw mut usage);
                usage
            };
            let seconds = |time: libc::timeval| time.tv_sec as f64 + 1e-6 * time.tv_usec as f64;
            seconds(usage.ru_utime) + seconds(usage.ru_stime)
        })
        .sum()
}

fn parse_busy_ticks(stat: &str, cpus: &[u32]) -> Option<u64> {
    let mut ticks = 0;
    for line in stat.lines() {
        let (name, rest) = line.split_once(' ')?;
        let Some(number) = name.strip_prefix("cpu") else { break };
        if number.parse().is_ok_and(|cpu: u32| cpus.contains(&cpu)) {
            // The columns are user nice system idle iowait irq softirq steal; idle and iowait do not count as busy.
            let columns = rest.split_whitespace().take(8).enumerate();
            for (_, word) in columns.filter(|(at, _)| !matches!(at, 3 | 4)) {
                ticks += word.parse::<u64>().ok()?;
            }
        }
    }
    Some(ticks)
}

/// Reason why a sample is excluded from statistics.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Cause {
    /// The sample is the first pass, in which caches, pages and clocks settle.
    WarmUp,
    /// Other tasks ran on the CPU of a measuring thread for a significant time.
    Preempted {
        /// Involuntary context switches of all threads.
        switches: u64,
        /// Time by which the other tasks delayed the end of the sample.
        lost: Seconds,
    },
    /// Page faults occurred inside the timed loops.
    Faults(u64),
    /// The hypervisor gave the CPU to another guest.
    Stolen {
        /// Stolen time in clock ticks.
        ticks: u64,
    },
    /// The core-to-core round trips before and after the sample differ, because the hypervisor moved the guest's CPUs
    /// during the sample.
    Moved,
    /// Another program used a CPU of the measuring threads.
    OtherProgram {
        /// Share of the sample's duration for which the other program used the CPU, 0 to 1.
        share: Fraction,
    },
}

/// Words for the use of a core by another program.
const BY_OTHERS: &str = "another program used a core";
/// Words for a loss of the CPU to another task.
const PREEMPTED: &str = "preempted";
/// Words for a loss of the CPU without a context switch of the thread.
const UNKNOWN: &str = "because of stolen time or an interrupt";

/// Returns the text of a cause for a run in which a CPU quota stopped threads. Time lost to the
/// quota cannot be distinguished from time lost to another program, so the text names both.
pub fn reword_for_quota(cause: &str) -> String {
    cause
        .replace(BY_OTHERS, "the CPU quota or another program stopped a thread")
        .replace(PREEMPTED, "stopped by the CPU quota or preempted")
        .replace(UNKNOWN, "because of the CPU quota")
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WarmUp => f.write_str("warm-up"),
            Self::Preempted { switches: 0, lost } => {
                write!(f, "off its CPU for {lost}, {UNKNOWN}")
            }
            Self::Preempted { switches, lost } => {
                write!(f, "{PREEMPTED} {} for {lost}", count_in_words(*switches as usize, "time"))
            }
            Self::Faults(n) => f.write_str(&count_in_words(*n as usize, "page fault")),
            Self::Stolen { ticks } => {
                write!(f, "{} stolen by the hypervisor", count_in_words(*ticks as usize, "tick"))
            }
            Self::Moved => f.write_str("core-to-core round trip changed during the sample"),
            Self::OtherProgram { share } => {
                write!(f, "{BY_OTHERS} for {} of the time", share.in_whole_percent())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_texts_use_singular_and_plural() {
        let ticks = |ticks| Cause::Stolen { ticks }.to_string();
        assert_eq!(ticks(1), "1 tick stolen by the hypervisor");
        assert_eq!(ticks(2), "2 ticks stolen by the hypervisor");
        assert_eq!(Cause::Faults(1).to_string(), "1 page fault");
        let preempted = |switches| Cause::Preempted { switches, lost: Seconds(1e-3) }.to_string();
        assert!(preempted(1).starts_with("preempted 1 time for 1"), "{}", preempted(1));
        assert!(preempted(2).starts_with("preempted 2 times for 1"), "{}", preempted(2));
    }

    #[test]
    fn quota_is_named_as_possible_cause_of_lost_time() {
        let preempted = |switches| Cause::Preempted { switches, lost: Seconds(8e-2) }.to_string();
        let other = Cause::OtherProgram { share: Fraction(0.4) }.to_string();
        let cases = [
            (preempted(2), "stopped by the CPU quota or preempted 2 times for 80.00 ms"),
            (preempted(0), "off its CPU for 80.00 ms, because of the CPU quota"),
            (other, "the CPU quota or another program stopped a thread for 40 % of the time"),
            (Cause::Faults(1).to_string(), "1 page fault"),
        ];
        for (cause, expected) in cases {
            assert_eq!(reword_for_quota(&cause), expected);
        }
    }

    #[test]
    fn busy_time_counts_requested_cpus_only() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 7 8\ncpu1 10 0 0 100 0 0 0 0 0 0\n\
                    intr 1 2 3\n";
        assert_eq!(parse_busy_ticks(stat, &[0]), Some(21));
        assert_eq!(parse_busy_ticks(stat, &[0, 1]), Some(31));
        assert_eq!(parse_busy_ticks("cpu0 a", &[0]), None);
        let before = CpuTimeReading { all: 10.0, own: 2.0 };
        let since = |all, own| CpuTimeReading { all, own }.other_programs_time_since(before).0;
        assert!((since(13.0, 4.0) - 1.0).abs() < 1e-9);
        assert_eq!(since(11.0, 4.0), 0.0);
    }

    #[test]
    fn steal_time_is_read_from_first_line() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse_stolen(stat), Some(80));
        assert_eq!(parse_stolen("intr 1"), None);
    }

    #[test]
    fn page_faults_of_thread_are_counted() {
        let before = ThreadCounts::now();
        let touched = vec![1u8; 8 << 20];
        std::hint::black_box(&touched);
        assert!((ThreadCounts::now() - before).faults > 0);
    }

    #[test]
    fn cpu_time_of_new_thread_begins_at_zero() {
        let started = std::time::Instant::now();
        let (first, last) = std::thread::spawn(|| {
            let first = ThreadCounts::now();
            while ThreadCounts::now().cpu_nanos == first.cpu_nanos {}
            (first, ThreadCounts::now())
        })
        .join()
        .unwrap();
        assert!((last - first).cpu_nanos > 0);
        // Some kernels count in ticks.
        let max = started.elapsed() + std::time::Duration::from_millis(500);
        assert!(u128::from(last.cpu_nanos) <= max.as_nanos(), "{last:?}");
    }

    #[test]
    fn busy_time_is_at_most_time_since_boot() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let since_boot = uptime.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok());
        let (Some(since_boot), Some(work)) = (since_boot, CpuTimeReading::now(&[0])) else {
            return;
        };
        // The clocks of the two files may differ slightly.
        assert!((0.0..=2.0 * since_boot).contains(&work.all), "{work:?} {since_boot}");
    }
}
