//! Loops over slices, compiled for each instruction set: products, and the two halves of a symmetric Gauss-Seidel sweep
//! in natural order.
//!
//! A forward sweep stores in `t` the product of x and the part of the matrix below the diagonal. The backward sweep
//! needs this product in every row; it is still valid there, because the sweep changes the neighbours below the
//! diagonal only later. The backward sweep therefore reads only half of the matrix. In a forward sweep from x = 0, the
//! part above the diagonal contributes nothing.

use super::matrix::{LANES, Matrix, OUTER_SLOTS, SIDE_SLOTS, VectorShape};
use crate::code::{compiled, prefetch_ahead};
use nodegauge_kernels::isa::{InstructionSet, multiply_add};

/// Values of the eight rows of a slice.
type Lanes = [f64; LANES];

compiled! {
    /// Runs a forward sweep from x = 0 with right-hand side r; computes x and t.
    ///
    /// # Safety
    /// The processor must support the instruction set. The vectors must have the shape of the matrix and must not
    /// overlap. No other code may use the vectors during the call.
    forward_from_zero = forward_from_zero_body(a: &Matrix, r: *const f64, x: *mut f64, t: *mut f64)
}

compiled! {
    /// Runs a forward sweep with right-hand side r; computes x and t.
    ///
    /// # Safety
    /// The requirements of [`forward_from_zero`] apply.
    forward = forward_full_body(a: &Matrix, r: *const f64, x: *mut f64, t: *mut f64)
}

compiled! {
    /// Runs a backward sweep, which uses the vector t of the preceding forward sweep.
    ///
    /// # Safety
    /// The requirements of [`forward_from_zero`] apply.
    backward = backward_body(a: &Matrix, r: *const f64, x: *mut f64, t: *const f64)
}

compiled! {
    /// Computes `y = A x`.
    ///
    /// # Safety
    /// The requirements of [`forward_from_zero`] apply.
    product = product_body(a: &Matrix, x: *const f64, y: *mut f64)
}

compiled! {
    /// Computes `r - A x` at every other point in each direction, as a vector of the coarser grid.
    ///
    /// # Safety
    /// The requirements of [`forward_from_zero`] apply; `coarse` must have half the number of points in every
    /// direction.
    restrict = restrict_body(a: &Matrix, r: *const f64, x: *const f64, coarse: *mut f64)
}

/// Returns eight numbers from an unaligned address.
///
/// # Safety
/// Eight numbers must be readable at `from`.
#[inline(always)]
unsafe fn load(from: *const f64) -> Lanes {
    // SAFETY: the caller meets the requirements of this function.
    unsafe { from.cast::<Lanes>().read_unaligned() }
}

/// Returns the numbers of x in the eight columns of slot `slot`; slot [`OUTER_SLOTS`] contains the neighbours in the
/// same line.
///
/// # Safety
/// `columns` must contain the columns of the slice, and `x` must have a readable number at each of them.
#[inline(always)]
unsafe fn gather(columns: *const u32, slot: usize, x: *const f64) -> Lanes {
    // SAFETY: the caller guarantees that the columns exist and are within x.
    unsafe {
        let indices = columns.add(slot * LANES).cast::<[u32; LANES]>().read_unaligned();
        indices.map(|index| *x.add(index as usize))
    }
}

/// Returns the sum of the products of x and the coefficients in the slots whose columns are outside the slice. The sum
/// has two partial sums, so that additions need not wait for each other.
///
/// # Safety
/// The processor must support the instruction set. `values` and `columns` must be those of a slice, and `x` must
/// have its columns.
#[inline(always)]
unsafe fn outer<S: InstructionSet, const ASK: bool, const BACKWARD: bool>(
    values: *const f64,
    columns: *const u32,
    x: *const f64,
) -> Lanes {
    let mut sums = [[0.0; LANES]; 2];
    for slot in 0..OUTER_SLOTS {
        prefetch_ahead::<ASK, BACKWARD>(values.wrapping_add(slot * LANES));
        if slot % 2 == 0 {
            prefetch_ahead::<ASK, BACKWARD>(columns.wrapping_add(slot * LANES).cast());
        }
        // SAFETY: a slice has this many slots and columns, and a vector has the numbers of all columns.
        let (a, x) = unsafe { (load(values.add(slot * LANES)), gather(columns, slot, x)) };
        sums[slot % 2] = inner::<S>(a, x, sums[slot % 2]);
    }
    std::array::from_fn(|lane| sums[0][lane] + sums[1][lane])
}

