//! Tests that compare complete solves with independently known results.

use crate::cg::{LoopCodes, Solver, SolverEnd, SolverState, StopLimits};
use crate::code::LoopCode;
use crate::context::ThreadContext;
use crate::elasticity::{Material, Mesh, Problem, StretchedBox, Subdomain};
use crate::halo::{Halo, Ranks, SharedHalo, SingleRank};
use crate::order::{EliminationOrder, Numbering};
use crate::precondition::Preconditioner;
use crate::setup_clock::SetupClock;
use crate::sparse::MatrixFormat;
use crate::system::{AssembledSystem, Matrix, System};
use nodegauge_team::{InterruptCheck, Team};
use std::f64::consts::PI;

const TIGHT: StopLimits = StopLimits { residual: 1e-11, iterations: 5000 };

/// Returns loops for the widest instruction set.
fn codes(prefetches: bool) -> LoopCodes {
    LoopCodes {
        products: LoopCode::widest(prefetches),
        preconditioner: LoopCode::widest(prefetches),
    }
}

/// Displacements as products of sines and cosines, prescribed on the whole surface, and the force that causes them.
struct Waves;

impl Problem for Waves {
    fn material(&self) -> Material {
        Material { young: 2.0, poisson: 0.25 }
    }

    fn fixed(&self, at: [f64; 3], far: [f64; 3]) -> [Option<f64>; 3] {
        let outside = (0..3).any(|axis| at[axis] == 0.0 || at[axis] == far[axis]);
        let exact = self.exact(at, far);
        exact.map(|value| outside.then_some(value))
    }

    /// Returns `-(lambda + mu) grad div u - mu laplace u`, for the displacement u of this problem.
    fn force(&self, [x, y, z]: [f64; 3]) -> Option<[f64; 3]> {
        let (lambda, mu) = self.material().lame();
        let (s, c) = (|t: f64| (PI * t).sin(), |t: f64| (PI * t).cos());
        let both = PI * PI * (lambda + mu);
        let own = 3.0 * PI * PI * mu;
        // With u_x = sin x sin y sin z, u_y = cos x sin y cos z and u_z = 0, div u = cos x (sin y sin z + cos y cos z).
        let div = s(y) * s(z) + c(y) * c(z);
        Some([
            both * s(x) * div + own * s(x) * s(y) * s(z),
            -both * c(x) * (c(y) * s(z) - s(y) * c(z)) + own * c(x) * s(y) * c(z),
            -both * c(x) * (s(y) * c(z) - c(y) * s(z)),
        ])
    }

    fn exact(&self, at: [f64; 3], _: [f64; 3]) -> [f64; 3] {
        let [x, y, z] = at.map(|t| PI * t);
        [x.sin() * y.sin() * z.sin(), x.cos() * y.sin() * z.cos(), 0.0]
    }
}

/// Problem and method of a test case.
#[derive(Clone, Copy)]
struct Case<'a> {
    elements: [usize; 3],
    problem: &'a dyn Problem,
    /// Order of elimination; `None` for the diagonal preconditioner.
    order: Option<EliminationOrder>,
    storage: MatrixFormat,
    threads: usize,
}

const SMALL: Case<'_> = Case {
    elements: [4, 3, 5],
    problem: &StretchedBox,
    order: Some(EliminationOrder::Multicolour),
    storage: MatrixFormat::Bcsr,
    threads: 2,
};

/// Result of a solve in a test.
struct TestSolution {
    state: SolverState,
    /// Displacements by mesh point; x varies fastest.
    x: Vec<f64>,
    error: f64,
    true_residual: f64,
}

