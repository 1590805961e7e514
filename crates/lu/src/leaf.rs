//! Small loops of the panel, for which a BLAS call has more overhead than work: search for a pivot, elimination of
//! one column, products of few columns, small triangular solves, and rows of the back-substitution.
//!
//! The loops are written once in plain Rust and compiled for every instruction set.

use nodegauge_kernels::isa::{InstructionSet, multiply_add};
use nodegauge_kernels::{Isa, dispatched};
use nodegauge_toolchain::blas::{ColumnMajor, ColumnMajorMut, ProductOperands};

/// Number of rows that are processed before the next column: 2 KiB of each column, so that about ten columns stay
/// in the level-1 cache.
const ROWS: usize = 256;

/// Operands of the elimination of one column; see [`eliminate`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct EliminationOperands {
    /// Elements of the pivot's column below the pivot, which are replaced by the multipliers.
    pub x: *mut f64,
    /// Elements of the next column in the same rows.
    pub rest: *mut f64,
    /// Distance between neighbouring columns, in elements.
    pub ld: usize,
    /// Number of rows below the pivot.
    pub rows: usize,
    /// Number of following columns.
    pub columns: usize,
    /// Elements of the pivot's row in the following columns.
    pub pivot_row: *const f64,
    /// Reciprocal of the pivot.
    pub inverse: f64,
}

/// Largest absolute value of a column, and the first row with it; the value is -1 if the column is empty or
/// contains only NaN.
pub(crate) type LargestValue = (f64, usize);

dispatched! {
    /// Returns the largest absolute value of `rows` values, and the first row with it.
    ///
    /// # Safety
    /// The processor must support the instruction set; `x` must point to `rows` values.
    pub(crate) unsafe fn find_largest(x: *const f64, rows: usize) -> LargestValue = largest_body;

    /// Computes `x *= inverse; rest -= x pivot_row`; returns the largest absolute value in the first column of `rest`.
    ///
    /// # Safety
    /// The processor must support the instruction set. The pointers must be valid for the given sizes, and no other
    /// thread may use the written memory.
    pub(crate) unsafe fn eliminate(job: EliminationOperands) -> LargestValue = eliminate_body;

    /// Computes `C -= A B` for few columns of A.
    ///
    /// # Safety
    /// The requirements of [`eliminate`] apply.
    pub(crate) unsafe fn update(job: ProductOperands) = update_body;

    /// Solves L X = B in place for n columns; L has the order m and ones on the diagonal. `size` is (m, n).
    ///
    /// # Safety
    /// The requirements of [`eliminate`] apply.
    pub(crate) unsafe fn solve(size: (usize, usize), l: ColumnMajor, b: ColumnMajorMut) = solve_body;
}

/// Number of values that are compared simultaneously.
const LANES: usize = 16;

#[inline(always)]
fn largest_in(x: &[f64]) -> f64 {
    let mut lanes = [-1.0f64; LANES];
    let (whole, tail) = x.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, element) in lanes.iter_mut().zip(chunk) {
            let magnitude = element.abs();
            *lane = if magnitude > *lane { magnitude } else { *lane };
        }
    }
    tail.iter()
        .map(|element| element.abs())
        .chain(lanes)
        .fold(-1.0, |a, b| if b > a { b } else { a })
}

/// Returns the first row of `x`, from `start` on, whose absolute value is `value`.
#[inline(always)]
fn row_with_value(x: &[f64], start: usize, value: f64) -> usize {
    start + x[start..].iter().position(|x| x.abs() == value).unwrap_or(0)
}

/// Body of [`find_largest`].
///
/// # Safety
/// The requirements of [`find_largest`] apply.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters, reason = "every dispatched body has one")]
unsafe fn largest_body<S: InstructionSet>(x: *const f64, rows: usize) -> LargestValue {
    // SAFETY: the caller meets the requirements of this function.
    let x = unsafe { std::slice::from_raw_parts(x, rows) };
    let mut best = -1.0;
    let mut at = 0;
    for start in (0..rows).step_by(ROWS) {
        let value = largest_in(&x[start..rows.min(start + ROWS)]);
        if value > best {
            (best, at) = (value, start);
        }
    }
    (best, if best < 0.0 { 0 } else { row_with_value(x, at, best) })
}

