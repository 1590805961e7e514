//! Limits of memory and CPU time that control groups set for this process, in version 1, version 2 and mixed
//! setups. The limit of a group also applies to all groups below it. Therefore all groups from that of the process
//! up to the root are read, and the smallest limit is returned. Format: Linux' cgroup-v1 and cgroup-v2 documents.

use crate::root::{SysRoot, number_after_key};
use nodegauge_measure::{Fraction, Seconds};
use std::collections::BTreeSet;

/// Smallest value of a version 1 limit that means that there is no limit; the kernel then reports the largest number of
/// pages.
const UNLIMITED: u64 = 1 << 62;

/// Memory and CPU time that this process may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CgroupLimits {
    /// Smallest memory limit of all groups, bytes.
    pub memory: Option<u64>,
    /// Memory in bytes that this process can still allocate: the smallest difference between limit and use over all
    /// groups. Caches that the kernel can drop do not count as use.
    pub memory_left: Option<u64>,
    /// Smallest CPU quota of all groups, in CPUs; 1.5 means the time of one and a half CPUs.
    pub cpus: Option<f64>,
    /// Share (0 to 1) of the scheduling periods in which the group with the smallest quota was stopped.
    pub throttled_share: Option<Fraction>,
}

/// Version of the kernel's control group interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// Function that adds the limits of one group to the result.
type AddLimits = fn(&SysRoot, CgroupVersion, &str, &mut CgroupLimits);

/// Reads the limits of the calling process.
pub fn limits(root: &SysRoot) -> CgroupLimits {
    limits_for(root, "self")
}

/// Reads the limits of a process, given by its process ID or `self`.
pub fn limits_for(root: &SysRoot, process: &str) -> CgroupLimits {
    let mut limits = CgroupLimits::default();
    let Some(groups) = root.text(&format!("proc/{process}/cgroup")) else { return limits };
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    for (controller, take) in [("memory", memory as AddLimits), ("cpu", cpus)] {
        if let Some((version, folders)) = hierarchy(root, &groups, &mounts, controller) {
            folders.iter().for_each(|folder| take(root, version, folder, &mut limits));
        }
    }
    limits
}

/// Returns the CPUs in the cpuset of the calling process; `None` if there is no cpuset or it cannot be read.
pub(crate) fn cpuset(root: &SysRoot) -> Option<BTreeSet<u32>> {
    cpuset_for(root, "self")
}

/// Returns the CPUs in the cpuset of a process, given by its process ID or `self`; `None` if there is no cpuset or
/// it cannot be read.
pub fn cpuset_for(root: &SysRoot, process: &str) -> Option<BTreeSet<u32>> {
    let groups = root.text(&format!("proc/{process}/cgroup"))?;
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    let (version, folders) = hierarchy(root, &groups, &mounts, "cpuset")?;
    let file = match version {
        CgroupVersion::One => "cpuset.effective_cpus",
        CgroupVersion::Two => "cpuset.cpus.effective",
    };
    // The CPUs of a group are among those of the groups above it.
    let cpus = folders.iter().find_map(|folder| root.numbers(&format!("{folder}/{file}")))?;
    Some(cpus.into_iter().collect())
}

/// Numbers of scheduling periods in which a CPU quota applied and in which it stopped threads.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Throttling {
    /// Number of periods in which threads of the group ran.
    pub periods: u64,
    /// Number of periods in which threads were stopped, because the quota was used up.
    pub throttled_periods: u64,
    /// Time for which threads were stopped, summed over CPUs.
    pub stopped_time: Seconds,
}

impl Throttling {
    /// Returns the share of the periods in which threads were stopped; 0 if there were no periods.
    pub fn throttled_share(&self) -> Fraction {
        Fraction(self.throttled_periods as f64 / self.periods.max(1) as f64)
    }