fn solve(case: Case<'_>, tolerance: StopLimits) -> TestSolution {
    let mut team = Team::start(&vec![Vec::new(); case.threads]).unwrap();
    let whole = Subdomain::whole_mesh(Mesh { elements: case.elements });
    let rows = Numbering::new(&whole, case.order.unwrap_or(EliminationOrder::Domain), case.threads);
    let mut clock = SetupClock::start();
    let is_sliced = case.storage == MatrixFormat::Sell;
    let AssembledSystem { system, blocks, sliced } =
        System::assemble(&mut team, whole, rows, case.problem, is_sliced, &mut clock).unwrap();
    let preconditioner = match case.order {
        None => Preconditioner::diagonal(&mut team, &blocks, &system.rows, &mut clock),
        Some(_) => {
            Preconditioner::incomplete_factorisation(&mut team, &blocks, &system.rows, &mut clock)
        }
    };
    let preconditioner = preconditioner.unwrap();
    let matrix = sliced.unwrap_or(Matrix::Bcsr(blocks));
    let mut solver =
        Solver::new(&mut team, &system, &matrix, &preconditioner, &SingleRank, codes(true))
            .unwrap();
    let mut state = solver.initial_state();
    while state.end.is_none() {
        let timed = team.run_timed(|member, laps| {
            // SAFETY: every thread of the team has its own context, and no other code uses the solver.
            unsafe {
                solver.advance(&ThreadContext::from_thread(member), laps, state, 7, tolerance)
            }
        });
        let timed = timed.unwrap();
        let reported =
            |reached: SolverState| (reached.iterations, reached.end, reached.residual.to_bits());
        assert!(timed.results.iter().all(|made| reported(made.0) == reported(timed.results[0].0)));
        state = timed.results[0].0;
    }
    let mut x = vec![0.0; solver.solution().len()];
    for (row, node) in system.rows.nodes.iter().enumerate() {
        x[3 * *node as usize..][..3].copy_from_slice(&solver.solution()[3 * row..3 * row + 3]);
    }
    let error = system.relative_error(solver.solution(), case.problem);
    TestSolution { state, x, error, true_residual: solver.true_residual(&mut team).unwrap() }
}

#[test]
fn error_decreases_with_square_of_edge_length() {
    let error = |n: usize| {
        let order = Some(EliminationOrder::Domain);
        let case = Case { elements: [n; 3], problem: &Waves, order, threads: 1, ..SMALL };
        let solved = solve(case, TIGHT);
        assert_eq!(solved.state.end, Some(SolverEnd::Converged));
        solved.error
    };
    let errors = [5, 10, 20].map(error);
    for pair in errors.windows(2) {
        let order = (pair[0] / pair[1]).log2();
        assert!((1.8..2.2).contains(&order), "{errors:?}: order {order}");
    }
}

#[test]
fn linear_problem_is_solved_exactly() {
    for order in EliminationOrder::ALL.map(Some).into_iter().chain([None]) {
        for storage in [MatrixFormat::Bcsr, MatrixFormat::Sell] {
            for threads in [1, 2] {
                let elements = [3, 2, 4];
                let solved = solve(Case { elements, order, storage, threads, ..SMALL }, TIGHT);
                let reported = format!("{order:?} {storage} {threads}: {:?}", solved.state);
                assert_eq!(solved.state.end, Some(SolverEnd::Converged), "{reported}");
                assert!(solved.error < 1e-9, "{reported}: {}", solved.error);
                let residual = solved.true_residual;
                assert!(residual < 1e-10, "{reported}: {residual}");
            }
        }
    }
}

/// Compares a solution with the solution of the same system by a dense Cholesky factorisation.
#[test]
fn solution_matches_dense_cholesky() {
    let whole = Subdomain::whole_mesh(Mesh { elements: [3, 4, 2] });
    let assembler = crate::elasticity::Assembler::new(&whole, &Waves).unwrap();
    let n = 3 * whole.mesh.point_count();
    let (mut a, mut b) = (vec![vec![0.0; n]; n], vec![0.0; n]);
    for local in whole.owned_points() {
        let node = whole.node(local);
        let row = assembler.row(node);
        for i in 0..3 {
            b[3 * local + i] = row.rhs[i];
            for (place, other) in whole.neighbours(node) {
                for j in 0..3 {
                    a[3 * local + i][3 * whole.local_number(other) + j] = row.blocks[place][i][j];
                }
            }
        }
    }
    for j in 0..n {
        for k in 0..j {
            let factor = a[j][k];
            for i in j..n {
                a[i][j] -= a[i][k] * factor;
            }
        }
        let root = a[j][j].sqrt();
        (j..n).for_each(|i| a[i][j] /= root);
    }
    for i in 0..n {
        let above: f64 = (0..i).map(|k| a[i][k] * b[k]).sum();
        b[i] = (b[i] - above) / a[i][i];
    }
    for i in (0..n).rev() {
        let below: f64 = (i + 1..n).map(|k| a[k][i] * b[k]).sum();
        b[i] = (b[i] - below) / a[i][i];
    }
    let solved = solve(Case { elements: [3, 4, 2], problem: &Waves, ..SMALL }, TIGHT);
    let largest = solved.x.iter().zip(&b).map(|(x, b)| (x - b).abs()).fold(0.0, f64::max);
    assert!(largest < 1e-9, "{largest}");
}