/// Body of [`eliminate`].
///
/// # Safety
/// The requirements of [`eliminate`] apply.
#[inline(always)]
unsafe fn eliminate_body<S: InstructionSet>(job: EliminationOperands) -> LargestValue {
    let EliminationOperands { x, rest, ld, rows, columns, pivot_row, inverse } = job;
    let mut best = -1.0;
    let mut at = 0;
    for start in (0..rows).step_by(ROWS) {
        let length = ROWS.min(rows - start);
        // SAFETY: the caller meets the requirements of this function; columns do not overlap, and every column is
        // borrowed separately.
        unsafe {
            let x = std::slice::from_raw_parts_mut(x.add(start), length);
            for element in &mut *x {
                *element *= inverse;
            }
            for column in 0..columns {
                let factor = -*pivot_row.add(column);
                let y = std::slice::from_raw_parts_mut(rest.add(column * ld + start), length);
                for (of_y, of_x) in y.iter_mut().zip(&*x) {
                    *of_y = multiply_add::<S>(*of_x, factor, *of_y);
                }
                if column == 0 {
                    let value = largest_in(y);
                    if value > best {
                        (best, at) = (value, start);
                    }
                }
            }
        }
    }
    if best < 0.0 {
        return (-1.0, 0);
    }
    // SAFETY: the best value is from this column.
    (best, row_with_value(unsafe { std::slice::from_raw_parts(rest, rows) }, at, best))
}

/// Updates a tile of the product with `R` rows and `C` columns in registers.
///
/// # Safety
/// The requirements of [`update`] apply, and the tile must be within the product.
#[inline(always)]
unsafe fn tile<S: InstructionSet, const R: usize, const C: usize>(
    job: &ProductOperands,
    i: usize,
    j: usize,
) {
    let ProductOperands { a: (a, lda), b: (b, ldb), c: (c, ldc), size: (.., depth) } = *job;
    // SAFETY: the caller meets the requirements of this function: R rows from i and C columns from j exist.
    unsafe {
        let at = |column: usize| c.add((j + column) * ldc + i).cast::<[f64; R]>();
        let mut sum = [[0.0f64; R]; C];
        for (column, column_node) in sum.iter_mut().enumerate() {
            *column_node = at(column).read_unaligned();
        }
        for p in 0..depth {
            let a = a.add(p * lda + i).cast::<[f64; R]>().read_unaligned();
            for (column, column_node) in sum.iter_mut().enumerate() {
                let b = -*b.add((j + column) * ldb + p);
                for (product, factor) in column_node.iter_mut().zip(a) {
                    *product = multiply_add::<S>(factor, b, *product);
                }
            }
        }
        for (column, column_node) in sum.iter().enumerate() {
            at(column).write_unaligned(*column_node);
        }
    }
}

/// Chooses the tile size that fills the registers of the instruction set: three vectors by eight or four columns, so
/// that registers remain for a strip of A and an element of B.
///
/// # Safety
/// The requirements of [`update`] apply.
#[inline(always)]
unsafe fn update_body<S: InstructionSet>(job: ProductOperands) {
    // SAFETY: the caller meets the requirements of this function.
    unsafe {
        match S::ISA {
            Isa::Avx512 => update_by_tiles::<S, 24, 8>(job),
            Isa::Avx2 => update_by_tiles::<S, 12, 4>(job),
            _ if cfg!(target_arch = "aarch64") => update_by_tiles::<S, 8, 6>(job),
            _ => update_by_tiles::<S, 4, 4>(job),
        }
    }
}

/// Updates the product by tiles of `R` rows and `C` columns.
///
/// # Safety
/// The requirements of [`update`] apply.
#[inline(always)]
unsafe fn update_by_tiles<S: InstructionSet, const R: usize, const C: usize>(job: ProductOperands) {
    let (m, n, _) = job.size;
    let rows = m - m % R;
    let columns = n - n % C;
    // SAFETY: the caller meets the requirements of this function; tiles cover each element exactly once.
    unsafe {
        // The outer loop runs over rows, so that a strip of A is read once and stays in the cache for all columns.
        for i in (0..rows).step_by(R) {
            for j in (0..columns).step_by(C) {
                tile::<S, R, C>(&job, i, j);
            }
            for j in columns..n {
                tile::<S, R, 1>(&job, i, j);
            }
        }
        for i in rows..m {
            for j in 0..n {
                tile::<S, 1, 1>(&job, i, j);
            }
        }
    }
}

