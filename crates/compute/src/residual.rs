//! Whether x solves A x = b: HPL's scaled residual,
//! `||A x - b||oo / (eps (||A||oo ||x||oo + ||b||oo) n)`, which must be below 16.
//!
//! The matrix is made a second time, column by column, since the factorisation has overwritten it.

use crate::matrix::Matrix;
use crate::random::Sequence;
use nodegauge_team::{Team, TeamError};
use std::ops::Range;

/// What HPL.dat has as threshold.
pub const THRESHOLD: f64 = 16.0;

/// The residual with its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// The scaled residual.
    pub value: f64,
    /// ||A x - b||oo.
    pub error: f64,
    /// ||A||oo.
    pub a: f64,
    /// ||x||oo.
    pub x: f64,
    /// ||b||oo.
    pub b: f64,
}

impl Residual {
    /// From its parts, for order `n`.
    pub fn new(n: usize, error: f64, a: f64, x: f64, b: f64) -> Self {
        // HPL's eps is the relative machine precision with rounding: 2^-53.
        let eps = f64::EPSILON / 2.0;
        Self { value: error / (eps * (a * x + b) * n as f64), error, a, x, b }
    }

    /// Whether x is a solution; no when the residual is not a number.
    pub fn passes(&self) -> bool {
        self.value < THRESHOLD
    }
}

/// What makes the matrix: called with a column's number and room for it; column n is b.
pub trait MatrixSource: Sync {
    /// Fills column `j`.
    fn column(&self, j: usize, out: &mut [f64]);
}

/// The random matrix.
impl MatrixSource for Sequence {
    fn column(&self, j: usize, out: &mut [f64]) {
        self.fill(j as u64 * out.len() as u64, out);
    }
}

/// A matrix that is given, by columns, with its right-hand side behind.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenSystem {
    /// Order.
    pub order: usize,
    /// The elements: order + 1 columns.
    pub elements: Vec<f64>,
}

impl MatrixSource for GivenSystem {
    fn column(&self, j: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.elements[j * self.order..(j + 1) * self.order]);
    }
}

/// Columns that a thread makes at once: whole huge pages' worth of neighbouring columns are first
/// touched by one thread, and spread over all, as the factorisation uses them.
const COLUMNS: usize = 16;

/// Writes the matrix, each thread its columns in turn.
///
/// # Errors
/// When a thread fails.
pub fn fill(
    team: &mut Team,
    matrix: &mut Matrix,
    source: &impl MatrixSource,
) -> Result<(), TeamError> {
    let all = 0..matrix.order() + 1;
    fill_columns(team, matrix, source, all)
}

/// Elements that are written between looks at whether the user wants to end: some 0.1 s on the
/// slowest node with one thread.
const BETWEEN_LOOKS: usize = 32 << 20;

/// Writes the matrix unless `stop` says to end before it is whole; whether it is.
///
/// # Errors
/// When a thread fails.
pub(crate) fn fill_unless(
    team: &mut Team,
    matrix: &mut Matrix,
    source: &impl MatrixSource,
    mut stop: impl FnMut() -> bool,
) -> Result<bool, TeamError> {
    let (n, round) = (matrix.order(), COLUMNS * team.len().max(1));
    // Whole rounds, so that each thread gets the columns that it would get at once.
    let step = (BETWEEN_LOOKS / n.max(1)).next_multiple_of(round).max(round);
    for first in (0..n + 1).step_by(step) {
        if stop() {
            return Ok(false);
        }
        fill_columns(team, matrix, source, first..(first + step).min(n + 1))?;
    }
    Ok(true)
}

fn fill_columns(
    team: &mut Team,
    matrix: &mut Matrix,
    source: &impl MatrixSource,
    columns: Range<usize>,
) -> Result<(), TeamError> {
    struct Start(*mut f64);
    // SAFETY: threads write columns of their own.
    unsafe impl Sync for Start {}
    let start = Start(matrix.pointer());
    let (n, ld) = (matrix.order(), matrix.distance());
    team.run(|member| {
        let start = &start;
        let own = columns.start + member.index * COLUMNS..columns.end;
        for first in own.step_by(member.count * COLUMNS) {
            for j in first..(first + COLUMNS).min(columns.end) {
                // SAFETY: column j belongs to this thread and lies in the matrix, which is borrowed.
                let out = unsafe { std::slice::from_raw_parts_mut(start.0.add(j * ld), n) };
                source.column(j, out);
            }
        }
    })
}

/// The residual of `x` for the system that `source` makes.
///
/// # Errors
/// When a thread fails.
pub fn check(
    team: &mut Team,
    source: &impl MatrixSource,
    x: &[f64],
) -> Result<Residual, TeamError> {
    let n = x.len();
    let parts = team.map(|member| {
        let (mut product, mut sums, mut column) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for j in (member.index..n).step_by(member.count) {
            source.column(j, &mut column);
            for ((product, sum), a) in product.iter_mut().zip(&mut sums).zip(&column) {
                *product += a * x[j];
                *sum += a.abs();
            }
        }
        (product, sums)
    })?;
    let mut b = vec![0.0; n];
    source.column(n, &mut b);
    let largest = |values: &mut dyn Iterator<Item = f64>| {
        // A value that is no number is the largest, so that it cannot hide.
        values.fold(0.0f64, |a, b| if b.is_nan() || a.is_nan() { f64::NAN } else { a.max(b.abs()) })
    };
    let product = |i: usize| parts.iter().map(|(product, _)| product[i]).sum::<f64>();
    let row_sum = |i: usize| parts.iter().map(|(_, sums)| sums[i]).sum::<f64>();
    let error = largest(&mut (0..n).map(|i| product(i) - b[i]));
    let a = largest(&mut (0..n).map(row_sum));
    let norm_x = largest(&mut x.iter().copied());
    let norm_b = largest(&mut b.iter().copied());
    Ok(Residual::new(n, error, a, norm_x, norm_b))
}
