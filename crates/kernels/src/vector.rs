//! Vectors of all instruction sets behind one trait, so that each kernel is written once.
//!
//! Every method is `#[inline(always)]` and becomes one instruction inside a function with the required
//! `#[target_feature]`. A call from any other function is undefined behaviour on a processor without the feature, so
//! the methods are `unsafe`.

use super::shape::Element;

/// Element of an array: `f64` or `f32`.
pub(super) trait Scalar: Copy + 'static {
    /// Type of the element.
    const ELEMENT: Element;
    /// Converts the kernels' common scalar.
    fn from_f64(x: f64) -> Self;
    /// Converts to `f64`, in which sums are kept.
    fn to_f64(self) -> f64;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
}

macro_rules! scalar {
    ($($type:ty, $element:ident;)*) => {$(
        impl Scalar for $type {
            const ELEMENT: Element = Element::$element;
            #[inline(always)]
            fn from_f64(x: f64) -> Self { x as Self }
            #[inline(always)]
            fn to_f64(self) -> f64 { f64::from(self) }
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
        }
    )*};
}
scalar! { f64, F64; f32, F32; }

/// Register of elements.
///
/// # Safety
/// All methods require a processor with the vector's instruction set. `load` and `store` require
/// `LANES` readable or writable elements; `store` and `stream` require the address to be a
/// multiple of the vector's size. Streaming stores become visible to others after [`Vector::fence`].
pub(super) trait Vector: Copy + 'static {
    /// Element.
    type Scalar: Scalar;
    /// Elements per vector.
    const LANES: usize;
    /// Loads from any address.
    unsafe fn load(from: *const Self::Scalar) -> Self;
    /// Stores to an aligned address through the caches.
    unsafe fn store(self, to: *mut Self::Scalar);
    /// Stores to an aligned address, bypassing the caches if the instruction set has such stores.
    unsafe fn stream(self, to: *mut Self::Scalar);
    /// Returns a vector with the same value in all lanes.
    unsafe fn splat(x: Self::Scalar) -> Self;
    /// Returns the sum, lane by lane.
    unsafe fn add(self, other: Self) -> Self;
    /// Returns the product, lane by lane.
    unsafe fn mul(self, other: Self) -> Self;
    /// Returns `self * x + y`, fused if the instruction set has fused multiply-add.
    #[inline(always)]
    unsafe fn mul_add(self, x: Self, y: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { self.mul(x).add(y) }
    }
    /// Prefetches the line at `from` into level 1, or with `FAR` into level 2. Any address is allowed; the
    /// processor ignores an invalid one.
    #[inline(always)]
    unsafe fn prefetch<const FAR: bool>(from: *const Self::Scalar) {
        let _ = from;
    }
    /// Makes streaming stores visible.
    #[inline(always)]
    unsafe fn fence() {}
}

/// Array of lanes in plain code for any processor; the compiler may vectorise it for the baseline of its
/// target.
#[derive(Clone, Copy)]
pub(super) struct Lanes<T, const N: usize>([T; N]);

