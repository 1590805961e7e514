//! Options of `apps iccg`.

use nodegauge_measure::Fraction;
use nodegauge_solvers::cg::StopLimits;
use nodegauge_solvers::elasticity::Mesh;
use nodegauge_solvers::iccg::{IccgMethod, SolutionJob, SolutionLoops};
use nodegauge_solvers::sparse::MatrixFormat;
use std::time::Duration;

/// Options of a run of `apps iccg`.
#[derive(Debug, Clone, PartialEq)]
pub struct IccgOptions {
    /// Number of elements along x, y and z; with `None`, the size rule determines the mesh.
    pub elements: Option<[usize; 3]>,
    /// Preconditioner of the solver.
    pub method: IccgMethod,
    /// Storage format of the matrix; with `None`, the faster format is used.
    pub storage: Option<MatrixFormat>,
    /// Tolerance: `|r| / |b|` at which the solver has converged.
    pub tolerance: f64,
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Maximum share of the available memory, 0 to 1.
    pub memory_fraction: Fraction,
    /// Time budget of the whole run, if the user set it. A run that would exceed it is refused. At least one solve is
    /// run.
    pub budget: Option<Duration>,
    /// Exact number of solves, regardless of the time.
    pub samples: Option<usize>,
}

impl IccgOptions {
    /// Default time budget of the whole run.
    pub const BUDGET: Duration = Duration::from_secs(60);

    /// Returns the job of a solve on a mesh. If `loops` is `None`, the fastest loops are chosen by measurement.
    pub(super) fn job(&self, mesh: Mesh, loops: Option<SolutionLoops>) -> SolutionJob {
        let tolerance = StopLimits { residual: self.tolerance, iterations: self.iterations };
        SolutionJob { mesh, storage: self.storage, tolerance, loops, method: self.method }
    }
}

impl Default for IccgOptions {
    fn default() -> Self {
        Self {
            elements: None,
            method: IccgMethod::default(),
            storage: None,
            tolerance: 1e-8,
            iterations: 10_000,
            memory_fraction: Fraction(0.8),
            budget: None,
            samples: None,
        }
    }
}
