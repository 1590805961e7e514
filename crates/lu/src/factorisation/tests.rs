use super::*;
use crate::random::Sequence;
use crate::residual::{self, MatrixSource};
use proptest::prelude::*;

/// System with given elements; the last of order + 1 columns is the right-hand side.
struct GivenSystem {
    order: usize,
    elements: Vec<f64>,
}

impl MatrixSource for GivenSystem {
    fn column(&self, j: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.elements[j * self.order..(j + 1) * self.order]);
    }
}

fn team(threads: usize) -> Team {
    Team::start(&vec![Vec::new(); threads]).unwrap()
}

fn solved(
    team: &mut Team,
    n: usize,
    nb: usize,
    source: &dyn MatrixSource,
) -> Result<(Vec<f64>, f64), LuError> {
    let mut matrix = Matrix::allocate(n).unwrap();
    residual::fill(team, &mut matrix, source, &mut || false)?;
    solve(team, &mut matrix, nb, &Multiplier::BuiltIn, &LuProgress::default())?;
    let x = matrix.column(n).to_vec();
    let residual = residual::compute_residual(team, source, &x)?;
    Ok((x, residual.value))
}

/// Solves the same system by textbook elimination with partial pivoting: column by column, without blocks, with
/// exchanges of complete rows.
fn by_elimination(n: usize, source: &dyn MatrixSource) -> Vec<f64> {
    let mut columns = vec![vec![0.0; n]; n + 1];
    columns.iter_mut().enumerate().for_each(|(j, column)| source.column(j, column));
    for k in 0..n {
        let largest = (k..n).max_by(|&i, &j| columns[k][i].abs().total_cmp(&columns[k][j].abs()));
        columns.iter_mut().for_each(|column| column.swap(k, largest.unwrap()));
        let (left, right) = columns.split_at_mut(k + 1);
        for column in right {
            let factor = column[k] / left[k][k];
            for i in k + 1..n {
                column[i] -= left[k][i] * factor;
            }
        }
    }
    let mut x = columns.pop().unwrap();
    for k in (0..n).rev() {
        x[k] /= columns[k][k];
        for i in 0..k {
            x[i] -= columns[k][i] * x[k];
        }
    }
    x
}

fn agrees(n: usize, nb: usize, threads: usize, seed: u64) {
    let source = Sequence::new(seed);
    let (x, residual) = solved(&mut team(threads), n, nb, &source).unwrap();
    assert!(residual < 16.0, "n {n} nb {nb} threads {threads}: residual {residual}");
    let expected = by_elimination(n, &source);
    let norm = expected.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    // Both algorithms are backward stable, so the solutions differ by about the condition number times eps. The
    // condition number of random matrices of this size is below about 1e5.
    for (computed, exact) in x.iter().zip(&expected) {
        assert!(
            (computed - exact).abs() <= 1e-8 * norm,
            "n {n} nb {nb}: {computed} is not {exact}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn random_systems_match_plain_elimination(
        n in 1usize..260, nb in 1usize..100, threads in 1usize..6, seed: u64,
    ) {
        agrees(n, nb, threads, seed);
    }
}

#[test]
fn sizes_near_panel_edges_match_plain_elimination() {
    for nb in [1, 7, 12, 13, 24, 32] {
        for n in [nb - 1, nb, nb + 1, 2 * nb - 1, 2 * nb, 2 * nb + 1, 5 * nb + 3] {
            if n > 0 {
                agrees(n, nb, 2, nb as u64);
            }
        }
    }
}

#[test]
fn wide_and_divided_products_match_plain_elimination() {
    agrees(1201, 64, 2, 5);
    agrees(700, 192, 3, 6);
}

#[test]
fn matrix_without_pivot_is_singular() {
    let n = 50;
    let mut elements = vec![0.0; n * (n + 1)];
    Sequence::new(3).fill(0, &mut elements);
    // Column 20 is zero, and elimination keeps it exactly zero.
    elements[20 * n..21 * n].fill(0.0);
    let given = GivenSystem { order: n, elements };
    for (nb, threads) in [(8, 1), (8, 2), (64, 2)] {
        let error = solved(&mut team(threads), n, nb, &given).unwrap_err();
        assert!(matches!(error, LuError::Singular { column: 20 }), "{error}");
    }
}

#[test]
fn pivot_with_overflowing_inverse_divides_rows() {
    let (n, tiny) = (30, 1e-310);
    let mut elements = vec![0.0; n * (n + 1)];
    Sequence::new(4).fill(0, &mut elements);
    elements[..n * n].iter_mut().for_each(|x| *x *= tiny);
    elements[n * n..].iter_mut().for_each(|x| *x *= tiny);
    let (x, _) = solved(&mut team(2), n, 8, &GivenSystem { order: n, elements }).unwrap();
    assert!(x.iter().all(|x| x.is_finite()));
}

#[test]
fn thread_count_does_not_change_the_lu_solution() {
    // Pivots do not depend on the distribution of rows over threads, but rounding errors in sums of products may.
    let source = Sequence::new(9);
    let (one, _) = solved(&mut team(1), 200, 16, &source).unwrap();
    let (four, _) = solved(&mut team(4), 200, 16, &source).unwrap();
    let norm = one.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    assert!(one.iter().zip(&four).all(|(a, b)| (a - b).abs() < 1e-9 * norm));
}

#[test]
fn stopped_factorisation_ends_immediately() {
    let progress = LuProgress::default();
    progress.stop.store(true, Ordering::Relaxed);
    let mut team = team(2);
    let mut matrix = Matrix::allocate(500).unwrap();
    residual::fill(&mut team, &mut matrix, &Sequence::new(1), &mut || false).unwrap();
    let ended = solve(&mut team, &mut matrix, 32, &Multiplier::BuiltIn, &progress);
    assert!(matches!(ended, Err(LuError::Interrupted)));
}

#[test]
fn wrong_solution_fails_residual_check() {
    let (n, source) = (40, Sequence::new(2));
    let mut team = team(1);
    let mut x = by_elimination(n, &source);
    assert!(residual::compute_residual(&mut team, &source, &x).unwrap().passes());
    x[7] += 1e-6;
    assert!(!residual::compute_residual(&mut team, &source, &x).unwrap().passes());
    x[7] = f64::NAN;
    assert!(!residual::compute_residual(&mut team, &source, &x).unwrap().passes());
}

#[test]
fn panel_group_grows_with_threads_and_shrinks_with_order() {
    assert_eq!(panel_group_size(8000, 192, 2), 1);
    assert_eq!(panel_group_size(100_000, 256, 128), 6);
    assert_eq!(panel_group_size(1000, 256, 4), 2);
}

#[test]
fn lu_operations_are_counted_as_in_hpl() {
    assert_eq!(flops(8000), 2.0 / 3.0 * 5.12e11 + 1.5 * 6.4e7);
}
