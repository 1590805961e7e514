//! Prediction of the time of the first solves, and reduction of mesh and workers if the time is short.
//!
//! Each kind of workers solves the problem on a small mesh. The time of the set-up is proportional to the number of
//! elements, and the number of iterations is proportional to the edge length. A small mesh fits in the caches, so an
//! iteration on the mesh of the run takes at least the time for reading the matrix and the factorisation from memory.

use super::follow::SolverRequest;
use super::options::IccgOptions;
use super::size::{self, MeshConstraints, MeshSize};
use crate::sweep::SweepWorkers;
use crate::{GAUGE, WorkerPool, followers, left_out_in_time, memory_rates};
use nodegauge_arena::MemoryRates;
use nodegauge_measure::schedule::{Predictable, PredictedTime, RunLimits, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer};
use nodegauge_solvers::elasticity::Mesh;
use nodegauge_solvers::iccg;
use std::time::Duration;

/// Maximum number of elements along an edge of the small mesh; its solve takes some milliseconds.
const EDGE: usize = 12;
/// Size of the data that an iteration reads (matrix and factorisation), divided by the size of the matrix.
const READ: u64 = 2;
/// Number of solves per kind of workers for which the time must suffice when the mesh is chosen: the minimum number for
/// a figure that is not suspect. The prediction is based on a mesh that fits in the caches; on a larger mesh, the same
/// time may suffice for fewer solves only.
const LIKELY_ROUNDS: u32 = policy::ICCG.min_rounds as u32;

/// Solve on the small mesh by one kind of workers.
#[derive(Clone)]
struct SmallSolution {
    setup: Duration,
    iteration: Duration,
    iterations: usize,
}

/// Run of `apps iccg` before its first solve.
pub(super) struct PredictedSolutions<'a> {
    options: &'a IccgOptions,
    constraints: &'a MeshConstraints,
    pub size: MeshSize,
    swept: &'a [SweepWorkers],
    /// Solves on the small mesh, by kind of workers; `None` if the small mesh cannot be divided among the ranks.
    solved: Vec<Option<SmallSolution>>,
    small: Mesh,
    rates: MemoryRates,
}

impl<'a> PredictedSolutions<'a> {
    /// Solves the problem on the small mesh once with the workers of each combination in `swept`. If the time of the
    /// user's budget does not suffice, the last measured solve is also used for the remaining workers.
    pub(super) fn new(
        pool: &mut WorkerPool<'_>,
        swept: &'a [SweepWorkers],
        options: &'a IccgOptions,
        constraints: &'a MeshConstraints,
        size: MeshSize,
        limits: &RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<Self, Failure> {
        observer.begin_phase("predicting the time of a solve");
        let small = Mesh { elements: size.mesh.elements.map(|edge| edge.min(EDGE)) };
        let rates = memory_rates(&swept[0].workers, size.matrix)?;
        let mut solved: Vec<Option<SmallSolution>> = Vec::new();
        for (at, SweepWorkers { workers, .. }) in swept.iter().enumerate() {
            if iccg::rank_grid(small, workers.count()).is_err() {
                solved.push(None);
                continue;
            }
            let last = solved.iter().flatten().next_back().filter(|_| limits.must_end_prediction());
            if let Some(last) = last.cloned() {
                solved.push(Some(last));
                continue;
            }
            let job = options.job(small, None);
            followers::request_work(workers, || SolverRequest::Solve(job.clone()))?;
            let Some((solution, samples)) = iccg::solve(pool, at, workers, &job, observer)? else {
                break;
            };
            // The fastest iteration is the least disturbed one.
            let fastest = samples.iter().map(|sample| sample.seconds[0]).reduce(f64::min);
            solved.push(Some(SmallSolution {
                setup: Duration::from_secs_f64(solution.setup_s.0 + solution.memory_s.0),
                iteration: Duration::from_secs_f64(fastest.unwrap_or(0.0)),
                iterations: samples.len(),
            }));
        }
        Ok(Self { options, constraints, size, swept, solved, small, rates })
    }

    /// Returns the kept workers.
    pub(super) fn kept_workers(&self) -> &'a [SweepWorkers] {
        self.swept
    }

    /// Returns the predicted time of a solve, computed from the solve on the small mesh by the same workers.
    fn solution(&self, small: &SmallSolution) -> Duration {
        let ratio = elements(self.size.mesh) / elements(self.small);
        let min_iteration = self.rates.rewrite_time(Bytes(READ * self.size.matrix.0));
        let iteration = small.iteration.mul_f64(ratio).max(min_iteration);
        small.setup.mul_f64(ratio) + iteration.mul_f64(small.iterations as f64 * ratio.cbrt())
    }

    /// Returns the size with half the matrix; `None` if it is too small, or if its mesh cannot be divided among the
    /// ranks.
    fn halved_size(&self) -> Option<MeshSize> {
        let half = size::half_size(&self.size, self.constraints)?;
        let can_divide = self.swept.iter().all(|one| {
            !one.workers.are_processes() || iccg::rank_grid(half.mesh, one.workers.count()).is_ok()
        });
        can_divide.then_some(half)
    }

    /// Returns notices on the reduction of the mesh and of the workers. The matrix had the size `before`, and the
    /// workers were `all`.
    pub(super) fn notices(&self, before: Bytes, all: &[SweepWorkers]) -> Vec<Notice> {
        let mut notices = Vec::new();
        let now = self.size.matrix;
        if now < before {
            let text = format!("the matrix is reduced from {before} to {now} to keep the budget");
            notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
        }
        notices.extend(left_out_in_time(&all[self.swept.len()..]));
        notices
    }
}

/// Returns the number of elements of a mesh.
fn elements(mesh: Mesh) -> f64 {
    mesh.elements.iter().product::<usize>() as f64
}

impl Predictable for PredictedSolutions<'_> {
    fn predicted(&self) -> PredictedTime {
        let min: Duration = self.solved.iter().flatten().map(|small| self.solution(small)).sum();
        PredictedTime { min, likely: LIKELY_ROUNDS * min }
    }

    /// Halves the matrix, as long as the size rule permits; then leaves out the last kind of workers. The first kind is
    /// never left out, because it is the reference.
    fn shorten(&mut self) -> bool {
        if self.options.elements.is_none()
            && let Some(size) = self.halved_size()
        {
            self.size = size;
            return true;
        }
        let kept = self.swept.len() - 1;
        if kept > 0 {
            self.swept = &self.swept[..kept];
            self.solved.truncate(kept);
        }
        kept > 0
    }

    fn shortening_options(&self) -> &str {
        "a smaller mesh (--elements)"
    }
}