    /// Reads the counters of a group; `None` without a quota.
    fn group_counters(root: &SysRoot, version: CgroupVersion, folder: &str) -> Option<Self> {
        let stat = root.text(&format!("{folder}/cpu.stat"))?;
        let stopped_time = match version {
            CgroupVersion::One => {
                number_after_key(&stat, "throttled_time").map(|nanos| nanos as f64 * 1e-9)
            }
            CgroupVersion::Two => {
                number_after_key(&stat, "throttled_usec").map(|micros| micros as f64 * 1e-6)
            }
        };
        Some(Self {
            periods: number_after_key(&stat, "nr_periods")?,
            throttled_periods: number_after_key(&stat, "nr_throttled")?,
            stopped_time: Seconds(stopped_time.unwrap_or(0.0)),
        })
    }

    /// Returns the difference between these counters and `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(earlier.periods),
            throttled_periods: self.throttled_periods.saturating_sub(earlier.throttled_periods),
            stopped_time: Seconds((self.stopped_time - earlier.stopped_time).0.max(0.0)),
        }
    }
}

/// Throttling counters of the control group of this process and of all groups above it, at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThrottlingReading {
    groups: Vec<(String, Throttling)>,
}

impl ThrottlingReading {
    /// Reads the counters of the groups of the calling process.
    pub fn read(root: &SysRoot) -> Self {
        let Some(listed) = root.text("proc/self/cgroup") else { return Self::default() };
        let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
        let Some((version, folders)) = hierarchy(root, &listed, &mounts, "cpu") else {
            return Self::default();
        };
        let mut groups = Vec::new();
        for folder in folders {
            if let Some(counters) = Throttling::group_counters(root, version, &folder) {
                groups.push((folder, counters));
            }
        }
        Self { groups }
    }

    /// Returns the counters of the group with this folder.
    fn group_counters(&self, folder: &str) -> Option<&Throttling> {
        self.groups.iter().find(|(known, _)| known == folder).map(|(_, counters)| counters)
    }

    /// Returns the throttling since `earlier`, of the group that was stopped in the most periods; `None` if no group
    /// was stopped.
    pub fn since(&self, earlier: &Self) -> Option<Throttling> {
        let mut stopped = Vec::new();
        for (folder, now) in &self.groups {
            let Some(before) = earlier.group_counters(folder) else { continue };
            let change = now.since(before);
            if change.throttled_periods > 0 {
                stopped.push(change);
            }
        }
        stopped.into_iter().max_by_key(|change| change.throttled_periods)
    }
}

/// True if `names`, a list separated by commas, contains `name`.
fn lists(names: &str, name: &str) -> bool {
    names.split(',').any(|listed| listed == name)
}

/// Returns the folders of the control groups of this process for `controller`, from the innermost group to the
/// root.
fn hierarchy(
    root: &SysRoot,
    groups: &str,
    mounts: &str,
    controller: &str,
) -> Option<(CgroupVersion, Vec<String>)> {
    let first = mounts
        .lines()
        .filter_map(CgroupMount::parse)
        .find(|mount| mount.version == CgroupVersion::One && lists(mount.options, controller));
    let two =
        || mounts.lines().filter_map(CgroupMount::parse).find(|m| m.version == CgroupVersion::Two);
    // If the mounts cannot be read, the usual mount point is assumed.
    let mount = first.or_else(two).unwrap_or(CgroupMount {
        version: CgroupVersion::Two,
        inner: "/",
        at: "/sys/fs/cgroup",
        options: "",
    });
    // Lines have the form `4:memory:/path` (version 1) or `0::/path` (version 2).
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        parts.next()?;
        let controllers = parts.next()?;
        let path = parts.next()?;
        let hit = match mount.version {
            CgroupVersion::One => lists(controllers, controller),
            CgroupVersion::Two => controllers.is_empty(),
        };
        hit.then_some(path)
    })?;
    // In a container, the mount may show only the container's own group as its root.
    let inner = mount.inner.trim_end_matches('/');
    let below = path.strip_prefix(inner).unwrap_or(path).trim_matches('/');
    let mut folder = mount.at.trim_end_matches('/').to_owned();
    let mut folders = BTreeSet::from([(0, folder.clone())]);
    for (depth, name) in below.split('/').filter(|name| !name.is_empty()).enumerate() {
        folder = format!("{folder}/{name}");
        if name == ".." || !root.exists(&folder) {
            break;
        }
        folders.insert((depth + 1, folder.clone()));
    }
    Some((mount.version, folders.into_iter().rev().map(|(_, group)| group).collect()))
}