/// Body of [`solve`].
///
/// # Safety
/// The requirements of [`solve`] apply.
#[inline(always)]
unsafe fn solve_body<S: InstructionSet>(
    (m, n): (usize, usize),
    (l, ldl): ColumnMajor,
    (b, ldb): ColumnMajorMut,
) {
    for column in 0..n {
        for i in 0..m {
            // SAFETY: the caller meets the requirements of this function; L and B are different matrices or different
            // columns of a matrix.
            unsafe {
                let x = -*b.add(column * ldb + i);
                let below = m - i - 1;
                let l = std::slice::from_raw_parts(l.add(i * ldl + i + 1), below);
                let y = std::slice::from_raw_parts_mut(b.add(column * ldb + i + 1), below);
                for (of_y, of_l) in y.iter_mut().zip(l) {
                    *of_y = multiply_add::<S>(*of_l, x, *of_y);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Sequence;

    fn numbers(n: usize) -> Vec<f64> {
        let mut out = vec![0.0; n];
        Sequence::new(n as u64).fill(0, &mut out);
        out
    }

    #[test]
    fn leaf_loops_match_plain_arithmetic() {
        for isa in Isa::dispatched() {
            for (m, n, k) in [(1, 1, 1), (24, 8, 3), (61, 13, 7), (300, 9, 33), (5, 20, 2)] {
                let (lda, ldb, ldc) = (m + 3, k + 1, m + 5);
                let (a, b, c) = (numbers(lda * k), numbers(ldb * n), numbers(ldc * n));
                let mut got = c.clone();
                let job = ProductOperands {
                    size: (m, n, k),
                    a: (a.as_ptr(), lda),
                    b: (b.as_ptr(), ldb),
                    c: (got.as_mut_ptr(), ldc),
                };
                // SAFETY: the vectors have the sizes given in `job`.
                unsafe { update(isa, job) };
                for j in 0..n {
                    for i in 0..ldc {
                        let sum: f64 =
                            (0..k).map(|p| a[p * lda + i.min(lda - 1)] * b[j * ldb + p]).sum();
                        let expected = c[j * ldc + i] - if i < m { sum } else { 0.0 };
                        assert!((got[j * ldc + i] - expected).abs() < 1e-13, "{m} {n} {k}");
                    }
                }
            }
        }
    }

    #[test]
    fn elimination_updates_column_and_finds_next_pivot() {
        for isa in Isa::dispatched() {
            for rows in [0, 1, 15, 256, 257, 1000] {
                let (ld, columns) = (rows + 2, 4);
                let before = numbers(ld * (columns + 1));
                let mut a = before.clone();
                let pivot_row = [0.5, -2.0, 0.25, 3.0];
                let x = a.as_mut_ptr();
                let job = EliminationOperands {
                    x,
                    rest: x.wrapping_add(ld),
                    ld,
                    rows,
                    columns,
                    pivot_row: pivot_row.as_ptr(),
                    inverse: 0.75,
                };
                // SAFETY: the vector contains five columns at the distance given in `job`.
                let (value, row) = unsafe { eliminate(isa, job) };
                for i in 0..rows {
                    let factor = before[i] * 0.75;
                    assert_eq!(a[i], factor);
                    for (j, pivot) in pivot_row.iter().enumerate() {
                        let at = (j + 1) * ld + i;
                        assert!((a[at] - (before[at] - factor * pivot)).abs() < 1e-15);
                    }
                }
                let next = &a[ld..ld + rows];
                let expected = next.iter().fold(-1.0, |largest: f64, b| largest.max(b.abs()));
                assert_eq!(value, expected);
                assert!(rows == 0 || next[row].abs() == expected);
                // SAFETY: `next` contains at least `rows` values.
                assert_eq!(unsafe { find_largest(isa, next.as_ptr(), rows) }, (value, row));
            }
        }
    }
}
