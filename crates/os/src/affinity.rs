//! CPU affinity of the calling thread.

use crate::call::{SysError, check};

/// Maximum length of an affinity mask in words of 64 CPUs: 1 Mi CPUs, far above the limit of Linux.
const MAX_MASK_WORDS: usize = 1 << 14;

pub(crate) const WORD_BITS: usize = u64::BITS as usize;

/// Returns a mask with the given bits set; its length is at least `words` words.
pub(crate) fn mask(bits: impl IntoIterator<Item = u32>, words: usize) -> Vec<u64> {
    let mut mask = vec![0u64; words];
    for bit in bits {
        let word = bit as usize / WORD_BITS;
        if mask.len() <= word {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1 << (bit as usize % WORD_BITS);
    }
    mask
}

/// Returns the numbers of the bits that are set.
pub(crate) fn bits(mask: &[u64]) -> Vec<u32> {
    (0..mask.len() * WORD_BITS).filter(|bit| is_set(mask, *bit)).map(|bit| bit as u32).collect()
}

fn is_set(mask: &[u64], bit: usize) -> bool {
    mask[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1
}

/// Restricts the calling thread to these CPUs.
pub fn set_affinity(cpus: &[u32]) -> Result<(), SysError> {
    if cpus.iter().any(|cpu| *cpu as usize >= MAX_MASK_WORDS * WORD_BITS) {
        return Err(SysError { call: "sched_setaffinity", errno: libc::EINVAL });
    }
    set_affinity_mask(&mask(cpus.iter().copied(), 1))
}

/// Allows the calling thread to run on every CPU of this process's cpuset.
pub fn set_affinity_to_all() -> Result<(), SysError> {
    set_affinity_mask(&vec![u64::MAX; 1024])
}

pub(crate) fn set_affinity_mask(mask: &[u64]) -> Result<(), SysError> {
    // SAFETY: the kernel reads the number of bytes that the call passes, which is the length of the slice.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(mask), mask.as_ptr()) };
    check("sched_setaffinity", result).map(drop)
}

/// Returns the CPUs on which the calling thread may run, in numeric order.
pub fn affinity() -> Result<Vec<u32>, SysError> {
    let mut words = 16;
    loop {
        let mut mask = vec![0u64; words];
        // SAFETY: the kernel writes at most the number of bytes that the call passes, which is the length of the
        // vector.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, words * 8, mask.as_mut_ptr()) };
        match check("sched_getaffinity", result) {
            // The kernel refuses a mask that is shorter than the kernel's mask.
            Err(SysError { errno: libc::EINVAL, .. }) if words < MAX_MASK_WORDS => words *= 2,
            Err(error) => return Err(error),
            Ok(_) => return Ok(bits(&mask)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_bits_round_trip() {
        assert_eq!(bits(&mask([0, 63, 64, 1000], 1)), [0, 63, 64, 1000]);
        assert_eq!(mask([], 2), [0, 0]);
    }

    #[test]
    fn affinity_to_a_nonexistent_cpu_is_refused() {
        assert!(!affinity().unwrap().is_empty());
        let beyond = set_affinity(&[u32::MAX]).unwrap_err();
        assert_eq!(beyond, SysError { call: "sched_setaffinity", errno: libc::EINVAL });
    }
}
