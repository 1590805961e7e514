//! Solve in one domain, as part of the solve of all domains, and the tests of HPCG. The solver is conjugate gradients,
//! preconditioned by a multigrid cycle with symmetric Gauss-Seidel sweeps within the domain. The steps are those of
//! HPCG's reference code.

use super::exchange::DomainExchangePoint;
use super::loops;
use super::matrix::{Matrix, VectorShape};
use super::problem::{DomainLayout, LEVELS, PARTS};
use crate::array::MappedArray;
use crate::code::LoopCode;
use nodegauge_measure::Failure;
use nodegauge_os::monotonic_nanos;
use std::sync::atomic::{AtomicBool, Ordering};

const DDOT: usize = 0;
const WAXPBY: usize = 1;
const SPMV: usize = 2;
const MG: usize = 3;

/// Data of one grid of the multigrid preconditioner.
#[derive(Debug)]
struct Level {
    matrix: Matrix,
    /// Right-hand side on this grid; on the finest grid, the residual.
    r: MappedArray<f64>,
    /// Solution on this grid, including points of neighbouring domains; on the finest grid, the preconditioned
    /// residual.
    x: MappedArray<f64>,
    /// Product of x and the part of the matrix below the diagonal.
    t: MappedArray<f64>,
}

impl Level {
    /// Creates the rows and vectors of domain `number` on one grid.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    fn new(layout: &DomainLayout, number: usize) -> Result<Self, Failure> {
        let matrix = Matrix::new(layout, number)?;
        let shape = &matrix.shape;
        let r = map_and_touch(shape)?;
        let x = map_and_touch(shape)?;
        let t = map_and_touch(shape)?;
        Ok(Self { r, x, t, matrix })
    }

    fn shape(&self) -> VectorShape {
        self.matrix.shape
    }
}

/// Maps a vector of this shape. The calling thread touches its pages first.
fn map_and_touch(shape: &VectorShape) -> Result<MappedArray<f64>, Failure> {
    let mut vector = MappedArray::allocate(shape.length())?;
    vector.fill(0.0);
    Ok(vector)
}

/// Number of forward and backward sweeps per candidate in the choice of loops; the shortest time is used.
const SWEEPS_TIMED: usize = 3;

/// Domain of one thread, in memory that the thread has touched first.
#[derive(Debug)]
pub(crate) struct Domain {
    code: LoopCode,
    levels: Vec<Level>,
    b: MappedArray<f64>,
    x: MappedArray<f64>,
    /// Search direction, including points of neighbouring domains.
    p: MappedArray<f64>,
    ap: MappedArray<f64>,
}

/// Result of a solve in one domain.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct DomainSolution {
    /// Number of completed iterations.
    pub iterations: usize,
    /// Relative residual `|r| / |r0|`, with the recursively updated r.
    pub residual: f64,
    /// Seconds that this domain spent in each of the [`PARTS`].
    pub seconds: [f64; PARTS.len()],
}

/// Criteria for stopping the solver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopCriteria<'a> {
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Relative residual at which the solver stops.
    pub tolerance: f64,
    /// True if the multigrid cycle is used as preconditioner.
    pub preconditioned: bool,
    /// Set when the user interrupts the run.
    pub stop: &'a AtomicBool,
}

