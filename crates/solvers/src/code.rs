//! Loops compiled for each instruction set.
//!
//! A loop is written once, with arrays of lanes. The compiler translates these arrays to vectors of the instruction
//! set of the function into which the loop is inlined.

use nodegauge_kernels::{Isa, Prefetch};

/// Variant of a loop: instruction set, and use of prefetching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopCode {
    /// Instruction set of the loop; this processor supports it.
    isa: Isa,
    /// True if the loop prefetches cache lines at a distance of a page.
    pub prefetches: bool,
}

impl LoopCode {
    /// Returns the variant for the widest instruction set of this processor.
    pub fn widest(prefetches: bool) -> Self {
        Self { isa: Isa::detected(), prefetches }
    }

    /// Returns the instruction set, which this processor supports.
    #[inline]
    pub fn isa(self) -> Isa {
        self.isa
    }

    /// Returns the variants for every instruction set of this processor, without and with prefetching.
    #[cfg(test)]
    pub fn available() -> impl Iterator<Item = Self> {
        Isa::dispatched().flat_map(|isa| [false, true].map(|prefetches| Self { isa, prefetches }))
    }
}

/// Prefetch distance in bytes: a page of 4 KiB, because hardware prefetchers stop at the end of a page (Intel 64 and
/// IA-32 Architectures Optimization Reference Manual, "Data Prefetching").
const AHEAD: u32 = 4096;

/// Converts the prefetch setting of a loop to the type that `stream` uses.
pub fn prefetch_setting(prefetches: bool) -> Prefetch {
    if prefetches { Prefetch::Near(AHEAD) } else { Prefetch::Off }
}

/// Prefetches the cache line at the distance [`AHEAD`] from an address, in the direction of the loop.
#[inline(always)]
pub(crate) fn prefetch_ahead<const ASK: bool, const BACKWARD: bool>(at: *const f64) {
    if ASK {
        let step = if BACKWARD { -(AHEAD as isize) } else { AHEAD as isize };
        nodegauge_kernels::prefetch::<false>(at.wrapping_byte_offset(step).cast());
    }
}

/// Defines a function that runs a loop in the variant that a [`LoopCode`] specifies. The loop is generic over the
/// instruction set and prefetching.
macro_rules! compiled {
    ($(#[$meta:meta])* $name:ident = $body:ident ($($arg:ident: $type:ty),*) $(-> $made:ty)?) => {
        $(#[$meta])*
        #[inline]
        pub(crate) unsafe fn $name(code: $crate::code::LoopCode, $($arg: $type),*) $(-> $made)? {
            nodegauge_kernels::dispatched! {
                unsafe fn by_isa<const ASK: bool>($($arg: $type),*) $(-> $made)? = $body;
            }
            // SAFETY: guaranteed by the caller, including the instruction set.
            unsafe {
                if code.prefetches {
                    by_isa::<true>(code.isa(), $($arg),*)
                } else {
                    by_isa::<false>(code.isa(), $($arg),*)
                }
            }
        }
    };
}
pub(crate) use compiled;
