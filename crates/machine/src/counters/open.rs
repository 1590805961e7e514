//! Opening and reading of performance events with `perf_event_open`. No other module makes this system call.
#![allow(unsafe_code)]

use super::{CounterPlan, PmuEvent, TrafficDirection, find};
use crate::UnavailableReason;
use crate::host;
use crate::root::SysRoot;
use nodegauge_measure::Hertz;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Structure `perf_event_attr` up to the field `config2` (`PERF_ATTR_SIZE_VER1`). Fields that are not set are zero.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
}

const _: () = assert!(size_of::<Attributes>() == 72);

/// Flags `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;
/// Flag `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Flags `exclude_kernel` and `exclude_hv`. With these flags, every user may count events of their own threads.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// Flags of [`USER_ONLY`] with `inherit`, which includes all threads and processes that the thread starts afterwards.
pub(super) const USER_ONLY_INHERITED: u64 = USER_ONLY | 1 << 1;

/// Opens a counter. If `process` is -1, it counts all processes on `cpu`; if `process` is 0, it counts the calling
/// thread.
pub(super) fn open(
    event: &PmuEvent,
    process: libc::pid_t,
    cpu: libc::c_int,
    flags: u64,
) -> io::Result<File> {
    let attributes = Attributes {
        kind: event.kind,
        flags,
        size: size_of::<Attributes>() as u32,
        config: event.config[0],
        config1: event.config[1],
        config2: event.config[2],
        read_format: TIMES,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads the number of bytes in the field `size`, which is the size of the structure, and keeps
    // no pointer to the structure.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            process,
            cpu,
            -1 as RawFd,
            CLOSE_ON_EXEC,
        )
    };
    match RawFd::try_from(fd) {
        // SAFETY: the kernel has created this descriptor in this call, and nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) })),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Count of a counter, with the times for which it was enabled and for which it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TimedCount {
    pub value: u64,
    pub enabled: u64,
    pub running: u64,
}

pub(super) fn read(file: &File) -> io::Result<TimedCount> {
    let mut bytes = [0u8; 24];
    let mut file = file;
    file.read_exact(&mut bytes)?;
    Ok(TimedCount { value: word(&bytes, 0), enabled: word(&bytes, 1), running: word(&bytes, 2) })
}

/// Returns the 64-bit word with this index.
fn word(bytes: &[u8; 24], index: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&bytes[index * 8..][..8]);
    u64::from_ne_bytes(word)
}

/// Open counters of the node's memory traffic.
#[derive(Debug)]
pub struct MemoryCounters {
    plan: CounterPlan,
    files: Vec<File>,
}

/// Values of all counters at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterReading(Vec<TimedCount>);

/// Number of bytes transferred between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryTraffic {
    /// Bytes read from memory; `None` if the counters do not separate reads and writes.
    pub read: Option<f64>,
    /// Bytes written to memory; `None` if the counters do not separate reads and writes.
    pub write: Option<f64>,
    /// Sum of the bytes read and written.
    pub total: f64,
}

impl MemoryCounters {
    /// Opens the counters of this machine's memory traffic.
    ///
    /// # Errors
    /// Fails if there are no counters, or the kernel denies access. The text contains the reason and the remedy.
    pub fn open(root: &SysRoot) -> Result<Self, UnavailableReason> {
        let plan = find(root)?;
        let mut files = Vec::with_capacity(plan.events.len());
        for event in &plan.events {
            let cpu = libc::c_int::try_from(event.cpu).unwrap_or(-1);
            let file = open(event, -1, cpu, 0)
                .map_err(|error| access_denied_reason(root, event, &error))?;
            // Some counters can be opened but not read. They are detected here rather than during a measurement.
            read(&file).map_err(|error| access_denied_reason(root, event, &error))?;
            files.push(file);
        }
        Ok(Self { plan, files })
    }

