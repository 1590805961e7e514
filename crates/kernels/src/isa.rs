//! Instruction sets: names, features, detection, and functions that are compiled once per set.
//!
//! The features of a set are listed once, in `isa_features!`, which is used by both detection
//! ([`Isa::is_available`]) and compilation ([`enabled!`](crate::enabled)). A function compiled for a set therefore
//! requires only features that were detected. [`dispatched!`](crate::dispatched) declares a function that is
//! compiled for several sets; the first argument of the function selects the [`Isa`].

use crate::four::{F64x4, PlainF64x4};
use nodegauge_measure::names;
use serde::{Deserialize, Serialize};

/// Instruction set. The variants are in ascending order of vector width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Isa {
    /// Baseline of the target: SSE2 on x86-64, NEON on 64-bit Arm.
    Portable,
    /// Scalar code: one number per register, on x86-64 and 64-bit Arm.
    Scalar,
    /// 128-bit vectors of x86-64.
    Sse2,
    /// 256-bit vectors of x86-64.
    Avx,
    /// 256-bit vectors of x86-64 with fused multiply-add: AVX2 and FMA.
    Avx2,
    /// 512-bit vectors of x86-64 with fused multiply-add: AVX-512 F, VL and DQ, with AVX2 and FMA. All processors with
    /// AVX-512 except Xeon Phi have these extensions.
    Avx512,
    /// 128-bit vectors of Arm with fused multiply-add.
    Neon,
    /// Scalable vectors of Arm with fused multiply-add; their length depends on the processor.
    Sve,
}
names!(
    Isa,
    "instruction set",
    Portable = "portable",
    Scalar = "scalar",
    Sse2 = "sse2",
    Avx = "avx",
    Avx2 = "avx2",
    Avx512 = "avx512",
    Neon = "neon",
    Sve = "sve"
);

/// Calls another macro with the architecture and the target features of an instruction set.
#[doc(hidden)]
#[macro_export]
macro_rules! isa_features {
    (Portable, $macro:ident $($rest:tt)*) => { $crate::$macro! { any [] $($rest)* } };
    (Scalar, $macro:ident $($rest:tt)*) => { $crate::$macro! { any [] $($rest)* } };
    (Sse2, $macro:ident $($rest:tt)*) => { $crate::$macro! { x86_64 ["sse2"] $($rest)* } };
    (Avx, $macro:ident $($rest:tt)*) => { $crate::$macro! { x86_64 ["avx"] $($rest)* } };
    (Avx2, $macro:ident $($rest:tt)*) => { $crate::$macro! { x86_64 ["avx2" "fma"] $($rest)* } };
    (Avx512, $macro:ident $($rest:tt)*) => {
        $crate::$macro! { x86_64 ["avx512f" "avx512vl" "avx512dq" "avx2" "fma"] $($rest)* }
    };
    (Neon, $macro:ident $($rest:tt)*) => { $crate::$macro! { aarch64 ["neon"] $($rest)* } };
    (Sve, $macro:ident $($rest:tt)*) => { $crate::$macro! { aarch64 ["sve"] $($rest)* } };
}

/// True if this processor has all of these target features.
#[doc(hidden)]
#[macro_export]
macro_rules! isa_detected {
    (any []) => {
        true
    };
    (x86_64 [$($feature:tt)*]) => {{
        #[cfg(target_arch = "x86_64")]
        let detected = true $(&& std::arch::is_x86_feature_detected!($feature))*;
        #[cfg(not(target_arch = "x86_64"))]
        let detected = false;
        detected
    }};
    (aarch64 [$($feature:tt)*]) => {{
        #[cfg(target_arch = "aarch64")]
        let detected = true $(&& std::arch::is_aarch64_feature_detected!($feature))*;
        #[cfg(not(target_arch = "aarch64"))]
        let detected = false;
        detected
    }};
}

