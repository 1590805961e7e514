//! The loops, each written once: generic over the vector, the kind of store, the unroll and the
//! prefetch. No timing, no allocation, no branch on configuration inside.
//!
//! A loop peels elements until its destination is aligned, runs the unrolled main part, and ends
//! with a scalar tail, so any length and any offset of the arrays is right.

use super::vector::{Scalar, Vector};

/// What a kernel works on: one thread's share of the three arrays.
#[derive(Debug, Clone, Copy)]
pub struct Args {
    /// First element of this thread's share of `a`.
    pub a: *mut u8,
    /// The same of `b`.
    pub b: *mut u8,
    /// The same of `c`.
    pub c: *mut u8,
    /// Elements in the share.
    pub n: usize,
    /// The scalar `s`; STREAM's is 3.
    pub scalar: f64,
    /// How far ahead lines are asked into level 1, bytes; read by rows with prefetch only.
    pub near: usize,
    /// How far ahead lines are asked into level 2, bytes; read by rows with two distances only.
    pub far: usize,
}

/// An element-wise kernel: up to three sources, one destination.
pub(crate) trait Map {
    /// Sources read.
    const READS: usize;
    /// The sources, of which the first `READS` count, and the destination.
    fn pointers(args: &Args) -> ([*mut u8; 3], *mut u8);
    /// The value of one vector.
    ///
    /// # Safety
    /// As for [`Vector`].
    unsafe fn vector<V: Vector>(x: [V; 3], s: V) -> V;
    /// The value of one element.
    fn scalar<T: Scalar>(x: [T; 3], s: T) -> T;
}

/// A kernel that only reads and adds up.
pub(crate) trait Reduce {
    /// Sources read.
    const READS: usize;
    /// The sources, of which the first `READS` count.
    fn pointers(args: &Args) -> [*mut u8; 2];
    /// Adds one vector to the sum.
    ///
    /// # Safety
    /// As for [`Vector`].
    unsafe fn vector<V: Vector>(sum: V, x: [V; 2]) -> V;
    /// Adds one element to the sum.
    fn scalar<T: Scalar>(x: [T; 2]) -> f64;
}

macro_rules! maps {
    ($($name:ident: $reads:literal, ($args:ident) $sources:expr => $dest:expr,
       |$x:ident, $s:ident| vector $vector:expr, scalar $scalar:expr;)*) => {$(
        pub(crate) struct $name;
        impl Map for $name {
            const READS: usize = $reads;
            #[inline(always)]
            fn pointers($args: &Args) -> ([*mut u8; 3], *mut u8) {
                ($sources, $dest)
            }
            #[inline(always)]
            unsafe fn vector<V: Vector>($x: [V; 3], $s: V) -> V {
                let _ = ($x, $s);
                // SAFETY: the caller's promise.
                #[allow(unused_unsafe)]
                unsafe { $vector }
            }
            #[inline(always)]
            fn scalar<T: Scalar>($x: [T; 3], $s: T) -> T {
                let _ = ($x, $s);
                $scalar
            }
        }
    )*};
}

maps! {
    Copy: 1, (p) [p.a, p.a, p.a] => p.c, |x, s| vector x[0], scalar x[0];
    Scale: 1, (p) [p.c, p.c, p.c] => p.b, |x, s| vector s.mul(x[0]), scalar s.mul(x[0]);
    Add: 2, (p) [p.a, p.b, p.b] => p.c, |x, s| vector x[0].add(x[1]), scalar x[0].add(x[1]);
    Triad: 2, (p) [p.b, p.c, p.c] => p.a,
        |x, s| vector s.mul_add(x[1], x[0]), scalar x[0].add(s.mul(x[1]));
    Write: 0, (p) [p.c, p.c, p.c] => p.c, |x, s| vector s, scalar s;
    Update: 1, (p) [p.a, p.a, p.a] => p.a, |x, s| vector s.mul(x[0]), scalar s.mul(x[0]);
    Nstream: 3, (p) [p.b, p.c, p.a] => p.a,
        |x, s| vector x[2].add(s.mul_add(x[1], x[0])), scalar x[2].add(x[0].add(s.mul(x[1])));
}

/// `sum += a[i]`.
pub(crate) struct Read;
impl Reduce for Read {
    const READS: usize = 1;
    #[inline(always)]
    fn pointers(args: &Args) -> [*mut u8; 2] {
        [args.a, args.a]
    }
    #[inline(always)]
    unsafe fn vector<V: Vector>(sum: V, x: [V; 2]) -> V {
        // SAFETY: the caller's promise.
        unsafe { sum.add(x[0]) }
    }
    #[inline(always)]
    fn scalar<T: Scalar>(x: [T; 2]) -> f64 {
        x[0].to_f64()
    }
}

/// `sum += a[i] * b[i]`.
pub(crate) struct Dot;
impl Reduce for Dot {
    const READS: usize = 2;
    #[inline(always)]
    fn pointers(args: &Args) -> [*mut u8; 2] {
        [args.a, args.b]
    }
    #[inline(always)]
    unsafe fn vector<V: Vector>(sum: V, x: [V; 2]) -> V {
        // SAFETY: the caller's promise.
        unsafe { x[0].mul_add(x[1], sum) }
    }
    #[inline(always)]
    fn scalar<T: Scalar>(x: [T; 2]) -> f64 {
        x[0].mul(x[1]).to_f64()
    }
}

/// Bytes in a cache line, for prefetching; 64 on every processor with a vector type above.
const LINE: usize = 64;

