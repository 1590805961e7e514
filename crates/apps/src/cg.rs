//! Preconditioned conjugate gradients (M. R. Hestenes, E. Stiefel, 1952), by a team that takes every step
//! together, part by part.
//!
//! Sums are made thread by thread in a fixed order, so that the same threads and the same colours give the
//! same result bit for bit.

use crate::array::SharedArray;
use crate::code::Code;
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

/// Parts of an iteration, in the order of [`Work`] and of the times of an iteration.
pub(crate) const PARTS: [&str; 5] = ["spmv", "preconditioner", "dots", "axpy", "halo"];
const SPMV: usize = 0;
const PRECONDITIONER: usize = 1;
const DOTS: usize = 2;
const AXPY: usize = 3;
const HALO: usize = 4;

/// Result of a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    /// The residual is below the tolerance.
    Converged,
    /// Iterations as many as were allowed.
    Limit,
    /// A sum is not a number.
    NotANumber,
    /// A direction along which the matrix is not positive.
    Indefinite,
}

/// State of a solution between two iterations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Iterations so far.
    pub iterations: usize,
    /// `|r| / |b|` by recursion.
    pub residual: f64,
    /// Reason why it ended; `None` while it continues.
    pub end: Option<End>,
    rho: f64,
    b_squared: f64,
}

/// Seconds of an iteration and of each of its [`PARTS`].
pub(crate) type Times = [f64; 1 + PARTS.len()];

/// Bytes and operations of each of the [`PARTS`] in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Work {
    pub bytes: [usize; PARTS.len()],
    pub flops: [usize; PARTS.len()],
}

/// When to end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tolerance {
    /// `|r| / |b|` at which the solution is found.
    pub residual: f64,
    /// Iterations at most.
    pub iterations: usize,
}

/// A system with all that its solution takes.
pub(crate) struct Solver<'a> {
    system: &'a System,
    matrix: &'a Matrix,
    preconditioner: &'a Preconditioner,
    halo: &'a dyn Halo,
    code: Code,
    sums: SharedSums,
    /// The solution.
    x: SharedArray<f64>,
    r: SharedArray<f64>,
    z: SharedArray<f64>,
    /// With the components of others' nodes behind.
    p: SharedArray<f64>,
    q: SharedArray<f64>,
}

/// A thread's way through a solution.
struct Walk<'s> {
    solver: &'s Solver<'s>,
    context: &'s ThreadContext<'s>,
    /// Over the threads of the rank.
    sums: Sums<'s>,
    /// When the last part was over.
    since: u64,
    times: Times,
}

