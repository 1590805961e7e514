//! Tunables of the C library of this system.

use crate::{CommandLine, Job, run};
use std::path::Path;
use std::time::Duration;

/// Paths of glibc's dynamic linker, fixed by its ABI.
const LINKERS: [&str; 2] = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2"];
/// Name of the tunable (glibc manual, "Hardware Capability Tunables").
const TUNABLE: &str = "glibc.cpu.x86_non_temporal_threshold:";
/// Time limit of the query.
const LIMIT: Duration = Duration::from_secs(5);

/// Returns the size in bytes from which `memcpy` of the C library uses non-temporal stores; `None` if it is
/// unknown. The dynamic linker of glibc reports this size since version 2.33.
pub fn nontemporal_memcpy_min_bytes(interrupted: &dyn Fn() -> bool) -> Option<u64> {
    let linker = LINKERS.into_iter().find(|path| Path::new(path).is_file())?;
    let job = Job::new(CommandLine::new(linker, ["--list-tunables"]), LIMIT);
    threshold(&job.successful_stdout(run(&job, interrupted).ok()?).ok()?)
}

/// Parses the threshold in a list of tunables, bytes; `None` if it is missing or 0, which means that it is not set.
fn threshold(list: &str) -> Option<u64> {
    let line = list.lines().find_map(|line| line.trim().strip_prefix(TUNABLE))?;
    let digits = line.split_whitespace().next()?.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memcpy_threshold_is_read_from_tunables() {
        let list = "glibc.rtld.nns: 0x4 (min: 0x1, max: 0x10)\n\
                    glibc.cpu.x86_non_temporal_threshold: 0x12000000 (min: 0x4040, max: 0xf)\n";
        assert_eq!(threshold(list), Some(288 << 20));
        assert_eq!(threshold("glibc.cpu.x86_non_temporal_threshold: 0x0 (min: 0x0)"), None);
        assert_eq!(threshold("glibc.malloc.check: 0 (min: 0, max: 3)"), None);
    }

    #[test]
    fn memcpy_threshold_of_this_system_is_plausible() {
        let bytes = nontemporal_memcpy_min_bytes(&|| false);
        assert!(bytes.is_none_or(|bytes| bytes >= 4096), "{bytes:?}");
    }
}