/// Adds the products of eight coefficients and eight numbers to a sum.
#[inline(always)]
fn inner<S: InstructionSet>(a: Lanes, x: Lanes, sum: Lanes) -> Lanes {
    std::array::from_fn(|lane| multiply_add::<S>(a[lane], x[lane], sum[lane]))
}

/// Body of [`forward_from_zero`].
///
/// # Safety
/// The requirements of [`forward_from_zero`] apply.
#[inline(always)]
unsafe fn forward_from_zero_body<S: InstructionSet, const ASK: bool>(
    a: &Matrix,
    r: *const f64,
    x: *mut f64,
    t: *mut f64,
) {
    // SAFETY: the caller meets the requirements of this function.
    unsafe { forward_body::<S, ASK, true>(a, r, x, t) }
}

/// Body of [`forward`].
///
/// # Safety
/// The requirements of [`forward`] apply.
#[inline(always)]
unsafe fn forward_full_body<S: InstructionSet, const ASK: bool>(
    a: &Matrix,
    r: *const f64,
    x: *mut f64,
    t: *mut f64,
) {
    // SAFETY: the caller meets the requirements of this function.
    unsafe { forward_body::<S, ASK, false>(a, r, x, t) }
}

/// Body of [`forward_from_zero`] and [`forward`].
///
/// # Safety
/// The requirements of [`forward`] apply.
#[inline(always)]
unsafe fn forward_body<S: InstructionSet, const ASK: bool, const FROM_ZERO: bool>(
    a: &Matrix,
    r: *const f64,
    x: *mut f64,
    t: *mut f64,
) {
    let points = a.shape.grid[0];
    let slices = a.shape.slices_per_line();
    let mut lower = a.lower.at(0);
    let mut upper = a.upper.at(0);
    let mut below = a.below_columns.at(0);
    let mut above = a.above_columns.at(0);
    let mut inverse = a.inverse.at(0);
    // SAFETY: slices are in the order of lines. The lines are within the vectors, with at least one slice before and
    // after them. The columns are computed for this shape.
    unsafe {
        for first in a.shape.lines() {
            for slice in 0..slices {
                let at = first + slice * LANES;
                prefetch_ahead::<ASK, false>(lower.add(OUTER_SLOTS * LANES));
                prefetch_ahead::<ASK, false>(inverse);
                let below_x = outer::<S, ASK, false>(lower, below, x);
                let west = load(lower.add(OUTER_SLOTS * LANES));
                let scale = load(inverse);
                let right = load(r.add(at));
                let mut rest: Lanes = std::array::from_fn(|lane| right[lane] - below_x[lane]);
                if !FROM_ZERO {
                    prefetch_ahead::<ASK, false>(upper.add(OUTER_SLOTS * LANES));
                    let east = load(upper.add(OUTER_SLOTS * LANES));
                    let above_x = inner::<S>(
                        east,
                        gather(above, OUTER_SLOTS, x),
                        outer::<S, ASK, false>(upper, above, x),
                    );
                    rest = std::array::from_fn(|lane| rest[lane] - above_x[lane]);
                }
                let rest: Lanes = std::array::from_fn(|lane| rest[lane] * scale[lane]);
                let step: Lanes = std::array::from_fn(|lane| -west[lane] * scale[lane]);
                for lane in 0..LANES.min(points - slice * LANES) {
                    let before = *x.add(*below.add(OUTER_SLOTS * LANES + lane) as usize);
                    *x.add(at + lane) = multiply_add::<S>(step[lane], before, rest[lane]);
                }
                let below_x = inner::<S>(west, gather(below, OUTER_SLOTS, x), below_x);
                t.add(at).cast::<Lanes>().write_unaligned(below_x);
                (lower, below) = (lower.add(SIDE_SLOTS * LANES), below.add(SIDE_SLOTS * LANES));
                (upper, above) = (upper.add(SIDE_SLOTS * LANES), above.add(SIDE_SLOTS * LANES));
                inverse = inverse.add(LANES);
            }
        }
    }
}