impl<'a> Solver<'a> {
    /// Memory for a solution, touched by the threads that will use it.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn new(
        threads: &mut impl Threads,
        system: &'a System,
        matrix: &'a Matrix,
        preconditioner: &'a Preconditioner,
        halo: &'a dyn Halo,
        code: Code,
    ) -> Result<Self, Failure> {
        let owned = 3 * system.rows.owned();
        let mut solver = Self {
            system,
            matrix,
            preconditioner,
            halo,
            code,
            sums: SharedSums::map(threads.count())?,
            x: SharedArray::map(owned)?,
            r: SharedArray::map(owned)?,
            z: SharedArray::map(owned)?,
            p: SharedArray::map(3 * system.rows.nodes.len())?,
            q: SharedArray::map(owned)?,
        };
        solver.clear(threads)?;
        Ok(solver)
    }

    /// Goes back to `x = 0`.
    ///
    /// # Errors
    /// When a thread fails.
    pub fn clear(&mut self, threads: &mut impl Threads) -> Result<(), Failure> {
        let Self { x, r, z, p, q, system, .. } = &*self;
        threads.map(|context| {
            let own = self.own(context);
            for vector in [x, z, p, q] {
                // SAFETY: `self` is borrowed exclusively, and the rows are this thread's.
                unsafe { vector.part_mut(own.clone()) }.fill(0.0);
            }
            // SAFETY: as above.
            unsafe { r.part_mut(own.clone()) }.copy_from_slice(&system.rhs[own]);
        })?;
        Ok(())
    }

    fn own(&self, context: &ThreadContext<'_>) -> Range<usize> {
        let rows = self.system.rows.of_thread(context.thread);
        3 * rows.start..3 * rows.end
    }

    fn walk<'s>(&'s self, context: &'s ThreadContext<'_>) -> Walk<'s> {
        let sums = self.sums.of_worker(context.thread);
        Walk { solver: self, context, sums, since: 0, times: [0.0; 6] }
    }

    /// Returns the initial state of a solution.
    pub fn start(&self) -> State {
        State { iterations: 0, residual: 1.0, end: None, rho: f64::NAN, b_squared: f64::NAN }
    }

    /// The solution, by row.
    pub fn solution(&mut self) -> &[f64] {
        self.x.get_mut()
    }

    /// Up to `count` iterations more, a lap each, by all threads; all return the same state.
    ///
    /// # Safety
    /// The threads that the solver was made for call it together, each with its own context, and so do those of all
    /// other ranks; nothing else uses the solver meanwhile.
    pub unsafe fn advance(
        &self,
        context: &ThreadContext<'_>,
        laps: &mut Laps<'_>,
        mut state: State,
        count: usize,
        tolerance: Tolerance,
    ) -> (State, Vec<Times>) {
        let mut walk = self.walk(context);
        let mut all = Vec::with_capacity(count);
        if state.b_squared.is_nan() && state.iterations == 0 {
            let own = self.own(context);
            state.b_squared =
                walk.sum(walk.dot(&self.system.rhs[own.clone()], &self.system.rhs[own]));
            if state.b_squared == 0.0 {
                state.end = Some(End::Converged);
            }
        }
        for _ in 0..count {
            if state.end.is_some() {
                break;
            }
            // SAFETY: the caller's promise.
            let times = laps.time(|| unsafe { walk.iterate(&mut state, tolerance) });
            all.push(times);
        }
        (state, all)
    }

    /// Returns the bytes and operations of an iteration on this rank.
    pub fn work(&self) -> Work {
        let rows = &self.system.rows;
        let (n, threads) = (3 * rows.owned(), 0..rows.threads());
        let of = |count: &dyn Fn(&Range<usize>) -> usize| -> usize {
            threads.clone().map(|thread| count(&rows.of_thread(thread))).sum()
        };
        let mut work = Work::default();
        work.bytes[SPMV] = self.matrix.product_bytes(rows);
        work.flops[SPMV] = self.system.blocks * 18;
        work.bytes[PRECONDITIONER] = of(&|of_rows| self.preconditioner.bytes(of_rows));
        work.flops[PRECONDITIONER] = of(&|of_rows| self.preconditioner.flops(of_rows));
        // r z, p q.
        work.bytes[DOTS] = 4 * 8 * n;
        work.flops[DOTS] = 4 * n;
        // p = z + beta p; x and r updated from p and q, with r r on the way.
        work.bytes[AXPY] = (3 + 6) * 8 * n;
        work.flops[AXPY] = (2 + 6) * n;
        work.bytes[HALO] = self.halo.bytes();
        work
    }

    /// `|b - A x| / |b|` computed anew.
    ///
    /// # Errors
    /// When a thread fails.
    pub fn true_residual(&mut self, threads: &mut impl Threads) -> Result<f64, Failure> {
        let solver = &*self;
        let made = threads.map(|context| {
            let walk = solver.walk(context);
            let own = solver.own(context);
            // SAFETY: `self` is borrowed exclusively, and the rows are this thread's.
            unsafe { solver.p.part_mut(own.clone()).copy_from_slice(solver.x.part(own.clone())) };
            context.barrier_of_all();
            // SAFETY: every thread of every rank does, and between these barriers nothing else.
            unsafe { solver.halo.exchange(context, &solver.p) };
            context.barrier_of_all();
            // SAFETY: p is complete behind the barrier.
            unsafe { walk.multiply() };
            // SAFETY: as above.
            let q = unsafe { solver.q.part_mut(own.clone()) };
            let b = &solver.system.rhs[own];
            q.iter_mut().zip(b).for_each(|(q, b)| *q = b - *q);
            let r = walk.sum(walk.dot(q, q));
            (r / walk.sum(walk.dot(b, b))).sqrt()
        })?;
        Ok(made[0])
    }
}