impl<T: Scalar, const N: usize> Vector for Lanes<T, N> {
    type Scalar = T;
    const LANES: usize = N;
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: N elements are readable; the address may be anything.
        Self(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: N elements are writable.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut T) {
        // SAFETY: as for `store`; portable code has no other kind of store.
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn splat(x: T) -> Self {
        Self([x; N])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        let mut x = self;
        let mut i = 0;
        while i < N {
            x.0[i] = x.0[i].add(other.0[i]);
            i += 1;
        }
        x
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        let mut x = self;
        let mut i = 0;
        while i < N {
            x.0[i] = x.0[i].mul(other.0[i]);
            i += 1;
        }
        x
    }
}

/// Implements a vector with intrinsics of these names; `$more` are the methods that differ between
/// instruction sets.
macro_rules! vector {
    ($vector:ty: [$scalar:ty; $lanes:literal], $load:ident, $store:ident, $splat:ident, $add:ident,
     $mul:ident; $($more:item)*) => {
        impl Vector for $vector {
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn load(from: *const $scalar) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $scalar) {
                // SAFETY: guaranteed by the caller.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn splat(x: $scalar) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { $mul(self, other) }
            }
            $($more)*
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    /// Extends `vector!` with the intrinsics of streaming stores and, if there is one, of fused
    /// multiply-add.
    macro_rules! x86_vector {
        ($vector:ty: [$scalar:ty; $lanes:literal], $load:ident, $store:ident, $splat:ident,
         $add:ident, $mul:ident; stream $stream:ident $(, fma $fma:ident)?) => {
            vector! {
                $vector: [$scalar; $lanes], $load, $store, $splat, $add, $mul;
                #[inline(always)]
                unsafe fn stream(self, to: *mut $scalar) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $stream(to, self) }
                }
                $(#[inline(always)]
                unsafe fn mul_add(self, x: Self, y: Self) -> Self {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $fma(self, x, y) }
                })?
                #[inline(always)]
                unsafe fn prefetch<const FAR: bool>(from: *const $scalar) {
                    crate::prefetch::<FAR>(from.cast());
                }
                #[inline(always)]
                unsafe fn fence() {
                    // SAFETY: SSE is part of x86-64.
                    unsafe { _mm_sfence() }
                }
            }
        };
    }

    x86_vector!(__m128d: [f64; 2], _mm_loadu_pd, _mm_store_pd, _mm_set1_pd, _mm_add_pd, _mm_mul_pd;
        stream _mm_stream_pd);
    x86_vector!(__m128: [f32; 4], _mm_loadu_ps, _mm_store_ps, _mm_set1_ps, _mm_add_ps, _mm_mul_ps;
        stream _mm_stream_ps);
    x86_vector!(__m256d: [f64; 4], _mm256_loadu_pd, _mm256_store_pd, _mm256_set1_pd, _mm256_add_pd,
        _mm256_mul_pd; stream _mm256_stream_pd);
    x86_vector!(__m256: [f32; 8], _mm256_loadu_ps, _mm256_store_ps, _mm256_set1_ps, _mm256_add_ps,
        _mm256_mul_ps; stream _mm256_stream_ps);
    x86_vector!(__m512d: [f64; 8], _mm512_loadu_pd, _mm512_store_pd, _mm512_set1_pd, _mm512_add_pd,
        _mm512_mul_pd; stream _mm512_stream_pd, fma _mm512_fmadd_pd);
    x86_vector!(__m512: [f32; 16], _mm512_loadu_ps, _mm512_store_ps, _mm512_set1_ps, _mm512_add_ps,
        _mm512_mul_ps; stream _mm512_stream_ps, fma _mm512_fmadd_ps);
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::Vector;
    use std::arch::aarch64::*;

    /// Extends `vector!` with the intrinsic of fused multiply-add.
    macro_rules! neon_vector {
        ($vector:ty: [$scalar:ty; $lanes:literal], $load:ident, $store:ident, $splat:ident,
         $add:ident, $mul:ident; fma $fma:ident) => {
            vector! {
                $vector: [$scalar; $lanes], $load, $store, $splat, $add, $mul;
                // Arm's cores detect streams of full-line stores themselves (write streaming), and
                // STNP is only a hint that most ignore, so there is one kind of store.
                #[inline(always)]
                unsafe fn stream(self, to: *mut $scalar) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn prefetch<const FAR: bool>(from: *const $scalar) {
                    crate::prefetch::<FAR>(from.cast());
                }
                #[inline(always)]
                unsafe fn mul_add(self, x: Self, y: Self) -> Self {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $fma(y, self, x) }
                }
            }
        };
    }

    neon_vector!(float64x2_t: [f64; 2], vld1q_f64, vst1q_f64, vdupq_n_f64, vaddq_f64, vmulq_f64;
        fma vfmaq_f64);
    neon_vector!(float32x4_t: [f32; 4], vld1q_f32, vst1q_f32, vdupq_n_f32, vaddq_f32, vmulq_f32;
        fma vfmaq_f32);
}
