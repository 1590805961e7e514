//! Check that x solves A x = b: HPL's scaled residual,
//! `||A x - b||oo / (eps (||A||oo ||x||oo + ||b||oo) n)`, which must be below 16.
//!
//! The matrix is generated a second time, column by column, because the factorisation has overwritten it.

use crate::matrix::Matrix;
use crate::random::Sequence;
use nodegauge_team::{Team, TeamError};
use std::ops::Range;

/// Threshold of the residual in HPL.dat.
pub const THRESHOLD: f64 = 16.0;

/// HPL's scaled residual, with the norms from which it is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaledResidual {
    /// Scaled residual; NaN if x contains a NaN.
    pub value: f64,
    /// Norm ||A x - b||oo.
    pub error: f64,
    /// Norm ||A||oo.
    pub norm_a: f64,
    /// Norm ||x||oo.
    pub norm_x: f64,
    /// Norm ||b||oo.
    pub norm_b: f64,
}

impl ScaledResidual {
    /// True if the residual is below the threshold; false if it is not a number.
    pub fn passes(&self) -> bool {
        self.value < THRESHOLD
    }
}

/// Source of the matrix, column by column; column n is the right-hand side b.
pub trait MatrixSource: Sync {
    /// Writes the elements of column `j` to `out`.
    fn column(&self, j: usize, out: &mut [f64]);
}

/// Generates a random matrix from the sequence.
impl MatrixSource for Sequence {
    fn column(&self, j: usize, out: &mut [f64]) {
        self.fill(j as u64 * out.len() as u64, out);
    }
}

/// Number of neighbouring columns that one thread generates: enough for one thread to be the first to touch a whole
/// huge page, and few enough to spread the pages of a NUMA node over its threads.
const COLUMNS: usize = 16;

/// Number of elements written between two checks for an interruption. Writing them takes about 0.1 s with one thread on
/// the slowest node.
const ELEMENTS_UNCHECKED: usize = 32 << 20;

/// Writes the elements of the matrix; every thread writes different columns. Ends early if `stop` returns true. Returns
/// true if the matrix is complete.
///
/// # Errors
/// Fails if a thread fails.
pub fn fill(
    team: &mut Team,
    matrix: &mut Matrix,
    source: &dyn MatrixSource,
    stop: &mut dyn FnMut() -> bool,
) -> Result<bool, TeamError> {
    let n = matrix.order();
    let round = COLUMNS * team.len().max(1);
    // The step is a multiple of a round, so that all threads have work.
    let step = (ELEMENTS_UNCHECKED / n.max(1)).next_multiple_of(round).max(round);
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
    source: &dyn MatrixSource,
    columns: Range<usize>,
) -> Result<(), TeamError> {
    let view = matrix.view();
    let distribution = matrix.distribution();
    team.run(|member| {
        for j in distribution.thread_columns(member.index, member.count, columns.clone(), COLUMNS) {
            // SAFETY: only this thread writes column j, which lies in the borrowed matrix.
            let out = unsafe { std::slice::from_raw_parts_mut(view.at(0, j), view.n) };
            source.column(j, out);
        }
    })
}

/// Returns the residual of `x` for the system that `source` generates.
///
/// # Errors
/// Fails if a thread fails.
pub fn compute_residual(
    team: &mut Team,
    source: &dyn MatrixSource,
    x: &[f64],
) -> Result<ScaledResidual, TeamError> {
    let n = x.len();
    let parts = team.run_and_collect(|member| {
        let mut product = vec![0.0; n];
        let mut sums = vec![0.0; n];
        let mut column = vec![0.0; n];
        for j in (member.index..n).step_by(member.count) {
            source.column(j, &mut column);
            for ((entry, sum), a) in product.iter_mut().zip(&mut sums).zip(&column) {
                *entry += a * x[j];
                *sum += a.abs();
            }
        }
        (product, sums)
    })?;
    let mut b = vec![0.0; n];
    source.column(n, &mut b);
    let mut error = 0.0;
    let mut norm_a = 0.0;
    for (i, of_b) in b.iter().enumerate() {
        let product: f64 = parts.iter().map(|(product, _)| product[i]).sum();
        let row_sum: f64 = parts.iter().map(|(_, sums)| sums[i]).sum();
        error = larger(error, product - of_b);
        norm_a = larger(norm_a, row_sum);
    }
    let norm_x = x.iter().copied().fold(0.0, larger);
    let norm_b = b.iter().copied().fold(0.0, larger);
    // HPL's eps is the relative machine precision with rounding: 2^-53.
    let eps = f64::EPSILON / 2.0;
    let value = error / (eps * (norm_a * norm_x + norm_b) * n as f64);
    Ok(ScaledResidual { value, error, norm_a, norm_x, norm_b })
}

/// Returns the larger of `max` and the absolute value of `x`. NaN counts as the largest value, so that a maximum
/// never hides it.
fn larger(max: f64, x: f64) -> f64 {
    if x.is_nan() || max.is_nan() { f64::NAN } else { max.max(x.abs()) }
}
