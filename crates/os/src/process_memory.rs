//! Access to the memory of another process of this user. The data are copied once, and the other process does nothing.

use crate::call::{SysError, check};

/// Fills `into` from the memory at `address` of process `pid`.
///
/// # Errors
/// Fails if the kernel refuses the call (Yama's `ptrace_scope`, seccomp, another user), or if fewer bytes are mapped at
/// the address.
pub fn read_process_memory(pid: u32, address: u64, into: &mut [u8]) -> Result<(), SysError> {
    let mut done = 0;
    while done < into.len() {
        let rest = &mut into[done..];
        let here = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let there = libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(address as usize + done),
            iov_len: rest.len(),
        };
        // SAFETY: the kernel writes only to the remaining part of the slice, and checks the addresses in the other
        // process.
        let read = unsafe {
            libc::process_vm_readv(pid as libc::pid_t, &raw const here, 1, &raw const there, 1, 0)
        };
        match check("process_vm_readv", read)? {
            0 => return Err(SysError { call: "process_vm_readv", errno: libc::EFAULT }),
            bytes => done += bytes as usize,
        }
    }
    Ok(())
}

/// Allows every process of this user to read the memory of this process. By default, Yama allows this only to ancestors
/// of the process. MPI libraries change the same setting.
pub fn allow_memory_reads() {
    // SAFETY: the call changes only a setting of this process. Kernels without Yama refuse the call, and do not need
    // the setting.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_memory_is_read_within_bounds() {
        let there: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
        let own = std::process::id();
        for bytes in [0, 1, 4097, there.len()] {
            let mut into = vec![0; bytes];
            // In a sandbox that refuses the call, nothing can be tested.
            match read_process_memory(own, there.as_ptr() as u64, &mut into) {
                Ok(()) => assert!(into == there[..bytes]),
                Err(refused) => assert_eq!(refused.errno, libc::EPERM),
            }
        }
        let error = read_process_memory(own, 1, &mut [0; 8]).unwrap_err();
        assert!([libc::EFAULT, libc::EPERM].contains(&error.errno), "{error}");
        assert!(read_process_memory(u32::MAX >> 1, 1, &mut [0; 8]).is_err());
    }
}
