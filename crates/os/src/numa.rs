//! NUMA policy of memory, and the NUMA nodes of pages.

use crate::affinity::{WORD_BITS, bits, mask};
use crate::call::{SysError, check};

/// Number of NUMA nodes in a node mask: the maximum of all Linux configurations (`MAX_NUMNODES`).
const MAX_NODES: usize = 1024;

/// Name of the call that sets the policy of a thread.
pub(crate) const SET_POLICY: &str = "set_mempolicy";

/// Flag `MPOL_F_ADDR` of the kernel's mempolicy.h, which requests the policy of an address. The libc crate does not
/// define it.
const ADDRESS_POLICY: libc::c_ulong = 1 << 1;

/// Flags that the kernel returns with the mode, e.g. `MPOL_F_STATIC_NODES`.
const MODE_FLAGS: libc::c_int = 0b111 << 13;

/// Mode of a NUMA policy, which is the rule by which the kernel chooses the node of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyMode {
    /// No policy is set.
    Default,
    /// Pages are on one NUMA node as long as it has free memory.
    Preferred,
    /// Pages are only on the given NUMA nodes.
    Bind,
    /// Pages are distributed round-robin over the given NUMA nodes.
    Interleave,
    /// Pages are on the NUMA node of the CPU that touches them first.
    Local,
    /// Pages are on the given NUMA nodes as long as these have free memory.
    PreferredMany,
    /// Pages are distributed round-robin over the given NUMA nodes, with a number of consecutive pages per NUMA
    /// node that equals the weight of the NUMA node.
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
    /// Returns the mode with this number in the kernel; `None` if the number is unknown.
    fn from_number(number: libc::c_int) -> Option<Self> {
        let at = usize::try_from(number & !MODE_FLAGS).ok()?;
        MODES.get(at).map(|(mode, _)| *mode)
    }

    /// Returns the name of the mode in numactl.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(mode, _)| *mode == self).map_or("?", |(_, name)| name)
    }
}

/// Sets the NUMA policy of an address range, for pages that are allocated later.
///
/// The call is safe for any range: it moves no page and changes no content. For a range that is not mapped, it fails
/// with `EFAULT`.
pub fn mbind(
    address: usize,
    bytes: usize,
    mode: libc::c_int,
    nodes: &[u32],
) -> Result<(), SysError> {
    let (mask, bits) = node_mask("mbind", nodes)?;
    let pointer = mask.as_ref().map_or(std::ptr::null(), |mask| mask.as_ptr());
    // SAFETY: the kernel reads NODES_MOST bits of the mask, which has this length, or there is no mask. Without
    // MPOL_MF_MOVE, the kernel neither reads nor writes the range, so that the owner of the range is not affected.
    let result = unsafe { libc::syscall(libc::SYS_mbind, address, bytes, mode, pointer, bits, 0) };
    check("mbind", result).map(drop)
}

/// Sets the NUMA policy of the calling thread. The policy applies to pages that the thread touches first, except in
/// ranges with their own policy. Processes that the thread forks inherit the policy.
pub fn set_thread_policy(mode: libc::c_int, nodes: &[u32]) -> Result<(), SysError> {
    let (mask, bits) = node_mask(SET_POLICY, nodes)?;
    set_policy_mask(mode, mask.as_deref(), bits)
}

/// Sets the policy as [`set_thread_policy`] does, from the mask and the length that [`node_mask`] returned.
/// Allocates no memory.
pub(crate) fn set_policy_mask(
    mode: libc::c_int,
    mask: Option<&[u64]>,
    bits: usize,
) -> Result<(), SysError> {
    let pointer = mask.map_or(std::ptr::null(), <[u64]>::as_ptr);
    // SAFETY: the kernel reads NODES_MOST bits of the mask, which has this length, or there is no mask.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    check(SET_POLICY, result).map(drop)
}

/// Returns the NUMA node mask of a policy, and the length that must be passed with the mask. The mask is absent if
/// there are no nodes. The kernel reads one bit less than the passed length.
pub(crate) fn node_mask(
    call: &'static str,
    nodes: &[u32],
) -> Result<(Option<Vec<u64>>, usize), SysError> {
    if nodes.iter().any(|node| *node as usize >= MAX_NODES) {
        return Err(SysError { call, errno: libc::EINVAL });
    }
    Ok(match nodes {
        [] => (None, 0),
        _ => (Some(mask(nodes.iter().copied(), MAX_NODES / WORD_BITS)), MAX_NODES + 1),
    })
}

/// Returns the NUMA policy of the mapping that contains an address: the mode (`None` if unknown) and the NUMA
/// nodes.
pub fn policy_at(address: usize) -> Result<(Option<PolicyMode>, Vec<u32>), SysError> {
    policy(address, ADDRESS_POLICY)
}

/// Returns the mode and the NUMA nodes of the calling thread's NUMA policy, as [`policy_at`] does. A thread inherits
/// the policy of the process that started it, unless the thread sets its own policy.
pub fn thread_policy() -> Result<(Option<PolicyMode>, Vec<u32>), SysError> {
    policy(0, 0)
}

fn policy(
    address: usize,
    flags: libc::c_ulong,
) -> Result<(Option<PolicyMode>, Vec<u32>), SysError> {
    let mut mode: libc::c_int = 0;
    let mut mask = vec![0u64; MAX_NODES / WORD_BITS];
    // SAFETY: there is room for the int and the NODES_MOST bits that the kernel writes at most. The kernel only looks
    // up the address.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            mask.as_mut_ptr(),
            MAX_NODES,
            address,
            flags,
        )
    };
    check("get_mempolicy", result)?;
    Ok((PolicyMode::from_number(mode), bits(&mask)))
}

/// Returns for each page address of this process the NUMA node that contains the page, or a negative error number.
pub fn page_numa_nodes(pages: &[usize]) -> Result<Vec<i32>, SysError> {
    let mut status = vec![-libc::ENOENT; pages.len()];
    // SAFETY: the number of elements of both arrays is the number that the call passes. With a null list of nodes, the
    // call is a query, which moves no page. The kernel only looks up the page addresses.
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
    fn policy_modes_match_kernel_numbers() {
        let known = [
            (libc::MPOL_DEFAULT, PolicyMode::Default),
            (libc::MPOL_PREFERRED, PolicyMode::Preferred),
            (libc::MPOL_BIND, PolicyMode::Bind),
            (libc::MPOL_INTERLEAVE | libc::MPOL_F_STATIC_NODES, PolicyMode::Interleave),
            (libc::MPOL_LOCAL, PolicyMode::Local),
        ];
        for (number, mode) in known {
            assert_eq!(PolicyMode::from_number(number), Some(mode));
        }
        assert_eq!((PolicyMode::from_number(99), PolicyMode::from_number(-1)), (None, None));
    }
}
