//! One line per thread with its affinity, in the format of OpenMP runtimes.
//!
//! This is the output of `OMP_DISPLAY_AFFINITY=true` with libomp, whose default `OMP_AFFINITY_FORMAT` is `OMP: pid %P
//! tid %i thread %n bound to OS proc set {%A}`. Scripts that read libomp's lines can also read these lines. CPUs are in
//! range notation.

use crate::cpus::format_ranges;
use crate::pin::current_affinity;
use nodegauge_machine::CpuId;
use nodegauge_os::SysError;
use std::fmt;

/// Affinity of a thread as reported by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ObservedAffinity {
    /// Process ID.
    pub process: u32,
    /// Thread ID of the kernel.
    pub kernel_thread: u32,
    /// Thread number in the team.
    pub thread: u32,
    /// CPUs on which the thread may run, in numeric order.
    pub cpus: Vec<CpuId>,
}

impl ObservedAffinity {
    /// Reads the affinity of the calling thread, which has number `thread` in its team.
    ///
    /// # Errors
    /// Fails when the kernel refuses the call.
    pub fn current_thread(thread: u32) -> Result<Self, SysError> {
        let (process, kernel_thread) = nodegauge_os::process_and_thread_ids();
        Ok(Self { process, kernel_thread, thread, cpus: current_affinity()? })
    }
}

impl fmt::Display for ObservedAffinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, kernel_thread, thread, cpus } = self;
        let cpus = format_ranges(cpus);
        write!(
            f,
            "OMP: pid {process} tid {kernel_thread} thread {thread} bound to OS proc set {{{cpus}}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_is_printed_in_libomp_format() {
        let observed = ObservedAffinity {
            process: 123,
            kernel_thread: 124,
            thread: 1,
            cpus: vec![CpuId(2), CpuId(3), CpuId(8)],
        };
        assert_eq!(
            observed.to_string(),
            "OMP: pid 123 tid 124 thread 1 bound to OS proc set {2-3,8}"
        );
    }

    #[test]
    fn affinity_of_this_thread_is_read() {
        let observed = ObservedAffinity::current_thread(0).unwrap();
        assert_eq!(observed.process, std::process::id());
        assert!(!observed.cpus.is_empty());
    }
}
