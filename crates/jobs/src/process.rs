//! One reading of a process and its threads from `/proc/PID` and `/proc/PID/task/TID` (proc(5)). These files are short,
//! and the kernel holds no lock of the process while they are read.

use nodegauge_machine::SysRoot;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Indices of fields of `/proc/PID/stat` after the name. Index 0 is field 3, the state (proc(5)).
const FLAGS: usize = 9 - 3;
const UTIME: usize = 14 - 3;
const STIME: usize = 15 - 3;
const STARTED: usize = 22 - 3;
const PROCESSOR: usize = 39 - 3;
/// Flag of kernel threads (Linux, `PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Reason why a file of a process cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadableReason {
    /// The process has ended, `/proc` hides it, or the kernel has no such file.
    Missing,
    /// The process belongs to another user.
    Denied,
    /// The file has an unknown format.
    Malformed,
}

impl fmt::Display for UnreadableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Denied => "permission denied",
            Self::Malformed => "unknown format",
        })
    }
}

impl From<io::Error> for UnreadableReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Missing,
        }
    }
}

/// Returns the text of a file of a process; bytes that are not UTF-8 are replaced.
pub(crate) fn file_text(root: &SysRoot, file: &str) -> Result<String, UnreadableReason> {
    let bytes = std::fs::read(root.path(file))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// State of a thread at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ThreadReading {
    pub(crate) tid: u32,
    pub(crate) name: String,
    /// State letter of the kernel: `R` is running or waiting for a CPU.
    pub(crate) state: char,
    /// CPU on which the thread ran last.
    pub(crate) cpu: u32,
    /// CPU time, in clock ticks of the kernel.
    pub(crate) ticks: u64,
    /// Running and waiting times; `None` if the kernel does not count them.
    pub(crate) schedule: Option<ScheduleTimes>,
    pub(crate) allowed: String,
    pub(crate) involuntary_switches: Option<u64>,
    pub(crate) migrations: Option<u64>,
}

/// Times from `/proc/PID/task/TID/schedstat`, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScheduleTimes {
    /// Time on a CPU.
    pub running: u64,
    /// Time during which the thread waited for a CPU.
    pub waiting: u64,
    /// Number of times that the thread began to run.
    pub slices: u64,
}

impl ScheduleTimes {
    /// Parses the text of `schedstat`. Returns `None` if all values are zero, because a kernel without these statistics
    /// prints zeros.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let running = numbers.next()?.ok()?;
        let waiting = numbers.next()?.ok()?;
        let slices = numbers.next()?.ok()?;
        Some(Self { running, waiting, slices }).filter(|times| *times != Self::default())
    }
}

/// State of a process at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessReading {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) user: u32,
    pub(crate) resident: Option<u64>,
    pub(crate) swapped: Option<u64>,
    pub(crate) memory_nodes: String,
    pub(crate) threads: Vec<ThreadReading>,
}

/// Reads a process with its threads. Threads that end during the reading are left out.
pub(crate) fn read(root: &SysRoot, pid: u32) -> Result<ProcessReading, UnreadableReason> {
    let status = file_text(root, &format!("proc/{pid}/status"))?;
    let tasks = format!("proc/{pid}/task");
    let mut tids: Vec<u32> = Vec::new();
    for entry in std::fs::read_dir(root.path(&tasks))?.flatten() {
        tids.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    tids.sort_unstable();
    let mut threads = Vec::with_capacity(tids.len());
    for tid in tids {
        threads.extend(read_thread(root, &format!("{tasks}/{tid}"), tid));
    }
    if threads.is_empty() {
        return Err(UnreadableReason::Missing);
    }
    Ok(ProcessReading {
        pid,
        name: status_line(&status, "Name:").unwrap_or_default().to_owned(),
        user: status_line(&status, "Uid:")
            .and_then(|ids| ids.split_whitespace().next()?.parse().ok())
            .ok_or(UnreadableReason::Malformed)?,
        resident: kibibytes(&status, "VmRSS:"),
        swapped: kibibytes(&status, "VmSwap:"),
        memory_nodes: status_line(&status, "Mems_allowed_list:").unwrap_or_default().to_owned(),
        threads,
    })
}

fn read_thread(root: &SysRoot, folder: &str, tid: u32) -> Option<ThreadReading> {
    let stat = file_text(root, &format!("{folder}/stat")).ok()?;
    let status = file_text(root, &format!("{folder}/status")).ok()?;
    let stat = TaskStat::parse(&stat)?;
    let schedule = file_text(root, &format!("{folder}/schedstat")).ok();
    let scheduler = file_text(root, &format!("{folder}/sched")).ok();
    Some(ThreadReading {
        tid,
        name: stat.name.to_owned(),
        state: stat.fields.first()?.chars().next()?,
        cpu: stat.cpu()?,
        ticks: stat.number::<u64>(UTIME)? + stat.number::<u64>(STIME)?,
        schedule: schedule.and_then(|text| ScheduleTimes::parse(&text)),
        allowed: status_line(&status, "Cpus_allowed_list:")?.to_owned(),
        involuntary_switches: status_line(&status, "nonvoluntary_ctxt_switches:")
            .and_then(|count| count.parse().ok()),
        migrations: scheduler.and_then(|text| migrations(&text)),
    })
}

/// Line of `/proc/PID/stat`, or of a thread: `PID (NAME) STATE PARENT ...`. The name may contain spaces and brackets.
pub struct TaskStat<'s> {
    /// Name of the program or thread.
    pub name: &'s str,
    /// Fields from the state onwards.
    pub(crate) fields: Vec<&'s str>,
}

