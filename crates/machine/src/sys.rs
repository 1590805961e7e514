//! The one door to the kernel's calls that the standard library lacks.

use crate::topology::CpuId;

/// Longest affinity mask that is asked for, in bytes: 64 Ki CPUs, above any Linux build's NR_CPUS.
const MASK_BYTES: usize = 8192;

/// The CPUs that the calling thread may run on; `None` when the kernel does not say.
pub fn affinity() -> Option<Vec<CpuId>> {
    let mut mask = vec![0u64; MASK_BYTES / 8];
    // SAFETY: the buffer is writable and MASK_BYTES long; the kernel writes no more than that.
    let written =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, MASK_BYTES, mask.as_mut_ptr()) };
    let words = usize::try_from(written).ok()? / 8;
    let mut cpus = Vec::new();
    for (index, word) in mask[..words].iter().enumerate() {
        cpus.extend(
            (0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| CpuId(index as u32 * 64 + bit)),
        );
    }
    Some(cpus)
}

/// The base page, bytes.
pub fn page_size() -> u64 {
    // SAFETY: sysconf takes a number and returns one; it has no other effect.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // The kernel always knows this one; 4 KiB is the smallest page of all architectures here.
    u64::try_from(bytes).unwrap_or(4096)
}