impl Domain {
    /// Creates a domain of the problem whose solution is 1 everywhere.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn new(layout: &DomainLayout, number: usize, code: LoopCode) -> Result<Self, Failure> {
        let mut levels = Vec::new();
        for level in 0..LEVELS {
            levels.push(Level::new(&layout.coarser(level), number)?);
        }
        let shape = &levels[0].shape();
        let mut domain = Self {
            code,
            b: map_and_touch(shape)?,
            x: map_and_touch(shape)?,
            p: map_and_touch(shape)?,
            ap: map_and_touch(shape)?,
            levels,
        };
        domain.set_right_hand_side(&|_| 1.0, layout, number);
        Ok(domain)
    }

    /// Chooses the variant among `all` with the fastest sweeps. The variants are measured interleaved. All domains
    /// choose the same variant, because the times of all domains are added.
    pub fn choose_loops(&mut self, place: &DomainExchangePoint<'_>, all: &[LoopCode]) {
        let mut best = vec![f64::INFINITY; all.len()];
        let Level { matrix, r, x, t } = &mut self.levels[0];
        for _ in 0..SWEEPS_TIMED {
            for (code, shortest) in all.iter().zip(&mut best) {
                place.sum(0.0, false);
                let begun = monotonic_nanos();
                // SAFETY: this processor supports the loops; the three vectors have this shape and belong to this
                // thread.
                unsafe {
                    loops::forward_from_zero(*code, matrix, r.at(0), x.at_mut(0), t.at_mut(0));
                    loops::backward(*code, matrix, r.at(0), x.at_mut(0), t.at(0));
                }
                *shortest = shortest.min((monotonic_nanos() - begun) as f64);
            }
        }
        let together = best.into_iter().map(|nanos| place.sum(nanos, false).0);
        let fastest = all.iter().zip(together).min_by(|(_, one), (_, other)| one.total_cmp(other));
        self.code = fastest.map_or(self.code, |(code, _)| *code);
    }

    /// True if the loops prefetch coefficients.
    pub fn prefetches_coefficients(&self) -> bool {
        self.code.prefetches
    }

    /// Returns the size of a domain in bytes, without the shared buffers.
    pub fn bytes(layout: &DomainLayout) -> u64 {
        let mut bytes = 0;
        for level in 0..LEVELS {
            let shape = VectorShape::new(layout.coarser(level).local);
            let vectors = if level == 0 { 7 } else { 3 };
            bytes += Matrix::bytes(&shape) + vectors * 8 * shape.length();
        }
        bytes as u64
    }

    /// Returns the number of bytes that an iteration moves, computed from the storage format: products, sweeps over
    /// both halves of the matrix, and a cycle over all grids. Every loop moves each of its vectors once.
    pub fn moved_bytes(layout: &DomainLayout) -> u64 {
        let mut moved = 0;
        for level in 0..LEVELS {
            let shape = VectorShape::new(layout.coarser(level).local);
            let matrix = Matrix::bytes(&shape) as u64;
            let vector = 8 * shape.length() as u64;
            if level == 0 {
                // The product, three sums over one or two vectors, and three vector updates.
                moved += matrix + 2 * vector + (5 + 9) * vector;
            }
            moved += match level {
                // The sweep from zero reads the lower half of the matrix, then the upper half. The residual reads every
                // fourth slice. The second sweep reads the whole matrix, then the upper half.
                0..3 => matrix * 11 / 4 + 17 * vector,
                _ => matrix + 8 * vector,
            };
        }
        moved
    }

    /// Sets b to the product of the matrix and a vector of ones, multiplied by `factor` at every point.
    fn set_right_hand_side(
        &mut self,
        factor: &dyn Fn([usize; 3]) -> f64,
        layout: &DomainLayout,
        number: usize,
    ) {
        let shape = self.levels[0].shape();
        let global = layout.global();
        let place = layout.position(number);
        for z in 0..shape.grid[2] {
            for y in 0..shape.grid[1] {
                for x in 0..shape.grid[0] {
                    let point = [x, y, z];
                    let neighbours: f64 = (0..3)
                        .map(|axis| {
                            let at = place[axis] * shape.grid[axis] + point[axis];
                            let low = f64::from(u8::from(at > 0));
                            1.0 + low + f64::from(u8::from(at + 1 < global[axis]))
                        })
                        .product();
                    self.b[shape.at(point.map(|at| at as isize))] =
                        (27.0 - neighbours) * factor(point);
                }
            }
        }
    }

    /// Solves the system from x = 0; returns `None` if the solver was stopped before the end.
    pub fn solve(
        &mut self,
        place: &DomainExchangePoint<'_>,
        stop_criteria: StopCriteria<'_>,
    ) -> Option<DomainSolution> {
        let shape = self.levels[0].shape();
        let mut watch = Stopwatch { seconds: [0.0; PARTS.len()], since: monotonic_nanos() };
        let end = || stop_criteria.stop.load(Ordering::Relaxed);
        self.x.fill(0.0);
        self.p.fill(0.0);
        self.multiply_p(place);
        watch.lap(SPMV);
        // Initial residual: r = b - A x.
        let r = &mut self.levels[0].r;
        update(&shape, r, &[(&self.b, 1.0), (&self.ap, -1.0)]);
        watch.lap(WAXPBY);
        let (first, mut ended) =
            place.sum(dot(&shape, &self.levels[0].r, &self.levels[0].r), end());
        watch.lap(DDOT);
        let first = first.sqrt();
        let mut norm = first;
        let mut rho = 0.0;
        let mut iterations = 0;
        while iterations < stop_criteria.iterations
            && norm / first > stop_criteria.tolerance * (1.0 + 1e-6)
        {
            if ended {
                return None;
            }
            if stop_criteria.preconditioned {
                self.cycle(place, 0);
            } else {
                let Level { r: level_r, x, .. } = &mut self.levels[0];
                x.copy_from_slice(level_r);
            }
            watch.lap(MG);
            let (rz, _) = place.sum(dot(&shape, &self.levels[0].r, &self.levels[0].x), false);
            watch.lap(DDOT);
            let beta = if iterations == 0 { 0.0 } else { rz / rho };
            rho = rz;
            // New search direction: p = z + beta p.
            add_to(&shape, &mut self.p, beta, &self.levels[0].x, 1.0);
            watch.lap(WAXPBY);
            self.multiply_p(place);
            watch.lap(SPMV);
            let (p_ap, _) = place.sum(dot(&shape, &self.p, &self.ap), false);
            watch.lap(DDOT);
            let alpha = rho / p_ap;
            add_to(&shape, &mut self.x, 1.0, &self.p, alpha);
            add_to(&shape, &mut self.levels[0].r, 1.0, &self.ap, -alpha);
            watch.lap(WAXPBY);
            let squared;
            (squared, ended) = place.sum(dot(&shape, &self.levels[0].r, &self.levels[0].r), end());
            watch.lap(DDOT);
            norm = squared.sqrt();
            iterations += 1;
        }
        Some(DomainSolution { iterations, residual: norm / first, seconds: watch.seconds })
    }

    /// Exchanges p with the neighbouring domains and computes A p.
    fn multiply_p(&mut self, place: &DomainExchangePoint<'_>) {
        let matrix = &self.levels[0].matrix;
        // SAFETY: this processor supports the loops; both vectors have this shape and belong to this thread.
        unsafe {
            place.exchange(&matrix.shape, self.p.at_mut(0));
            loops::product(self.code, matrix, self.p.at(0), self.ap.at_mut(0));
        }
    }

    /// Runs a multigrid cycle, beginning at grid `level`: computes x from r.
    fn cycle(&mut self, place: &DomainExchangePoint<'_>, level: usize) {
        let code = self.code;
        let (here, coarser) = self.levels[level..].split_at_mut(1);
        let Level { matrix, r, x, t } = &mut here[0];
        x.fill(0.0);
        let r = r.at(0);
        let t = t.at_mut(0);
        let x = x.at_mut(0);
        // SAFETY: as above; the vector of the coarser grid has half this shape.
        unsafe {
            loops::forward_from_zero(code, matrix, r, x, t);
            loops::backward(code, matrix, r, x, t);
            if let [next, ..] = coarser {
                place.exchange(&matrix.shape, x);
                loops::restrict(code, matrix, r, x, next.r.at_mut(0));
            }
        }
        if coarser.is_empty() {
            return;
        }
        self.cycle(place, level + 1);
        let (level_here, level_coarser) = self.levels[level..].split_at_mut(1);
        let Level { matrix: level_matrix, r: level_r, x: level_x, t: level_t } = &mut level_here[0];
        prolong(&level_matrix.shape, level_x, &level_coarser[0]);
        // SAFETY: as above.
        unsafe {
            place.exchange(&level_matrix.shape, level_x.at_mut(0));
            loops::forward(code, level_matrix, level_r.at(0), level_x.at_mut(0), level_t.at_mut(0));
            loops::backward(code, level_matrix, level_r.at(0), level_x.at_mut(0), level_t.at(0));
        }
    }

    /// Runs HPCG's convergence test. With a diagonal of 10^6 and more, conjugate gradients need about ten iterations
    /// without the preconditioner, and one or two iterations with it. Returns the maximum numbers of iterations without
    /// and with preconditioner. The test ends early if `stop` is set.
    pub fn run_spectral_test(
        &mut self,
        place: &DomainExchangePoint<'_>,
        layout: &DomainLayout,
        number: usize,
        stop: &AtomicBool,
    ) -> [usize; 2] {
        let global = layout.global();
        let first = layout.position(number).map(|at| at as isize);
        let factor = move |point: [usize; 3]| {
            let at: [usize; 3] =
                std::array::from_fn(|axis| first[axis] as usize * layout.local[axis] + point[axis]);
            let row = at[0] + global[0] * (at[1] + global[1] * at[2]);
            if row < 9 { (row + 2) as f64 * 1e6 } else { 1e6 }
        };
        let before = self.levels[0].matrix.diagonal.to_vec();
        self.levels[0].matrix.scale_diagonal(factor);
        self.set_right_hand_side(&factor, layout, number);
        let max = [false, true].map(|preconditioned| {
            let stop_criteria =
                StopCriteria { iterations: 50, tolerance: 1e-12, preconditioned, stop };
            self.solve(place, stop_criteria).map_or(usize::MAX, |solved| solved.iterations)
        });
        self.levels[0].matrix.set_diagonal(&before);
        self.set_right_hand_side(&|_| 1.0, layout, number);
        max
    }

    /// Runs HPCG's symmetry test with random vectors; returns `|x'Ay - y'Ax| / (2 |x|^2 |A| |y|^2) / epsilon` for the
    /// product and for the multigrid cycle. Like the reference code, it uses the squares of the norms of x and y.
    pub fn run_symmetry_test(
        &mut self,
        place: &DomainExchangePoint<'_>,
        number: usize,
    ) -> [f64; 2] {
        let shape = self.levels[0].shape();
        let sum = |x: &[f64], y: &[f64]| place.sum(dot(&shape, x, y), false).0;
        let seed_x = 2 * number as u64 + 1;
        let seed_y = 2 * number as u64 + 1_000_002;
        // The vector x is stored in `self.x`, and y in p and r. The vectors are filled again before every use.
        fill_randomly(&shape, &mut self.x, seed_x);
        fill_randomly(&shape, &mut self.p, seed_y);
        let norms = [sum(&self.x, &self.x), sum(&self.p, &self.p)];
        self.multiply_p(place);
        let x_ay = sum(&self.x, &self.ap);
        fill_randomly(&shape, &mut self.levels[0].r, seed_y);
        self.cycle(place, 0);
        let x_my = sum(&self.x, &self.levels[0].x);
        fill_randomly(&shape, &mut self.p, seed_x);
        self.multiply_p(place);
        fill_randomly(&shape, &mut self.levels[0].r, seed_x);
        self.cycle(place, 0);
        fill_randomly(&shape, &mut self.x, seed_y);
        let y_ax = sum(&self.x, &self.ap);
        let y_mx = sum(&self.x, &self.levels[0].x);
        // As in HPCG, the norms are sums of squares, and the norm of the matrix is 2 x 26.
        let scale = 2.0 * norms[0] * norms[1] * 52.0 * f64::EPSILON;
        [(x_ay - y_ax).abs() / scale, (x_my - y_mx).abs() / scale]
    }

    /// Returns the largest difference between x and the exact solution, which is 1.
    pub fn max_error(&self) -> f64 {
        let shape = self.levels[0].shape();
        let of =
            |first: usize| self.x[first..first + shape.grid[0]].iter().map(|x| (x - 1.0).abs());
        shape.lines().flat_map(of).max_by(f64::total_cmp).unwrap_or(0.0)
    }
}