/// Compiles an item with target features. The item exists only on the architecture that has these features.
#[doc(hidden)]
#[macro_export]
macro_rules! isa_enabled {
    (any [] $($item:tt)*) => { $($item)* };
    (x86_64 [$($feature:tt)*] $($item:tt)*) => {
        #[cfg(target_arch = "x86_64")]
        $(#[target_feature(enable = $feature)])*
        $($item)*
    };
    (aarch64 [$($feature:tt)*] $($item:tt)*) => {
        #[cfg(target_arch = "aarch64")]
        $(#[target_feature(enable = $feature)])*
        $($item)*
    };
}

/// Compiles a function for one instruction set: `enabled! { Avx2, unsafe fn sum(...) { ... } }`. On other
/// architectures the function does not exist.
#[macro_export]
macro_rules! enabled {
    ($isa:ident, $($item:tt)*) => { $crate::isa_features! { $isa, isa_enabled $($item)* } };
}

/// Declares an `unsafe` function that is compiled for each of [`Isa::dispatched`]. The first argument of the function
/// selects the [`Isa`]; the declared arguments follow:
///
/// ```text
/// dispatched! {
///     /// Sum of `n` numbers.
///     ///
///     /// # Safety
///     /// The processor has the instruction set; `x` has `n` numbers.
///     pub(crate) unsafe fn sum<const ASK: bool>(n: usize, x: *const f64) -> f64 = sum_body;
/// }
/// ```
///
/// The body is generic over an [`InstructionSet`] and the flags. The body and all functions that it calls must be
/// `#[inline(always)]`, because inlined code is compiled with the features of the calling function.
#[macro_export]
macro_rules! dispatched {
    ($($(#[$meta:meta])* $vis:vis unsafe fn $name:ident $(<$(const $flag:ident: bool),+>)?
        ($($arg:ident: $type:ty),* $(,)?) $(-> $made:ty)? = $body:ident;)+) => {$(
        $(#[$meta])*
        #[inline]
        $vis unsafe fn $name $(<$(const $flag: bool),+>)? (
            isa: $crate::Isa,
            $($arg: $type),*
        ) $(-> $made)? {
            $crate::enabled! { Avx512,
                /// # Safety
                /// The requirements of the dispatched function apply.
                unsafe fn avx512 $(<$(const $flag: bool),+>)? ($($arg: $type),*) $(-> $made)? {
                    // SAFETY: the caller guarantees that the processor has the instruction set.
                    unsafe { $body::<$crate::isa::Avx512 $($(, $flag)+)?>($($arg),*) }
                }
            }
            $crate::enabled! { Avx2,
                /// # Safety
                /// The requirements of the dispatched function apply.
                unsafe fn avx2 $(<$(const $flag: bool),+>)? ($($arg: $type),*) $(-> $made)? {
                    // SAFETY: the caller guarantees that the processor has the instruction set.
                    unsafe { $body::<$crate::isa::Avx2 $($(, $flag)+)?>($($arg),*) }
                }
            }
            /// # Safety
            /// The requirements of the dispatched function apply.
            #[inline(never)]
            unsafe fn portable $(<$(const $flag: bool),+>)? ($($arg: $type),*) $(-> $made)? {
                // SAFETY: the caller guarantees that the processor has the instruction set.
                unsafe { $body::<$crate::isa::Portable $($(, $flag)+)?>($($arg),*) }
            }
            // SAFETY: the caller guarantees the conditions of the body and that the processor has the instruction set.
            unsafe {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    $crate::Isa::Avx512 => avx512 $(::<$($flag),+>)? ($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::Isa::Avx2 => avx2 $(::<$($flag),+>)? ($($arg),*),
                    _ => portable $(::<$($flag),+>)? ($($arg),*),
                }
            }
        }
    )+};
}

impl Isa {
    /// Instruction sets for which functions of [`dispatched!`](crate::dispatched) are compiled, widest last. NEON is
    /// part of the Arm baseline and needs no separate function.
    const DISPATCHED: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// True if this processor has all features of the instruction set.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => isa_features!(Portable, isa_detected),
            Self::Scalar => isa_features!(Scalar, isa_detected),
            Self::Sse2 => isa_features!(Sse2, isa_detected),
            Self::Avx => isa_features!(Avx, isa_detected),
            Self::Avx2 => isa_features!(Avx2, isa_detected),
            Self::Avx512 => isa_features!(Avx512, isa_detected),
            Self::Neon => isa_features!(Neon, isa_detected),
            Self::Sve => isa_features!(Sve, isa_detected),
        }
    }

    /// Returns the instruction sets of this processor, narrowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|isa| isa.is_available())
    }

    /// Returns the instruction sets of this processor for which functions of [`dispatched!`](crate::dispatched) are
    /// compiled, widest last.
    pub fn dispatched() -> impl Iterator<Item = Self> {
        Self::DISPATCHED.into_iter().filter(|isa| isa.is_available())
    }

    /// Returns the widest instruction set of [`Isa::dispatched`].
    pub fn detected() -> Self {
        Self::dispatched().last().unwrap_or(Self::Portable)
    }

    /// True if the set has non-temporal stores.
    pub const fn has_nontemporal_stores(self) -> bool {
        matches!(self, Self::Sse2 | Self::Avx | Self::Avx2 | Self::Avx512 | Self::Sve)
    }

    /// Returns the vector width in bits. It is 0 for portable code, for which the compiler chooses the width, and for
    /// SVE on processors without SVE.
    pub fn vector_bits(self) -> u32 {
        match self {
            // SAFETY: the instruction set was just detected.
            #[cfg(target_arch = "aarch64")]
            Self::Sve if self.is_available() => unsafe { sve_vector_bytes() as u32 * 8 },
            Self::Portable | Self::Sve => 0,
            Self::Scalar => 64,
            Self::Sse2 | Self::Neon => 128,
            Self::Avx | Self::Avx2 => 256,
            Self::Avx512 => 512,
        }
    }
}

/// Returns the size of this processor's scalable vectors in bytes.
///
/// # Safety
/// The processor must have SVE.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "sve")]
pub(crate) unsafe fn sve_vector_bytes() -> usize {
    let bytes;
    // SAFETY: the instruction only reads the vector length.
    unsafe { std::arch::asm!("rdvl {}, #1", out(reg) bytes, options(pure, nomem, nostack)) };
    bytes
}

/// Instruction set as a type parameter, for code that is compiled for this set.
pub trait InstructionSet: 'static {
    /// Instruction set that the type represents.
    const ISA: Isa;
    /// True if fused multiply-add is an instruction of the set; otherwise it would be a function call.
    const FMA: bool;
    /// Vector of four `f64`.
    type F64x4: F64x4;
}

