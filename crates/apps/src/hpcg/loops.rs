//! The loops over slices, compiled for each instruction set: products, and the two halves of a symmetric
//! Gauss-Seidel sweep in natural order.
//!
//! A sweep forward leaves in `t` what lies below the diagonal times x. Backward every row needs just that of
//! its lower neighbours, which it changes only later, so that half of the matrix is read again and not the
//! whole. From x = 0 nothing above the diagonal matters to a sweep forward.

use super::matrix::{LANES, Matrix, OUTER, SIDE, Shape};
use crate::code::{ask, multiply_add};

/// Eight rows.
type Lanes = [f64; LANES];

/// A loop.
type Loop = unsafe fn(&Matrix, *const f64, *mut f64, *mut f64);

/// The loops for an instruction set. Each takes a matrix, r or x, x or y, and t.
///
/// # Safety
/// The processor has the instruction set; vectors are as long as the matrix's shape says, of three different
/// arrays, which nobody else writes meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loops {
    pub isa: &'static str,
    /// Whether they ask for coefficients before they need them.
    pub ahead: bool,
    /// One sweep forward from x = 0 with right-hand side r: x, and t.
    pub forward_from_zero: Loop,
    /// One sweep forward with right-hand side r: x, and t.
    pub forward: Loop,
    /// One sweep backward behind one forward, whose t it takes.
    pub backward: Loop,
    /// y = A x; t is not used.
    pub product: Loop,
    /// r - A x at every other point in each direction, into t as a vector of the coarser grid.
    pub restrict: Loop,
}

macro_rules! loops {
    ($isa:literal, [$($feature:literal)?], $fma:literal, $ask:literal) => {{
        macro_rules! compiled {
            ($body:ident $generics:tt) => {{
                $(#[target_feature(enable = $feature)])?
                unsafe fn compiled(a: &Matrix, r: *const f64, x: *mut f64, t: *mut f64) {
                    // SAFETY: the caller's promise.
                    unsafe { compiled!(@call $body $generics)(a, r, x, t) }
                }
                compiled
            }};
            (@call $of:ident [from_zero]) => { $of::<$fma, $ask, true> };
            (@call $of:ident [full]) => { $of::<$fma, $ask, false> };
            (@call $of:ident []) => { $of::<$fma, $ask> };
        }
        Loops {
            isa: $isa,
            ahead: $ask,
            forward_from_zero: compiled!(forward [from_zero]),
            forward: compiled!(forward [full]),
            backward: compiled!(backward []),
            product: compiled!(product []),
            restrict: compiled!(restrict []),
        }
    }};
}

impl Loops {
    /// Those of the widest instruction set of this processor, without asking ahead and with.
    pub fn widest() -> [Self; 2] {
        Self::available().pop().unwrap_or_else(|| unreachable!("the baseline is always there"))
    }

    /// All that this processor has, the widest last.
    pub fn available() -> Vec<[Self; 2]> {
        macro_rules! both {
            ($($of:tt)*) => { [loops!($($of)*, false), loops!($($of)*, true)] };
        }
        #[allow(unused_mut, reason = "only some architectures have more")]
        let mut all = vec![both!("baseline", [], false)];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                all.push(both!("avx2", ["avx2,fma"], true));
            }
            if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512vl")
            {
                all.push(both!("avx512", ["avx512f,avx512vl,avx512dq,avx2,fma"], true));
            }
        }
        #[cfg(target_arch = "aarch64")]
        all.push(both!("neon", ["neon"], true));
        all
    }
}

/// Eight numbers from any address.
#[inline(always)]
unsafe fn load(from: *const f64) -> Lanes {
    // SAFETY: the caller's promise.
    unsafe { from.cast::<Lanes>().read_unaligned() }
}

