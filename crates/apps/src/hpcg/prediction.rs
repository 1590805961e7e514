//! Prediction of the time of the first sets, and reduction of domains and workers if the time is short.
//!
//! Each kind of workers runs a set on the smallest domains; its time is proportional to the number of points. Small
//! domains fit in the caches, so an iteration on the domains of the run takes at least the time for reading the matrix
//! from memory.

use super::{HpcgRun, ITERATIONS, bytes};
use crate::{TIMES_LLC, WorkerPool, memory_rates};
use nodegauge_arena::MemoryRates;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::schedule::{Predictable, PredictedTime, RunLimits, policy};
use nodegauge_measure::{Bytes, Failure, clock};
use nodegauge_solvers::hpcg::problem::{GridPoints, MIN_POINTS, POINTS_DIVISOR};
use std::time::Duration;

/// Number of times that an iteration reads the matrix on the finest grid: once for the product, and once for each of
/// two smoother sweeps.
const READ: u64 = 3;
/// Number of warm-up rounds.
const WARM_UP: u32 = 1;
/// Number of rounds for which the time must suffice when the domains are chosen: the warm-up, and the minimum number of
/// rounds for a figure that is not suspect. The prediction is based on domains that fit in the caches; on larger
/// domains, the same time may suffice for fewer rounds only.
const LIKELY_ROUNDS: u32 = WARM_UP + policy::APPS.min_rounds as u32;

/// Run of `apps hpcg` before its first set.
pub(super) struct PredictedSets<'r, 'a> {
    run: &'r HpcgRun<'a>,
    /// Current number of points of a domain in each direction.
    pub grid: GridPoints,
    /// True if the grid may be reduced.
    may_shrink: bool,
    /// Number of kept cells.
    pub kept_cells: usize,
    /// Time of a set on the smallest domains, for each cell.
    small: Vec<Duration>,
    rates: MemoryRates,
    /// Size of the caches of all workers, if known.
    llc: Option<Bytes>,
}

impl<'r, 'a> PredictedSets<'r, 'a> {
    /// Runs a set of each cell on the smallest domains. If a budget of the user does not permit this, the last measured
    /// set predicts the sets of the other cells.
    pub(super) fn new(
        run: &'r HpcgRun<'a>,
        pool: &mut WorkerPool<'a>,
        site: &MeasuredNode,
        grid: GridPoints,
        may_shrink: bool,
        limits: &RunLimits,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let mut small_run = run.shortened(run.cells.len(), [MIN_POINTS; 3])?;
        let mut small: Vec<Duration> = Vec::new();
        for at in 0..small_run.cells.len() {
            if let Some(last) = small.last().copied().filter(|_| limits.must_end_prediction()) {
                small.push(last);
                continue;
            }
            let begun = clock::now();
            small_run.set(pool, at, interrupted)?;
            small.push(clock::now().saturating_duration_since(begun));
        }
        let first = &run.cells[0];
        let cpus = first.swept.workers.cpus();
        let llc = site.cache_capacity(&cpus).bytes();
        let rates = memory_rates(&first.swept.workers, Bytes(first.bytes()))?;
        Ok(Self { run, grid, may_shrink, kept_cells: small.len(), small, rates, llc })
    }

    /// Returns the size of the matrix and the vectors of a cell on domains of `grid`, bytes.
    fn bytes(&self, at: usize, grid: GridPoints) -> u64 {
        let cell = &self.run.cells[at];
        bytes(&cell.swept.layout(grid))
    }

    /// Returns the predicted time of a set of a cell.
    fn set(&self, at: usize) -> Duration {
        let ratio = points(self.grid) / points([MIN_POINTS; 3]);
        let read = READ * ITERATIONS as u64 * self.bytes(at, self.grid);
        self.small[at].mul_f64(ratio).max(self.rates.rewrite_time(Bytes(read)))
    }

    /// Returns the grid with half as many points along each edge; `None` if it is too small.
    fn half(&self) -> Option<GridPoints> {
        let half = self.grid.map(|points| (points / 2).next_multiple_of(POINTS_DIVISOR));
        let is_smaller = half.iter().all(|points| *points >= MIN_POINTS) && half != self.grid;
        let min = TIMES_LLC * self.llc?.as_f64();
        (is_smaller && self.bytes(0, half) as f64 >= min).then_some(half)
    }
}

/// Returns the number of points of a domain.
fn points(grid: GridPoints) -> f64 {
    grid.iter().product::<usize>() as f64
}

impl Predictable for PredictedSets<'_, '_> {
    fn predicted(&self) -> PredictedTime {
        let round: Duration = (0..self.kept_cells).map(|at| self.set(at)).sum();
        PredictedTime { min: (WARM_UP + 1) * round, likely: LIKELY_ROUNDS * round }
    }

    /// Halves the edges of the domains as long as they are larger than the caches; then leaves out the last cell. The
    /// first cell is never left out, because it is the reference.
    fn shorten(&mut self) -> bool {
        if let Some(half) = self.half().filter(|_| self.may_shrink) {
            self.grid = half;
            return true;
        }
        let can = self.kept_cells > 1;
        self.kept_cells -= usize::from(can);
        can
    }

    fn shortening_options(&self) -> &str {
        "smaller domains (--grid)"
    }
}
