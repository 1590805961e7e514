//! Calls of the kernel that place: affinity, NUMA policy and the nodes of pages. They pass the door of
//! [`nodegauge_machine::sys`], so that an error has the name of its call; nothing here decides anything.
#![allow(unsafe_code)]

use nodegauge_machine::CpuId;
pub use nodegauge_machine::sys::SysError;
pub(crate) use nodegauge_machine::sys::affinity;
use nodegauge_machine::sys::{MASK_WORDS_MOST, bits, check};

/// NUMA nodes in a mask: the most that Linux can be built for (`MAX_NUMNODES`).
const NODES_MOST: usize = 1024;

/// `MPOL_F_ADDR` of the kernel's mempolicy.h: ask for the policy of an address. Not in libc.
const POLICY_OF_ADDRESS: libc::c_ulong = 1 << 1;

const WORD: usize = u64::BITS as usize;

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
    // SAFETY: the kernel reads as many bytes as the call says, which is the length of the slice.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(mask), mask.as_ptr()) };
    check("sched_setaffinity", result).map(drop)
}

/// The numbers of the calling process and thread.
pub(crate) fn ids() -> (u32, u32) {
    // SAFETY: no arguments, always succeeds.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    (std::process::id(), thread as u32)
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
        // The kernel reads one bit less than the call says.
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
    // SAFETY: both arrays have as many elements as the call says; a null list of nodes makes
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
