//! Loops, each written once and generic over the kernel, the vector, the kind of store, the unroll, the
//! pages walked side by side and the prefetch. They have no timing, no allocation, and no branch on
//! configuration.
//!
//! Loops must not depend on the inliner: functions are `#[inline(always)]`, and there are no closures and
//! no iterators, which become separate functions where the compiler splits the crate.
//!
//! All loops consist of one [`Pass::step`]. A long pass peels elements until its destination is aligned,
//! walks groups of pages side by side (the same line of each, then the next line), runs unrolled steps,
//! and ends with single elements, so that any length and any offset of the arrays works. A resident loop
//! repeats passes over whole lines, so that no call, clock or barrier separates two passes over a set that
//! fits a cache.
//!
//! A core's bandwidth is limited by its outstanding lines, and a hardware prefetcher follows an access
//! stream within a page of 4 KiB: pages side by side keep several prefetchers busy. glibc's `memcpy` of
//! long ranges works in the same way (`large_memcpy_4x` in memmove-vec-unaligned-erms.S). Each walk
//! continues into the following pages before the next group begins: page boundaries of staggered arrays
//! are in the middle of a walk, and walks of a single page would start every page twice
//! (docs/benchmarks.md).

use super::entry::{Args, InlinedLoop, LINE, Way};
use super::table::{ARRAYS, KernelSpec};
use super::vector::{Lanes, Scalar, Vector};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

/// Operation of a kernel on vectors.
pub(super) trait Body {
    /// Row of the kernel in the table.
    const SPEC: &'static KernelSpec;
    /// Arrays that the kernel reads; a constant, so that loops have no lookup.
    const READS: [bool; ARRAYS] = Self::SPEC.reads_mask();
    /// Index of the array that the kernel writes.
    const WRITES: Option<usize> = match Self::SPEC.writes {
        Some(array) => Some(array as usize),
        None => None,
    };
    /// For a kernel that writes: the vector to write, from the vectors of all arrays (only those of arrays
    /// that it reads are loaded) and `s`. For a kernel that sums: the new sum; `s` is the sum so far.
    ///
    /// # Safety
    /// The conditions of [`Vector`] hold.
    unsafe fn value<V: Vector>(x: [V; ARRAYS], s: V) -> V;
}

/// Loops of kernel `B` with vectors `V`. `RESIDENT`: repeated over whole lines;
/// `NT`: streaming stores; `U`: vectors per step; `SIDE`: pages side by side; `P`: number of prefetch
/// distances, 0 to 2.
pub(super) struct Pass<
    V,
    B,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
>(PhantomData<(V, B)>);

impl<
    V: Vector,
    B: Body,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
> InlinedLoop for Pass<V, B, RESIDENT, NT, U, SIDE, P>
{
    #[inline(always)]
    unsafe fn run(args: &Args, way: Way) -> f64 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match (RESIDENT, B::WRITES) {
                (true, _) => Self::repeated(args, way),
                (false, Some(array)) => Self::write_once(args, array, way),
                (false, None) => Self::sum_once(args, way),
            }
        }
    }
}

/// Number of steps summed in the element's own precision before the sum moves to `f64`: few enough
/// that a sum of equal `f32` keeps seven digits.
pub(super) const STEPS_A_BLOCK: usize = 256;

/// Number of lanes of the widest vector. Numbers of lanes and of sums are powers of two.
const MOST_LANES: usize = 16;

/// Distance between pages traversed side by side, and length of each walk, bytes: four pages as hardware prefetchers
/// see them, independent of the page size in memory.
pub(super) const SPAN: usize = 4 * 4096;

impl<
    V: Vector,
    B: Body,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
