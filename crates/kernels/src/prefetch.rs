//! Software prefetch of a line of memory.

/// Prefetches the cache line at an address into level 1; if `FAR` is true, into level 2. Does nothing on processors
/// without a prefetch instruction. Any address is allowed; an unreadable address is ignored.
#[inline(always)]
pub fn prefetch<const FAR: bool>(from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch of any address is allowed.
        unsafe {
            if FAR {
                _mm_prefetch::<_MM_HINT_T1>(from.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(from.cast());
            }
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch of any address is allowed and has no visible effect.
    unsafe {
        if FAR {
            std::arch::asm!("prfm pldl2keep, [{}]", in(reg) from,
                options(nostack, readonly, preserves_flags));
        } else {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) from,
                options(nostack, readonly, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = from;
}