/// Prefetches the lines that one step of `source` will need: `P` 1 into level 1, `P` 2 also far
/// ahead into level 2.
///
/// # Safety
/// As for [`Vector`]; the addresses need not exist.
#[inline(always)]
unsafe fn prefetch<V: Vector, const P: u8>(source: *const V::Scalar, step: usize, args: &Args) {
    let mut line = 0;
    while line < step * size_of::<V::Scalar>() {
        let at = source.cast::<u8>().wrapping_add(line);
        // SAFETY: the caller's promise.
        unsafe {
            V::prefetch::<false>(at.wrapping_add(args.near).cast());
            if P == 2 {
                V::prefetch::<true>(at.wrapping_add(args.far).cast());
            }
        }
        line += LINE;
    }
}

/// Runs an element-wise kernel. `NT`: streaming stores; `U`: vectors a step; `P`: see [`prefetch`].
///
/// # Safety
/// The processor has the instruction set of `V`; each pointer that `K` uses leads to `args.n`
/// elements of `V::Scalar`, aligned to the element; the destination is writable and no other
/// thread uses it; sources and destination are the same address or do not overlap.
#[inline(always)]
pub(crate) unsafe fn map<V: Vector, K: Map, const NT: bool, const U: usize, const P: u8>(
    args: &Args,
) -> f64 {
    let (sources, dest) = K::pointers(args);
    let sources: [*const V::Scalar; 3] = sources.map(|p| p.cast_const().cast());
    let dest: *mut V::Scalar = dest.cast();
    let (n, step) = (args.n, V::LANES * U);
    let s = V::Scalar::from_f64(args.scalar);
    // SAFETY: every index below is less than n; vector stores go to addresses that the head has
    // aligned; the rest is the caller's promise.
    unsafe {
        let element = |i: usize| {
            let x = std::array::from_fn(|k| if k < K::READS { *sources[k].add(i) } else { s });
            *dest.add(i) = K::scalar(x, s);
        };
        let head = dest.align_offset(size_of::<V>()).min(n);
        for i in 0..head {
            element(i);
        }
        let vs = V::splat(s);
        let mut i = head;
        while n - i >= step {
            if P > 0 {
                for source in sources.iter().take(K::READS) {
                    prefetch::<V, P>(source.add(i), step, args);
                }
            }
            let mut x = [[vs; 3]; U];
            for (u, x) in x.iter_mut().enumerate() {
                for (k, x) in x.iter_mut().enumerate().take(K::READS) {
                    *x = V::load(sources[k].add(i + u * V::LANES));
                }
            }
            for (u, x) in x.into_iter().enumerate() {
                let to = dest.add(i + u * V::LANES);
                let value = K::vector(x, vs);
                if NT {
                    value.stream(to);
                } else {
                    value.store(to);
                }
            }
            i += step;
        }
        for i in i..n {
            element(i);
        }
        if NT {
            V::fence();
        }
    }
    0.0
}

/// Steps that are summed in the element's own precision before the sum moves to `f64`: few enough
/// that a sum of equal `f32` keeps seven digits.
const STEPS_A_BLOCK: usize = 256;

/// Lanes of the widest vector. Lanes and sums are powers of two.
const MOST_LANES: usize = 16;

/// Runs a summing kernel and returns the sum. `U`: independent sums; `P`: see [`prefetch`].
///
/// # Safety
/// As for [`map`], without a destination.
#[inline(always)]
pub(crate) unsafe fn reduce<V: Vector, K: Reduce, const U: usize, const P: u8>(args: &Args) -> f64 {
    let sources: [*const V::Scalar; 2] = K::pointers(args).map(|p| p.cast_const().cast());
    let (n, step) = (args.n, V::LANES * U);
    // Equal blocks round alike, so plain addition would drift with their number: compensated
    // summation (Kahan), once a block.
    let (mut total, mut carry) = (0.0, 0.0);
    // SAFETY: every index below is less than n; the rest is the caller's promise.
    unsafe {
        let zero = V::splat(V::Scalar::from_f64(0.0));
        let mut i = 0;
        while n - i >= step {
            let block_end = i + ((n - i) / step).min(STEPS_A_BLOCK) * step;
            let mut sums = [zero; U];
            while i < block_end {
                if P > 0 {
                    for source in sources.iter().take(K::READS) {
                        prefetch::<V, P>(source.add(i), step, args);
                    }
                }
                for (u, sum) in sums.iter_mut().enumerate() {
                    let x = std::array::from_fn(|k| {
                        if k < K::READS { V::load(sources[k].add(i + u * V::LANES)) } else { zero }
                    });
                    *sum = K::vector(*sum, x);
                }
                i += step;
            }
            // Pairwise, so that few operations wait for one another: a block ends within some tens of
            // cycles, while the loads of the next are under way.
            let mut left = U;
            while left > 1 {
                left /= 2;
                for u in 0..left {
                    sums[u] = sums[u].add(sums[u + left]);
                }
            }
            // A vector is its lanes, in order.
            let lanes: *const V::Scalar = std::ptr::from_ref(&sums[0]).cast();
            let mut parts = [0.0; MOST_LANES];
            for (lane, part) in parts.iter_mut().enumerate().take(V::LANES) {
                *part = (*lanes.add(lane)).to_f64();
            }
            let mut left = V::LANES;
            while left > 1 {
                left /= 2;
                for lane in 0..left {
                    parts[lane] += parts[lane + left];
                }
            }
            let term = parts[0] - carry;
            let next: f64 = total + term;
            carry = (next - total) - term;
            total = next;
        }
        for i in i..n {
            total += K::scalar(std::array::from_fn(|k| {
                if k < K::READS { *sources[k].add(i) } else { *sources[0].add(i) }
            }));
        }
    }
    total
}