> Pass<V, B, RESIDENT, NT, U, SIDE, P>
{
    /// Number of elements per step.
    const STEP: usize = V::LANES * U;
    /// Number of elements per line.
    const LINE: usize = LINE / size_of::<V::Scalar>();
    /// Number of elements per span.
    const SPAN: usize = SPAN / size_of::<V::Scalar>();

    /// Runs one step from element `i` on: loads all vectors, then stores each result, or adds each to its own
    /// sum.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`; each array that the kernel uses has `STEP`
    /// elements from `i` on; the array that it writes is aligned to the vector at `i`, and no other
    /// thread uses it.
    #[inline(always)]
    unsafe fn step(at: &[*mut V::Scalar; ARRAYS], i: usize, s: V, sums: &mut [V; U]) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let Some(array) = B::WRITES else {
                let mut u = 0;
                while u < U {
                    sums[u] = B::value(Self::load(at, i + u * V::LANES, s), sums[u]);
                    u += 1;
                }
                return;
            };
            let mut x = [[s; ARRAYS]; U];
            let mut u = 0;
            while u < U {
                x[u] = Self::load(at, i + u * V::LANES, s);
                u += 1;
            }
            let mut rest = 0;
            while rest < U {
                let to = at[array].add(i + rest * V::LANES);
                let value = B::value(x[rest], s);
                if NT {
                    value.stream(to);
                } else {
                    value.store(to);
                }
                rest += 1;
            }
        }
    }

    /// Loads the vectors at element `i` of the arrays that the kernel reads; the others are `s`.
    ///
    /// # Safety
    /// The conditions of [`Pass::step`] hold.
    #[inline(always)]
    unsafe fn load(at: &[*mut V::Scalar; ARRAYS], i: usize, s: V) -> [V; ARRAYS] {
        let mut x = [s; ARRAYS];
        let mut k = 0;
        while k < ARRAYS {
            if B::READS[k] {
                // SAFETY: guaranteed by the caller.
                x[k] = unsafe { V::load(at[k].add(i)) };
            }
            k += 1;
        }
        x
    }

    /// Runs over the same line of each of `pages` spans, the first from element `i` on, then over the next
    /// line, for `lines` lines.
    ///
    /// # Safety
    /// The conditions of [`Pass::step`] hold for the elements of these lines.
    #[inline(always)]
    unsafe fn side_by_side(
        at: &[*mut V::Scalar; ARRAYS],
        mut i: usize,
        lines: usize,
        pages: usize,
        s: V,
        sums: &mut [V; U],
    ) {
        // A bound that is unknown to the compiler, which would otherwise unroll a whole span.
        let end = std::hint::black_box(i + lines * Self::LINE);
        while i < end {
            let mut at_line = i;
            while at_line < i + pages * Self::SPAN {
                let mut k = 0;
                while k < Self::LINE {
                    // SAFETY: guaranteed by the caller.
                    unsafe { Self::step(at, at_line + k, s, sums) };
                    k += Self::STEP;
                }
                at_line += Self::SPAN;
            }
            i += Self::LINE;
        }
    }

    /// Prefetches the lines of a later step: with `P` 1 into level 1, with `P` 2 also farther ahead into
    /// level 2. The addresses need not exist.
    ///
    /// # Safety
    /// The conditions of [`Vector`] hold.
    #[inline(always)]
    unsafe fn prefetch(at: &[*mut V::Scalar; ARRAYS], i: usize, way: Way) {
        if P == 0 {
            return;
        }
        let mut k = 0;
        while k < ARRAYS {
            let from = at[k].wrapping_add(i).cast::<u8>();
            let mut line = 0;
            while B::READS[k] && line < Self::STEP * size_of::<V::Scalar>() {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    V::prefetch::<false>(from.wrapping_add(line + way.near).cast());
                    if P == 2 {
                        V::prefetch::<true>(from.wrapping_add(line + way.far).cast());
                    }
                }
                line += LINE;
            }
            k += 1;
        }
    }

    /// Runs one pass of a kernel that writes `array`.
    ///
    /// # Safety
    /// The conditions of [`InlinedLoop`] and of [`super::Variant::run`] hold.
    #[inline(always)]
    unsafe fn write_once(args: &Args, array: usize, way: Way) -> f64 {
        let at: [*mut V::Scalar; ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let n = args.n;
        let scalar = V::Scalar::from_f64(args.scalar);
        // SAFETY: every index below is less than n; vector stores go to addresses that the head has
        // aligned; the rest is guaranteed by the caller.
        unsafe {
            let s = V::splat(scalar);
            // If a step covers a line of each page, whole lines of the destination are written.
            let alignment = if SIDE { LINE } else { size_of::<V>() };
            let head = at[array].align_offset(alignment).min(n);
            if head > 0 {
                ends::<V::Scalar, B>(&at, 0..head, scalar);
            }
            let mut i = head;
            while SIDE && n - i >= way.pages * Self::SPAN {
                Self::side_by_side(&at, i, SPAN / LINE, way.pages, s, &mut [s; U]);
                i += way.pages * Self::SPAN;
            }
            while n - i >= Self::STEP {
                Self::prefetch(&at, i, way);
                Self::step(&at, i, s, &mut [s; U]);
                i += Self::STEP;
            }
            if i < n {
                ends::<V::Scalar, B>(&at, i..n, scalar);
            }
            if NT {
                V::fence();
            }
        }
        0.0
    }

    /// Runs one pass of a kernel that sums; returns the sum.
    ///
    /// # Safety
    /// The conditions of [`Pass::write_once`] hold.
    #[inline(always)]
    unsafe fn sum_once(args: &Args, way: Way) -> f64 {
        let at: [*mut V::Scalar; ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let n = args.n;
        let zero = V::Scalar::from_f64(0.0);
        // Equal blocks round in the same direction, so plain addition would drift with their number:
        // compensated summation (Kahan), once per block.
        let mut total = Compensated::default();
        // SAFETY: every index below is less than n; the rest is guaranteed by the caller.
        unsafe {
            let none = V::splat(zero);
            let mut i = 0;
            while SIDE && n - i >= way.pages * Self::SPAN {
                let most = STEPS_A_BLOCK / (way.pages * (Self::LINE / Self::STEP)).max(1);
                let lines = 1 << most.max(1).ilog2().min((SPAN / LINE).ilog2());
                let mut line = 0;
                while line < SPAN / LINE {
                    let mut sums = [none; U];
                    let first = i + line * Self::LINE;
                    Self::side_by_side(&at, first, lines, way.pages, none, &mut sums);
                    total.add(sum_of(sums));
                    line += lines;
                }
                i += way.pages * Self::SPAN;
            }
            while n - i >= Self::STEP {
                let block_end = i + ((n - i) / Self::STEP).min(STEPS_A_BLOCK) * Self::STEP;
                let mut sums = [none; U];
                while i < block_end {
                    Self::prefetch(&at, i, way);
                    Self::step(&at, i, none, &mut sums);
                    i += Self::STEP;
                }
                total.add(sum_of(sums));
            }
            total.add(ends::<V::Scalar, B>(&at, i..n, zero));
        }
        total.sum
    }

    /// Runs the requested number of passes over whole lines; sums stay in registers between passes.
    ///
    /// # Safety
    /// The conditions of [`InlinedLoop`] and of [`super::Resident::run`] hold.
    #[inline(always)]
    unsafe fn repeated(args: &Args, way: Way) -> f64 {
        let at: [*mut V::Scalar; ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let (n, stepped) = (args.n, args.n - args.n % Self::STEP);
        // SAFETY: every index below is less than n, vectors start at multiples of their size; the rest
        // is guaranteed by the caller.
        unsafe {
            let s = V::splat(V::Scalar::from_f64(args.scalar));
            let mut sums = [V::splat(V::Scalar::from_f64(0.0)); U];
            for _ in 0..args.repeats {
                let mut i = 0;
                while SIDE && n - i >= way.pages * Self::SPAN {
                    Self::side_by_side(&at, i, SPAN / LINE, way.pages, s, &mut sums);
                    i += way.pages * Self::SPAN;
                }
                while i < stepped {
                    Self::step(&at, i, s, &mut sums);
                    i += Self::STEP;
                }
                while i < n {
                    let mut one = [sums[0]];
                    Pass::<V, B, RESIDENT, NT, 1, false, 0>::step(&at, i, s, &mut one);
                    [sums[0]] = one;
                    i += V::LANES;
                }
                // Passes must not be merged.
                compiler_fence(Ordering::SeqCst);
            }
            if NT {
                V::fence();
            }
            sum_of(sums)
        }
    }
}

/// Compensated sum (Kahan), which carries the rounding error along.
#[derive(Default)]
pub(super) struct Compensated {
    pub sum: f64,
    carry: f64,
}

impl Compensated {
    #[inline(always)]
    pub fn add(&mut self, block: f64) {
        let term = block - self.carry;
        let next = self.sum + term;
        self.carry = (next - self.sum) - term;
        self.sum = next;
    }
}

/// Runs a kernel element by element at the ends of a long pass, before its destination is aligned and after
/// its last step. Returns the sum. Not inlined: all loops of a kernel share it.
///
/// # Safety
/// The conditions of [`Pass::step`] hold for these elements.
#[inline(never)]
unsafe fn ends<T: Scalar, B: Body>(at: &[*mut T; ARRAYS], range: Range<usize>, s: T) -> f64 {
    let mut total = 0.0;
    for i in range {
        // SAFETY: guaranteed by the caller; every processor has this vector.
        unsafe {
            let s = Lanes::<T, 1>::splat(s);
            let mut sums = [s];
            Pass::<_, B, false, false, 1, false, 0>::step(at, i, s, &mut sums);
            total += sum_of(sums);
        }
    }
    total
}

/// Returns the sum of all lanes. Pairwise, so that few operations depend on each other: a block of a sum ends
/// within some tens of cycles, during which the loads of the next block proceed.
///
/// # Safety
/// The conditions of [`Vector`] hold.
#[inline(always)]
unsafe fn sum_of<V: Vector, const U: usize>(mut sums: [V; U]) -> f64 {
    let mut left = U;
    // SAFETY: guaranteed by the caller; a vector is its lanes, in order.
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
        let mut width = V::LANES;
        while width > 1 {
            width /= 2;
            for lane in 0..width {
                parts[lane] += parts[lane + width];
            }
        }
        parts[0]
    }
}
