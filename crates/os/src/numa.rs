//! NUMA policy of memory, and the NUMA nodes of pages.

use crate::affinity::{WORD, bits, mask};
use crate::call::{SysError, check};

/// Number of NUMA nodes in a mask: the maximum of any Linux configuration (`MAX_NUMNODES`).
const NODES_MOST: usize = 1024;

/// `MPOL_F_ADDR` of the kernel's mempolicy.h, which selects the policy of an address. The libc crate lacks it.
const POLICY_OF_ADDRESS: libc::c_ulong = 1 << 1;

/// Flags that the kernel returns with the mode, e.g. `MPOL_F_STATIC_NODES`.
const MODE_FLAGS: libc::c_int = 0b111 << 13;

/// Mode of a NUMA policy: the rule by which the kernel chooses the node of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyMode {
    /// No policy is set.
    Default,
    /// One node as long as it has free memory.
    Preferred,
    /// Only the given nodes.
    Bind,
    /// Page by page in turn over the given nodes.
    Interleave,
    /// The node of the CPU that touches a page first.
    Local,
    /// The given nodes as long as they have free memory.
    PreferredMany,
    /// In turn over the given nodes, with a number of pages per node equal to its weight.
    WeightedInterleave,
}

/// Modes with their names, in the order of the numbers in the kernel's mempolicy.h.
const MODES: [(PolicyMode, &str); 7] = [
    (PolicyMode::Default, "default"),
    (PolicyMode::Preferred, "preferred"),
    (PolicyMode::Bind, "bind"),
    (PolicyMode::Interleave, "interleave"),
    (PolicyMode::Local, "local"),
    (PolicyMode::PreferredMany, "preferred-many"),
    (PolicyMode::WeightedInterleave, "weighted-interleave"),
];

impl PolicyMode {
    /// Returns the mode with the kernel's number, or `None` if the number is unknown.
    fn of(number: libc::c_int) -> Option<Self> {
        let at = usize::try_from(number & !MODE_FLAGS).ok()?;
        MODES.get(at).map(|(mode, _)| *mode)
    }

    /// Returns the name that numactl uses.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(mode, _)| *mode == self).map_or("?", |(_, name)| name)
    }
}

/// Sets the NUMA policy of an address range, for pages that are allocated later.
///
/// The call is safe for any range: it moves no page and changes no content; for a range that is not mapped it
/// fails with `EFAULT`.
pub fn mbind(
    address: usize,
    bytes: usize,
    mode: libc::c_int,
    nodes: &[u32],
) -> Result<(), SysError> {
    let (mask, bits) = nodes_to_set("mbind", nodes)?;
    let pointer = mask.as_ref().map_or(std::ptr::null(), |mask| mask.as_ptr());
    // SAFETY: the kernel reads NODES_MOST bits of the mask, which is that long, or no mask; without
    // MPOL_MF_MOVE it neither reads nor writes the range, so that its owner is not affected.
    let result = unsafe { libc::syscall(libc::SYS_mbind, address, bytes, mode, pointer, bits, 0) };
    check("mbind", result).map(drop)
}

/// Sets the NUMA policy of the calling thread. The policy applies to pages that the thread touches first outside
/// ranges with their own policy. Processes that the thread forks inherit it.
pub fn set_policy_of_thread(mode: libc::c_int, nodes: &[u32]) -> Result<(), SysError> {
    let (mask, bits) = nodes_to_set("set_mempolicy", nodes)?;
    let pointer = mask.as_ref().map_or(std::ptr::null(), |mask| mask.as_ptr());
    // SAFETY: the kernel reads NODES_MOST bits of the mask, which is that long, or no mask.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    check("set_mempolicy", result).map(drop)
}

/// Returns the node mask of a policy, which is absent if there are no nodes, and the length to pass with it. The
/// kernel reads one bit less than the length that is passed.
fn nodes_to_set(call: &'static str, nodes: &[u32]) -> Result<(Option<Vec<u64>>, usize), SysError> {
    if nodes.iter().any(|node| *node as usize >= NODES_MOST) {
        return Err(SysError { call, errno: libc::EINVAL });
    }
    Ok(match nodes {
        [] => (None, 0),
        _ => (Some(mask(nodes.iter().copied(), NODES_MOST / WORD)), NODES_MOST + 1),
    })
}

/// Returns the NUMA policy of the mapping that holds an address: the mode, `None` if it is unknown, and the
/// nodes.
pub fn policy_at(address: usize) -> Result<(Option<PolicyMode>, Vec<u32>), SysError> {
    policy(address, POLICY_OF_ADDRESS)
}

/// Returns the NUMA policy of the calling thread, in the form of [`policy_at`]. A thread inherits the policy of
/// the process that started it, unless it sets its own.
pub fn policy_of_thread() -> Result<(Option<PolicyMode>, Vec<u32>), SysError> {
    policy(0, 0)
}

fn policy(
    address: usize,
    flags: libc::c_ulong,
) -> Result<(Option<PolicyMode>, Vec<u32>), SysError> {
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
            flags,
        )
    };
    check("get_mempolicy", result)?;
    Ok((PolicyMode::of(mode), bits(&mask)))
}

/// Returns the node that holds each page address of this process, or a negative error number.
pub fn nodes_of_pages(pages: &[usize]) -> Result<Vec<i32>, SysError> {
    let mut status = vec![-libc::ENOENT; pages.len()];
    // SAFETY: both arrays have as many elements as the call passes; a null list of nodes makes
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
    fn modes_are_the_kernels() {
        let known = [
            (libc::MPOL_DEFAULT, PolicyMode::Default),
            (libc::MPOL_PREFERRED, PolicyMode::Preferred),
            (libc::MPOL_BIND, PolicyMode::Bind),
            (libc::MPOL_INTERLEAVE | libc::MPOL_F_STATIC_NODES, PolicyMode::Interleave),
            (libc::MPOL_LOCAL, PolicyMode::Local),
        ];
        for (number, mode) in known {
            assert_eq!(PolicyMode::of(number), Some(mode));
        }
        assert_eq!((PolicyMode::of(99), PolicyMode::of(-1)), (None, None));
    }
}
