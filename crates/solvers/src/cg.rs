//! Preconditioned conjugate gradients (M. R. Hestenes, E. Stiefel, 1952), solved by a team of threads. All threads
//! perform each step together, on different rows.
//!
//! Sums are formed in the order of the threads, so that runs with the same threads and colours give bitwise
//! identical results.

use crate::array::SharedArray;
use crate::code::LoopCode;
use crate::context::{ThreadContext, Threads};
use crate::halo::Halo;
use crate::precondition::Preconditioner;
use crate::sums::{SharedSums, Sums};
use crate::system::{Matrix, System};
use crate::vectors;
use nodegauge_measure::Failure;
use nodegauge_os::monotonic_nanos;
use nodegauge_team::Laps;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Names of the parts of an iteration, in the order of [`IterationWork`] and of the times of an iteration.
pub const PARTS: [&str; 5] = ["spmv", "preconditioner", "dots", "axpy", "halo"];
const SPMV: usize = 0;
const PRECONDITIONER: usize = 1;
const DOTS: usize = 2;
const AXPY: usize = 3;
const HALO: usize = 4;

/// Reason why the solver stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SolverEnd {
    /// The residual fell below the tolerance.
    Converged,
    /// The maximum number of iterations was reached.
    Limit,
    /// A sum became NaN or infinite.
    NotANumber,
    /// The matrix is not positive definite; this was detected along a search direction.
    Indefinite,
}

/// State of the solver between two iterations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SolverState {
    /// Number of completed iterations.
    pub iterations: usize,
    /// Relative residual `|r| / |b|`, with the recursively updated r.
    pub residual: f64,
    /// Reason why the solver stopped; `None` before it stops.
    pub end: Option<SolverEnd>,
    rho: f64,
    b_squared: f64,
}

/// Seconds of an iteration, followed by the seconds of its [`PARTS`].
pub(crate) type IterationTimes = [f64; 1 + PARTS.len()];

/// Bytes that an iteration moves and its floating-point operations, for each of the [`PARTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IterationWork {
    /// Number of bytes that each part moves.
    pub bytes: [usize; PARTS.len()],
    /// Number of floating-point operations of each part.
    pub flops: [usize; PARTS.len()],
}

/// Criteria for stopping the solver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StopLimits {
    /// The solver has converged when `|r| / |b|` is below this value.
    pub residual: f64,
    /// Maximum number of iterations.
    pub iterations: usize,
}

/// Variants of the loops that the solver uses.
#[derive(Debug, Clone, Copy)]
pub struct LoopCodes {
    /// Variant of the loops for products and vectors.
    pub products: LoopCode,
    /// Variant of the loops for the preconditioner.
    pub preconditioner: LoopCode,
}

/// Solver for a linear system, with all its data.
pub(crate) struct Solver<'a> {
    system: &'a System,
    matrix: &'a Matrix,
    preconditioner: &'a Preconditioner,
    halo: &'a dyn Halo,
    codes: LoopCodes,
    sums: SharedSums,
    /// Current approximation of the solution.
    x: SharedArray<f64>,
    r: SharedArray<f64>,
    z: SharedArray<f64>,
    /// Search direction, followed by the components of mesh points that other ranks own.
    p: SharedArray<f64>,
    q: SharedArray<f64>,
}

/// State of one thread during a solve.
struct Walk<'s> {
    solver: &'s Solver<'s>,
    context: &'s ThreadContext<'s>,
    /// Sums over the threads of a rank.
    sums: Sums<'s>,
    /// Time at which the preceding part of the iteration ended, nanoseconds.
    since: u64,
    times: IterationTimes,
}

