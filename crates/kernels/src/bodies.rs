//! Operation of each kernel on vectors, and the loops of all kernels for one instruction set.

use super::builds::{LoopBuild, passes, residents};
use super::entry::VectorSet;
use super::pass::KernelBody;
use super::table::{KERNELS, Kernel, KernelSpec, MAX_ARRAYS};
use super::vector::Vector;

macro_rules! bodies {
    ($($kernel:ident: |$x:pat_param, $s:pat_param| $value:expr;)*) => {
        $(
            pub(super) struct $kernel;
            impl KernelBody for $kernel {
                const SPEC: &'static KernelSpec = &KERNELS[Kernel::$kernel as usize];
                #[inline(always)]
                unsafe fn value<V: Vector>($x: [V; MAX_ARRAYS], $s: V) -> V {
                    // SAFETY: the caller guarantees the conditions of `KernelBody::value`.
                    #[allow(unused_unsafe)]
                    unsafe { $value }
                }
            }
        )*

        /// Returns the loops of all kernels for one instruction set.
        pub(super) const fn all<I: VectorSet + 'static>() -> &'static [&'static [LoopBuild]] {
            const { &[$(
                passes::<I, I::F64, $kernel, false>(),
                passes::<I, I::F64, $kernel, true>(),
                passes::<I, I::F32, $kernel, false>(),
                passes::<I, I::F32, $kernel, true>(),
                residents::<I, $kernel, false>(),
                residents::<I, $kernel, true>(),
            )*] }
        }
    };
}

// Each body returns the vector to write, computed from the vectors of all arrays and the scalar `s`. The body of a
// kernel that sums returns the new sum, computed from the vectors and the previous sum.
bodies! {
    Copy: |[a, ..], _| a;
    Scale: |[_, _, c, _], s| s.mul(c);
    Add: |[a, b, ..], _| a.add(b);
    Triad: |[_, b, c, _], s| s.mul_add(c, b);
    Read: |[a, ..], sum| sum.add(a);
    Write: |_, s| s;
    Update: |[a, ..], s| s.mul(a);
    Dot: |[a, b, ..], sum| a.mul_add(b, sum);
    Nstream: |[a, b, c, _], s| a.add(s.mul_add(c, b));
    VectorTriad: |[a, b, c, _], _| b.mul_add(c, a);
    Axpy: |[a, b, ..], s| s.mul_add(b, a);
    Blend: |[_, b, c, d], s| s.mul_add(c, b).add(d);
}
