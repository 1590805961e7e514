//! Limits on the memory of this process, set by its user or by a job scheduler (`ulimit -v`, `ulimit -d`). Format:
//! proc(5), `/proc/pid/limits` and `/proc/pid/status`.

use crate::root::{SysRoot, number_after_key};

/// Memory that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessLimits {
    /// Lowest limit of the memory of this process, bytes.
    pub memory: Option<u64>,
    /// Memory that this process can still map within its limits, bytes.
    pub memory_left: Option<u64>,
}

/// Reads the limits of the calling process.
pub fn limits(root: &SysRoot) -> ProcessLimits {
    let Some(limits) = root.text("proc/self/limits") else { return ProcessLimits::default() };
    let status = root.text("proc/self/status").unwrap_or_default();
    let mut found = ProcessLimits::default();
    for (name, used) in [("Max address space", "VmSize"), ("Max data size", "VmData")] {
        let Some(limit) = soft_limit(&limits, name) else { continue };
        let left = limit.saturating_sub(number_after_key(&status, used).unwrap_or(0));
        found.memory = Some(found.memory.map_or(limit, |min| min.min(limit)));
        found.memory_left = Some(found.memory_left.map_or(left, |min| min.min(left)));
    }
    found
}

/// Returns the soft limit in a line such as `Max data size   unlimited   unlimited   bytes`; `None` if it is
/// unlimited.
fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let values = text.lines().find_map(|line| line.strip_prefix(name))?;
    values.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits_from(address_space: &str, data: &str) -> ProcessLimits {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("proc/self");
        std::fs::create_dir_all(&own).unwrap();
        let text = format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max data size             {data}            unlimited            bytes     \n\
             Max address space         {address_space}            unlimited            bytes     \n"
        );
        std::fs::write(own.join("limits"), text).unwrap();
        std::fs::write(own.join("status"), "VmSize:\t    3 kB\nVmData:\t    1 kB\n").unwrap();
        limits(&SysRoot::recorded(folder.path()))
    }

    #[test]
    fn smallest_remaining_memory_is_used() {
        assert_eq!(limits_from("unlimited", "unlimited"), ProcessLimits::default());
        let address_space = ProcessLimits { memory: Some(8192), memory_left: Some(8192 - 3072) };
        assert_eq!(limits_from("8192", "unlimited"), address_space);
        let data = ProcessLimits { memory: Some(8192), memory_left: Some(8192 - 1024) };
        assert_eq!(limits_from("unlimited", "8192"), data);
        assert_eq!(limits_from("8192", "16384"), address_space);
        assert_eq!(limits_from("2048", "unlimited").memory_left, Some(0));
    }

    #[test]
    fn live_process_limit_has_remaining_memory() {
        assert_eq!(limits(&SysRoot::recorded("/nonexistent")), ProcessLimits::default());
        let live = limits(&SysRoot::live());
        assert_eq!(live.memory.is_some(), live.memory_left.is_some());
    }
}