/// The slots of a slice outside of it times x, in two sums so that no addition waits for the one before.
#[inline(always)]
unsafe fn outer<const FMA: bool, const ASK: bool, const BACKWARD: bool>(
    values: *const f64,
    columns: *const u32,
    x: *const f64,
) -> Lanes {
    let mut sums = [[0.0; LANES]; 2];
    for slot in 0..OUTER {
        ask::<ASK, BACKWARD>(values.wrapping_add(slot * LANES));
        // SAFETY: a slice has so many slots and columns, and a vector eight numbers from each column on.
        let (a, x) =
            unsafe { (load(values.add(slot * LANES)), load(x.add(*columns.add(slot) as usize))) };
        sums[slot % 2] = inner::<FMA>(a, x, sums[slot % 2]);
    }
    std::array::from_fn(|lane| sums[0][lane] + sums[1][lane])
}

/// Eight coefficients times eight numbers, added to a sum.
#[inline(always)]
fn inner<const FMA: bool>(a: Lanes, x: Lanes, sum: Lanes) -> Lanes {
    std::array::from_fn(|lane| multiply_add::<FMA>(a[lane], x[lane], sum[lane]))
}

#[inline(always)]
unsafe fn forward<const FMA: bool, const ASK: bool, const FROM_ZERO: bool>(
    a: &Matrix,
    r: *const f64,
    x: *mut f64,
    t: *mut f64,
) {
    let (points, slices) = (a.shape.grid[0], a.shape.slices());
    let (mut lower, mut upper) = (a.lower.at(0), a.upper.at(0));
    let (mut below, mut above) = (a.below.at(0), a.above.at(0));
    let mut inverse = a.inverse.at(0);
    // SAFETY: slices follow each other in the order of lines, and the lines lie within the vectors with room
    // for a slice on both sides; columns are of this shape.
    unsafe {
        for first in a.shape.lines() {
            let mut before = *x.add(first - 1);
            for slice in 0..slices {
                let at = first + slice * LANES;
                ask::<ASK, false>(lower.add(OUTER * LANES));
                ask::<ASK, false>(inverse);
                let below_x = outer::<FMA, ASK, false>(lower, below, x);
                let (west, scale, right) =
                    (load(lower.add(OUTER * LANES)), load(inverse), load(r.add(at)));
                let mut rest: Lanes = std::array::from_fn(|lane| right[lane] - below_x[lane]);
                if !FROM_ZERO {
                    ask::<ASK, false>(upper.add(OUTER * LANES));
                    let east = load(upper.add(OUTER * LANES));
                    let above_x = inner::<FMA>(
                        east,
                        load(x.add(at + 1)),
                        outer::<FMA, ASK, false>(upper, above, x),
                    );
                    rest = std::array::from_fn(|lane| rest[lane] - above_x[lane]);
                }
                let rest: Lanes = std::array::from_fn(|lane| rest[lane] * scale[lane]);
                let step: Lanes = std::array::from_fn(|lane| -west[lane] * scale[lane]);
                for lane in 0..LANES.min(points - slice * LANES) {
                    before = multiply_add::<FMA>(step[lane], before, rest[lane]);
                    *x.add(at + lane) = before;
                }
                let below_x = inner::<FMA>(west, load(x.add(at - 1)), below_x);
                t.add(at).cast::<Lanes>().write_unaligned(below_x);
                (lower, below) = (lower.add(SIDE * LANES), below.add(OUTER));
                (upper, above) = (upper.add(SIDE * LANES), above.add(OUTER));
                inverse = inverse.add(LANES);
            }
        }
    }
}