impl<'a> Solver<'a> {
    /// Maps the memory of the solver; a page is first touched by the thread that uses it.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn new(
        threads: &mut impl Threads,
        system: &'a System,
        matrix: &'a Matrix,
        preconditioner: &'a Preconditioner,
        halo: &'a dyn Halo,
        codes: LoopCodes,
    ) -> Result<Self, Failure> {
        let owned = 3 * system.rows.owned_count();
        let mut solver = Self {
            system,
            matrix,
            preconditioner,
            halo,
            codes,
            sums: SharedSums::allocate(threads.count())?,
            x: SharedArray::allocate(owned)?,
            r: SharedArray::allocate(owned)?,
            z: SharedArray::allocate(owned)?,
            p: SharedArray::allocate(3 * system.rows.nodes.len())?,
            q: SharedArray::allocate(owned)?,
        };
        solver.clear(threads)?;
        Ok(solver)
    }

    /// Resets the solution to `x = 0`.
    ///
    /// # Errors
    /// Fails if a thread fails.
    pub fn clear(&mut self, threads: &mut impl Threads) -> Result<(), Failure> {
        let Self { x, r, z, p, q, system, .. } = &*self;
        threads.run_and_collect(|context| {
            let own = self.own(context);
            for vector in [x, z, p, q] {
                // SAFETY: `self` is borrowed exclusively, and the rows belong to this thread.
                unsafe { vector.slice_mut(own.clone()) }.fill(0.0);
            }
            // SAFETY: as above.
            unsafe { r.slice_mut(own.clone()) }.copy_from_slice(&system.rhs[own]);
        })?;
        Ok(())
    }

    fn own(&self, context: &ThreadContext<'_>) -> Range<usize> {
        let rows = self.system.rows.thread_rows(context.thread);
        3 * rows.start..3 * rows.end
    }

    fn walk<'s>(&'s self, context: &'s ThreadContext<'_>) -> Walk<'s> {
        let sums = self.sums.worker_access(context.thread);
        Walk { solver: self, context, sums, since: 0, times: [0.0; 6] }
    }

    /// Returns the initial state of a solve.
    pub fn initial_state(&self) -> SolverState {
        SolverState { iterations: 0, residual: 1.0, end: None, rho: f64::NAN, b_squared: f64::NAN }
    }

    /// Returns the solution in row order.
    pub fn solution(&mut self) -> &[f64] {
        self.x.get_mut()
    }

    /// Runs at most `count` further iterations on all threads, and measures the time of each. All threads return the
    /// same state.
    ///
    /// # Safety
    /// All threads of all ranks must call this function together, with different contexts. No other code uses the
    /// solver during the call.
    pub unsafe fn advance(
        &self,
        context: &ThreadContext<'_>,
        laps: &mut Laps<'_>,
        mut state: SolverState,
        count: usize,
        tolerance: StopLimits,
    ) -> (SolverState, Vec<IterationTimes>) {
        let mut walk = self.walk(context);
        let mut all = Vec::with_capacity(count);
        if state.b_squared.is_nan() && state.iterations == 0 {
            let own = self.own(context);
            state.b_squared =
                walk.sum(walk.dot(&self.system.rhs[own.clone()], &self.system.rhs[own]));
            if state.b_squared == 0.0 {
                state.end = Some(SolverEnd::Converged);
            }
        }
        for _ in 0..count {
            if state.end.is_some() {
                break;
            }
            // SAFETY: guaranteed by the caller.
            let times = laps.time(|| unsafe { walk.iterate(&mut state, tolerance) });
            all.push(times);
        }
        (state, all)
    }

    /// Returns the bytes and operations of an iteration on this rank.
    pub fn iteration_work(&self) -> IterationWork {
        let rows = &self.system.rows;
        let n = 3 * rows.owned_count();
        let mut work = IterationWork::default();
        work.bytes[SPMV] = self.matrix.product_bytes(rows);
        work.flops[SPMV] = self.system.blocks * 18;
        for thread in 0..rows.threads() {
            let own = rows.thread_rows(thread);
            work.bytes[PRECONDITIONER] += self.preconditioner.bytes(&own);
            work.flops[PRECONDITIONER] += self.preconditioner.flops(&own);
        }
        // The scalar products r z and p q read four vectors.
        work.bytes[DOTS] = 4 * 8 * n;
        work.flops[DOTS] = 4 * n;
        // p = z + beta p; x and r are updated from p and q, and r r is summed in the same loop.
        work.bytes[AXPY] = (3 + 6) * 8 * n;
        work.flops[AXPY] = (2 + 6) * n;
        work.bytes[HALO] = self.halo.bytes();
        work
    }

    /// Returns the recomputed residual `|b - A x| / |b|`.
    ///
    /// # Errors
    /// Fails if a thread fails.
    pub fn true_residual(&mut self, threads: &mut impl Threads) -> Result<f64, Failure> {
        let solver = &*self;
        let made = threads.run_and_collect(|context| {
            let walk = solver.walk(context);
            let own = solver.own(context);
            // SAFETY: `self` is borrowed exclusively, and the rows belong to this thread.
            unsafe { solver.p.slice_mut(own.clone()).copy_from_slice(solver.x.slice(own.clone())) };
            context.wait_for_all();
            // SAFETY: every thread of every rank calls this, and no other code uses the vector between these barriers.
            unsafe { solver.halo.exchange(context, &solver.p) };
            context.wait_for_all();
            // SAFETY: p is complete after the barrier.
            unsafe { walk.multiply() };
            // SAFETY: as above.
            let q = unsafe { solver.q.slice_mut(own.clone()) };
            let b = &solver.system.rhs[own];
            q.iter_mut().zip(b).for_each(|(q, b)| *q = b - *q);
            let r = walk.sum(walk.dot(q, q));
            (r / walk.sum(walk.dot(b, b))).sqrt()
        })?;
        Ok(made[0])
    }
}

