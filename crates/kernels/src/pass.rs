//! The loops, each written once: generic over the kernel, the vector, the kind of store, the unroll
//! and the prefetch. No timing, no allocation, no branch on configuration inside.
//!
//! All of them are made of one [`Pass::step`]: a long pass peels elements until its
//! destination is aligned, runs unrolled steps, and ends with single elements, so any length and any
//! offset of the arrays is right; a resident one goes over whole lines as often
//! as it is told, so that neither a call, a clock nor a barrier stands between two passes over a set
//! that fits a cache.

use super::entry::{Ahead, Args, LINE, Run};
use super::table::{ARRAYS, KernelSpec};
use super::vector::{Lanes, Scalar, Vector};
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

/// What a kernel does with vectors.
pub(super) trait Body {
    /// The kernel's row of the table.
    const SPEC: &'static KernelSpec;
    /// Which arrays it reads; a constant, so that no loop looks it up.
    const READS: [bool; ARRAYS] = Self::SPEC.reads_mask();
    /// The place of the array that it writes.
    const WRITES: Option<usize> = match Self::SPEC.writes {
        Some(array) => Some(array as usize),
        None => None,
    };
    /// Of a kernel that writes: what it writes, from the vectors of all arrays (only those that it
    /// reads hold anything) and `s`. Of a kernel that sums: the new sum, with the sum in the place of
    /// `s`.
    ///
    /// # Safety
    /// As for [`Vector`].
    unsafe fn value<V: Vector>(x: [V; ARRAYS], s: V) -> V;
}

/// The loops of kernel `B` with vectors `V`. `RESIDENT`: repeated over whole lines;
/// `NT`: streaming stores; `U`: vectors a step; `P`: distances at which lines are asked for, 0 to 2.
pub(super) struct Pass<V, B, const RESIDENT: bool, const NT: bool, const U: usize, const P: u8>(
    PhantomData<(V, B)>,
);

impl<V: Vector, B: Body, const RESIDENT: bool, const NT: bool, const U: usize, const P: u8> Run
    for Pass<V, B, RESIDENT, NT, U, P>
{
    #[inline(always)]
    unsafe fn run(args: &Args, ahead: Ahead) -> f64 {
        // SAFETY: the caller's promise.
        unsafe {
            match (RESIDENT, B::WRITES) {
                (true, _) => Self::repeated(args),
                (false, Some(array)) => Self::write_once(args, array, ahead),
                (false, None) => Self::sum_once(args, ahead),
            }
        }
    }
}

/// Steps that are summed in the element's own precision before the sum moves to `f64`: few enough
/// that a sum of equal `f32` keeps seven digits.
const STEPS_A_BLOCK: usize = 256;

/// Lanes of the widest vector. Lanes and sums are powers of two.
const MOST_LANES: usize = 16;

