//! Loops compiled for each instruction set.
//!
//! A loop is written once on arrays of lanes, which the compiler makes vectors of whatever the function
//! that it is inlined into may use.

use nodegauge_kernels::Prefetch;

/// An instruction set that the loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    /// The baseline of the target.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The widest that this processor has.
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f") && has!("avx512vl") && has!("avx512dq") && has!("fma") {
                return Self::Avx512;
            }
            if has!("avx2") && has!("fma") {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// The name of the instruction set, for records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
        }
    }
}

/// Whether the baseline has fused multiply-add; elsewhere it would be a call.
pub(crate) const PORTABLE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// `a x + y`
#[inline(always)]
pub(crate) fn multiply_add<const FMA: bool>(a: f64, x: f64, y: f64) -> f64 {
    if FMA { a.mul_add(x, y) } else { a * x + y }
}

/// How a loop is compiled: for which instruction set, and whether it asks for what it will read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    pub isa: Isa,
    /// Whether lines are asked for [`AHEAD`] of their use.
    pub ahead: bool,
}

impl Code {
    /// For the widest instruction set that this processor has.
    pub fn widest(ahead: bool) -> Self {
        Self { isa: Isa::widest(), ahead }
    }
}

/// How far ahead lines are asked for, bytes: a page of 4 KiB, at whose end hardware prefetchers stop (Intel 64 and
/// IA-32 Architectures Optimization Reference Manual, "Data Prefetching").
const AHEAD: u32 = 4096;

/// How far ahead loops ask for lines, in the words of `stream`.
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

/// Gives a loop that is generic over fused multiply-add and asking ahead its function for each [`Code`].
macro_rules! compiled {
    ($(#[$meta:meta])* $name:ident = $body:ident ($($arg:ident: $type:ty),*) $(-> $made:ty)?) => {
        $(#[$meta])*
        #[inline]
        pub(crate) unsafe fn $name(code: $crate::code::Code, $($arg: $type),*) $(-> $made)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2<const ASK: bool>($($arg: $type),*) $(-> $made)? {
                // SAFETY: the caller's promise.
                unsafe { $body::<true, ASK>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,fma")]
            unsafe fn avx512<const ASK: bool>($($arg: $type),*) $(-> $made)? {
                // SAFETY: the caller's promise.
                unsafe { $body::<true, ASK>($($arg),*) }
            }
            #[inline(never)]
            unsafe fn portable<const ASK: bool>($($arg: $type),*) $(-> $made)? {
                // SAFETY: the caller's promise.
                unsafe { $body::<{ $crate::code::PORTABLE_FMA }, ASK>($($arg),*) }
            }
            use $crate::code::Isa;
            // SAFETY: the caller's promise, the instruction set included.
            unsafe {
                match (code.isa, code.ahead) {
                    (Isa::Portable, false) => portable::<false>($($arg),*),
                    (Isa::Portable, true) => portable::<true>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx2, false) => avx2::<false>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx2, true) => avx2::<true>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx512, false) => avx512::<false>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx512, true) => avx512::<true>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use compiled;
