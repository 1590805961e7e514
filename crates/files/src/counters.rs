//! How much of what an operation moved went to or came from the device.
//!
//! Reads: the kernel counts for each process the bytes that it caused to be fetched from storage
//! (`read_bytes` in `/proc/self/io`, proc_pid_io(5)), read-ahead included. Writes: the same file
//! counts pages when they are made dirty, not when they are written, so the block device's own
//! counter of sectors written (`stat`, Documentation/block/stat.rst) is taken; it counts what others
//! write at the same time, too. Direct writes go out at once, so their process counter is exact.

use crate::operation::Direction;
use crate::volume::Volume;
use nodegauge_machine::SysRoot;
use serde::{Deserialize, Serialize};

/// Bytes of a sector in the block layer's counters, whatever the device's own are.
const SECTOR: u64 = 512;

/// Counters at one time; `None` where the kernel does not show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes that this process caused to be fetched from storage.
    pub process_read: Option<u64>,
    /// Bytes that this process caused to be sent to storage, now or later.
    pub process_written: Option<u64>,
    /// Bytes read from the device, by all.
    pub device_read: Option<u64>,
    /// Bytes written to the device, by all.
    pub device_written: Option<u64>,
}

impl Counters {
    /// The counters of this process and of a volume's device.
    pub fn now(root: &SysRoot, volume: &Volume) -> Self {
        let mut counters = Self::default();
        if let Some(text) = root.text("proc/self/io") {
            let field = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            };
            counters.process_read = field("read_bytes:");
            counters.process_written = field("write_bytes:");
        }
        if let Some(number) = &volume.number
            && let Some(text) = root.text(&format!("sys/dev/block/{number}/stat"))
        {
            let mut fields = text.split_whitespace().map(|field| field.parse::<u64>().ok());
            // reads merged SECTORS ms writes merged SECTORS ...
            counters.device_read = fields.nth(2).flatten().map(|n| n * SECTOR);
            counters.device_written = fields.nth(3).flatten().map(|n| n * SECTOR);
        }
        counters
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            process_read: less(self.process_read, earlier.process_read),
            process_written: less(self.process_written, earlier.process_written),
            device_read: less(self.device_read, earlier.device_read),
            device_written: less(self.device_written, earlier.device_written),
        }
    }

    /// The counts of several processes: their own added, the device's as the largest seen.
    pub fn joined(all: &[Self]) -> Self {
        let sum = |of: fn(&Self) -> Option<u64>| all.iter().map(of).sum::<Option<u64>>();
        let max = |of: fn(&Self) -> Option<u64>| all.iter().filter_map(of).max();
        Self {
            process_read: sum(|c| c.process_read),
            process_written: sum(|c| c.process_written),
            device_read: max(|c| c.device_read),
            device_written: max(|c| c.device_written),
        }
    }
}

/// Which share of what was moved was the device's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceShare {
    /// 0 to 1.
    pub share: f64,
    /// Which counter says so.
    pub basis: &'static str,
}

/// The device's share of `bytes` that an operation moved while the counters rose by `rise`; `None`
/// where the kernel shows nothing to tell it by.
pub fn share(
    direction: Direction,
    direct: bool,
    bytes: u64,
    rise: &Counters,
    volume: &Volume,
) -> Option<DeviceShare> {
    if bytes == 0 {
        return None;
    }
    if volume.is_in_memory() {
        return Some(DeviceShare { share: 0.0, basis: "file system in memory" });
    }
    let of = |counted: Option<u64>, basis| {
        counted
            .map(|counted| DeviceShare { share: (counted as f64 / bytes as f64).min(1.0), basis })
    };
    // The process's own count when it is exact; what others do to the device is not in it.
    match direction {
        Direction::Read => of(rise.process_read, "process"),
        Direction::Write if direct => of(rise.process_written, "process"),
        Direction::Write => of(rise.device_written, "device"),
        Direction::Mixed => {
            let written = if direct { rise.process_written } else { rise.device_written };
            of(Some(rise.process_read? + written?), if direct { "process" } else { "device" })
        }
    }
}

/// Shares up to this are called cached, and beyond its complement of the device.
const TRIFLE: f64 = 0.05;

/// What a share is called.
pub fn label(share: f64) -> &'static str {
    match share {
        s if s <= TRIFLE => "cached",
        s if s >= 1.0 - TRIFLE => "device",
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
    fn the_kernels_files_are_read() {
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
        let counters = Counters::now(&SysRoot::recorded(tree.path()), &volume("ext4"));
        let expected = Counters {
            process_read: Some(4096),
            process_written: Some(8192),
            device_read: Some(16 * 512),
            device_written: Some(32 * 512),
        };
        assert_eq!(counters, expected);
        assert_eq!(counters.since(&counters).device_read, Some(0));
        let nothing = Counters::now(&SysRoot::recorded("/nowhere"), &volume("ext4"));
        assert_eq!(nothing, Counters::default());
    }

    #[test]
    fn each_direction_has_its_counter() {
        let rise = Counters {
            process_read: Some(50),
            process_written: Some(100),
            device_read: Some(900),
            device_written: Some(3),
        };
        let of = |direction, direct| share(direction, direct, 100, &rise, &volume("ext4")).unwrap();
        assert_eq!(of(Direction::Read, false).share, 0.5);
        assert_eq!(of(Direction::Write, false).share, 0.03);
        assert_eq!(of(Direction::Write, true).share, 1.0);
        assert_eq!(of(Direction::Mixed, true).share, 1.0, "never more than all");
        assert_eq!(["cached", "mixed", "device"], [0.03, 0.5, 1.0].map(label));
    }

    #[test]
    fn unknown_is_not_zero_but_memory_is() {
        let rise = Counters::default();
        assert_eq!(share(Direction::Write, false, 100, &rise, &volume("nfs4")), None);
        assert_eq!(share(Direction::Read, false, 0, &rise, &volume("ext4")), None);
        let memory = share(Direction::Read, false, 100, &rise, &volume("tmpfs"));
        assert_eq!(memory.map(|share| share.share), Some(0.0));
    }
}
