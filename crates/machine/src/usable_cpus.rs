//! CPUs that this process may use at the moment: CPUs that are online and in its cpuset. An administrator, a job
//! scheduler or a hypervisor may remove CPUs during a measurement; the kernel then moves bound threads to other
//! CPUs.

use crate::root::{SysRoot, list};
use crate::{cgroup, ids::CpuId};
use std::collections::BTreeSet;

/// Returns the CPUs that are online and in the cpuset of this process; `None` if the kernel does not report them.
pub fn usable(root: &SysRoot) -> Option<BTreeSet<CpuId>> {
    let online = root.text("sys/devices/system/cpu/online").and_then(|text| list(&text))?;
    let online: BTreeSet<CpuId> = online.into_iter().map(CpuId).collect();
    match cgroup::cpuset(root) {
        Some(cpuset) => Some(online.into_iter().filter(|cpu| cpuset.contains(&cpu.0)).collect()),
        None => Some(online),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(online: &str, groups: &str, mounts: &str, cpuset: (&str, &str)) -> Vec<u32> {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/devices/system/cpu/online", online);
        write("proc/self/cgroup", groups);
        write("proc/self/mountinfo", mounts);
        write(cpuset.0, cpuset.1);
        let found = usable(&SysRoot::recorded(folder.path())).unwrap();
        found.into_iter().map(|cpu| cpu.0).collect()
    }

    #[test]
    fn usable_cpus_are_online_and_in_the_cpuset() {
        let second = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let file = "sys/fs/cgroup/job/cpuset.cpus.effective";
        assert_eq!(root("0-3", "0::/job", second, (file, "1-2,7")), [1, 2]);
        assert_eq!(root("0-3", "0::/other", second, (file, "1-2")), [0, 1, 2, 3]);
        let first = "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";
        let of_first = "sys/fs/cgroup/cpuset/job/cpuset.effective_cpus";
        assert_eq!(root("0,2-3", "5:cpuset:/job", first, (of_first, "0-2")), [0, 2]);
        assert_eq!(usable(&SysRoot::recorded("/nonexistent")), None);
    }
}