#[test]
fn repeated_solves_give_identical_results() {
    for (order, threads) in [
        (EliminationOrder::Domain, 3),
        (EliminationOrder::Multicolour, 2),
        (EliminationOrder::Levels, 2),
    ] {
        let case = Case { order: Some(order), threads, storage: MatrixFormat::Sell, ..SMALL };
        let bits = || solve(case, TIGHT).x.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
        let first = bits();
        assert!((0..3).all(|_| bits() == first), "{order:?}");
    }
}

#[test]
fn iteration_count_depends_on_elimination_order() {
    let loose = StopLimits { residual: 1e-8, ..TIGHT };
    let iterations = |order, threads| {
        let case = Case { elements: [9; 3], order, threads, ..SMALL };
        solve(case, loose).state.iterations
    };
    let natural = iterations(Some(EliminationOrder::Natural), 1);
    // Levels keep the exact order for any number of threads; the domain of a single thread is in natural order.
    assert_eq!(iterations(Some(EliminationOrder::Natural), 2), natural);
    assert_eq!(iterations(Some(EliminationOrder::Domain), 1), natural);
    let [levels, colours, cycle, domains] = [
        EliminationOrder::Levels,
        EliminationOrder::Multicolour,
        EliminationOrder::CyclicLevels,
        EliminationOrder::Domain,
    ]
    .map(|order| iterations(Some(order), 2));
    let diagonal = iterations(None, 2);
    let reported = format!(
        "natural {natural}, levels {levels}, colours {colours}, cyclic {cycle}, domains {domains}, diagonal {diagonal}"
    );
    assert!(levels <= natural + 2 && natural <= colours && cycle <= colours, "{reported}");
    assert!(natural < domains && domains < diagonal && colours < diagonal, "{reported}");
}

#[test]
fn assembled_slices_equal_converted_blocks() {
    const THREADS: usize = 3;
    let mut team = Team::start(&vec![Vec::new(); THREADS]).unwrap();
    let problems: [&dyn Problem; 2] = [&StretchedBox, &Waves];
    for (order, problem) in
        EliminationOrder::ALL.into_iter().flat_map(|order| problems.map(|each| (order, each)))
    {
        let whole = Subdomain::whole_mesh(Mesh { elements: [5, 4, 6] });
        let numbering = Numbering::new(&whole, order, THREADS);
        let mut clock = SetupClock::start();
        let assembled = System::assemble(&mut team, whole, numbering, problem, true, &mut clock);
        let AssembledSystem { system: System { rows, .. }, blocks, sliced } = assembled.unwrap();
        let copied = Matrix::sliced(&mut team, &blocks, &rows, &mut clock).unwrap();
        let x: Vec<f64> = (0..3 * rows.nodes.len()).map(|at| (at as f64).sin()).collect();
        let product = |matrix: &Matrix| {
            let mut y = vec![0.0; x.len()];
            for thread in 0..THREADS {
                let code = LoopCode::widest(false);
                // SAFETY: both vectors have all rows of the numbering.
                unsafe { matrix.multiply(&rows, thread, code, x.as_ptr(), y.as_mut_ptr()) };
            }
            y
        };
        let [made, copied] = [sliced.as_ref().unwrap(), &copied].map(product);
        assert_eq!(made, copied, "{order:?}");
        for (mine, other) in made.iter().zip(product(&Matrix::Bcsr(blocks))) {
            assert!((mine - other).abs() < 1e-12, "{order:?}: {mine} {other}");
        }
    }
}