impl Walk<'_> {
    /// One iteration.
    ///
    /// # Safety
    /// As for [`Solver::advance`].
    unsafe fn iterate(&mut self, state: &mut State, tolerance: Tolerance) -> Times {
        let (solver, context) = (self.solver, self.context);
        let Solver { x, r, z, p, q, system, .. } = solver;
        let own = solver.own(context);
        self.times = [0.0; 6];
        let begun = monotonic_nanos();
        self.since = begun;
        // SAFETY: r and z have the rows, and only their threads use them.
        unsafe {
            solver.preconditioner.apply(context, solver.code, &system.rows, r.at(0), z.at(0))
        };
        self.lap(PRECONDITIONER);
        // SAFETY: these rows are this thread's, here and below; the products before and behind read others'
        // between barriers.
        let x = unsafe { x.part_mut(own.clone()) };
        // SAFETY: as above.
        let r = unsafe { r.part_mut(own.clone()) };
        // SAFETY: as above.
        let z = unsafe { z.part(own.clone()) };
        // SAFETY: as above.
        let own_p = unsafe { p.part_mut(own.clone()) };
        let rho = self.sum(self.dot(r, z));
        self.took(DOTS);
        let beta = if state.iterations == 0 { 0.0 } else { rho / state.rho };
        // SAFETY: both are slices of the same length, and this thread's.
        unsafe {
            vectors::direction(solver.code, own_p.len(), beta, z.as_ptr(), own_p.as_mut_ptr())
        };
        self.lap(AXPY);
        // SAFETY: every thread of every rank does, and between these barriers nothing else.
        unsafe { solver.halo.exchange(context, p) };
        self.lap(HALO);
        // SAFETY: p is complete behind the barrier.
        unsafe { self.multiply() };
        self.lap(SPMV);
        // SAFETY: others read p alone, and q not at all.
        let (p, q) = unsafe { (p.part(own.clone()), q.part(own)) };
        let curvature = self.sum(self.dot(p, q));
        self.took(DOTS);
        let alpha = rho / curvature;
        let (pq, xr) = ((p.as_ptr(), q.as_ptr()), (x.as_mut_ptr(), r.as_mut_ptr()));
        // SAFETY: slices of the same length of four arrays, and this thread's.
        let squared = unsafe { vectors::update(solver.code, p.len(), alpha, pq, xr) };
        let squared = self.sum(squared);
        self.took(AXPY);
        (state.rho, state.iterations) = (rho, state.iterations + 1);
        state.residual = (squared / state.b_squared).sqrt();
        state.end = match () {
            () if !(curvature.is_finite() && squared.is_finite()) => Some(End::NotANumber),
            () if curvature <= 0.0 => Some(End::Indefinite),
            () if state.residual <= tolerance.residual => Some(End::Converged),
            () if state.iterations >= tolerance.iterations => Some(End::Limit),
            () => None,
        };
        self.times[0] = self.since.saturating_sub(begun) as f64 * 1e-9;
        self.times
    }

    /// `q = A p` on this thread's rows.
    ///
    /// # Safety
    /// Nothing writes p, which other ranks' components are part of, and nothing else uses these rows of q.
    unsafe fn multiply(&self) {
        let Solver { system, matrix, p, q, code, .. } = self.solver;
        // SAFETY: p has all columns, and q the rows; the rest is the caller's promise.
        unsafe {
            matrix.multiply(&system.rows, self.context.thread, *code, p.at(0), q.at(0));
        }
    }

    /// The sum of products of numbers that are this thread's.
    fn dot(&self, x: &[f64], y: &[f64]) -> f64 {
        let n = x.len().min(y.len());
        // SAFETY: both have so many numbers; the instruction set is the processor's.
        unsafe { vectors::dot(self.solver.code, n, x.as_ptr(), y.as_ptr()) }
    }

    /// The sum over all threads and ranks, the same for all.
    fn sum(&self, part: f64) -> f64 {
        let (sum, _) = self.sums.add_up(part, false, || self.context.barrier());
        self.solver.halo.sum(self.context, sum)
    }

    /// Waits for all, and counts the time for a part.
    fn lap(&mut self, part: usize) {
        self.context.barrier_of_all();
        self.took(part);
    }

    /// Counts the time since the last part for this one.
    fn took(&mut self, part: usize) {
        let now = monotonic_nanos();
        self.times[1 + part] += (now - self.since) as f64 * 1e-9;
        self.since = now;
    }
}
