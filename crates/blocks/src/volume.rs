//! File system and device of a folder, and the free space in it.

use nodegauge_machine::SysRoot;
use nodegauge_machine::mounts::Mount;
use nodegauge_measure::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File system of a folder, in the form of the record. Unknown values are `null`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Folder as the user typed it.
    pub path: String,
    /// Type of the file system: `ext4`, `xfs`, `tmpfs`, `nfs4`, `lustre`, ...
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Mount point.
    pub mount: Option<String>,
    /// Source of the mount: a device, or a server's export.
    pub source: Option<String>,
    /// Options of the mount and of the file system.
    pub options: Option<String>,
    /// Name of the block device, e.g. `nvme0n1p2`; `null` if there is none or it is unknown.
    pub device: Option<String>,
    /// Name of the device's model.
    pub model: Option<String>,
    /// I/O scheduler of the device.
    pub scheduler: Option<String>,
    /// True if the device reports itself as rotational.
    pub rotational: Option<bool>,
    /// Block size in bytes that direct I/O requires.
    pub logical_block: Option<u64>,
    /// Device number in the kernel's notation, `MAJOR:MINOR`.
    #[serde(skip)]
    pub number: Option<String>,
    /// Path of the folder, which may contain bytes that are not UTF-8.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// Types of file systems that keep all data in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// Types of network file systems. Their clients cache the attributes of files for some time.
const REMOTE: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "beegfs", "gpfs", "9p"];

impl Volume {
    /// Returns a description of the file system of `folder`.
    pub fn from_folder(folder: &Path, root: &SysRoot) -> io::Result<Self> {
        let number = std::fs::metadata(folder)?.dev();
        let full = std::fs::canonicalize(folder)?;
        let mounts = root.bytes("proc/self/mountinfo").unwrap_or_default();
        Ok(Self::described(folder, &full, number, &String::from_utf8_lossy(&mounts), root))
    }

    fn described(folder: &Path, full: &Path, dev: u64, mounts: &str, root: &SysRoot) -> Self {
        let path = folder.display().to_string();
        let mut volume = Self { path, folder: folder.to_owned(), ..Self::default() };
        let mut candidates = vec![number(dev)];
        // The last matching line is the topmost mount.
        let mounts = mounts.lines().filter_map(Mount::parse);
        let mounts = mounts.filter(|mount| {
            mount.device_number == candidates[0] && full.starts_with(&mount.mount_point)
        });
        let mount = mounts.max_by_key(|mount| mount.mount_point.as_os_str().len());
        if let Some(mount) = mount {
            // A file system that spans several devices, such as btrfs, has its own device number.
            let device = Path::new(mount.source).starts_with("/dev/");
            let source = std::fs::metadata(mount.source).map_or(0, |source| source.rdev());
            candidates.extend((device && source != 0).then(|| number(source)));
            volume.kind = Some(mount.kind.to_owned());
            volume.mount = Some(mount.mount_point.display().to_string());
            volume.source = Some(mount.source.to_owned());
            volume.options = Some(mount.options.join(","));
        }
        for candidate in &candidates {
            if root.exists(&format!("sys/dev/block/{candidate}/stat")) {
                volume.device(candidate, root);
                break;
            }
        }
        volume
    }

    fn device(&mut self, number: &str, root: &SysRoot) {
        let at = format!("sys/dev/block/{number}");
        let uevent = root.text(&format!("{at}/uevent")).unwrap_or_default();
        let in_uevent = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let folder = std::fs::canonicalize(root.path(&at)).unwrap_or_default();
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        self.device = name.or(in_uevent.map(str::to_owned));
        // A partition uses the request queue of its disk.
        let disk = if root.exists(&format!("{at}/queue")) { at } else { format!("{at}/..") };
        self.scheduler = root.text(&format!("{disk}/queue/scheduler")).map(|list| chosen(&list));
        self.rotational = root.value::<u8>(&format!("{disk}/queue/rotational")).map(|n| n != 0);
        self.logical_block = root.value(&format!("{disk}/queue/logical_block_size"));
        self.model = root.text(&format!("{disk}/device/model")).filter(|model| !model.is_empty());
        self.number = Some(number.to_owned());
    }

    /// True if the file system never writes to a device.
    pub fn is_in_memory(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| IN_MEMORY.contains(&kind))
    }

    /// True if the file system is a network file system.
    pub fn is_remote(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| REMOTE.contains(&kind))
    }
}

/// Returns a device number in the kernel's notation: `MAJOR:MINOR`.
fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

/// Returns the selected scheduler: the name in brackets, or the only name.
fn chosen(list: &str) -> String {
    list.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(list, |(name, _)| name)
        .to_owned()
}

/// Returns the number of bytes that can still be written in a folder, with the name of the limit: `free space`, or
/// `quota` for the user's quota.
pub fn writable_space(volume: &Volume) -> io::Result<(Bytes, &'static str)> {
    let stat = rustix::fs::statvfs(&volume.folder)?;
    let free = (Bytes(stat.f_bavail * stat.f_frsize), "free space");
    let quota = quota(volume).and_then(|left| left.bytes).map(|left| (Bytes(left), "quota"));
    Ok(quota.map_or(free, |quota| quota.min(free)))
}