impl Walk<'_> {
    /// Runs one iteration.
    ///
    /// # Safety
    /// The requirements of [`Solver::advance`] apply.
    unsafe fn iterate(&mut self, state: &mut SolverState, tolerance: StopLimits) -> IterationTimes {
        let solver = self.solver;
        let context = self.context;
        let Solver { x, r, z, p, q, system, .. } = solver;
        let own = solver.own(context);
        self.times = [0.0; 6];
        let begun = monotonic_nanos();
        self.since = begun;
        // SAFETY: r and z have all rows of the rank, and a row is used only by the thread that owns it.
        unsafe {
            solver.preconditioner.apply(
                context,
                solver.codes.preconditioner,
                &system.rows,
                r.at(0),
                z.at(0),
            )
        };
        self.lap(PRECONDITIONER);
        // SAFETY: these rows belong to this thread, here and below; the products, which read the rows of other threads,
        // are separated by barriers.
        let x = unsafe { x.slice_mut(own.clone()) };
        // SAFETY: as above.
        let r = unsafe { r.slice_mut(own.clone()) };
        // SAFETY: as above.
        let z = unsafe { z.slice(own.clone()) };
        // SAFETY: as above.
        let own_p = unsafe { p.slice_mut(own.clone()) };
        let rho = self.sum(self.dot(r, z));
        self.add_time(DOTS);
        let beta = if state.iterations == 0 { 0.0 } else { rho / state.rho };
        // SAFETY: both slices have the same length and belong to this thread.
        unsafe {
            vectors::direction(
                solver.codes.products,
                own_p.len(),
                beta,
                z.as_ptr(),
                own_p.as_mut_ptr(),
            )
        };
        self.lap(AXPY);
        // SAFETY: every thread of every rank calls this, and no other code uses the vector between these barriers.
        unsafe { solver.halo.exchange(context, p) };
        self.lap(HALO);
        // SAFETY: p is complete after the barrier.
        unsafe { self.multiply() };
        self.lap(SPMV);
        // SAFETY: other threads only read p, and do not use q.
        let (p, q) = unsafe { (p.slice(own.clone()), q.slice(own)) };
        let curvature = self.sum(self.dot(p, q));
        self.add_time(DOTS);
        let alpha = rho / curvature;
        let pq = (p.as_ptr(), q.as_ptr());
        let xr = (x.as_mut_ptr(), r.as_mut_ptr());
        // SAFETY: the slices of the four arrays have the same length and belong to this thread.
        let squared = unsafe { vectors::update(solver.codes.products, p.len(), alpha, pq, xr) };
        let squared = self.sum(squared);
        self.add_time(AXPY);
        (state.rho, state.iterations) = (rho, state.iterations + 1);
        state.residual = (squared / state.b_squared).sqrt();
        state.end = match () {
            () if !(curvature.is_finite() && squared.is_finite()) => Some(SolverEnd::NotANumber),
            () if curvature <= 0.0 => Some(SolverEnd::Indefinite),
            () if state.residual <= tolerance.residual => Some(SolverEnd::Converged),
            () if state.iterations >= tolerance.iterations => Some(SolverEnd::Limit),
            () => None,
        };
        self.times[0] = self.since.saturating_sub(begun) as f64 * 1e-9;
        self.times
    }

    /// Computes `q = A p` for the rows of this thread.
    ///
    /// # Safety
    /// No thread may write p, including its components of other ranks, and no other thread may use these rows of q.
    unsafe fn multiply(&self) {
        let Solver { system, matrix, p, q, codes, .. } = self.solver;
        // SAFETY: p has all columns, and q the rows; the caller guarantees the rest.
        unsafe {
            matrix.multiply(&system.rows, self.context.thread, codes.products, p.at(0), q.at(0));
        }
    }

    /// Returns the scalar product of this thread's parts of two vectors.
    fn dot(&self, x: &[f64], y: &[f64]) -> f64 {
        let n = x.len().min(y.len());
        // SAFETY: both vectors have `n` numbers, and the processor supports the instruction set.
        unsafe { vectors::dot(self.solver.codes.products, n, x.as_ptr(), y.as_ptr()) }
    }

    /// Returns the sum of `part` over all threads and ranks; all threads get the same result.
    fn sum(&self, part: f64) -> f64 {
        let (sum, _) = self.sums.add_up(part, false, || self.context.barrier());
        self.solver.halo.sum(self.context, sum)
    }

    /// Waits for all threads. Then adds the time since the end of the preceding part to the time of a part.
    fn lap(&mut self, part: usize) {
        self.context.wait_for_all();
        self.add_time(part);
    }

    /// Adds the time since the end of the preceding part to the time of a part.
    fn add_time(&mut self, part: usize) {
        let now = monotonic_nanos();
        self.times[1 + part] += (now - self.since) as f64 * 1e-9;
        self.since = now;
    }
}
