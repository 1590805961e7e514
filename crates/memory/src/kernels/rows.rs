//! The rows: one function for each kernel, element, instruction set, kind of store, unroll and
//! number of prefetch distances, each with the target feature that its vector needs.
//!
//! Unrolls 1 to 8 exist without prefetch; with prefetch only unroll 4, where a step covers whole
//! cache lines for every vector. Portable code has no prefetch.

use super::body::{self, Args};
use super::{Element, Isa, Kernel, Row, Stores};

/// One row: a function with the right target feature, and its description.
macro_rules! row {
    ($body:ident::<$vector:ty, $kernel:ident $(, $nt:literal)?>, [$($feature:tt)?], $isa:ident,
     $element:ident, $stores:ident, $unroll:literal, $prefetches:literal) => {{
        $(#[target_feature(enable = $feature)])?
        unsafe fn run(args: &Args) -> f64 {
            // SAFETY: the promise of `KernelFn`, which includes the instruction set.
            unsafe { body::$body::<$vector, body::$kernel $(, $nt)?, $unroll, $prefetches>(args) }
        }
        Row {
            name: concat!(
                stringify!($kernel), "_", stringify!($element), "_", stringify!($isa), "_",
                stringify!($stores), "_u", stringify!($unroll), "_p", stringify!($prefetches)
            ),
            kernel: Kernel::$kernel,
            element: Element::$element,
            isa: Isa::$isa,
            stores: Stores::$stores,
            unroll: $unroll,
            prefetches: $prefetches,
            run,
        }
    }};
}

/// All unrolls and prefetches of one kernel with one kind of store.
macro_rules! shapes {
    ($body:ident::<$vector:ty, $kernel:ident $(, $nt:literal)?>, $feature:tt, Portable,
     $element:ident, $stores:ident) => {
        &[
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, Portable, $element, $stores, 1, 0),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, Portable, $element, $stores, 2, 0),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, Portable, $element, $stores, 4, 0),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, Portable, $element, $stores, 8, 0),
        ]
    };
    ($body:ident::<$vector:ty, $kernel:ident $(, $nt:literal)?>, $feature:tt, $isa:ident,
     $element:ident, $stores:ident) => {
        &[
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, $isa, $element, $stores, 1, 0),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, $isa, $element, $stores, 2, 0),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, $isa, $element, $stores, 4, 0),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, $isa, $element, $stores, 8, 0),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, $isa, $element, $stores, 4, 1),
            row!($body::<$vector, $kernel $(, $nt)?>, $feature, $isa, $element, $stores, 4, 2),
        ]
    };
}

/// All kernels with one kind of store (`maps`), or those that store nothing (`sums`).
macro_rules! kernels {
    (maps $vector:ty, $feature:tt, $isa:ident, $element:ident, $stores:ident, $nt:literal) => {
        [
            shapes!(map::<$vector, Copy, $nt>, $feature, $isa, $element, $stores),
            shapes!(map::<$vector, Scale, $nt>, $feature, $isa, $element, $stores),
            shapes!(map::<$vector, Add, $nt>, $feature, $isa, $element, $stores),
            shapes!(map::<$vector, Triad, $nt>, $feature, $isa, $element, $stores),
            shapes!(map::<$vector, Write, $nt>, $feature, $isa, $element, $stores),
            shapes!(map::<$vector, Update, $nt>, $feature, $isa, $element, $stores),
            shapes!(map::<$vector, Nstream, $nt>, $feature, $isa, $element, $stores),
        ]
    };
    (sums $vector:ty, $feature:tt, $isa:ident, $element:ident) => {
        [
            shapes!(reduce::<$vector, Read>, $feature, $isa, $element, Regular),
            shapes!(reduce::<$vector, Dot>, $feature, $isa, $element, Regular),
        ]
    };
}

/// A list of groups, flattened.
const fn flatten<const N: usize>(groups: &[&[&'static [Row]]]) -> [&'static [Row]; N] {
    let mut flat: [&[Row]; N] = [&[]; N];
    let (mut filled, mut group) = (0, 0);
    while group < groups.len() {
        let mut row = 0;
        while row < groups[group].len() {
            flat[filled] = groups[group][row];
            filled += 1;
            row += 1;
        }
        group += 1;
    }
    assert!(filled == N, "the length of the table is the sum of its groups");
    flat
}

/// Rows of one instruction set without non-temporal stores: 7 maps and 2 sums for each element.
macro_rules! regular_only {
    ($isa:ident, $feature:tt, $f64:ty, $f32:ty) => {
        flatten::<18>(&[
            &kernels!(maps $f64, $feature, $isa, F64, Regular, false),
            &kernels!(sums $f64, $feature, $isa, F64),
            &kernels!(maps $f32, $feature, $isa, F32, Regular, false),
            &kernels!(sums $f32, $feature, $isa, F32),
        ])
    };
}

/// Rows of one instruction set with both kinds of store.
#[cfg(target_arch = "x86_64")]
macro_rules! both_stores {
    ($isa:ident, $feature:tt, $f64:ty, $f32:ty) => {
        flatten::<32>(&[
            &regular_only!($isa, $feature, $f64, $f32),
            &kernels!(maps $f64, $feature, $isa, F64, NonTemporal, true),
            &kernels!(maps $f32, $feature, $isa, F32, NonTemporal, true),
        ])
    };
}

/// Plain code for the target's baseline.
static PORTABLE: [&[Row]; 18] = regular_only!(
    Portable,
    [],
    super::vector::Lanes<f64, 8>,
    super::vector::Lanes<f32, 16>
);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Args, Element, Isa, Kernel, Row, Stores, body, flatten};
    use std::arch::x86_64::{__m128, __m128d, __m256, __m256d, __m512, __m512d};

    pub(super) static SSE2: [&[Row]; 32] = both_stores!(Sse2, ["sse2"], __m128d, __m128);
    pub(super) static AVX: [&[Row]; 32] = both_stores!(Avx, ["avx"], __m256d, __m256);
    pub(super) static AVX512: [&[Row]; 32] = both_stores!(Avx512, ["avx512f"], __m512d, __m512);
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Args, Element, Isa, Kernel, Row, Stores, body, flatten};
    use std::arch::aarch64::{float32x4_t, float64x2_t};

    pub(super) static NEON: [&[Row]; 18] = regular_only!(Neon, ["neon"], float64x2_t, float32x4_t);
}

/// Every group of rows that this target has.
#[cfg(target_arch = "x86_64")]
static GROUPS: [&[&[Row]]; 4] = [&PORTABLE, &x86::SSE2, &x86::AVX, &x86::AVX512];
#[cfg(target_arch = "aarch64")]
static GROUPS: [&[&[Row]]; 2] = [&PORTABLE, &arm::NEON];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
static GROUPS: [&[&[Row]]; 1] = [&PORTABLE];

/// All rows, in an order that does not matter.
pub(super) fn all() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|group| group.iter()).flat_map(|rows| rows.iter())
}
