//! LU factorisation with partial pivoting of the matrix [A b], and back-substitution. The solution x of A x = b
//! replaces b.
//!
//! The algorithm is right-looking, by panels of NB columns. `panel` factors one panel recursively. The row
//! exchanges, the triangular solve and the product of a panel are then applied to all following columns. `schedule`
//! chooses the order of work at run time. As in HPL, rows are not exchanged in the columns left of a panel, because
//! only U and the transformed b are needed to compute x. Threads work on disjoint parts of the matrix: a block of
//! columns belongs to the thread that has claimed it, and the rows of a product may be divided among threads.
mod panel;
mod schedule;
mod solve;
mod swaps;

use crate::engine::{GemmEngine, Multiplier};
use crate::matrix::{Matrix, MatrixView};
use nodegauge_measure::interference::ThreadCounts;
use nodegauge_measure::{Failure, Fraction, Seconds};
use nodegauge_team::{Team, TeamError};
use schedule::LuSchedule;
pub use schedule::MAX_UPDATE_COLUMNS;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Reason why a factorisation has no result.
#[derive(Debug, thiserror::Error)]
pub enum LuError {
    /// All pivot candidates of a column are zero.
    #[error("the matrix is singular: all pivot candidates of column {column} are zero")]
    Singular {
        /// Number of the column, from 0.
        column: usize,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// A thread of the team failed.
    #[error(transparent)]
    Team(#[from] TeamError),
}

impl From<LuError> for Failure {
    fn from(error: LuError) -> Self {
        match error {
            // A singular matrix is invalid input.
            LuError::Singular { .. } => Self::usage(error).hint("try another --seed"),
            LuError::Team(error) => error.into(),
            LuError::Interrupted => Self::missing(error),
        }
    }
}

/// Progress of a factorisation, for another thread.
#[derive(Debug, Default)]
pub struct LuProgress {
    /// Number of completed operations, counted as in HPL.
    flops: AtomicU64,
    /// Flag that another thread sets to stop the factorisation.
    pub stop: AtomicBool,
}

impl LuProgress {
    /// Returns the number of completed operations.
    pub fn flops(&self) -> f64 {
        self.flops.load(Ordering::Relaxed) as f64
    }
}

/// Elapsed time of a factorisation, and how the threads spent this time.
#[derive(Debug, Clone, PartialEq)]
pub struct LuTime {
    /// Elapsed time of factorisation and back-substitution.
    pub total: Seconds,
    /// Share of the time in panels, 0 to 1.
    pub panels: Fraction,
    /// Share of the time spent waiting, 0 to 1.
    pub waiting: Fraction,
    /// Time of the back-substitution.
    pub solve: Seconds,
    /// Number of threads that factor a panel together.
    pub panel_threads: usize,
    /// Largest share of a thread's time that other processes took, 0 to 1.
    pub lost: Fraction,
    /// Number of times that the kernel took a CPU away from a thread.
    pub switches: u64,
}

struct LuShared<'a> {
    view: MatrixView,
    nb: usize,
    engine: GemmEngine<'a>,
    /// Row with which each row was exchanged. The panel that contains the row writes its entry.
    pivots: Vec<AtomicU32>,
    group: panel::PanelGroup,
    schedule: LuSchedule,
    progress: &'a LuProgress,
    /// Number of a column without a pivot, plus one; 0 if there is no such column.
    singular: AtomicUsize,
}

impl LuShared<'_> {
    fn panels(&self) -> usize {
        self.view.n.div_ceil(self.nb)
    }

    fn columns(&self, block: usize) -> Range<usize> {
        block * self.nb..((block + 1) * self.nb).min(self.view.n)
    }

    /// Returns the columns of neighbouring blocks. The last block of the matrix includes the right-hand side.
    fn with_rhs(&self, blocks: &Range<usize>) -> Range<usize> {
        let rhs = usize::from(blocks.end == self.panels());
        blocks.start * self.nb..(blocks.end * self.nb).min(self.view.n) + rhs
    }

    /// Applies the row exchanges and the triangular solve of a panel to `columns`, which follow the panel.
    ///
    /// # Safety
    /// The columns must belong to the caller, and the panel must be factored.
    unsafe fn prepare(&self, panel: Range<usize>, columns: Range<usize>) {
        let view = self.view;
        let first = panel.start;
        let size = (panel.len(), columns.len());
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            swaps::apply(view, &self.pivots, panel, columns.clone());
            let b = view.at(first, columns.start);
            self.engine.solve(size, (view.at(first, first), view.ld), (b, view.ld));
        }
    }

    fn stopped(&self) -> bool {
        self.progress.stop.load(Ordering::Relaxed) || self.singular.load(Ordering::Relaxed) > 0
    }
}