/// Vector of four `f64`, in instruction sets with 256-bit vectors and fused multiply-add.
#[cfg(target_arch = "x86_64")]
type FusedFour = std::arch::x86_64::__m256d;
#[cfg(not(target_arch = "x86_64"))]
type FusedFour = PlainF64x4<true>;

/// True if the baseline of the target has fused multiply-add.
const PORTABLE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

macro_rules! instruction_sets {
    ($($set:ident: $fma:expr, $four:ty;)*) => {$(
        #[doc = concat!("[`Isa::", stringify!($set), "`].")]
        #[derive(Debug, Clone, Copy)]
        pub struct $set;
        impl InstructionSet for $set {
            const ISA: Isa = Isa::$set;
            const FMA: bool = $fma;
            type F64x4 = $four;
        }
    )*};
}
instruction_sets! {
    Portable: PORTABLE_FMA, PlainF64x4<PORTABLE_FMA>;
    Sse2: false, PlainF64x4<false>;
    Avx: false, PlainF64x4<false>;
    Avx2: true, FusedFour;
    Avx512: true, FusedFour;
    Neon: true, PlainF64x4<true>;
}

/// Returns `a x + y`, fused if the instruction set has fused multiply-add.
#[inline(always)]
pub fn multiply_add<S: InstructionSet>(a: f64, x: f64, y: f64) -> f64 {
    if S::FMA { a.mul_add(x, y) } else { a * x + y }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the instruction set of the function, and `a x + y`, fused if `FUSED` is true.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    unsafe fn probe_body<S: InstructionSet, const FUSED: bool>(
        a: f64,
        x: f64,
        y: f64,
    ) -> (Isa, f64) {
        let product = if FUSED { multiply_add::<S>(a, x, y) } else { a * x + y };
        (S::ISA, product)
    }

    dispatched! {
        /// # Safety
        /// The processor must support the instruction set.
        unsafe fn probe<const FUSED: bool>(a: f64, x: f64, y: f64) -> (Isa, f64) = probe_body;
    }

    #[test]
    fn dispatched_function_is_compiled_for_its_instruction_set() {
        let all: Vec<Isa> = Isa::dispatched().collect();
        assert_eq!((all[0], all.last().copied()), (Isa::Portable, Some(Isa::detected())));
        for isa in all {
            // SAFETY: this processor has the instruction set.
            let (ran, product) = unsafe { probe::<true>(isa, 3.0, 5.0, 7.0) };
            assert_eq!((ran, product), (isa, 22.0));
            // SAFETY: this processor has the instruction set.
            assert_eq!(unsafe { probe::<false>(isa, 3.0, 5.0, 7.0) }, (isa, 22.0));
        }
        // Sets without a separate function use the function of the baseline. SAFETY: every processor supports the
        // baseline.
        assert_eq!(unsafe { probe::<true>(Isa::Scalar, 1.0, 1.0, 1.0) }.0, Isa::Portable);
    }

    #[test]
    fn wider_instruction_sets_include_narrower_ones() {
        let available: Vec<Isa> = Isa::available().collect();
        assert!(available.contains(&Isa::Portable) && available.contains(&Isa::detected()));
        for wide in [Isa::Avx512, Isa::Avx2, Isa::Avx] {
            let narrower = [Isa::Sse2, Isa::Avx, Isa::Avx2].into_iter().filter(|isa| *isa < wide);
            let has_all = narrower.into_iter().all(Isa::is_available);
            assert!(!wide.is_available() || has_all, "{wide} of {available:?}");
        }
        assert!(available.iter().all(|isa| isa.name().parse() == Ok(*isa)));
    }
}