/// Fills the points of a domain with random numbers.
fn fill_randomly(shape: &VectorShape, vector: &mut [f64], seed: u64) {
    let mut state = seed;
    for first in shape.lines() {
        for x in &mut vector[first..first + shape.grid[0]] {
            *x = random(&mut state);
        }
    }
}

/// Returns a random number between 0 and 1 (Marsaglia's xorshift64).
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(1);
    for shift in [13, -7, 17] {
        *state ^= if shift > 0 { *state << shift } else { *state >> -shift };
    }
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// Stopwatch for the parts of a solve.
struct Stopwatch {
    seconds: [f64; PARTS.len()],
    since: u64,
}

impl Stopwatch {
    fn lap(&mut self, part: usize) {
        let now = monotonic_nanos();
        self.seconds[part] += (now - self.since) as f64 * 1e-9;
        self.since = now;
    }
}

/// Returns x'y over the points of a domain, line by line, in eight parallel sums.
fn dot(shape: &VectorShape, x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for first in shape.lines() {
        let x = &x[first..first + shape.grid[0]];
        let y = &y[first..first + shape.grid[0]];
        let (x, x_rest) = x.as_chunks::<8>();
        let (y, y_rest) = y.as_chunks::<8>();
        for (of_x, of_y) in x.iter().zip(y) {
            sums = std::array::from_fn(|lane| sums[lane] + of_x[lane] * of_y[lane]);
        }
        for (sum, (rest_of_x, rest_of_y)) in sums.iter_mut().zip(x_rest.iter().zip(y_rest)) {
            *sum += rest_of_x * rest_of_y;
        }
    }
    sums.iter().sum()
}

