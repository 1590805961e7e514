//! NUMA policy of memory, and the nodes of its pages.

use crate::affinity::{WORD, bits, mask};
use crate::call::{SysError, check};

/// NUMA nodes in a mask: the most that Linux can be built for (`MAX_NUMNODES`).
const NODES_MOST: usize = 1024;

/// `MPOL_F_ADDR` of the kernel's mempolicy.h: ask for the policy of an address. Not in libc.
const POLICY_OF_ADDRESS: libc::c_ulong = 1 << 1;

/// Sets the NUMA policy of an address range for pages that are not there yet.
///
/// Safe for any range: it moves no page and changes no content; a range that is not mapped is
/// refused with `EFAULT`.
pub fn mbind(
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
pub fn policy_at(address: usize) -> Result<(libc::c_int, Vec<u32>), SysError> {
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
pub fn nodes_of_pages(pages: &[usize]) -> Result<Vec<i32>, SysError> {
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