#[test]
fn failed_convergence_has_reason() {
    let few = solve(SMALL, StopLimits { residual: 1e-11, iterations: 3 });
    assert_eq!((few.state.end, few.state.iterations), (Some(SolverEnd::Limit), 3));
    assert!(few.state.residual > 1e-11 && few.true_residual > 1e-11);

    /// Problem whose force is NaN.
    struct NanForce;
    impl Problem for NanForce {
        fn material(&self) -> Material {
            StretchedBox.material()
        }
        fn fixed(&self, at: [f64; 3], far: [f64; 3]) -> [Option<f64>; 3] {
            StretchedBox.fixed(at, far)
        }
        fn force(&self, _: [f64; 3]) -> Option<[f64; 3]> {
            Some([f64::NAN, 0.0, 0.0])
        }
        fn exact(&self, at: [f64; 3], far: [f64; 3]) -> [f64; 3] {
            StretchedBox.exact(at, far)
        }
    }
    let odd = solve(Case { problem: &NanForce, ..SMALL }, TIGHT);
    assert_eq!((odd.state.end, odd.state.iterations), (Some(SolverEnd::NotANumber), 1));
}

/// Compares ranks in processes with threads: both must give the same results in the same number of iterations.
#[test]
fn all_ranks_reach_the_same_accurate_solution() {
    use nodegauge_placement::{Binding, MemoryPolicy, Placement, RankPlace, pin};
    let mesh = Mesh { elements: [5, 4, 6] };
    let cpus = pin::current_affinity().unwrap();
    let place = |rank: u32| {
        let placement = Placement::new(Binding::None, "test", vec![cpus.clone()]);
        RankPlace { rank: Some(rank), placement, memory: MemoryPolicy::Local }
    };
    let places: Vec<RankPlace> = (0..4).map(place).collect();
    let shared = SharedHalo::allocate(mesh, 4).unwrap();
    let job = |member: &nodegauge_team::Member<'_>, laps: &mut nodegauge_team::Laps<'_>| {
        let mut context = ThreadContext::from_rank(member);
        let part = Subdomain::for_rank(mesh, member.index, [1, 2, 2]).unwrap();
        let rows = Numbering::new(&part, EliminationOrder::Multicolour, 1);
        let ranks = shared.rank_access(member.index);
        let halo = ranks.halo(&part, &rows);
        let mut clock = SetupClock::start();
        let made = System::assemble(&mut context, part, rows, &StretchedBox, false, &mut clock);
        let AssembledSystem { system, blocks, .. } = made.unwrap();
        let factor = Preconditioner::incomplete_factorisation(
            &mut context,
            &blocks,
            &system.rows,
            &mut clock,
        )
        .unwrap();
        let matrix = Matrix::Bcsr(blocks);
        let mut solver =
            Solver::new(&mut context, &system, &matrix, &factor, &halo, codes(false)).unwrap();
        // SAFETY: the rank has one thread, and all ranks make the same calls.
        let (state, _) =
            unsafe { solver.advance(&context, laps, solver.initial_state(), 1000, TIGHT) };
        let error = system.relative_error(solver.solution(), &StretchedBox);
        let residual = solver.true_residual(&mut context).unwrap();
        (state.iterations, state.residual.to_bits(), error, residual, halo.bytes())
    };
    // SAFETY: the job allocates, makes system calls and waits only at the barrier of the ranks.
    let timed = unsafe { nodegauge_team::ranks::run_timed(&places, InterruptCheck::never(), job) };
    let made = timed.unwrap().results;
    for (iterations, bits, error, residual, bytes) in &made {
        assert_eq!((*iterations, *bits), (made[0].0, made[0].1));
        assert!(*error < 1e-9 && *residual < 1e-10 && *bytes > 0, "{made:?}");
    }
    let alone = solve(Case { elements: [5, 4, 6], ..SMALL }, TIGHT);
    assert!(made[0].0 >= alone.state.iterations && made[0].0 < 3 * alone.state.iterations);
}