/// Returns the number of files that can still be created in a folder, with the name of the limit; `None` if the file
/// system has no such limit or does not report it.
pub fn free_inodes(volume: &Volume) -> io::Result<Option<(u64, &'static str)>> {
    let stat = rustix::fs::statvfs(&volume.folder)?;
    let free = (stat.f_files > 0).then_some((stat.f_favail, "free inodes"));
    let limits = quota(volume);
    let quota = limits.and_then(|limits| limits.inodes).map(|left| (left, "quota of inodes"));
    Ok(free.into_iter().chain(quota).min())
}

/// Unused parts of the user's quotas.
#[derive(Debug, Clone, Copy, Default)]
struct QuotaLeft {
    /// Bytes; `None` without a limit.
    bytes: Option<u64>,
    /// Number of files; `None` without a limit.
    inodes: Option<u64>,
}

/// Returns the unused parts of the user's quotas, if the kernel manages quotas for this device.
fn quota(volume: &Volume) -> Option<QuotaLeft> {
    let source = volume.source.as_deref().filter(|source| source.starts_with("/dev/"))?;
    let device = CString::new(source).ok()?;
    const BLOCK: u64 = 1024;
    // SAFETY: the kernel fills the structure, for which zeros are valid; the path ends with a zero byte.
    let quota = unsafe {
        let mut quota: libc::dqblk = std::mem::zeroed();
        let command = libc::QCMD(libc::Q_GETQUOTA, libc::USRQUOTA);
        let user = nodegauge_os::effective_user_id() as i32;
        let done = libc::quotactl(command, device.as_ptr(), user, (&raw mut quota).cast());
        (done == 0).then_some(quota)?
    };
    Some(QuotaLeft {
        bytes: left(quota.dqb_bhardlimit * BLOCK, quota.dqb_curspace),
        inodes: left(quota.dqb_ihardlimit, quota.dqb_curinodes),
    })
}

/// Returns the unused part of a limit; `None` if there is no limit, i.e. it is 0.
fn left(limit: u64, used: u64) -> Option<u64> {
    (limit > 0).then(|| limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a folder with kernel files of a machine with a disk partition, a tmpfs below the mount point of the
    /// partition, and a mount point whose name contains a space.
    fn recorded() -> (tempfile::TempDir, SysRoot) {
        let tree = tempfile::tempdir().unwrap();
        let disk = tree.path().join("sys/devices/pci/nvme0n1");
        let partition = disk.join("nvme0n1p2");
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        std::fs::create_dir_all(disk.join("device")).unwrap();
        std::fs::create_dir_all(&partition).unwrap();
        for (file, text) in [
            ("queue/scheduler", "[none] mq-deadline\n"),
            ("queue/rotational", "0\n"),
            ("queue/logical_block_size", "4096\n"),
            ("device/model", "FAST DISK 3000   \n"),
            ("nvme0n1p2/stat", "1 2 3 4 5 6 7 8\n"),
        ] {
            std::fs::write(disk.join(file), text).unwrap();
        }
        let numbers = tree.path().join("sys/dev/block");
        std::fs::create_dir_all(&numbers).unwrap();
        std::os::unix::fs::symlink(&partition, numbers.join("259:2")).unwrap();
        let root = SysRoot::recorded(tree.path());
        (tree, root)
    }

    const MOUNTS: &str = "\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
30 22 0:40 / /tmp\\040dir rw,nosuid - tmpfs none rw,size=10k
31 22 259:2 /home /home rw,noatime - ext4 /dev/nvme0n1p2 rw";

    #[test]
    fn partition_has_properties_of_its_disk() {
        let (_tree, root) = recorded();
        let dev = libc::makedev(259, 2);
        let folder = Path::new("/home/me");
        let volume = Volume::described(folder, folder, dev, MOUNTS, &root);
        assert_eq!(volume.kind.as_deref(), Some("ext4"));
        assert_eq!(volume.mount.as_deref(), Some("/home"));
        assert_eq!(volume.options.as_deref(), Some("rw,noatime"));
        assert_eq!(volume.device.as_deref(), Some("nvme0n1p2"));
        assert_eq!(volume.scheduler.as_deref(), Some("none"));
        assert_eq!((volume.rotational, volume.logical_block), (Some(false), Some(4096)));
        assert_eq!(volume.model.as_deref(), Some("FAST DISK 3000"));
        assert!(!volume.is_in_memory());
    }

    #[test]
    fn memory_file_system_has_no_device() {
        let (_tree, root) = recorded();
        let folder = Path::new("/tmp dir/x");
        let volume = Volume::described(folder, folder, libc::makedev(0, 40), MOUNTS, &root);
        assert!(volume.is_in_memory());
        assert_eq!(volume.mount.as_deref(), Some("/tmp dir"));
        assert_eq!(volume.device, None);
        assert_eq!(volume.rotational, None);
    }

    #[test]
    fn volume_without_mount_entry_has_unknown_properties() {
        let (_tree, root) = recorded();
        let folder = Path::new("/");
        let volume = Volume::described(folder, folder, libc::makedev(9, 9), "garbage\n", &root);
        assert_eq!(volume, Volume { path: "/".into(), folder: "/".into(), ..Volume::default() });
    }

    #[test]
    fn free_space_of_a_folder_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let volume = Volume::from_folder(folder.path(), &SysRoot::live()).unwrap();
        assert!(volume.kind.is_some());
        let room = writable_space(&volume).unwrap();
        assert!(room.0.0 > 0, "{room:?}");
        // A file system without a number of inodes has no limit.
        assert!(free_inodes(&volume).unwrap().is_none_or(|(free, _)| free > 0));
        assert_eq!((left(0, 5), left(8, 5), left(5, 8)), (None, Some(3), Some(0)));
    }
}
