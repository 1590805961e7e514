//! Share of an operation's data that was transferred from or to the device.
//!
//! For reads, the kernel counts per process the bytes that were fetched from storage, including read-ahead
//! (`read_bytes` in `/proc/self/io`, proc_pid_io(5)). For writes, the same file counts pages when they become dirty,
//! not when they are written. Therefore the block device's counter of written sectors (`stat`,
//! Documentation/block/stat.rst) is used, which also counts writes by other processes. Direct writes are transferred
//! immediately, so that the process's counter is exact for these.

use crate::operation::Direction;
use crate::volume::Volume;
use nodegauge_machine::SysRoot;
use serde::{Deserialize, Serialize};

/// Bytes per sector in the block layer's counters, independent of the sector size of the device.
const SECTOR: u64 = 512;

/// Values of the counters at one time; a counter is `None` if it is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct IoCounters {
    /// Bytes that the kernel has fetched from storage for this process.
    process_read: Option<u64>,
    /// Bytes that this process has written to files. The kernel writes them to storage immediately or later.
    process_written: Option<u64>,
    /// Bytes written to the device by all processes.
    device_written: Option<u64>,
}

impl IoCounters {
    /// Reads the counters of this process and of a volume's device.
    pub fn read(root: &SysRoot, volume: &Volume) -> Self {
        let io = root.text("proc/self/io").unwrap_or_default();
        Self {
            process_read: counter(&io, "read_bytes:"),
            process_written: counter(&io, "write_bytes:"),
            device_written: bytes_written(root, volume),
        }
    }

    /// Reads the counters of this process only.
    pub fn read_process(root: &SysRoot) -> Self {
        Self::read(root, &Volume::default())
    }

    /// Returns the bytes that this process has caused the kernel to fetch from storage.
    pub fn read_bytes(&self) -> Option<u64> {
        self.process_read
    }

    /// Returns the increase since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            process_read: increase(self.process_read, earlier.process_read),
            process_written: increase(self.process_written, earlier.process_written),
            device_written: increase(self.device_written, earlier.device_written),
        }
    }

    /// Adds the counters of another process. Unknown counters of that process are ignored.
    pub fn merge(&mut self, process: &Self) {
        for (count, more) in [
            (&mut self.process_read, process.process_read),
            (&mut self.process_written, process.process_written),
        ] {
            *count = count.map(|count| count + more.unwrap_or(0));
        }
    }
}

/// Returns the counter `name` of `/proc/self/io`.
fn counter(io: &str, name: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Returns the bytes that all processes have written to the device of a volume.
fn bytes_written(root: &SysRoot, volume: &Volume) -> Option<u64> {
    let number = volume.number.as_ref()?;
    let stat = root.text(&format!("sys/dev/block/{number}/stat"))?;
    // Order of the numbers in `stat`: reads completed, reads merged, sectors read, time reading in ms, writes
    // completed, writes merged, sectors written.
    let sectors: u64 = stat.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * SECTOR)
}

/// Returns the increase of a counter, if both readings are known.
fn increase(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then?))
}

/// Share of an operation's data that was read from or written to the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceShare {
    /// Share from 0 to 1.
    pub share: f64,
    /// Counter from which the share is derived.
    pub basis: &'static str,
}

/// Returns the share of the `bytes` of an operation that was read from or written to the device. `rise` is the increase
/// of the counters during the operation. Returns `None` if the kernel has no suitable counter.
pub(crate) fn device_share(
    direction: Direction,
    direct: bool,
    bytes: u64,
    rise: &IoCounters,
    volume: &Volume,
) -> Option<DeviceShare> {
    if bytes == 0 {
        return None;
    }
    if volume.is_in_memory() {
        return Some(DeviceShare { share: 0.0, basis: "file system in memory" });
    }
    // The process's own counter is preferred if it is exact, because it excludes other processes.
    let written =
        if direct { (rise.process_written, "process") } else { (rise.device_written, "device") };
    let (counted, basis) = match direction {
        Direction::Read => (rise.process_read, "process"),
        Direction::Write => written,
        Direction::Mixed => (Some(rise.process_read? + written.0?), written.1),
    };
    Some(DeviceShare { share: (counted? as f64 / bytes as f64).min(1.0), basis })
}

/// Maximum device share with the label `cached`. One minus this value is the minimum share with the label `device`.
const MAX_CACHED_SHARE: f64 = 0.05;

/// Returns the label for a device share, e.g. `cached`.
pub fn share_label(share: f64) -> &'static str {
    match share {
        s if s <= MAX_CACHED_SHARE => "cached",
        s if s >= 1.0 - MAX_CACHED_SHARE => "device",
        _ => "mixed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(kind: &str) -> Volume {
        Volume { kind: Some(kind.into()), number: Some("8:1".into()), ..Volume::default() }
    }

    #[test]
    fn io_counters_are_read() {
        let tree = tempfile::tempdir().unwrap();
        for (file, text) in [
            (
                "proc/self/io",
                "rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n",
            ),
            ("sys/dev/block/8:1/stat", "  10 0 16 1 20 0 32 1 0 1 1 0 0 0 0 0 0\n"),
        ] {
            let path = tree.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let counters = IoCounters::read(&SysRoot::recorded(tree.path()), &volume("ext4"));
        let expected = IoCounters {
            process_read: Some(4096),
            process_written: Some(8192),
            device_written: Some(32 * 512),
        };
        assert_eq!(counters, expected);
        assert_eq!(counters.since(&counters).device_written, Some(0));
        let mut joined = counters;
        joined.merge(&IoCounters { process_read: Some(4), ..IoCounters::default() });
        assert_eq!(joined, IoCounters { process_read: Some(4100), ..counters });
        let nothing = IoCounters::read(&SysRoot::recorded("/nowhere"), &volume("ext4"));
        assert_eq!(nothing, IoCounters::default());
    }

    #[test]
    fn device_share_uses_counter_of_direction() {
        let rise = IoCounters {
            process_read: Some(50),
            process_written: Some(100),
            device_written: Some(3),
        };
        let of = |direction, direct| {
            device_share(direction, direct, 100, &rise, &volume("ext4")).unwrap()
        };
        assert_eq!(of(Direction::Read, false).share, 0.5);
        assert_eq!(of(Direction::Write, false).share, 0.03);
        assert_eq!(of(Direction::Write, true).share, 1.0);
        assert_eq!(of(Direction::Mixed, true).share, 1.0, "never more than all");
        assert_eq!(["cached", "mixed", "device"], [0.03, 0.5, 1.0].map(share_label));
    }

    #[test]
    fn device_share_is_zero_on_tmpfs_and_unknown_on_nfs() {
        let rise = IoCounters::default();
        assert_eq!(device_share(Direction::Write, false, 100, &rise, &volume("nfs4")), None);
        assert_eq!(device_share(Direction::Read, false, 0, &rise, &volume("ext4")), None);
        let memory = device_share(Direction::Read, false, 100, &rise, &volume("tmpfs"));
        assert_eq!(memory.map(|share| share.share), Some(0.0));
    }
}