impl<V: Vector, B: Body, const RESIDENT: bool, const NT: bool, const U: usize, const P: u8>
    Pass<V, B, RESIDENT, NT, U, P>
{
    /// Elements a step.
    const STEP: usize = V::LANES * U;

    /// One step, from element `i` on: loads all vectors, then stores what the kernel makes of each, or
    /// adds it to a sum of its own.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`; each array that the kernel uses has `STEP`
    /// elements from `i` on; the array that it writes is there aligned to the vector, and no other
    /// thread uses it.
    #[inline(always)]
    unsafe fn step(at: &[*mut V::Scalar; ARRAYS], i: usize, s: V, sums: &mut [V; U]) {
        // SAFETY: the caller's promise.
        unsafe {
            let load = |i: usize| -> [V; ARRAYS] {
                std::array::from_fn(|k| if B::READS[k] { V::load(at[k].add(i)) } else { s })
            };
            let Some(array) = B::WRITES else {
                for (u, sum) in sums.iter_mut().enumerate() {
                    *sum = B::value(load(i + u * V::LANES), *sum);
                }
                return;
            };
            let mut x = [[s; ARRAYS]; U];
            for (u, x) in x.iter_mut().enumerate() {
                *x = load(i + u * V::LANES);
            }
            for (u, x) in x.into_iter().enumerate() {
                let to = at[array].add(i + u * V::LANES);
                let value = B::value(x, s);
                if NT {
                    value.stream(to);
                } else {
                    value.store(to);
                }
            }
        }
    }

    /// A step of single vectors of another kind, for what remains at the ends.
    ///
    /// # Safety
    /// As for [`Pass::step`] with that vector.
    #[inline(always)]
    unsafe fn single<W: Vector<Scalar = V::Scalar>>(
        at: &[*mut V::Scalar; ARRAYS],
        i: usize,
        s: W,
        sum: &mut W,
    ) {
        let mut sums = [*sum];
        // SAFETY: the caller's promise.
        unsafe { Pass::<W, B, RESIDENT, NT, 1, 0>::step(at, i, s, &mut sums) };
        [*sum] = sums;
    }

    /// Asks for the lines that one step will need: `P` 1 into level 1, `P` 2 also far ahead into
    /// level 2. The addresses need not exist.
    ///
    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    unsafe fn prefetch(at: &[*mut V::Scalar; ARRAYS], i: usize, ahead: Ahead) {
        if P == 0 {
            return;
        }
        for (at, _) in at.iter().zip(B::READS).filter(|(_, reads)| *reads) {
            let from = at.wrapping_add(i).cast::<u8>();
            let mut line = 0;
            while line < Self::STEP * size_of::<V::Scalar>() {
                // SAFETY: the caller's promise.
                unsafe {
                    V::prefetch::<false>(from.wrapping_add(line + ahead.near).cast());
                    if P == 2 {
                        V::prefetch::<true>(from.wrapping_add(line + ahead.far).cast());
                    }
                }
                line += LINE;
            }
        }
    }

    /// One pass of a kernel that writes `array`.
    ///
    /// # Safety
    /// As for [`Run`], with the promises of [`super::Variant::run`].
    #[inline(always)]
    unsafe fn write_once(args: &Args, array: usize, ahead: Ahead) -> f64 {
        let at: [*mut V::Scalar; ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let n = args.n;
        let scalar = V::Scalar::from_f64(args.scalar);
        // SAFETY: every index below is less than n; vector stores go to addresses that the head has
        // aligned; the rest is the caller's promise.
        unsafe {
            let (s, one) = (V::splat(scalar), Lanes::<V::Scalar, 1>::splat(scalar));
            let head = at[array].align_offset(size_of::<V>()).min(n);
            for i in 0..head {
                Self::single(&at, i, one, &mut { one });
            }
            let mut i = head;
            while n - i >= Self::STEP {
                Self::prefetch(&at, i, ahead);
                Self::step(&at, i, s, &mut [s; U]);
                i += Self::STEP;
            }
            for i in i..n {
                Self::single(&at, i, one, &mut { one });
            }
            if NT {
                V::fence();
            }
        }
        0.0
    }

    /// One pass of a kernel that sums; returns the sum.
    ///
    /// # Safety
    /// As for [`Pass::write_once`].
    #[inline(always)]
    unsafe fn sum_once(args: &Args, ahead: Ahead) -> f64 {
        let at: [*mut V::Scalar; ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let n = args.n;
        let zero = V::Scalar::from_f64(0.0);
        // Equal blocks round alike, so plain addition would drift with their number: compensated
        // summation (Kahan), once a block.
        let (mut total, mut carry) = (0.0, 0.0);
        // SAFETY: every index below is less than n; the rest is the caller's promise.
        unsafe {
            let (none, one) = (V::splat(zero), Lanes::<V::Scalar, 1>::splat(zero));
            let mut i = 0;
            while n - i >= Self::STEP {
                let block_end = i + ((n - i) / Self::STEP).min(STEPS_A_BLOCK) * Self::STEP;
                let mut sums = [none; U];
                while i < block_end {
                    Self::prefetch(&at, i, ahead);
                    Self::step(&at, i, none, &mut sums);
                    i += Self::STEP;
                }
                let term = sum_of(sums) - carry;
                let next: f64 = total + term;
                carry = (next - total) - term;
                total = next;
            }
            for i in i..n {
                let mut sum = one;
                Self::single(&at, i, one, &mut sum);
                total += sum_of([sum]);
            }
        }
        total
    }

    /// As many passes as are asked for over whole lines; the sums stay in registers between them.
    ///
    /// # Safety
    /// As for [`Run`], with the promises of [`super::Resident::run`].
    #[inline(always)]
    unsafe fn repeated(args: &Args) -> f64 {
        let at: [*mut V::Scalar; ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let (n, stepped) = (args.n, args.n - args.n % Self::STEP);
        // SAFETY: every index below is less than n, vectors start at multiples of their size; the rest
        // is the caller's promise.
        unsafe {
            let s = V::splat(V::Scalar::from_f64(args.scalar));
            let mut sums = [V::splat(V::Scalar::from_f64(0.0)); U];
            for _ in 0..args.repeats {
                let mut i = 0;
                while i < stepped {
                    Self::step(&at, i, s, &mut sums);
                    i += Self::STEP;
                }
                while i < n {
                    Self::single(&at, i, s, &mut sums[0]);
                    i += V::LANES;
                }
                // No pass may be merged with the next one.
                compiler_fence(Ordering::SeqCst);
            }
            if NT {
                V::fence();
            }
            sum_of(sums)
        }
    }
}

/// The sum of all lanes. Pairwise, so that few operations wait for one another: a block of a sum ends
/// within some tens of cycles, while the loads of the next are under way.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn sum_of<V: Vector, const U: usize>(mut sums: [V; U]) -> f64 {
    let mut left = U;
    // SAFETY: the caller's promise; a vector is its lanes, in order.
    unsafe {
        while left > 1 {
            left /= 2;
            for u in 0..left {
                sums[u] = sums[u].add(sums[u + left]);
            }
        }
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
        parts[0]
    }
}
