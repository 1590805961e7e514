//! Whether x solves A x = b: HPL's scaled residual,
//! `||A x - b||oo / (eps (||A||oo ||x||oo + ||b||oo) n)`, which must be below 16.
//!
//! The matrix is made a second time, column by column, since the factorisation has overwritten it.

use crate::config::ResidualConfig;
use crate::matrix::Matrix;
use crate::random::Sequence;
use nodegauge_team::{Team, TeamError};
use std::ops::Range;

/// What HPL.dat has as threshold.
pub const THRESHOLD: f64 = 16.0;

/// HPL's scaled residual, as it stands in the record.
const FORMULA: &str = "||Ax-b||oo / (eps (||A||oo ||x||oo + ||b||oo) N)";

impl ResidualConfig {
    /// A residual of which no more is known than its value.
    pub fn of(value: Option<f64>) -> Self {
        Self { value, threshold: THRESHOLD, formula: FORMULA.to_owned(), ..Self::default() }
    }

    /// Whether x is a solution; no when the residual is not a number.
    pub fn passes(&self) -> bool {
        self.value.is_some_and(|value| value < self.threshold)
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

/// Columns that a thread makes at once: whole huge pages' worth of neighbouring columns are first
/// touched by one thread, and spread over all of a node, as the factorisation uses them.
const COLUMNS: usize = 16;

/// Elements that are written between looks at whether the user wants to end: some 0.1 s on the
/// slowest node with one thread.
const BETWEEN_LOOKS: usize = 32 << 20;

/// Writes the matrix, each thread its columns in turn, unless `stop` says to end before it is whole;
/// whether it is.
///
/// # Errors
/// When a thread fails.
pub fn fill(
    team: &mut Team,
    matrix: &mut Matrix,
    source: &dyn MatrixSource,
    mut stop: impl FnMut() -> bool,
) -> Result<bool, TeamError> {
    let (n, round) = (matrix.order(), COLUMNS * team.len().max(1));
    // Whole rounds, so that all threads have work in each.
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
    source: &dyn MatrixSource,
    columns: Range<usize>,
) -> Result<(), TeamError> {
    let (view, homes) = (matrix.view(), matrix.homes());
    team.run(|member| {
        for j in homes.made_by(member.index, member.count, columns.clone(), COLUMNS) {
            // SAFETY: column j belongs to this thread and lies in the matrix, which is borrowed.
            let out = unsafe { std::slice::from_raw_parts_mut(view.at(0, j), view.n) };
            source.column(j, out);
        }
    })
}

/// The residual of `x` for the system that `source` makes.
///
/// # Errors
/// When a thread fails.
pub fn check(
    team: &mut Team,
    source: &dyn MatrixSource,
    x: &[f64],
) -> Result<ResidualConfig, TeamError> {
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
    let norm_a = largest(&mut (0..n).map(row_sum));
    let norm_x = largest(&mut x.iter().copied());
    let norm_b = largest(&mut b.iter().copied());
    // HPL's eps is the relative machine precision with rounding: 2^-53.
    let eps = f64::EPSILON / 2.0;
    let value = error / (eps * (norm_a * norm_x + norm_b) * n as f64);
    let [error, norm_a, norm_x, norm_b] = [error, norm_a, norm_x, norm_b].map(Some);
    Ok(ResidualConfig { error, norm_a, norm_x, norm_b, ..ResidualConfig::of(Some(value)) })
}
