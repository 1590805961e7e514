//! Control groups of both versions, in which tests run programs. Creating them requires root.

use crate::harness::{Part, skip, wait_for};
use std::path::PathBuf;

/// Control group with one limit. It is removed when this value is dropped.
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Creates a group whose processes may use `percent` of a CPU; `None` if that is not permitted.
    pub fn with_quota(name: &str, percent: u32) -> Option<Self> {
        let quota = (1000 * percent).to_string();
        let first = [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", &quota)];
        let both = format!("{quota} 100000");
        Self::limited("cpu", name, &first, &[("cpu.max", &both), ("cpu.weight", "100")])
    }

    /// Creates a group whose processes may use `bytes` of memory; `None` if that is not permitted.
    pub fn with_memory(name: &str, bytes: u64) -> Option<Self> {
        let limit = bytes.to_string();
        Self::limited(
            "memory",
            name,
            &[("memory.limit_in_bytes", &limit)],
            &[("memory.max", &limit)],
        )
    }

    /// Creates a group with limits for the version of control groups that has this controller.
    fn limited(
        controller: &str,
        name: &str,
        first: &[(&str, &str)],
        second: &[(&str, &str)],
    ) -> Option<Self> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let of_first = root.join(controller);
        let is_first = of_first.join("cgroup.procs").exists();
        let (parent, limits) = if is_first { (of_first, first) } else { (root.clone(), second) };
        // Controllers may have to be enabled for groups below the root.
        let _ = std::fs::write(root.join("cgroup.subtree_control"), format!("+{controller}"));
        let folder = parent.join(format!("nodegauge-test-{}-{name}", std::process::id()));
        let made = std::fs::create_dir(&folder).and_then(|()| {
            limits.iter().try_for_each(|(file, value)| std::fs::write(folder.join(file), value))
        });
        let group = Self(folder);
        if let Err(cause) = made {
            skip(Part::Root, &format!("no control group with a limit: {cause}"));
            return None;
        }
        Some(group)
    }

    /// Moves a process into the group.
    pub fn take(&self, process: u32) {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }

    /// True if the kernel has throttled threads of the group because the quota was used up.
    pub fn is_throttled(&self) -> bool {
        let stat = std::fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let count = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        count.is_some_and(|count| count != "0")
    }

    /// Returns the share of periods in which the kernel has throttled threads of the group.
    pub fn throttled_share(&self) -> f64 {
        let stat = std::fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let count = |name: &str| -> f64 {
            let of = stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            of.unwrap_or(0.0)
        };
        count("nr_throttled ") / count("nr_periods ").max(1.0)
    }

    /// Returns the words that start a program in the group.
    pub fn starter(&self) -> [String; 4] {
        let procs = self.0.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$@\"", procs.display());
        ["sh", "-c", &script, "starter"].map(str::to_owned)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A group that contains processes cannot be removed, so they are moved to its parent; they end with their test.
        let parent = self.0.with_file_name("cgroup.procs");
        let removed = || {
            let processes =
                std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            for process in processes.lines() {
                let _ = std::fs::write(&parent, process);
            }
            let is_gone = std::fs::remove_dir(&self.0).is_ok() || !self.0.exists();
            is_gone.then_some(())
        };
        wait_for("the removal of the control group", removed);
    }
}