/// Line of mountinfo for a mount of control groups.
struct CgroupMount<'a> {
    version: CgroupVersion,
    /// Folder of the hierarchy that is mounted at the mount point.
    inner: &'a str,
    /// Mount point.
    at: &'a str,
    /// Options of the file system; for version 1 they contain the names of the controllers.
    options: &'a str,
}

impl<'a> CgroupMount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let inner = left.next()?;
        let at = left.next()?;
        let mut right = right.split(' ');
        let version = match right.next()? {
            "cgroup" => CgroupVersion::One,
            "cgroup2" => CgroupVersion::Two,
            _ => return None,
        };
        Some(Self { version, inner, at, options: right.nth(1).unwrap_or("") })
    }
}

/// Reads the memory limits of one group, and lowers `limits` to them.
fn memory(root: &SysRoot, version: CgroupVersion, folder: &str, limits: &mut CgroupLimits) {
    let value = |file: &str| root.value::<u64>(&format!("{folder}/{file}"));
    let stat = root.text(&format!("{folder}/memory.stat")).unwrap_or_default();
    let (own, used, cache) = match version {
        // The text "max" means that there is no limit; it cannot be parsed as a number.
        CgroupVersion::Two => (
            [value("memory.max"), value("memory.high")],
            value("memory.current"),
            number_after_key(&stat, "inactive_file"),
        ),
        CgroupVersion::One => (
            [value("memory.limit_in_bytes"), number_after_key(&stat, "hierarchical_memory_limit")],
            value("memory.usage_in_bytes"),
            number_after_key(&stat, "total_inactive_file"),
        ),
    };
    let Some(limit) = own.into_iter().flatten().filter(|limit| *limit < UNLIMITED).min() else {
        return;
    };
    limits.memory = Some(limits.memory.map_or(limit, |min| min.min(limit)));
    if let Some(used) = used {
        let left = limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0)));
        limits.memory_left = Some(limits.memory_left.map_or(left, |min| min.min(left)));
    }
}

