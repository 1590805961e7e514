use super::super::exchange::DomainExchange;
use super::super::problem::{GridPoints, ITERATIONS};
use super::*;
use nodegauge_team::Team;

/// Runs a job on all domains together and returns the results.
fn each<T: Send>(
    local: GridPoints,
    count: usize,
    code: LoopCode,
    job: impl Fn(&mut Domain, &DomainExchangePoint<'_>, &DomainLayout, usize) -> T + Sync,
) -> Vec<T> {
    let layout = DomainLayout::new(local, count);
    let exchange = DomainExchange::new(layout).unwrap();
    let mut team = Team::start(&vec![Vec::new(); count]).unwrap();
    team.run_and_collect(|member| {
        let mut domain = Domain::new(&layout, member.index, code).unwrap();
        job(&mut domain, &DomainExchangePoint::new(&exchange, member), &layout, member.index)
    })
    .unwrap()
}

fn set(domain: &mut Domain, place: &DomainExchangePoint<'_>) -> DomainSolution {
    let stop = AtomicBool::new(false);
    let stop_criteria =
        StopCriteria { iterations: ITERATIONS, tolerance: 0.0, preconditioned: true, stop: &stop };
    domain.solve(place, stop_criteria).unwrap()
}

/// Compares the residual with the value that HPCG 3.1's reference code printed after 50 iterations, with `count`
/// domains.
fn residual_is(printed: f64, local: [usize; 3], count: usize) {
    let solved = each(local, count, LoopCode::widest(true), |domain, place, _, _| {
        let solved = set(domain, place);
        (solved, domain.max_error())
    });
    for (solution, distance) in solved {
        assert_eq!(solution.iterations, ITERATIONS);
        let ratio = solution.residual / printed;
        assert!((ratio - 1.0).abs() < 1e-3, "{local:?} {count}: {:e}", solution.residual);
        assert!(distance < 1e-9, "{distance}");
    }
}

#[test]
fn residuals_match_xhpcg() {
    residual_is(1.26595e-16, [32; 3], 2);
}

/// Tests a domain with eight times as many points. The test is omitted on emulated processors.
#[test]
fn residual_of_a_larger_domain_matches_xhpcg() {
    residual_is(1.13589e-11, [64; 3], 1);
}

#[test]
fn equal_domains_give_identical_results() {
    let run =
        || each([16, 24, 32], 2, LoopCode::widest(true), |domain, place, _, _| set(domain, place));
    let residuals =
        |all: Vec<DomainSolution>| all.iter().map(|s| s.residual.to_bits()).collect::<Vec<_>>();
    let first = residuals(run());
    assert_eq!(first, residuals(run()));
    assert_eq!(first[0], first[1]);
}

/// Compares with xhpcg's output: 11 iterations and 1 iteration on one domain of 32 x 32 x 32 points, 11 and 2 on two
/// domains.
#[test]
fn hpcg_tests_match_xhpcg() {
    for (count, expected) in [(1, [11, 1]), (2, [11, 2])] {
        each([32; 3], count, LoopCode::widest(true), |domain, place, layout, number| {
            let before = set(domain, place).residual;
            assert_eq!(
                domain.run_spectral_test(place, layout, number, &AtomicBool::new(false)),
                expected
            );
            let departures = domain.run_symmetry_test(place, number);
            assert!(departures.iter().all(|departure| *departure < 1.0), "{departures:?}");
            assert!((set(domain, place).residual / before - 1.0).abs() < 1e-6);
        });
    }
}

#[test]
fn symmetry_test_detects_asymmetric_matrix() {
    let departures = each([16; 3], 1, LoopCode::widest(true), |domain, place, _, number| {
        let slices = domain.levels[0].matrix.shape.slice_count();
        // This is the coefficient of the neighbour before the second point of a line.
        domain.levels[0].matrix.lower[(slices / 2 * 13 + 12) * 8 + 1] = -1.5;
        domain.run_symmetry_test(place, number)
    });
    assert!(departures[0].iter().all(|departure| *departure > 1.0), "{departures:?}");
}

#[test]
fn stop_request_ends_all_workers() {
    let ended = each([16; 3], 3, LoopCode::widest(true), |domain, place, _, number| {
        let stop = AtomicBool::new(number == 0);
        let stop_criteria =
            StopCriteria { iterations: 50, tolerance: 0.0, preconditioned: true, stop: &stop };
        domain.solve(place, stop_criteria)
    });
    assert_eq!(ended, [None; 3]);
}

/// Returns the rows as a general sparse matrix, with pairs of column (as index into vectors) and coefficient.
fn rows(matrix: &Matrix) -> Vec<(usize, Vec<(usize, f64)>)> {
    let shape = matrix.shape;
    let mut rows = Vec::new();
    for (line, first) in shape.lines().enumerate() {
        for point in 0..shape.grid[0] {
            let (slice, lane) = (line * shape.slices_per_line() + point / 8, point % 8);
            let at = first + point;
            let mut row = vec![(at, matrix.diagonal[slice * 8 + lane])];
            for slot in 0..13 {
                let of = (slice * 13 + slot) * 8 + lane;
                row.push((matrix.below_columns[of] as usize, matrix.lower[of]));
                row.push((matrix.above_columns[of] as usize, matrix.upper[of]));
            }
            rows.push((at, row));
        }
    }
    rows
}

/// Runs a Gauss-Seidel sweep according to the definition, row by row in natural order.
fn plain_sweep<'a>(
    rows: impl Iterator<Item = &'a (usize, Vec<(usize, f64)>)>,
    r: &[f64],
    x: &mut [f64],
) {
    for (at, row) in rows {
        let others: f64 = row[1..].iter().map(|(column, a)| a * x[*column]).sum();
        x[*at] = (r[*at] - others) / row[0].1;
    }
}

