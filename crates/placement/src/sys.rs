//! The one door to the kernel: affinity, NUMA policy and the nodes of pages. Every call that fails
//! gives a [`SysError`] with its name; nothing here decides anything.
#![allow(unsafe_code)]

use nodegauge_machine::CpuId;
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
const MASK_WORDS_MOST: usize = 1 << 14;

/// NUMA nodes in a mask: the most that Linux can be built for (`MAX_NUMNODES`).
const NODES_MOST: usize = 1024;

/// `MPOL_F_ADDR` of the kernel's mempolicy.h: ask for the policy of an address. Not in libc.
const POLICY_OF_ADDRESS: libc::c_ulong = 1 << 1;

const WORD: usize = u64::BITS as usize;

/// Turns a return value of -1 into the error number.
fn check(call: &'static str, result: libc::c_long) -> Result<libc::c_long, SysError> {
    match result {
        -1 => Err(SysError { call, errno: io::Error::last_os_error().raw_os_error().unwrap_or(0) }),
        value => Ok(value),
    }
}

/// A mask with the given bits, of `words` words at least.
fn mask(bits: impl IntoIterator<Item = u32>, words: usize) -> Vec<u64> {
    let mut mask = vec![0u64; words];
    for bit in bits {
        let (word, bit) = (bit as usize / WORD, bit as usize % WORD);
        if mask.len() <= word {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1 << bit;
    }
    mask
}

/// The bits that are set.
fn bits(mask: &[u64]) -> Vec<u32> {
    let set = |index: &usize| mask[index / WORD] >> (index % WORD) & 1 == 1;
    (0..mask.len() * WORD).filter(set).map(|index| index as u32).collect()
}

/// Asks for the calling thread to run on these CPUs only.
pub(crate) fn set_affinity(cpus: &[CpuId]) -> Result<(), SysError> {
    if cpus.iter().any(|cpu| cpu.0 as usize >= MASK_WORDS_MOST * WORD) {
        return Err(SysError { call: "sched_setaffinity", errno: libc::EINVAL });
    }
    set_affinity_mask(&mask(cpus.iter().map(|cpu| cpu.0), 1))
}

/// Asks for the calling thread to run on every CPU; the kernel keeps those of the cpuset.
pub(crate) fn set_affinity_to_all() -> Result<(), SysError> {
    set_affinity_mask(&vec![u64::MAX; 1024])
}

fn set_affinity_mask(mask: &[u64]) -> Result<(), SysError> {
    // SAFETY: the kernel reads as many bytes as it is told, which is the length of the slice.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(mask), mask.as_ptr()) };
    check("sched_setaffinity", result).map(drop)
}

/// The CPUs that the calling thread may run on, in numeric order.
pub(crate) fn affinity() -> Result<Vec<CpuId>, SysError> {
    let mut words = 16;
    loop {
        let mut mask = vec![0u64; words];
        // SAFETY: the kernel writes at most as many bytes as it is told, which is the length of the
        // vector.
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

/// The CPU that the calling thread runs on at this moment.
pub(crate) fn current_cpu() -> Result<CpuId, SysError> {
    // SAFETY: no arguments; reads only what the kernel keeps for the thread.
    let cpu = unsafe { libc::sched_getcpu() };
    check("sched_getcpu", cpu.into()).map(|cpu| CpuId(cpu as u32))
}

/// The numbers of the calling process and thread.
pub(crate) fn ids() -> (u32, u32) {
    // SAFETY: no arguments, always succeeds.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    (std::process::id(), thread as u32)
}

/// Bytes in a page of the base size.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Sets the NUMA policy of an address range for pages that are not there yet.
///
/// Safe for any range: it moves no page and changes no content; a range that is not mapped is
/// refused with `EFAULT`.
pub(crate) fn mbind(
    address: usize,
    bytes: usize,
    mode: libc::c_int,
    nodes: &[u32],
) -> Result<(), SysError> {
    if nodes.iter().any(|node| *node as usize >= NODES_MOST) {
        return Err(SysError { call: "mbind", errno: libc::EINVAL });
    }
    let mask = mask(nodes.iter().copied(), NODES_MOST / WORD);
    let (pointer, bits) = match nodes {
        [] => (std::ptr::null(), 0),
        // The kernel reads one bit less than it is told.
        _ => (mask.as_ptr(), NODES_MOST + 1),
    };
    // SAFETY: the kernel reads NODES_MOST bits of the mask, all of which exist, or none; without
    // MPOL_MF_MOVE it neither reads nor writes the range, so that its owner notices nothing.
    let result = unsafe { libc::syscall(libc::SYS_mbind, address, bytes, mode, pointer, bits, 0) };
    check("mbind", result).map(drop)
}

/// The NUMA policy of the mapping that holds an address: the kernel's number of the mode, with its
/// flags, and the nodes.
pub(crate) fn policy_at(address: usize) -> Result<(libc::c_int, Vec<u32>), SysError> {
    let mut mode: libc::c_int = 0;
    let mut mask = vec![0u64; NODES_MOST / WORD];
    // SAFETY: the kernel writes one int and at most NODES_MOST bits, for which there is room; the
    // address is only looked up.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            mask.as_mut_ptr(),
            NODES_MOST,
            address,
            POLICY_OF_ADDRESS,
        )
    };
    check("get_mempolicy", result)?;
    Ok((mode, bits(&mask)))
}

/// For each page address of this process the node that holds it, or a negative error number.
pub(crate) fn nodes_of_pages(pages: &[usize]) -> Result<Vec<i32>, SysError> {
    let mut status = vec![-libc::ENOENT; pages.len()];
    // SAFETY: both arrays have as many elements as the kernel is told; a null list of nodes makes
    // the call a query, which moves nothing; the page addresses are only looked up.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            std::ptr::null::<libc::c_int>(),
            status.as_mut_ptr(),
            0,
        )
    };
    check("move_pages", result)?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call() {
        let error = SysError { call: "mbind", errno: libc::EINVAL };
        assert_eq!(error.to_string(), "mbind: Invalid argument (os error 22)");
    }

    #[test]
    fn masks_keep_their_bits() {
        assert_eq!(bits(&mask([0, 63, 64, 1000], 1)), [0, 63, 64, 1000]);
        assert_eq!(mask([], 2), [0, 0]);
    }
}
