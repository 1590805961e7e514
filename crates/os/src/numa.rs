//! NUMA policy of memory, and the nodes of its pages.

use crate::affinity::{WORD, bits, mask};
use crate::call::{SysError, check};

/// NUMA nodes in a mask: the most that Linux can be built for (`MAX_NUMNODES`).
const NODES_MOST: usize = 1024;

/// `MPOL_F_ADDR` of the kernel's mempolicy.h: ask for the policy of an address. Not in libc.
const POLICY_OF_ADDRESS: libc::c_ulong = 1 << 1;

/// The flags that the kernel returns with the mode: `MPOL_F_STATIC_NODES` and the like.
const MODE_FLAGS: libc::c_int = 0b111 << 13;

/// How the kernel chooses the node of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyMode {
    /// Nothing said.
    Default,
    /// On a node while it has room.
    Preferred,
    /// On some nodes only.
    Bind,
    /// Page by page round some nodes.
    Interleave,
    /// On the node of the CPU that touches a page first.
    Local,
    /// On some nodes while they have room.
    PreferredMany,
    /// Round some nodes, as many pages on each as its weight says.
    WeightedInterleave,
}

/// The modes with their names, by the numbers of the kernel's mempolicy.h.
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
    /// Of the kernel's number; `None` of one that is not known here.
    fn of(number: libc::c_int) -> Option<Self> {
        let at = usize::try_from(number & !MODE_FLAGS).ok()?;
        MODES.get(at).map(|(mode, _)| *mode)
    }

    /// Its name, as numactl has it.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(mode, _)| *mode == self).map_or("?", |(_, name)| name)
    }
}

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
    let (mask, bits) = nodes_to_set("mbind", nodes)?;
    let pointer = mask.as_ref().map_or(std::ptr::null(), |mask| mask.as_ptr());
    // SAFETY: the kernel reads NODES_MOST bits of the mask, all of which exist, or none; without
    // MPOL_MF_MOVE it neither reads nor writes the range, so that its owner notices nothing.
    let result = unsafe { libc::syscall(libc::SYS_mbind, address, bytes, mode, pointer, bits, 0) };
    check("mbind", result).map(drop)
}

/// Sets the NUMA policy of the calling thread, for pages that it touches first and of which no range has a
/// policy of its own; processes that it forks have it from it.
pub fn set_policy_of_thread(mode: libc::c_int, nodes: &[u32]) -> Result<(), SysError> {
    let (mask, bits) = nodes_to_set("set_mempolicy", nodes)?;
    let pointer = mask.as_ref().map_or(std::ptr::null(), |mask| mask.as_ptr());
    // SAFETY: the kernel reads NODES_MOST bits of the mask, all of which exist, or none.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    check("set_mempolicy", result).map(drop)
}

/// The mask of nodes that a policy is set with, none where it names none, and its length as the kernel
/// reads it: one bit less than it is told.
fn nodes_to_set(call: &'static str, nodes: &[u32]) -> Result<(Option<Vec<u64>>, usize), SysError> {
    if nodes.iter().any(|node| *node as usize >= NODES_MOST) {
        return Err(SysError { call, errno: libc::EINVAL });
    }
    Ok(match nodes {
        [] => (None, 0),
        _ => (Some(mask(nodes.iter().copied(), NODES_MOST / WORD)), NODES_MOST + 1),
    })
}

/// The NUMA policy of the mapping that holds an address: its mode, `None` for one that is not known here,
/// and its nodes.
pub fn policy_at(address: usize) -> Result<(Option<PolicyMode>, Vec<u32>), SysError> {
    policy(address, POLICY_OF_ADDRESS)
}

/// The NUMA policy of the calling thread, which it has from the process that started it unless it set
/// another: as [`policy_at`].
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