/// Computes w = a x + b y.
fn update(shape: &VectorShape, w: &mut [f64], [(x, a), (y, b)]: &[(&MappedArray<f64>, f64); 2]) {
    for first in shape.lines() {
        let line = first..first + shape.grid[0];
        for ((w_element, x_element), y_element) in
            w[line.clone()].iter_mut().zip(&x[line.clone()]).zip(&y[line])
        {
            *w_element = a * x_element + b * y_element;
        }
    }
}

/// Computes y = a y + b x.
fn add_to(shape: &VectorShape, y: &mut [f64], a: f64, x: &[f64], b: f64) {
    for first in shape.lines() {
        let line = first..first + shape.grid[0];
        for (y_element, x_element) in y[line.clone()].iter_mut().zip(&x[line]) {
            *y_element = a * *y_element + b * x_element;
        }
    }
}

/// Adds the solution on the coarser grid to `x` at every other point in each direction.
fn prolong(shape: &VectorShape, x: &mut [f64], coarser: &Level) {
    let coarse = coarser.shape();
    let lines = coarse.grid[1];
    for (line, from) in coarse.lines().enumerate() {
        let to = shape.at([0, 2 * (line % lines) as isize, 2 * (line / lines) as isize]);
        for point in 0..coarse.grid[0] {
            x[to + 2 * point] += coarser.x[from + point];
        }
    }
}

#[cfg(test)]
mod tests;
