//! The loops. They are written once and are generic over the kernel, the vector, the kind of store, the unroll factor,
//! the pages side by side and the prefetch. They contain no timing, no allocation, and no branches that depend on the
//! configuration.
//!
//! The speed must not depend on decisions of the inliner. All functions are therefore `#[inline(always)]`. Closures and
//! iterators are not used, because they become separate functions if the compiler splits the crate.
//!
//! All loops consist of one [`PassLoops::step`]. A long pass has four phases: single elements until the destination is
//! aligned; groups of pages side by side (the same line of each page, then the next line); unrolled steps; and single
//! elements at the end. A long pass works for any length and any offset of the arrays. A resident loop repeats passes
//! over whole lines, so that no call, clock reading or barrier separates two passes over data in a cache.
//!
//! The bandwidth of a core is limited by the number of outstanding lines, and a hardware prefetcher follows an access
//! stream within a page of 4 KiB. With pages side by side, several prefetchers are active simultaneously. glibc's
//! `memcpy` of long ranges works in the same way (`large_memcpy_4x` in memmove-vec-unaligned-erms.S). Each walk covers
//! several successive pages before the next group begins. Arrays with different offsets do not begin at a page
//! boundary. With walks over a single page, prefetchers would therefore start twice per page (docs/kernels.md).

use super::entry::{AccessOrder, CACHE_LINE_BYTES, InlinedLoop, LoopArgs};
use super::table::{KernelSpec, MAX_ARRAYS};
use super::vector::{Lanes, Scalar, Vector};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

/// A kernel, defined by its operation on vectors.
pub(super) trait KernelBody {
    /// Row of the kernel in the table of kernels.
    const SPEC: &'static KernelSpec;
    /// True for each array that the kernel reads. The value is constant, so that loops need no lookup.
    const READS: [bool; MAX_ARRAYS] = Self::SPEC.reads_mask();
    /// Index of the array that the kernel writes; `None` for a kernel that sums.
    const WRITES: Option<usize> = match Self::SPEC.writes {
        Some(array) => Some(array as usize),
        None => None,
    };
    /// Returns the vector to write, from the scalar `s` and the vectors `x` of the arrays that the kernel reads. For a
    /// kernel that sums, returns the new sum, and `s` is the previous sum.
    ///
    /// # Safety
    /// The conditions of [`Vector`] must hold.
    unsafe fn value<V: Vector>(x: [V; MAX_ARRAYS], s: V) -> V;
}

/// Loops of kernel `B` with vectors `V`. The parameters are: `RESIDENT`, true for repeated passes over whole lines;
/// `NT`, true for non-temporal stores; `U`, vectors per step; `SIDE`, true for pages side by side; `P`, number of
/// prefetch distances, 0 to 2.
pub(super) struct PassLoops<
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
    B: KernelBody,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
> InlinedLoop for PassLoops<V, B, RESIDENT, NT, U, SIDE, P>
{
    #[inline(always)]
    unsafe fn run(args: &LoopArgs, way: AccessOrder) -> f64 {
        // SAFETY: the caller guarantees the conditions of this function.
        unsafe {
            match (RESIDENT, B::WRITES) {
                (true, _) => Self::repeated(args, way),
                (false, Some(array)) => Self::write_once(args, array, way),
                (false, None) => Self::sum_once(args, way),
            }
        }
    }
}

/// Number of steps that are summed in the precision of the elements before the sum is added to an `f64`. With this
/// number, a sum of equal `f32` numbers keeps seven digits.
pub(super) const STEPS_PER_BLOCK: usize = 256;

/// Number of lanes of the widest vector. All numbers of lanes and of partial sums are powers of two.
const MAX_LANES: usize = 16;

/// Distance between the pages that are traversed side by side, and length of each walk, bytes. It is four pages of 4
/// KiB, the unit of hardware prefetchers, regardless of the page size in memory.
pub(super) const PAGE_DISTANCE_BYTES: usize = 4 * 4096;

impl<
    V: Vector,
    B: KernelBody,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
