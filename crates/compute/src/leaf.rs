//! The small loops of the panel, for which a BLAS call costs more than it does: search of a pivot,
//! elimination of one column, products of few columns, small triangular solves, and rows of the
//! back-substitution.
//!
//! Each is written once in plain loops of fixed shape, and compiled for each instruction set; the
//! widest that this processor has is chosen once.

use nodegauge_toolchain::blas::{Columns, ColumnsMut, Product};

/// Rows that are worked on before the next column's turn: 2 KiB of a column, so that some ten
/// columns of them stay in level 1.
const ROWS: usize = 256;

/// What a step of elimination works on; see [`Leaf::eliminate`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elimination {
    /// The rows of the pivot's column below the pivot; becomes the multipliers.
    pub x: *mut f64,
    /// The same rows of the column behind it.
    pub rest: *mut f64,
    /// Distance of columns.
    pub ld: usize,
    /// Rows.
    pub rows: usize,
    /// Columns behind.
    pub columns: usize,
    /// The pivot's row in those columns.
    pub pivot_row: *const f64,
    /// One over the pivot.
    pub inverse: f64,
}

/// The largest absolute value of some rows, and the first row that has it; -1 of no rows or of
/// values that are no numbers.
pub(crate) type Largest = (f64, usize);

/// The loops for one instruction set.
///
/// # Safety
/// All functions need that instruction set and pointers to the sizes that are given, of which the
/// written ones belong to no other thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf {
    /// Searches `rows` values.
    pub largest: unsafe fn(*const f64, usize) -> Largest,
    /// `x *= inverse; rest -= x pivot_row`; returns the largest of the first column of `rest`.
    pub eliminate: unsafe fn(Elimination) -> Largest,
    /// `C -= A B` for few columns of A.
    pub update: unsafe fn(Product),
    /// Solves L X = B in place, L of order m with ones on the diagonal, for n columns.
    pub solve: unsafe fn((usize, usize), Columns, ColumnsMut),
}

/// The lanes of `N` values that are compared side by side.
const LANES: usize = 16;

#[inline(always)]
fn largest_in(x: &[f64]) -> f64 {
    let mut lanes = [-1.0f64; LANES];
    let (whole, tail) = x.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            let x = x.abs();
            *lane = if x > *lane { x } else { *lane };
        }
    }
    tail.iter().map(|x| x.abs()).chain(lanes).fold(-1.0, |a, b| if b > a { b } else { a })
}

/// The first row of `x` from `start` on whose absolute value is `value`.
#[inline(always)]
fn row_of(x: &[f64], start: usize, value: f64) -> usize {
    start + x[start..].iter().position(|x| x.abs() == value).unwrap_or(0)
}

#[inline(always)]
unsafe fn largest(x: *const f64, rows: usize) -> Largest {
    // SAFETY: the caller's promise.
    let x = unsafe { std::slice::from_raw_parts(x, rows) };
    let (mut best, mut at) = (-1.0, 0);
    for start in (0..rows).step_by(ROWS) {
        let value = largest_in(&x[start..rows.min(start + ROWS)]);
        if value > best {
            (best, at) = (value, start);
        }
    }
    (best, if best < 0.0 { 0 } else { row_of(x, at, best) })
}

#[inline(always)]
fn fused<const FMA: bool>(x: f64, y: f64, z: f64) -> f64 {
    if FMA { x.mul_add(y, z) } else { x * y + z }
}

