//! Mounted file systems, from the kernel's list for this process.

use crate::root::SysRoot;
use nodegauge_measure::record::MountedFileSystem;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Fields of a line in mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Device number, `MAJOR:MINOR`.
    pub device_number: &'a str,
    /// Mount point.
    pub mount_point: PathBuf,
    /// Options of the mount and of the file system, without duplicates.
    pub options: Vec<&'a str>,
    /// Type of the file system.
    pub kind: &'a str,
    /// Device, or export of a server.
    pub source: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line; `None` if it has another form.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let [_, _, number, _, at, of_mount, ..] = left.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let mut right = right.split(' ');
        let kind = right.next()?;
        let source = right.next()?;
        let mut options: Vec<&str> = of_mount.split(',').collect();
        for option in right.next().unwrap_or("").split(',').filter(|option| !option.is_empty()) {
            if !options.contains(&option) {
                options.push(option);
            }
        }
        Some(Self { device_number: number, mount_point: unescaped(at), options, kind, source })
    }

    /// True if a server stores the files: the source is `HOST:PATH` or `//HOST/PATH`, or the type is one of
    /// [`REMOTE_TYPES`].
    fn is_remote(&self) -> bool {
        let is_export = self.source.contains(":/") || self.source.starts_with("//");
        is_export || REMOTE_TYPES.contains(&self.kind)
    }
}

/// Decodes a path in which special characters are written as a backslash and three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                out.extend_from_slice(&part.as_bytes()[3..]);
            }
            None => {
                out.push(b'\\');
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Types of parallel and network file systems whose source does not always have the form of an export.
const REMOTE_TYPES: [&str; 8] =
    ["beegfs", "ceph", "gpfs", "lustre", "nfs", "nfs4", "panfs", "fuse.glusterfs"];

/// Types of file systems that contain no files of users, or only files of one session or container.
const UNSTORED_TYPES: [&str; 27] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.gvfsd-fuse",
    "fuse.lxcfs",
    "fuse.portal",
    "fusectl",
    "mqueue",
    "nsfs",
    "overlay",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "squashfs",
    "sysfs",
    "tracefs",
    "fuse.sshfs",
];

/// Folders in which services, sessions and containers mount file systems that change from minute to minute.
const TRANSIENT_FOLDERS: [&str; 7] = [
    "/proc",
    "/run",
    "/snap",
    "/sys",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/kubelet",
];

/// Options that contain addresses of this node, which differ between nodes of the same kind.
const NODE_OPTIONS: [&str; 4] = ["addr=", "clientaddr=", "mountaddr=", "mountport="];

/// Maximum number of file systems in a record.
const MAX_MOUNTS: usize = 200;

/// Returns the file systems that store data, by mount point. No file system is accessed, because access to a server
/// that does not respond would block.
pub(crate) fn data_mounts(root: &SysRoot) -> BTreeMap<String, MountedFileSystem> {
    let text = root.bytes("proc/self/mountinfo").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut found = BTreeMap::new();
    for mount in text.lines().filter_map(Mount::parse) {
        let is_transient =
            TRANSIENT_FOLDERS.iter().any(|folder| mount.mount_point.starts_with(folder));
        if UNSTORED_TYPES.contains(&mount.kind) || is_transient || found.len() == MAX_MOUNTS {
            continue;
        }
        let options = mount.options.iter();
        let kept = options.filter(|one| !NODE_OPTIONS.iter().any(|prefix| one.starts_with(prefix)));
        let described = MountedFileSystem {
            kind: mount.kind.to_owned(),
            export: mount.is_remote().then(|| mount.source.to_owned()),
            options: kept.copied().collect::<Vec<_>>().join(","),
        };
        // A later line is mounted over an earlier one.
        found.insert(mount.mount_point.display().to_string(), described);
    }
    found
}

/// True if a file is on the file system of a server.
pub(crate) fn is_remote(mounts: &BTreeMap<String, MountedFileSystem>, file: &Path) -> bool {
    let holding = mounts.iter().filter(|(at, _)| file.starts_with(at));
    let nearest = holding.max_by_key(|(at, _)| at.len());
    nearest.is_some_and(|(_, mount)| mount.export.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
23 22 0:5 / /proc rw - proc proc rw
24 22 0:40 / /scratch\\040a rw,nosuid - lustre 10.0.0.1@o2ib:/scratch rw,flock
25 22 0:41 / /home rw,noatime - nfs4 home:/export rw,vers=4.2,hard,clientaddr=10.0.0.7,addr=10.0.0.1
26 22 0:42 / /run/user/0 rw - tmpfs tmpfs rw,size=10k
27 22 0:43 / /tmp rw - tmpfs tmpfs rw,size=1048576k
garbage";

    #[test]
    fn file_system_options_exclude_node_addresses() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        std::fs::write(folder.path().join("proc/self/mountinfo"), MOUNTS).unwrap();
        let found = data_mounts(&SysRoot::recorded(folder.path()));
        let reported: Vec<String> =
            found.iter().map(|(at, mount)| format!("{at}: {mount}")).collect();
        assert_eq!(
            reported,
            [
                "/: ext4 rw,relatime,errors=remount-ro",
                "/home: nfs4 home:/export rw,noatime,vers=4.2,hard",
                "/scratch a: lustre 10.0.0.1@o2ib:/scratch rw,nosuid,flock",
                "/tmp: tmpfs rw,size=1048576k",
            ]
        );
        assert!(is_remote(&found, Path::new("/home/me/lib.so")));
        assert!(!is_remote(&found, Path::new("/homes/lib.so")));
        assert!(data_mounts(&SysRoot::recorded("/nonexistent")).is_empty());
    }
}
