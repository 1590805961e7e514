//! Loops compiled for each instruction set.
//!
//! A loop is written once on arrays of lanes, which the compiler makes vectors of whatever the function
//! that it is inlined into may use.

use nodegauge_kernels::{Isa, Prefetch};

/// Code of a loop: its instruction set, and whether it prefetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    /// One that this processor has.
    isa: Isa,
    /// True if lines are asked for [`AHEAD`] of their use.
    pub ahead: bool,
}

impl Code {
    /// For the widest instruction set that this processor has.
    pub fn widest(ahead: bool) -> Self {
        Self { isa: Isa::detected(), ahead }
    }

    /// The instruction set, which this processor has.
    #[inline]
    pub fn isa(self) -> Isa {
        self.isa
    }

    /// For every instruction set that this processor has, without asking ahead and with.
    #[cfg(test)]
    pub fn available() -> impl Iterator<Item = Self> {
        Isa::dispatched().flat_map(|isa| [false, true].map(|ahead| Self { isa, ahead }))
    }
}

/// Prefetch distance, bytes: a page of 4 KiB, at whose end hardware prefetchers stop (Intel 64 and IA-32
/// Architectures Optimization Reference Manual, "Data Prefetching").
const AHEAD: u32 = 4096;

/// Returns the prefetch distance of loops in the words of `stream`.
pub(crate) fn prefetch(ahead: bool) -> Prefetch {
    if ahead { Prefetch::Near(AHEAD) } else { Prefetch::Off }
}

/// Asks for the line [`AHEAD`] of an address, in the direction in which a loop goes.
#[inline(always)]
pub(crate) fn ask<const ASK: bool, const BACKWARD: bool>(at: *const f64) {
    if ASK {
        let step = if BACKWARD { -(AHEAD as isize) } else { AHEAD as isize };
        nodegauge_kernels::prefetch::<false>(at.wrapping_byte_offset(step).cast());
    }
}

/// Gives a loop that is generic over the instruction set and asking ahead its function for each [`Code`].
macro_rules! compiled {
    ($(#[$meta:meta])* $name:ident = $body:ident ($($arg:ident: $type:ty),*) $(-> $made:ty)?) => {
        $(#[$meta])*
        #[inline]
        pub(crate) unsafe fn $name(code: $crate::code::Code, $($arg: $type),*) $(-> $made)? {
            nodegauge_kernels::dispatched! {
                unsafe fn by_isa<const ASK: bool>($($arg: $type),*) $(-> $made)? = $body;
            }
            // SAFETY: the caller's promise, the instruction set included.
            unsafe {
                if code.ahead {
                    by_isa::<true>(code.isa(), $($arg),*)
                } else {
                    by_isa::<false>(code.isa(), $($arg),*)
                }
            }
        }
    };
}
pub(crate) use compiled;