#[inline(always)]
unsafe fn eliminate<const FMA: bool>(job: Elimination) -> Largest {
    let Elimination { x, rest, ld, rows, columns, pivot_row, inverse } = job;
    let (mut best, mut at) = (-1.0, 0);
    for start in (0..rows).step_by(ROWS) {
        let length = ROWS.min(rows - start);
        // SAFETY: the caller's promise; columns do not overlap, and each is borrowed by itself.
        unsafe {
            let x = std::slice::from_raw_parts_mut(x.add(start), length);
            for x in &mut *x {
                *x *= inverse;
            }
            for column in 0..columns {
                let factor = -*pivot_row.add(column);
                let y = std::slice::from_raw_parts_mut(rest.add(column * ld + start), length);
                for (y, x) in y.iter_mut().zip(&*x) {
                    *y = fused::<FMA>(*x, factor, *y);
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
    // SAFETY: a best value came from this column.
    (best, row_of(unsafe { std::slice::from_raw_parts(rest, rows) }, at, best))
}

/// A tile of `R` rows and `C` columns of the product, held in registers.
#[inline(always)]
unsafe fn tile<const FMA: bool, const R: usize, const C: usize>(job: &Product, i: usize, j: usize) {
    let Product { a: (a, lda), b: (b, ldb), c: (c, ldc), size: (.., depth) } = *job;
    // SAFETY: the caller's promise: R rows from i and C columns from j exist.
    unsafe {
        let at = |column: usize| c.add((j + column) * ldc + i).cast::<[f64; R]>();
        let mut sum = [[0.0f64; R]; C];
        for (column, sum) in sum.iter_mut().enumerate() {
            *sum = at(column).read_unaligned();
        }
        for p in 0..depth {
            let a = a.add(p * lda + i).cast::<[f64; R]>().read_unaligned();
            for (column, sum) in sum.iter_mut().enumerate() {
                let b = -*b.add((j + column) * ldb + p);
                for (sum, a) in sum.iter_mut().zip(a) {
                    *sum = fused::<FMA>(a, b, *sum);
                }
            }
        }
        for (column, sum) in sum.iter().enumerate() {
            at(column).write_unaligned(*sum);
        }
    }
}

#[inline(always)]
unsafe fn update<const FMA: bool, const R: usize, const C: usize>(job: Product) {
    let (m, n, _) = job.size;
    let (rows, columns) = (m - m % R, n - n % C);
    // SAFETY: the caller's promise; tiles cover what is there, and nothing twice.
    unsafe {
        // Rows outermost: a strip of A is read once and stays for all columns.
        for i in (0..rows).step_by(R) {
            for j in (0..columns).step_by(C) {
                tile::<FMA, R, C>(&job, i, j);
            }
            for j in columns..n {
                tile::<FMA, R, 1>(&job, i, j);
            }
        }
        for i in rows..m {
            for j in 0..n {
                tile::<FMA, 1, 1>(&job, i, j);
            }
        }
    }
}

#[inline(always)]
unsafe fn solve<const FMA: bool>((m, n): (usize, usize), (l, ldl): Columns, (b, ldb): ColumnsMut) {
    for column in 0..n {
        for i in 0..m {
            // SAFETY: the caller's promise; L and B are different matrices, or different columns.
            unsafe {
                let x = -*b.add(column * ldb + i);
                let below = m - i - 1;
                let l = std::slice::from_raw_parts(l.add(i * ldl + i + 1), below);
                let y = std::slice::from_raw_parts_mut(b.add(column * ldb + i + 1), below);
                for (y, l) in y.iter_mut().zip(l) {
                    *y = fused::<FMA>(*l, x, *y);
                }
            }
        }
    }
}

macro_rules! leaf {
    ([$($feature:literal)?], $fma:literal, $rows:literal, $columns:literal) => {{
        $(#[target_feature(enable = $feature)])?
        unsafe fn largest_here(x: *const f64, rows: usize) -> Largest {
            // SAFETY: the caller's promise.
            unsafe { largest(x, rows) }
        }
        $(#[target_feature(enable = $feature)])?
        unsafe fn eliminate_here(job: Elimination) -> Largest {
            // SAFETY: the caller's promise.
            unsafe { eliminate::<$fma>(job) }
        }
        $(#[target_feature(enable = $feature)])?
        unsafe fn update_here(job: Product) {
            // SAFETY: the caller's promise.
            unsafe { update::<$fma, $rows, $columns>(job) }
        }
        $(#[target_feature(enable = $feature)])?
        unsafe fn solve_here(
            size: (usize, usize),
            l: Columns,
            b: ColumnsMut,
        ) {
            // SAFETY: the caller's promise.
            unsafe { solve::<$fma>(size, l, b) }
        }
        Leaf {
            largest: largest_here,
            eliminate: eliminate_here,
            update: update_here,
            solve: solve_here,
        }
    }};
}

impl Leaf {
    /// The loops for the widest instruction set of this processor. Tiles fill its registers: three
    /// vectors by eight or four columns, and room for a strip of A and an element of B.
    pub(crate) fn detect() -> Self {
        Self::available().pop().unwrap_or_else(|| unreachable!("the baseline is always there"))
    }

    /// The loops for every instruction set of this processor, widest last.
    pub(crate) fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "only some architectures have more")]
        let mut all = vec![leaf!([], false, 4, 4)];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                all.push(leaf!(["avx2,fma"], true, 12, 4));
            }
            if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512vl")
            {
                all.push(leaf!(["avx512f,avx512vl,avx512dq,avx2,fma"], true, 24, 8));
            }
        }
        #[cfg(target_arch = "aarch64")]
        all.push(leaf!(["neon"], true, 8, 6));
        all
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
    fn every_set_of_loops_agrees_with_plain_arithmetic_at_every_edge() {
        for leaf in Leaf::available() {
            for (m, n, k) in [(1, 1, 1), (24, 8, 3), (61, 13, 7), (300, 9, 33), (5, 20, 2)] {
                let (lda, ldb, ldc) = (m + 3, k + 1, m + 5);
                let (a, b, c) = (numbers(lda * k), numbers(ldb * n), numbers(ldc * n));
                let mut got = c.clone();
                let job = Product {
                    size: (m, n, k),
                    a: (a.as_ptr(), lda),
                    b: (b.as_ptr(), ldb),
                    c: (got.as_mut_ptr(), ldc),
                };
                // SAFETY: the vectors hold these sizes.
                unsafe { (leaf.update)(job) };
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
    fn elimination_scales_updates_and_finds_the_next_pivot() {
        for leaf in Leaf::available() {
            for rows in [0, 1, 15, 256, 257, 1000] {
                let (ld, columns) = (rows + 2, 4);
                let before = numbers(ld * (columns + 1));
                let mut a = before.clone();
                let pivot_row = [0.5, -2.0, 0.25, 3.0];
                let x = a.as_mut_ptr();
                let job = Elimination {
                    x,
                    rest: x.wrapping_add(ld),
                    ld,
                    rows,
                    columns,
                    pivot_row: pivot_row.as_ptr(),
                    inverse: 0.75,
                };
                // SAFETY: the vector holds five columns of that distance.
                let (value, row) = unsafe { (leaf.eliminate)(job) };
                for i in 0..rows {
                    let factor = before[i] * 0.75;
                    assert_eq!(a[i], factor);
                    for (j, pivot) in pivot_row.iter().enumerate() {
                        let at = (j + 1) * ld + i;
                        assert!((a[at] - (before[at] - factor * pivot)).abs() < 1e-15);
                    }
                }
                let next = &a[ld..ld + rows];
                let largest = next.iter().fold(-1.0, |a: f64, b| a.max(b.abs()));
                assert_eq!(value, largest);
                assert!(rows == 0 || next[row].abs() == largest);
                // SAFETY: as many values as are given.
                assert_eq!(unsafe { (leaf.largest)(next.as_ptr(), rows) }, (value, row));
            }
        }
    }
}
