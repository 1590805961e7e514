//! Entry into a loop: the arguments, and one function per instruction set, which enables the set for all code that
//! is inlined into it.

use super::isa::{self, InstructionSet};
use super::shape::KernelShape;
use super::table::MAX_ARRAYS;
use super::vector::{Lanes, Vector};
use std::ptr::NonNull;

/// Size of a cache line in bytes: 64 on every processor for which there are vector types. It is a multiple of every
/// vector size.
pub const CACHE_LINE_BYTES: usize = 64;

/// Arguments of a loop: one thread's share of the arrays.
#[derive(Debug, Clone, Copy)]
pub struct LoopArgs {
    /// First element of this thread's share of each array. Pointers to arrays that the kernel does not
    /// use are not read.
    pub at: [NonNull<u8>; MAX_ARRAYS],
    /// Number of elements in the share.
    pub n: usize,
    /// Scalar `s` of the kernel.
    pub scalar: f64,
    /// Number of passes over the share in a resident loop; other loops make one pass.
    pub repeats: u64,
}

/// Parameters of a compiled loop that determine the order of accesses.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccessOrder {
    /// Distance of prefetch into level 1, bytes.
    pub near: usize,
    /// Distance of prefetch into level 2, bytes.
    pub far: usize,
    /// Number of pages that a loop traverses side by side.
    pub pages: usize,
}

impl AccessOrder {
    /// Returns the parameters for a loop of this shape.
    #[inline]
    pub fn from_shape(shape: KernelShape) -> Self {
        let (near, far) = shape.prefetch.bytes();
        Self { near, far, pages: shape.side_by_side.pages().into() }
    }
}

/// Loop that is inlined into the function of an instruction set.
pub(super) trait InlinedLoop {
    /// Runs the loop on the share of one thread. Returns the sum for a kernel that sums, and 0 for other kernels.
    ///
    /// # Safety
    /// The processor must have the instruction set of the loop's vectors. The other conditions are those of
    /// [`Variant::run`](super::Variant::run) or [`ResidentLoop::run`](super::ResidentLoop::run).
    unsafe fn run(args: &LoopArgs, way: AccessOrder) -> f64;
}

/// Instruction set with vectors of both element types.
pub(super) trait VectorSet: InstructionSet {
    /// True if the vectors of the set support software prefetch.
    const PREFETCHES: bool = true;
    /// Vector type with elements of type `f64`.
    type F64: Vector<Scalar = f64> + 'static;
    /// Vector type with elements of type `f32`.
    type F32: Vector<Scalar = f32> + 'static;
    /// Runs a loop with the instruction set enabled.
    ///
    /// # Safety
    /// The conditions of [`InlinedLoop::run`] must hold.
    unsafe fn enter<R: InlinedLoop>(args: &LoopArgs, way: AccessOrder) -> f64;
}

/// Portable vectors: plain code that is compiled for the baseline of the target.
impl VectorSet for isa::Portable {
    const PREFETCHES: bool = false;
    type F64 = Lanes<f64, 8>;
    type F32 = Lanes<f32, 16>;
    unsafe fn enter<R: InlinedLoop>(args: &LoopArgs, way: AccessOrder) -> f64 {
        // SAFETY: the caller guarantees the conditions of `VectorSet::enter`.
        unsafe { R::run(args, way) }
    }
}

/// Declares the vectors of `f64` and `f32` of the instruction sets of one architecture.
macro_rules! vector_sets {
    ($arch:ident, $target:literal: $($isa:ident, $f64:ident, $f32:ident;)*) => {$(
        #[cfg(target_arch = $target)]
        impl VectorSet for isa::$isa {
            type F64 = std::arch::$arch::$f64;
            type F32 = std::arch::$arch::$f32;
            crate::enabled! { $isa,
                unsafe fn enter<R: InlinedLoop>(args: &LoopArgs, way: AccessOrder) -> f64 {
                    // SAFETY: the caller guarantees the conditions of `VectorSet::enter`.
                    unsafe { R::run(args, way) }
                }
            }
        }
    )*};
}

vector_sets! { x86_64, "x86_64":
    Sse2, __m128d, __m128;
    Avx, __m256d, __m256;
    Avx512, __m512d, __m512;
}
vector_sets! { aarch64, "aarch64":
    Neon, float64x2_t, float32x4_t;
}