> PassLoops<V, B, RESIDENT, NT, U, SIDE, P>
{
    /// Number of elements per step (iteration of an unrolled loop).
    const STEP: usize = V::LANES * U;
    /// Number of elements per cache line.
    const LINE: usize = CACHE_LINE_BYTES / size_of::<V::Scalar>();
    /// Number of elements per walk over successive pages.
    const SPAN: usize = PAGE_DISTANCE_BYTES / size_of::<V::Scalar>();

    /// Runs one step that begins at element `i`: loads all vectors, and then stores the results or adds each result to
    /// a separate sum.
    ///
    /// # Safety
    /// The processor must have the instruction set of `V`. Each array that the kernel uses must have `STEP` elements
    /// from `i` on. The array that the kernel writes must be aligned to the vector size at `i`, and no other thread may
    /// use it.
    #[inline(always)]
    unsafe fn step(at: &[*mut V::Scalar; MAX_ARRAYS], i: usize, s: V, sums: &mut [V; U]) {
        // SAFETY: the caller guarantees the conditions of this function.
        unsafe {
            let Some(array) = B::WRITES else {
                let mut u = 0;
                while u < U {
                    sums[u] = B::value(Self::load(at, i + u * V::LANES, s), sums[u]);
                    u += 1;
                }
                return;
            };
            let mut x = [[s; MAX_ARRAYS]; U];
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
                    value.store_nontemporal(to);
                } else {
                    value.store(to);
                }
                rest += 1;
            }
        }
    }

    /// Loads the vectors at element `i` of the arrays that the kernel reads; returns `s` for all other arrays.
    ///
    /// # Safety
    /// The conditions of [`PassLoops::step`] must hold.
    #[inline(always)]
    unsafe fn load(at: &[*mut V::Scalar; MAX_ARRAYS], i: usize, s: V) -> [V; MAX_ARRAYS] {
        let mut x = [s; MAX_ARRAYS];
        let mut k = 0;
        while k < MAX_ARRAYS {
            if B::READS[k] {
                // SAFETY: the caller guarantees the conditions of this function.
                x[k] = unsafe { V::load(at[k].add(i)) };
            }
            k += 1;
        }
        x
    }

    /// Traverses `pages` spans alternately: first one line of each span, then the next line of each span, for `lines`
    /// lines. The first span begins at element `i`.
    ///
    /// # Safety
    /// The conditions of [`PassLoops::step`] must hold for the elements of these lines.
    #[inline(always)]
    unsafe fn side_by_side(
        at: &[*mut V::Scalar; MAX_ARRAYS],
        mut i: usize,
        lines: usize,
        pages: usize,
        s: V,
        sums: &mut [V; U],
    ) {
        // The bound is hidden from the compiler, which would otherwise unroll the loop over a whole span.
        let end = std::hint::black_box(i + lines * Self::LINE);
        while i < end {
            let mut at_line = i;
            while at_line < i + pages * Self::SPAN {
                let mut k = 0;
                while k < Self::LINE {
                    // SAFETY: the caller guarantees the conditions of this function.
                    unsafe { Self::step(at, at_line + k, s, sums) };
                    k += Self::STEP;
                }
                at_line += Self::SPAN;
            }
            i += Self::LINE;
        }
    }

    /// Prefetches the lines of a later step into level 1 if `P` is 1. If `P` is 2, also prefetches lines farther ahead
    /// into level 2. Invalid addresses are ignored.
    ///
    /// # Safety
    /// The conditions of [`Vector`] must hold.
    #[inline(always)]
    unsafe fn prefetch(at: &[*mut V::Scalar; MAX_ARRAYS], i: usize, way: AccessOrder) {
        if P == 0 {
            return;
        }
        let mut k = 0;
        while k < MAX_ARRAYS {
            let from = at[k].wrapping_add(i).cast::<u8>();
            let mut line = 0;
            while B::READS[k] && line < Self::STEP * size_of::<V::Scalar>() {
                // SAFETY: the caller guarantees the conditions of this function.
                unsafe {
                    V::prefetch::<false>(from.wrapping_add(line + way.near).cast());
                    if P == 2 {
                        V::prefetch::<true>(from.wrapping_add(line + way.far).cast());
                    }
                }
                line += CACHE_LINE_BYTES;
            }
            k += 1;
        }
    }

    /// Runs one pass of a kernel that writes `array`.
    ///
    /// # Safety
    /// The conditions of [`InlinedLoop`] and of [`super::Variant::run`] must hold.
    #[inline(always)]
    unsafe fn write_once(args: &LoopArgs, array: usize, way: AccessOrder) -> f64 {
        let at: [*mut V::Scalar; MAX_ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let n = args.n;
        let scalar = V::Scalar::from_f64(args.scalar);
        // SAFETY: every index in this block is less than n, and the first loop aligns the addresses of vector stores;
        // the caller guarantees the other conditions.
        unsafe {
            let s = V::splat(scalar);
            // With pages side by side, a step covers a line of each page. The destination is then aligned to lines, so
            // that whole lines are written.
            let alignment = if SIDE { CACHE_LINE_BYTES } else { size_of::<V>() };
            let head = at[array].align_offset(alignment).min(n);
            if head > 0 {
                ends::<V::Scalar, B>(&at, 0..head, scalar);
            }
            let mut i = head;
            while SIDE && n - i >= way.pages * Self::SPAN {
                Self::side_by_side(
                    &at,
                    i,
                    PAGE_DISTANCE_BYTES / CACHE_LINE_BYTES,
                    way.pages,
                    s,
                    &mut [s; U],
                );
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
    /// The conditions of [`PassLoops::write_once`] must hold.
    #[inline(always)]
    unsafe fn sum_once(args: &LoopArgs, way: AccessOrder) -> f64 {
        let at: [*mut V::Scalar; MAX_ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let n = args.n;
        let zero = V::Scalar::from_f64(0.0);
        // The sums of blocks are added with compensated summation (Kahan). If all blocks are equal, plain additions
        // would round in the same direction, and the error would grow with the number of blocks.
        let mut total = CompensatedSum::default();
        // SAFETY: every index in this block is less than n; the caller guarantees the other conditions.
        unsafe {
            let none = V::splat(zero);
            let mut i = 0;
            while SIDE && n - i >= way.pages * Self::SPAN {
                let max = STEPS_PER_BLOCK / (way.pages * (Self::LINE / Self::STEP)).max(1);
                let lines =
                    1 << max.max(1).ilog2().min((PAGE_DISTANCE_BYTES / CACHE_LINE_BYTES).ilog2());
                let mut line = 0;
                while line < PAGE_DISTANCE_BYTES / CACHE_LINE_BYTES {
                    let mut sums = [none; U];
                    let first = i + line * Self::LINE;
                    Self::side_by_side(&at, first, lines, way.pages, none, &mut sums);
                    total.add(lane_sum(sums));
                    line += lines;
                }
                i += way.pages * Self::SPAN;
            }
            while n - i >= Self::STEP {
                let block_end = i + ((n - i) / Self::STEP).min(STEPS_PER_BLOCK) * Self::STEP;
                let mut sums = [none; U];
                while i < block_end {
                    Self::prefetch(&at, i, way);
                    Self::step(&at, i, none, &mut sums);
                    i += Self::STEP;
                }
                total.add(lane_sum(sums));
            }
            total.add(ends::<V::Scalar, B>(&at, i..n, zero));
        }
        total.sum
    }

    /// Runs `repeats` passes over whole lines. Sums stay in registers between passes.
    ///
    /// # Safety
    /// The conditions of [`InlinedLoop`] and of [`super::ResidentLoop::run`] must hold.
    #[inline(always)]
    unsafe fn repeated(args: &LoopArgs, way: AccessOrder) -> f64 {
        let at: [*mut V::Scalar; MAX_ARRAYS] = args.at.map(|at| at.as_ptr().cast());
        let n = args.n;
        let stepped = n - n % Self::STEP;
        // SAFETY: every index in this block is less than n, and vectors start at multiples of their size; the caller
        // guarantees the other conditions.
        unsafe {
            let s = V::splat(V::Scalar::from_f64(args.scalar));
            let mut sums = [V::splat(V::Scalar::from_f64(0.0)); U];
            for _ in 0..args.repeats {
                let mut i = 0;
                while SIDE && n - i >= way.pages * Self::SPAN {
                    Self::side_by_side(
                        &at,
                        i,
                        PAGE_DISTANCE_BYTES / CACHE_LINE_BYTES,
                        way.pages,
                        s,
                        &mut sums,
                    );
                    i += way.pages * Self::SPAN;
                }
                while i < stepped {
                    Self::step(&at, i, s, &mut sums);
                    i += Self::STEP;
                }
                while i < n {
                    let mut one = [sums[0]];
                    PassLoops::<V, B, RESIDENT, NT, 1, false, 0>::step(&at, i, s, &mut one);
                    [sums[0]] = one;
                    i += V::LANES;
                }
                // The fence prevents the compiler from merging two passes into one.
                compiler_fence(Ordering::SeqCst);
            }
            if NT {
                V::fence();
            }
            lane_sum(sums)
        }
    }
}

/// Compensated sum (Kahan): the sum so far, and its rounding error.
#[derive(Default)]
pub(super) struct CompensatedSum {
    pub sum: f64,
    carry: f64,
}

impl CompensatedSum {
    #[inline(always)]
    pub fn add(&mut self, block: f64) {
        let term = block - self.carry;
        let next = self.sum + term;
        self.carry = (next - self.sum) - term;
        self.sum = next;
    }
}

/// Runs a kernel element by element at the ends of a long pass: before the destination is aligned, and after the last
/// step. Returns the sum. The function is not inlined, so that all loops of a kernel share it.
///
/// # Safety
/// The conditions of [`PassLoops::step`] must hold for these elements.
#[inline(never)]
unsafe fn ends<T: Scalar, B: KernelBody>(
    at: &[*mut T; MAX_ARRAYS],
    range: Range<usize>,
    s: T,
) -> f64 {
    let mut total = 0.0;
    for i in range {
        // SAFETY: the caller guarantees the conditions of this function; every processor supports this vector.
        unsafe {
            let s = Lanes::<T, 1>::splat(s);
            let mut sums = [s];
            PassLoops::<_, B, false, false, 1, false, 0>::step(at, i, s, &mut sums);
            total += lane_sum(sums);
        }
    }
    total
}

/// Returns the sum of all lanes. The lanes are added pairwise, so that the chain of dependent operations is short.
/// Adding up a block thus takes only a few tens of cycles, during which the loads of the next block proceed.
///
/// # Safety
/// The conditions of [`Vector`] must hold.
#[inline(always)]
unsafe fn lane_sum<V: Vector, const U: usize>(mut sums: [V; U]) -> f64 {
    let mut left = U;
    // SAFETY: the caller guarantees the conditions of this function; a vector consists of its lanes, in order.
    unsafe {
        while left > 1 {
            left /= 2;
            for u in 0..left {
                sums[u] = sums[u].add(sums[u + left]);
            }
        }
        let lanes: *const V::Scalar = std::ptr::from_ref(&sums[0]).cast();
        let mut parts = [0.0; MAX_LANES];
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