/// Reads the CPU quota of one group, and lowers the CPU time in `limits` to it.
fn cpus(root: &SysRoot, version: CgroupVersion, folder: &str, limits: &mut CgroupLimits) {
    let quota = match version {
        CgroupVersion::Two => root.text(&format!("{folder}/cpu.max")).and_then(|text| {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?))
        }),
        CgroupVersion::One => root
            .value::<f64>(&format!("{folder}/cpu.cfs_quota_us"))
            .zip(root.value::<f64>(&format!("{folder}/cpu.cfs_period_us"))),
    };
    // The quota is -1 in version 1 if there is no quota.
    let Some((quota, period)) = quota.filter(|(quota, period)| *quota > 0.0 && *period > 0.0)
    else {
        return;
    };
    let cpus = quota / period;
    if limits.cpus.is_none_or(|min| cpus < min) {
        limits.cpus = Some(cpus);
        let stat = root.text(&format!("{folder}/cpu.stat")).unwrap_or_default();
        limits.throttled_share = number_after_key(&stat, "nr_throttled")
            .zip(number_after_key(&stat, "nr_periods").filter(|periods| *periods > 0))
            .map(|(throttled, periods)| Fraction(throttled as f64 / periods as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Creates a tree of files in a temporary folder.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, SysRoot) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = SysRoot::recorded(folder.path());
        (folder, root)
    }

    #[test]
    fn process_without_control_groups_has_no_limits() {
        let (_folder, root) = tree(&[]);
        assert_eq!(limits(&root), CgroupLimits::default());
    }

    #[test]
    fn smallest_limit_of_parent_control_groups_is_used() {
        let (_folder, root) = tree(&[
            ("proc/self/cgroup", "0::/job/step\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/job/memory.max", "1000000"),
            ("sys/fs/cgroup/job/memory.current", "400000"),
            ("sys/fs/cgroup/job/memory.stat", "anon 100\ninactive_file 100000\n"),
            ("sys/fs/cgroup/job/cpu.max", "200000 100000"),
            ("sys/fs/cgroup/job/cpu.stat", "nr_periods 200\nnr_throttled 50\n"),
            ("sys/fs/cgroup/job/step/memory.max", "max"),
            ("sys/fs/cgroup/job/step/memory.high", "900000"),
            ("sys/fs/cgroup/job/step/memory.current", "100000"),
            ("sys/fs/cgroup/job/step/cpu.max", "max 100000"),
        ]);
        assert_eq!(
            limits(&root),
            CgroupLimits {
                memory: Some(900_000),
                memory_left: Some(700_000),
                cpus: Some(2.0),
                throttled_share: Some(Fraction(0.25)),
            }
        );
    }

    #[test]
    fn control_group_of_a_container_is_found_at_the_root() {
        let (_folder, root) = tree(&[
            ("proc/self/cgroup", "9:memory:/docker/abc\n3:cpuacct,cpu:/docker/abc\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                 33 31 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000"),
            ("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 5000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ]);
        assert_eq!(
            limits(&root),
            CgroupLimits {
                memory: Some(5000),
                memory_left: Some(4000),
                cpus: None,
                throttled_share: None
            }
        );
    }

    /// Writes the counters of a group.
    fn count(folder: &tempfile::TempDir, group: &str, [periods, throttled]: [u64; 2], time: &str) {
        let text = format!("nr_periods {periods}\nnr_throttled {throttled}\n{time}\n");
        fs::write(folder.path().join(group).join("cpu.stat"), text).unwrap();
    }

    #[test]
    fn cgroup_v2_throttling_is_read_from_limiting_group() {
        let (folder, root) = tree(&[
            ("proc/self/cgroup", "0::/job/step\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 900\n"),
            ("sys/fs/cgroup/job/cpu.stat", ""),
            ("sys/fs/cgroup/job/step/cpu.stat", ""),
        ]);
        count(&folder, "sys/fs/cgroup/job", [1000, 100], "throttled_usec 5000000");
        count(&folder, "sys/fs/cgroup/job/step", [1000, 0], "throttled_usec 0");
        let before = ThrottlingReading::read(&root);
        assert_eq!(ThrottlingReading::read(&root).since(&before), None);
        count(&folder, "sys/fs/cgroup/job", [1147, 244], "throttled_usec 15500000");
        count(&folder, "sys/fs/cgroup/job/step", [1147, 0], "throttled_usec 0");
        let during = ThrottlingReading::read(&root).since(&before).unwrap();
        let expected =
            Throttling { periods: 147, throttled_periods: 144, stopped_time: Seconds(10.5) };
        assert_eq!(during, expected);
        assert!(during.throttled_share() > Fraction(0.97));
    }

    #[test]
    fn cgroup_v1_throttling_is_in_nanoseconds() {
        let (folder, root) = tree(&[
            ("proc/self/cgroup", "9:memory:/docker/abc\n3:cpuacct,cpu:/docker/abc/inner\n"),
            (
                "proc/self/mountinfo",
                "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/docker/abc/inner/cpu.cfs_quota_us", "80000"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/abc/inner/cpu.cfs_period_us", "100000"),
        ]);
        let group = "sys/fs/cgroup/cpu,cpuacct/docker/abc/inner";
        count(&folder, group, [10, 9], "throttled_time 2000000000");
        let before = ThrottlingReading::read(&root);
        count(&folder, group, [157, 153], "throttled_time 12500000000");
        let during = ThrottlingReading::read(&root).since(&before).unwrap();
        let expected =
            Throttling { periods: 147, throttled_periods: 144, stopped_time: Seconds(10.5) };
        assert_eq!(during, expected);
    }

    #[test]
    fn missing_counters_have_no_throttling() {
        let (_folder, root) = tree(&[("proc/self/cgroup", "0::/\n")]);
        let reading = ThrottlingReading::read(&root);
        assert_eq!(reading.since(&ThrottlingReading::default()), None);
    }

    #[test]
    fn controllers_of_a_hybrid_hierarchy_are_read_from_their_mounts() {
        let mounts = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let (_folder, root) = tree(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "4:memory:/api\n0::/\n"),
            ("sys/fs/cgroup/memory/api/memory.limit_in_bytes", "700"),
        ]);
        assert_eq!(limits(&root).memory, Some(700));
    }
}