    /// Returns the events that are counted.
    pub fn plan(&self) -> &CounterPlan {
        &self.plan
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// Fails if a counter cannot be read.
    pub fn read(&self) -> io::Result<CounterReading> {
        self.files.iter().map(read).collect::<io::Result<_>>().map(CounterReading)
    }

    /// Returns the bytes transferred in all `intervals` together. Each interval has a first and a second reading.
    /// Returns `None` if a counter never ran in the intervals because other events occupied it.
    pub fn traffic(&self, intervals: &[(CounterReading, CounterReading)]) -> Option<MemoryTraffic> {
        traffic(&self.plan.events, intervals)
    }
}

/// Sums the traffic of all intervals. If a counter ran only for a part of the time because the kernel multiplexed
/// it, its counts are scaled to the whole time.
fn traffic(
    events: &[PmuEvent],
    intervals: &[(CounterReading, CounterReading)],
) -> Option<MemoryTraffic> {
    let mut read = 0.0;
    let mut write = 0.0;
    let mut both = 0.0;
    for (i, event) in events.iter().enumerate() {
        let mut value = 0.0;
        let mut enabled = 0.0;
        let mut running = 0.0;
        for (before, after) in intervals {
            let before = before.0.get(i)?;
            let after = after.0.get(i)?;
            // A count never decreases, because counters have at least 48 bits and the kernel extends them.
            value += after.value.saturating_sub(before.value) as f64;
            enabled += after.enabled.saturating_sub(before.enabled) as f64;
            running += after.running.saturating_sub(before.running) as f64;
        }
        if running <= 0.0 {
            return None;
        }
        let bytes = value * (enabled / running).max(1.0) * event.bytes;
        match event.direction {
            TrafficDirection::Read => read += bytes,
            TrafficDirection::Write => write += bytes,
            TrafficDirection::Both => both += bytes,
        }
    }
    let separate = events.iter().all(|event| event.direction != TrafficDirection::Both);
    Some(MemoryTraffic {
        read: separate.then_some(read),
        write: separate.then_some(write),
        total: read + write + both,
    })
}

/// Counter of core cycles while the calling thread works.
#[derive(Debug)]
pub struct CycleCounter {
    file: File,
    start: TimedCount,
}

impl CycleCounter {
    /// Starts to count cycles. The event is `PERF_COUNT_HW_CPU_CYCLES` of the thread outside the kernel, or APERF
    /// if the kernel provides it. Returns `None` if neither is available, as in most guests.
    pub fn start(root: &SysRoot) -> Option<Self> {
        let file = open(&cycle_event(0, [0; 3]), 0, -1, USER_ONLY).ok().or_else(|| {
            let (config, _) = super::event_code(root, "msr", "aperf", 1.0)?;
            let kind = root.value(&format!("{}/msr/type", super::DEVICES))?;
            open(&cycle_event(kind, config), 0, -1, 0).ok()
        })?;
        let start = read(&file).ok()?;
        Some(Self { file, start })
    }