impl<'s> TaskStat<'s> {
    /// Parses the line; `None` if it has another format.
    pub fn parse(text: &'s str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(") ")?;
        let (_, name) = head.split_once(" (")?;
        Some(Self { name, fields: tail.split_whitespace().collect() })
    }

    fn number<T: FromStr>(&self, field: usize) -> Option<T> {
        self.fields.get(field)?.parse().ok()
    }

    /// Returns the process identifier of the parent.
    pub(crate) fn parent(&self) -> Option<u32> {
        self.number(1)
    }

    /// True for a thread of the kernel.
    pub fn is_kernel_thread(&self) -> Option<bool> {
        self.number::<u64>(FLAGS).map(|flags| flags & KERNEL_THREAD != 0)
    }

    /// Returns the start time in clock ticks since boot. It distinguishes tasks that have had the same number.
    pub fn start_ticks(&self) -> Option<u64> {
        self.number(STARTED)
    }

    /// Returns the CPU on which the task ran last.
    pub fn cpu(&self) -> Option<u32> {
        self.number(PROCESSOR)
    }
}

/// Returns the value of the line of `status` that begins with `key`.
pub(crate) fn status_line<'s>(status: &'s str, key: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// Returns the bytes in a line of the form `KEY: 12 kB`.
fn kibibytes(status: &str, key: &str) -> Option<u64> {
    let number: u64 = status_line(status, key)?.split(' ').next()?.parse().ok()?;
    number.checked_mul(1 << 10)
}

/// Returns the number of migrations in the text of `sched`.
fn migrations(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("se.nr_migrations"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_with_brackets_and_spaces_are_parsed() {
        let stat = TaskStat::parse("12 (a) b (c) R 7 1 1 0\n").unwrap();
        assert_eq!((stat.name, stat.fields[0], stat.parent()), ("a) b (c", "R", Some(7)));
        assert!(TaskStat::parse("12 a R 7").is_none());
    }

    #[test]
    fn scheduler_counters_are_parsed() {
        let times = ScheduleTimes::parse("167401610 831112451 51\n");
        let expected = ScheduleTimes { running: 167_401_610, waiting: 831_112_451, slices: 51 };
        assert_eq!(times, Some(expected));
        assert_eq!(ScheduleTimes::parse("0 0 0"), None);
        assert_eq!(ScheduleTimes::parse("1"), None);
        let text = "omp (14970, #threads: 2)\n---\nse.nr_migrations       :      12\n";
        assert_eq!(migrations(text), Some(12));
        assert_eq!(migrations("omp"), None);
    }

    #[test]
    fn own_process_is_read() {
        let own = read(&SysRoot::live(), std::process::id()).unwrap();
        assert!(own.resident.is_some() && !own.threads.is_empty());
        assert!(own.threads.iter().all(|thread| !thread.allowed.is_empty()));
        assert_eq!(read(&SysRoot::live(), u32::MAX), Err(UnreadableReason::Missing));
    }
}