#[inline(always)]
unsafe fn backward<const FMA: bool, const ASK: bool>(
    a: &Matrix,
    r: *const f64,
    x: *mut f64,
    t: *mut f64,
) {
    let (points, slices) = (a.shape.grid[0], a.shape.slices());
    let all = a.shape.all_slices();
    let (mut upper, mut above) = (a.upper.at(all * SIDE * LANES), a.above.at(all * OUTER));
    let mut inverse = a.inverse.at(all * LANES);
    // SAFETY: as forward, from the end.
    unsafe {
        for first in a.shape.lines().rev() {
            let mut behind = *x.add(first + points);
            for slice in (0..slices).rev() {
                (upper, above) = (upper.sub(SIDE * LANES), above.sub(OUTER));
                inverse = inverse.sub(LANES);
                let at = first + slice * LANES;
                ask::<ASK, true>(upper.add(OUTER * LANES));
                ask::<ASK, true>(inverse);
                let above_x = outer::<FMA, ASK, true>(upper, above, x);
                let (east, scale) = (load(upper.add(OUTER * LANES)), load(inverse));
                let (right, below_x) = (load(r.add(at)), load(t.add(at)));
                let rest: Lanes = std::array::from_fn(|lane| {
                    (right[lane] - below_x[lane] - above_x[lane]) * scale[lane]
                });
                let step: Lanes = std::array::from_fn(|lane| -east[lane] * scale[lane]);
                for lane in (0..LANES.min(points - slice * LANES)).rev() {
                    behind = multiply_add::<FMA>(step[lane], behind, rest[lane]);
                    *x.add(at + lane) = behind;
                }
            }
        }
    }
}

/// The product of one slice with x.
#[inline(always)]
unsafe fn slice_product<const FMA: bool, const ASK: bool>(
    a: &Matrix,
    slice: usize,
    at: usize,
    x: *const f64,
) -> Lanes {
    // SAFETY: the caller's promise: the slice is there, and `at` is its place in vectors.
    unsafe {
        let (lower, upper) = (a.lower.at(slice * SIDE * LANES), a.upper.at(slice * SIDE * LANES));
        let below_x = outer::<FMA, ASK, false>(lower, a.below.at(slice * OUTER), x);
        let above_x = outer::<FMA, ASK, false>(upper, a.above.at(slice * OUTER), x);
        let sum = std::array::from_fn(|lane| below_x[lane] + above_x[lane]);
        let sum = inner::<FMA>(load(lower.add(OUTER * LANES)), load(x.add(at - 1)), sum);
        let sum = inner::<FMA>(load(upper.add(OUTER * LANES)), load(x.add(at + 1)), sum);
        inner::<FMA>(load(a.diagonal.at(slice * LANES)), load(x.add(at)), sum)
    }
}

#[inline(always)]
unsafe fn product<const FMA: bool, const ASK: bool>(
    a: &Matrix,
    x: *const f64,
    y: *mut f64,
    _: *mut f64,
) {
    let slices = a.shape.slices();
    for (line, first) in a.shape.lines().enumerate() {
        for slice in 0..slices {
            let at = first + slice * LANES;
            // SAFETY: as forward.
            unsafe {
                let row = slice_product::<FMA, ASK>(a, line * slices + slice, at, x);
                y.add(at).cast::<Lanes>().write_unaligned(row);
            }
        }
    }
}

#[inline(always)]
unsafe fn restrict<const FMA: bool, const ASK: bool>(
    a: &Matrix,
    r: *const f64,
    x: *mut f64,
    coarse: *mut f64,
) {
    let (slices, [_, y, _]) = (a.shape.slices(), a.shape.grid);
    let [points, of_plane, _] = a.shape.grid.map(|points| points / 2);
    let coarse_shape = Shape::new(a.shape.grid.map(|points| points / 2));
    for (line, to) in coarse_shape.lines().enumerate() {
        let [fine_y, fine_z] = [2 * (line % of_plane), 2 * (line / of_plane)];
        let first = a.shape.at([0, fine_y as isize, fine_z as isize]);
        for slice in 0..slices {
            let at = first + slice * LANES;
            let number = (fine_z * y + fine_y) * slices + slice;
            // SAFETY: as forward; the coarse vector has this line.
            unsafe {
                let row = slice_product::<FMA, ASK>(a, number, at, x);
                let from = slice * LANES / 2;
                for lane in 0..(LANES / 2).min(points - from) {
                    *coarse.add(to + from + lane) = *r.add(at + 2 * lane) - row[2 * lane];
                }
            }
        }
    }
}