#[test]
fn sweep_variants_match_plain_sweep() {
    let grids = [[16, 16, 16], [24, 16, 8], [2, 2, 2], [13, 6, 4]];
    for code in LoopCode::available() {
        for grid in grids {
            let layout = DomainLayout { local: grid, domains: [1; 3] };
            let mut matrix = Matrix::new(&layout, 0).unwrap();
            let mut state = 7;
            for side in [&mut matrix.lower, &mut matrix.upper] {
                side.iter_mut().filter(|a| **a != 0.0).for_each(|a| *a *= random(&mut state));
            }
            matrix.scale_diagonal(|[x, y, z]| 1.0 + (x + 2 * y + 3 * z) as f64 / 100.0);
            let rows = rows(&matrix);
            let vector = |seed: u64| {
                let mut walk = seed;
                let mut vector = MappedArray::<f64>::allocate(matrix.shape.length()).unwrap();
                rows.iter().for_each(|(at, _)| vector[*at] = random(&mut walk));
                vector
            };
            let r = vector(3);
            let mut x = vector(5);
            let mut t = vector(9);
            let close = |got: &[f64], expected: &[f64], what: &str| {
                for (at, _) in &rows {
                    let difference = (got[*at] - expected[*at]).abs();
                    assert!(difference < 1e-13, "{code:?} {grid:?} {what}: {difference:e}");
                }
            };
            // SAFETY: three vectors of this shape; this processor supports the loops.
            unsafe {
                let mut expected = x.to_vec();
                loops::product(code, &matrix, x.at(0), t.at_mut(0));
                for (at, row) in &rows {
                    expected[*at] = row.iter().map(|(column, a)| a * x[*column]).sum();
                }
                close(&t, &expected, "product");
                for from_zero in [false, true] {
                    x = if from_zero { MappedArray::allocate(x.len()).unwrap() } else { vector(5) };
                    let mut expected_here = x.to_vec();
                    let right = r.at(0);
                    let t_mut = t.at_mut(0);
                    if from_zero {
                        loops::forward_from_zero(code, &matrix, right, x.at_mut(0), t_mut);
                    } else {
                        loops::forward(code, &matrix, right, x.at_mut(0), t_mut);
                    }
                    plain_sweep(rows.iter(), &r, &mut expected_here);
                    close(&x, &expected_here, "forward");
                    loops::backward(code, &matrix, r.at(0), x.at_mut(0), t.at(0));
                    plain_sweep(rows.iter().rev(), &r, &mut expected_here);
                    close(&x, &expected_here, "backward");
                }
                if grid.iter().all(|points| points % 2 == 0) {
                    let coarse = VectorShape::new(grid.map(|points| points / 2));
                    let mut got = MappedArray::<f64>::allocate(coarse.length()).unwrap();
                    loops::restrict(code, &matrix, r.at(0), x.at(0), got.at_mut(0));
                    let row = |point: [usize; 3]| {
                        let at = matrix.shape.at(point.map(|at| at as isize));
                        rows.iter().find(|(row, _)| *row == at).unwrap()
                    };
                    let [nx, ny, nz] = coarse.grid;
                    for point in 0..nx * ny * nz {
                        let point = [point % nx, point / nx % ny, point / (nx * ny)];
                        let (at, row) = row(point.map(|at| 2 * at));
                        let product: f64 = row.iter().map(|(column, a)| a * x[*column]).sum();
                        let at_coarse = coarse.at(point.map(|coordinate| coordinate as isize));
                        assert!((got[at_coarse] - (r[*at] - product)).abs() < 1e-13);
                    }
                }
            }
        }
    }
}