/// Body of [`backward`].
///
/// # Safety
/// The requirements of [`backward`] apply.
#[inline(always)]
unsafe fn backward_body<S: InstructionSet, const ASK: bool>(
    a: &Matrix,
    r: *const f64,
    x: *mut f64,
    t: *const f64,
) {
    let points = a.shape.grid[0];
    let slices = a.shape.slices_per_line();
    let all = a.shape.slice_count();
    let mut upper = a.upper.at(all * SIDE_SLOTS * LANES);
    let mut above = a.above_columns.at(all * SIDE_SLOTS * LANES);
    let mut inverse = a.inverse.at(all * LANES);
    // SAFETY: the reasons of the forward sweep apply; this sweep starts at the end.
    unsafe {
        for first in a.shape.lines().rev() {
            for slice in (0..slices).rev() {
                (upper, above) = (upper.sub(SIDE_SLOTS * LANES), above.sub(SIDE_SLOTS * LANES));
                inverse = inverse.sub(LANES);
                let at = first + slice * LANES;
                prefetch_ahead::<ASK, true>(upper.add(OUTER_SLOTS * LANES));
                prefetch_ahead::<ASK, true>(inverse);
                let above_x = outer::<S, ASK, true>(upper, above, x);
                let east = load(upper.add(OUTER_SLOTS * LANES));
                let scale = load(inverse);
                let right = load(r.add(at));
                let below_x = load(t.add(at));
                let rest: Lanes = std::array::from_fn(|lane| {
                    (right[lane] - below_x[lane] - above_x[lane]) * scale[lane]
                });
                let step: Lanes = std::array::from_fn(|lane| -east[lane] * scale[lane]);
                for lane in (0..LANES.min(points - slice * LANES)).rev() {
                    let behind = *x.add(*above.add(OUTER_SLOTS * LANES + lane) as usize);
                    *x.add(at + lane) = multiply_add::<S>(step[lane], behind, rest[lane]);
                }
            }
        }
    }
}

/// Returns the product of one slice and x.
///
/// # Safety
/// The requirements of [`product`] apply, and the slice must exist.
#[inline(always)]
unsafe fn slice_product<S: InstructionSet, const ASK: bool>(
    a: &Matrix,
    slice: usize,
    at: usize,
    x: *const f64,
) -> Lanes {
    // SAFETY: the caller guarantees that the slice exists and that `at` is its position in vectors.
    unsafe {
        let lower = a.lower.at(slice * SIDE_SLOTS * LANES);
        let upper = a.upper.at(slice * SIDE_SLOTS * LANES);
        let below = a.below_columns.at(slice * SIDE_SLOTS * LANES);
        let above = a.above_columns.at(slice * SIDE_SLOTS * LANES);
        let below_x = outer::<S, ASK, false>(lower, below, x);
        let above_x = outer::<S, ASK, false>(upper, above, x);
        let sum = std::array::from_fn(|lane| below_x[lane] + above_x[lane]);
        let west = gather(below, OUTER_SLOTS, x);
        let east = gather(above, OUTER_SLOTS, x);
        let sum = inner::<S>(load(lower.add(OUTER_SLOTS * LANES)), west, sum);
        let sum = inner::<S>(load(upper.add(OUTER_SLOTS * LANES)), east, sum);
        inner::<S>(load(a.diagonal.at(slice * LANES)), load(x.add(at)), sum)
    }
}

/// Body of [`product`].
///
/// # Safety
/// The requirements of [`product`] apply.
#[inline(always)]
unsafe fn product_body<S: InstructionSet, const ASK: bool>(a: &Matrix, x: *const f64, y: *mut f64) {
    let slices = a.shape.slices_per_line();
    for (line, first) in a.shape.lines().enumerate() {
        for slice in 0..slices {
            let at = first + slice * LANES;
            // SAFETY: as in the forward sweep.
            unsafe {
                let row = slice_product::<S, ASK>(a, line * slices + slice, at, x);
                y.add(at).cast::<Lanes>().write_unaligned(row);
            }
        }
    }
}

/// Body of [`restrict`].
///
/// # Safety
/// The requirements of [`restrict`] apply.
#[inline(always)]
unsafe fn restrict_body<S: InstructionSet, const ASK: bool>(
    a: &Matrix,
    r: *const f64,
    x: *const f64,
    coarse: *mut f64,
) {
    let slices = a.shape.slices_per_line();
    let [_, y, _] = a.shape.grid;
    let [points, of_plane, _] = a.shape.grid.map(|points| points / 2);
    let coarse_shape = VectorShape::new(a.shape.grid.map(|extent| extent / 2));
    for (line, to) in coarse_shape.lines().enumerate() {
        let [fine_y, fine_z] = [2 * (line % of_plane), 2 * (line / of_plane)];
        let first = a.shape.at([0, fine_y as isize, fine_z as isize]);
        for slice in 0..slices {
            let at = first + slice * LANES;
            let number = (fine_z * y + fine_y) * slices + slice;
            // SAFETY: as in the forward sweep; the coarse vector has this line.
            unsafe {
                let row = slice_product::<S, ASK>(a, number, at, x);
                let from = slice * LANES / 2;
                for lane in 0..(LANES / 2).min(points - from) {
                    *coarse.add(to + from + lane) = *r.add(at + 2 * lane) - row[2 * lane];
                }
            }
        }
    }
}