    /// Returns the clock in Hz: the cycles since the start, divided by the time for which they were counted.
    pub fn clock(&self) -> Option<Hertz> {
        let end = read(&self.file).ok()?;
        // The clock is unknown if the counter never ran.
        let nanoseconds = end.running.checked_sub(self.start.running).filter(|ns| *ns > 0)?;
        let cycles = end.value.checked_sub(self.start.value).filter(|cycles| *cycles > 0)?;
        Some(Hertz(cycles as f64 / (nanoseconds as f64 / 1e9)))
    }
}

/// Returns an event that counts cycles of this thread.
fn cycle_event(kind: u32, config: [u64; 3]) -> PmuEvent {
    PmuEvent {
        pmu: "cycles".to_owned(),
        kind,
        config,
        cpu: 0,
        direction: TrafficDirection::Both,
        bytes: 1.0,
    }
}

/// Returns the reason why the kernel denied access to a counter, with the remedy.
pub(super) fn access_denied_reason(
    root: &SysRoot,
    event: &PmuEvent,
    error: &io::Error,
) -> UnavailableReason {
    let pmu = &event.pmu;
    let paranoid: Option<i32> = root.value("proc/sys/kernel/perf_event_paranoid");
    let container = host::container(root);
    UnavailableReason(match (error.raw_os_error(), paranoid, container) {
        (Some(libc::EACCES | libc::EPERM), Some(level), _) if level > 0 => format!(
            "kernel.perf_event_paranoid is {level}, so {pmu} cannot be read; as root, sysctl kernel.perf_event_paranoid=0, or grant CAP_PERFMON"
        ),
        (Some(libc::EACCES | libc::EPERM), _, Some(container)) => format!(
            "{pmu} cannot be read in this {container} container; start it with --cap-add PERFMON and a seccomp profile that allows perf_event_open"
        ),
        (Some(libc::EACCES | libc::EPERM), ..) => {
            format!("{pmu} cannot be read: {error}; run as root, or with CAP_PERFMON")
        }
        (Some(libc::ENOSYS), ..) => {
            "perf_event_open is not supported by the kernel or is blocked by a system-call filter"
                .to_owned()
        }
        _ => format!("{pmu} cannot be opened: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a software event of the kernel (`PERF_TYPE_SOFTWARE`), which every machine supports.
    fn software(config: u64) -> PmuEvent {
        PmuEvent {
            pmu: "software".to_owned(),
            kind: 1,
            config: [config, 0, 0],
            cpu: 0,
            direction: TrafficDirection::Read,
            bytes: 4096.0,
        }
    }

    #[test]
    #[allow(clippy::print_stderr)]
    fn page_fault_event_counts_faults() {
        /// Event `PERF_COUNT_SW_PAGE_FAULTS`.
        const PAGE_FAULTS: u64 = 2;
        let event = software(PAGE_FAULTS);
        let file = match open(&event, 0, -1, 0) {
            Ok(file) => file,
            Err(error) => {
                // In containers that filter the system call, only the failure can be tested.
                eprintln!("skipped: perf_event_open: {error}");
                let filtered = [libc::EACCES, libc::EPERM, libc::ENOSYS];
                assert!(error.raw_os_error().is_some_and(|errno| filtered.contains(&errno)));
                return;
            }
        };
        let counters = MemoryCounters {
            plan: CounterPlan { family: "software".to_owned(), events: vec![event] },
            files: vec![file],
        };
        let before = counters.read().unwrap();
        let touched = vec![1u8; 16 << 20];
        std::hint::black_box(&touched);
        let after = counters.read().unwrap();
        let moved = counters.traffic(&[(before.clone(), after.clone())]).unwrap();
        // At least one page of 4 KiB or more was touched for the first time.
        assert!(moved.total >= 4096.0, "{moved:?}");
        assert_eq!((moved.read, moved.write), (Some(moved.total), Some(0.0)));
        // If there is no time between the readings, the traffic is unknown, not zero.
        assert_eq!(counters.traffic(&[(after.clone(), after)]), None);
    }

    #[test]
    fn unavailable_event_has_reason() {
        let event = PmuEvent { kind: u32::MAX - 1, pmu: "amd_umc_0".to_owned(), ..software(0) };
        let error = open(&event, 0, -1, 0).unwrap_err();
        let absent = access_denied_reason(&SysRoot::recorded("/nonexistent"), &event, &error);
        let expected = match error.raw_os_error() {
            Some(libc::ENOSYS) => "perf_event_open is not supported by the kernel or is blocked",
            Some(libc::EACCES | libc::EPERM) => "amd_umc_0 cannot be read: ",
            _ => "amd_umc_0 cannot be opened: ",
        };
        assert!(absent.0.starts_with(expected), "{absent}");
    }

    #[test]
    fn refused_event_has_cause_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&kernel).unwrap();
        let root = SysRoot::recorded(folder.path());
        let event = PmuEvent { pmu: "uncore_imc_0".to_owned(), ..software(0) };
        let of =
            |errno: i32| access_denied_reason(&root, &event, &io::Error::from_raw_os_error(errno));
        std::fs::write(kernel.join("perf_event_paranoid"), "2\n").unwrap();
        assert_eq!(
            of(libc::EACCES).to_string(),
            "kernel.perf_event_paranoid is 2, so uncore_imc_0 cannot be read; as root, sysctl \
             kernel.perf_event_paranoid=0, or grant CAP_PERFMON"
        );
        std::fs::write(kernel.join("perf_event_paranoid"), "-1\n").unwrap();
        assert!(of(libc::EPERM).0.ends_with("; run as root, or with CAP_PERFMON"));
        assert!(of(libc::ENOSYS).0.contains("perf_event_open"));
        assert!(of(libc::EINVAL).0.starts_with("uncore_imc_0 cannot be opened: Invalid argument"));
    }

    #[test]
    fn multiplexed_traffic_counters_are_scaled() {
        let event =
            |direction: TrafficDirection| PmuEvent { direction, bytes: 64.0, ..software(0) };
        let reading = |counts: &[(u64, u64, u64)]| {
            let count = |(value, enabled, running)| TimedCount { value, enabled, running };
            CounterReading(counts.iter().copied().map(count).collect())
        };
        let events = [event(TrafficDirection::Read), event(TrafficDirection::Write)];
        let before = reading(&[(100, 10, 10), (0, 10, 5)]);
        let after = reading(&[(1100, 20, 20), (250, 20, 10)]);
        let moved = traffic(&events, &[(before.clone(), after.clone())]).unwrap();
        assert_eq!((moved.read, moved.write), (Some(64_000.0), Some(32_000.0)));
        assert_eq!(moved.total, 96_000.0);
        // One event was counted only in the second of two intervals, so that its count is scaled to both intervals.
        let idle = reading(&[(100, 20, 10), (0, 20, 5)]);
        let idle_moved = traffic(&events[..1], &[(before.clone(), idle.clone()), (idle, after)]);
        assert_eq!(idle_moved.unwrap().total, 64_000.0);
        let fabric = [event(TrafficDirection::Both)];
        let fabric_moved =
            traffic(&fabric, &[(reading(&[(0, 0, 0)]), reading(&[(10, 4, 2)]))]).unwrap();
        assert_eq!(
            (fabric_moved.read, fabric_moved.write, fabric_moved.total),
            (None, None, 1280.0)
        );
        assert_eq!(traffic(&fabric, &[(before.clone(), before)]), None);
    }
}
