//! The one door to the kernel's calls that the standard library lacks. A call that fails gives a
//! [`SysError`] with its name; nothing here decides anything.
#![allow(unsafe_code)]

use crate::ids::CpuId;
use std::io;

/// A call that the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {}", io::Error::from_raw_os_error(*.errno))]
pub struct SysError {
    /// The name of the call, e.g. `mbind`.
    pub call: &'static str,
    /// Its error number.
    pub errno: i32,
}

/// Longest affinity mask that is tried, in words of 64 CPUs: 1 Mi CPUs, far above Linux's limit.
pub const MASK_WORDS_MOST: usize = 1 << 14;

/// Turns a return value of -1 into the error number of `call`.
///
/// # Errors
/// For -1.
pub fn check(call: &'static str, result: libc::c_long) -> Result<libc::c_long, SysError> {
    match result {
        -1 => Err(SysError { call, errno: io::Error::last_os_error().raw_os_error().unwrap_or(0) }),
        value => Ok(value),
    }
}

/// The bits that are set in a mask of the kernel.
pub fn bits(mask: &[u64]) -> Vec<u32> {
    let set = |index: &u32| mask[(index / 64) as usize] >> (index % 64) & 1 == 1;
    (0..mask.len() as u32 * 64).filter(set).collect()
}

/// The CPUs that the calling thread may run on, in numeric order.
///
/// # Errors
/// When the kernel does not say.
pub fn affinity() -> Result<Vec<CpuId>, SysError> {
    let mut words = 16;
    loop {
        let mut mask = vec![0u64; words];
        // SAFETY: the kernel writes at most as many bytes as the call says, which is the length of
        // the vector.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, words * 8, mask.as_mut_ptr()) };
        match check("sched_getaffinity", result) {
            // The kernel refuses a mask shorter than its own.
            Err(SysError { errno: libc::EINVAL, .. }) if words < MASK_WORDS_MOST => words *= 2,
            Err(error) => return Err(error),
            Ok(_) => return Ok(bits(&mask).into_iter().map(CpuId).collect()),
        }
    }
}

/// Bytes in a page of the base size.
pub fn page_size() -> u64 {
    // SAFETY: sysconf takes a number and returns one; it has no other effect.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // The kernel always knows this one; 4 KiB is the smallest page of all architectures here.
    u64::try_from(bytes).unwrap_or(4096)
}
