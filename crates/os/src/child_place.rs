//! CPUs, memory policy and page sizes of a child process. The child sets them for itself between fork and exec, so
//! that the program and all processes that it starts inherit them, as with taskset and numactl.

use crate::affinity::{mask, set_affinity_mask};
use crate::call::{SysError, check};
use crate::numa::{SET_POLICY, node_mask, set_policy_mask};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// CPUs, memory policy and page sizes of a child process. The default changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChildPlace {
    /// CPUs on which the child may run; `None` for the CPUs of this thread.
    pub cpus: Option<Vec<u32>>,
    /// Mode of the memory policy (`MPOL_*`), and its NUMA nodes; `None` for the policy of this thread.
    pub memory: Option<(libc::c_int, Vec<u32>)>,
    /// True if the kernel must not use transparent huge pages for the child.
    pub without_huge_pages: bool,
}

impl ChildPlace {
    /// Applies these settings to the child of `command`. The kernel also kills the child when the calling thread
    /// ends, so that a killed process leaves no child behind.
    ///
    /// # Errors
    /// Fails if a NUMA node is out of range. If the kernel refuses a setting, the start of the command fails.
    pub fn apply_to(&self, command: &mut Command) -> Result<(), SysError> {
        let cpus = self.cpus.as_ref().map(|cpus| mask(cpus.iter().copied(), 1));
        let memory = match &self.memory {
            Some((mode, nodes)) => {
                let (nodes, bits) = node_mask(SET_POLICY, nodes)?;
                Some((*mode, nodes, bits))
            }
            None => None,
        };
        let without_huge_pages = self.without_huge_pages;
        let parent = std::process::id();
        let enter = move || {
            end_with(parent)?;
            if let Some(cpus) = &cpus {
                set_affinity_mask(cpus)?;
            }
            if let Some((mode, nodes, bits)) = &memory {
                set_policy_mask(*mode, nodes.as_deref(), *bits)?;
            }
            if without_huge_pages {
                disable_transparent_huge_pages()?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec, the closure only makes system calls with memory that exists already; it
        // neither allocates nor takes a lock.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

/// Makes the kernel kill this process when the thread that started it ends. Fails if that thread has already ended.
fn end_with(parent: u32) -> Result<(), SysError> {
    // SAFETY: the calls change and query only settings of this process.
    unsafe {
        check("prctl", libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        // The parent may have ended before the call, so that the kernel would not kill this process.
        if libc::getppid() as u32 != parent {
            return Err(SysError { call: "getppid", errno: libc::ESRCH });
        }
    }
    Ok(())
}

/// Makes the kernel use no transparent huge pages for this process and for the processes that it starts.
///
/// # Errors
/// Fails if the kernel refuses the call.
pub fn disable_transparent_huge_pages() -> Result<(), SysError> {
    // SAFETY: the call changes only a setting of this process.
    check("prctl", unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::affinity;
    use std::process::Stdio;

    /// Returns the output of a shell script that runs with these settings.
    fn printed(place: &ChildPlace, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        place.apply_to(&mut command).unwrap();
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn child_has_given_cpus_and_no_huge_pages() {
        let last = *affinity().unwrap().last().unwrap();
        let place = ChildPlace {
            cpus: Some(vec![last]),
            without_huge_pages: true,
            ..ChildPlace::default()
        };
        let script = "grep -E 'Cpus_allowed_list|THP_enabled' /proc/$$/status";
        let text = printed(&place, script);
        assert!(text.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{text}");
        // Kernels before 5.0 do not report the setting.
        assert!(!text.contains("THP_enabled:\t1"), "{text}");
        assert!(!printed(&ChildPlace::default(), script).contains("THP_enabled:\t0"));
    }

    #[test]
    fn start_on_nonexistent_cpus_fails() {
        let mut command = Command::new("true");
        let place = ChildPlace { cpus: Some(vec![100_000]), ..ChildPlace::default() };
        place.apply_to(&mut command).unwrap();
        assert_eq!(command.status().unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let place = ChildPlace { memory: Some((libc::MPOL_BIND, vec![5000])), ..place };
        assert!(place.apply_to(&mut command).is_err());
    }
}