/// Returns the maximum number of operations of LU per byte of memory traffic. Products with panels of `nb` columns
/// read and write every element of the remaining matrix once per 2 NB operations.
pub fn flops_per_byte(nb: usize) -> f64 {
    2.0 * nb as f64 / 16.0
}

/// Returns the number of operations for a system of order `n`, counted as in HPL: 2/3 n^3 + 3/2 n^2.
pub fn flops(n: usize) -> f64 {
    let n = n as f64;
    2.0 / 3.0 * n * n * n + 1.5 * n * n
}

/// Returns the number of threads that factor a panel together. A panel of m rows must be ready before the other
/// threads have updated m columns with the previous panel. For g of p threads: m nb^2 / (g r') + 2 m nb^2 / (g r)
/// <= half of 2 m^2 nb / (p r), where the rate r' in a panel is a quarter of the rate r of products. At m = n / 3
/// this gives g >= 18 nb p / n. The group has at most half of the threads: members of a small group wait less for
/// each other, and the remaining threads can update columns simultaneously.
pub fn panel_group_size(n: usize, nb: usize, threads: usize) -> usize {
    (18 * nb * threads).div_ceil(n.max(1)).clamp(1, (threads / 2).max(1))
}

/// Factors `matrix` on `team` with panels of `nb` columns and solves the system; the solution x replaces the right-hand
/// side.
///
/// # Errors
/// Fails if the matrix is singular, `progress.stop` was set, or a thread fails.
pub fn solve(
    team: &mut Team,
    matrix: &mut Matrix,
    nb: usize,
    multiplier: &Multiplier,
    progress: &LuProgress,
) -> Result<LuTime, LuError> {
    let n = matrix.order();
    let threads = team.len();
    let nb = nb.clamp(1, n.max(1));
    let view = matrix.view();
    let size = panel_group_size(n, nb, threads);
    let shared = LuShared {
        view,
        nb,
        engine: GemmEngine::new(multiplier),
        pivots: (0..n).map(|_| AtomicU32::new(0)).collect(),
        group: panel::PanelGroup::new(size),
        schedule: LuSchedule::new(n.div_ceil(nb), nb, threads, matrix.distribution().clone()),
        progress,
        singular: AtomicUsize::new(0),
    };
    let start = Instant::now();
    let busy = team.run_and_collect(|member| {
        let guard = AbandonOnPanic(&shared);
        shared.engine.use_one_thread();
        let before = ThreadCounts::now();
        let solve_start = Instant::now();
        let spent = schedule::work(&shared, member.index);
        let wall = solve_start.elapsed().as_secs_f64();
        let counts = ThreadCounts::now() - before;
        drop(guard);
        let off = wall - spent.slept - counts.cpu_nanos as f64 / 1e9;
        (spent, (off / wall.max(1e-9)).max(0.0), counts.involuntary_switches)
    })?;
    let factored = start.elapsed().as_secs_f64();
    let singular = shared.singular.load(Ordering::Relaxed).checked_sub(1);
    if singular.is_none() && progress.stop.load(Ordering::Relaxed) {
        return Err(LuError::Interrupted);
    }
    // SAFETY: the team has finished; no other thread uses the matrix.
    let zero = (0..n).find(|i| unsafe { *view.at(*i, *i) == 0.0 });
    if let Some(column) = singular.or(zero) {
        return Err(LuError::Singular { column });
    }
    team.run(|member| solve::back_substitute(&shared, member))?;
    let total = start.elapsed().as_secs_f64();
    let all = factored * threads as f64;
    Ok(LuTime {
        total: Seconds(total),
        panels: Fraction(busy.iter().map(|(spent, ..)| spent.panels).sum::<f64>() / all),
        waiting: Fraction(busy.iter().map(|(spent, ..)| spent.waiting).sum::<f64>() / all),
        solve: Seconds(total - factored),
        panel_threads: size,
        lost: Fraction(busy.iter().map(|(_, lost, _)| *lost).fold(0.0, f64::max)),
        switches: busy.iter().map(|(.., switches)| switches).sum(),
    })
}

/// Releases waiting threads when a thread panics, so that they do not wait for the panicked thread in a panel, for
/// work, or for the next panel.
struct AbandonOnPanic<'a>(&'a LuShared<'a>);

impl Drop for AbandonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.progress.stop.store(true, Ordering::Relaxed);
            self.0.group.barrier.poison();
            self.0.schedule.abandon();
        }
    }
}

#[cfg(test)]
mod tests;
