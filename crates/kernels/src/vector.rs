//! Vectors of all instruction sets. They implement one trait, so that each kernel is written only once.
//!
//! Every method is `#[inline(always)]`, and becomes one instruction in a function with the required
//! `#[target_feature]`. The methods are `unsafe`, because calling them is undefined behaviour on a processor without
//! the feature.

use super::shape::Element;

/// Element of an array: `f64` or `f32`.
pub(super) trait Scalar: Copy + 'static {
    /// Type of the element.
    const ELEMENT: Element;
    /// Converts the scalar of the kernels to this type.
    fn from_f64(x: f64) -> Self;
    /// Converts the value to `f64`, the type of sums.
    fn to_f64(self) -> f64;
    /// Returns `self + other`.
    fn add(self, other: Self) -> Self;
    /// Returns `self * other`.
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

/// Vector register, which contains several elements.
///
/// # Safety
/// All methods require a processor with the vector's instruction set. `load` requires `LANES` readable elements;
/// `store` and `store_nontemporal` require `LANES` writable elements at an address that is a multiple of the vector's
/// size. Non-temporal stores become visible to other threads after [`Vector::fence`].
pub(super) trait Vector: Copy + 'static {
    /// Type of the elements.
    type Scalar: Scalar;
    /// Number of elements per vector.
    const LANES: usize;
    /// Loads a vector from any address.
    ///
    /// # Safety
    /// The processor must support the instruction set. `LANES` elements must be readable at `from`.
    unsafe fn load(from: *const Self::Scalar) -> Self;
    /// Stores the vector to an aligned address through the caches.
    ///
    /// # Safety
    /// The processor must support the instruction set. `LANES` elements must be writable at `to`, which must be a
    /// multiple of the size of the vector.
    unsafe fn store(self, to: *mut Self::Scalar);
    /// Stores the vector to an aligned address. The store bypasses the caches if the instruction set has such stores.
    ///
    /// # Safety
    /// The requirements of [`Vector::store`] apply.
    unsafe fn store_nontemporal(self, to: *mut Self::Scalar);
    /// Returns a vector with the same value in all lanes.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    unsafe fn splat(x: Self::Scalar) -> Self;
    /// Returns the sum of two vectors, lane by lane.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    unsafe fn add(self, other: Self) -> Self;
    /// Returns the product of two vectors, lane by lane.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    unsafe fn mul(self, other: Self) -> Self;
    /// Returns `self * x + y`, fused if the instruction set has fused multiply-add.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    unsafe fn mul_add(self, x: Self, y: Self) -> Self {
        // SAFETY: the caller guarantees the conditions of `Vector`.
        unsafe { self.mul(x).add(y) }
    }
    /// Prefetches the cache line at `from` into level 1; if `FAR` is true, into level 2. Any address is allowed; the
    /// processor ignores an invalid address.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    unsafe fn prefetch<const FAR: bool>(from: *const Self::Scalar) {
        let _ = from;
    }
    /// Makes all previous non-temporal stores visible to other threads.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    unsafe fn fence() {}
}

/// Portable vector: an array of lanes in plain code. The compiler may vectorise the code for the baseline of the
/// target.
#[derive(Clone, Copy)]
pub(super) struct Lanes<T, const N: usize>([T; N]);

impl<T: Scalar, const N: usize> Vector for Lanes<T, N> {
    type Scalar = T;
    const LANES: usize = N;
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller guarantees N readable elements; the address need not be aligned.
        Self(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller guarantees N writable elements.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_nontemporal(self, to: *mut T) {
        // SAFETY: the conditions are those of `store`; portable code has no non-temporal stores.
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

/// Implements a vector with the given intrinsics. `$more` contains the methods that differ between instruction sets.
macro_rules! vector {
    ($vector:ty: [$scalar:ty; $lanes:literal], $load:ident, $store:ident, $splat:ident, $add:ident,
     $mul:ident; $($more:item)*) => {
        impl Vector for $vector {
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn load(from: *const $scalar) -> Self {
                // SAFETY: the caller guarantees the conditions of `Vector`.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $scalar) {
                // SAFETY: the caller guarantees the conditions of `Vector`.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn splat(x: $scalar) -> Self {
                // SAFETY: the caller guarantees the conditions of `Vector`.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the conditions of `Vector`.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: the caller guarantees the conditions of `Vector`.
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

    /// Extends `vector!` with the intrinsics of non-temporal stores and, if there is one, of fused
    /// multiply-add.
    macro_rules! x86_vector {
        ($vector:ty: [$scalar:ty; $lanes:literal], $load:ident, $store:ident, $splat:ident,
         $add:ident, $mul:ident; stream $stream:ident $(, fma $fma:ident)?) => {
            vector! {
                $vector: [$scalar; $lanes], $load, $store, $splat, $add, $mul;
                #[inline(always)]
                unsafe fn store_nontemporal(self, to: *mut $scalar) {
                    // SAFETY: the caller guarantees the conditions of `Vector`.
                    unsafe { $stream(to, self) }
                }
                $(#[inline(always)]
                unsafe fn mul_add(self, x: Self, y: Self) -> Self {
                    // SAFETY: the caller guarantees the conditions of `Vector`.
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
                // Arm cores detect streams of full-line stores themselves (write streaming), and the instruction STNP
                // is only a hint that most cores ignore. Therefore there is only one kind of store.
                #[inline(always)]
                unsafe fn store_nontemporal(self, to: *mut $scalar) {
                    // SAFETY: the caller guarantees the conditions of `Vector`.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn prefetch<const FAR: bool>(from: *const $scalar) {
                    crate::prefetch::<FAR>(from.cast());
                }
                #[inline(always)]
                unsafe fn mul_add(self, x: Self, y: Self) -> Self {
                    // SAFETY: the caller guarantees the conditions of `Vector`.
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
