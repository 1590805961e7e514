//! Options of `apps iccg`.

use crate::order::EliminationOrder;
use crate::sparse::Storage;
use nodegauge_measure::Fraction;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Preconditioner and order of elimination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Method {
    /// Block-IC(0) within the domain of every thread, without couplings between domains.
    #[default]
    Domain,
    /// Block-IC(0) with the smallest number of colours.
    Multicolour,
    /// Block-IC(0) with the levels of reverse Cuthill-McKee, distributed cyclically over colours.
    CyclicLevels,
    /// Block-IC(0) in reverse Cuthill-McKee order.
    Levels,
    /// Block-IC(0) in natural order.
    Natural,
    /// Inverse of the diagonal blocks.
    Diagonal,
}

nodegauge_measure::names!(
    Method,
    "preconditioner",
    Domain = "domain",
    Multicolour = "multicolour",
    CyclicLevels = "cm-rcm",
    Levels = "rcm",
    Natural = "natural",
    Diagonal = "diagonal"
);

impl Method {
    /// Returns the order in which rows are eliminated.
    pub(crate) fn order(self) -> EliminationOrder {
        match self {
            Self::Domain | Self::Diagonal => EliminationOrder::Domain,
            Self::Multicolour => EliminationOrder::Multicolour,
            Self::CyclicLevels => EliminationOrder::CyclicLevels,
            Self::Levels => EliminationOrder::Levels,
            Self::Natural => EliminationOrder::Natural,
        }
    }
}

/// Options of a run of `apps iccg`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IccgOptions {
    /// Number of elements along x, y and z; with `None`, the size rule determines the mesh.
    pub elements: Option<[usize; 3]>,
    /// Preconditioner of the solver.
    pub method: Method,
    /// Storage format of the matrix; with `None`, the faster format is used.
    pub storage: Option<Storage>,
    /// Tolerance: `|r| / |b|` at which the solution has converged.
    pub tolerance: f64,
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Maximum share of the available memory, 0 to 1.
    pub memory_fraction: Fraction,
    /// Time for the whole run, if the user set it; a run that would exceed it is refused. At least one solution is
    /// computed.
    pub budget: Option<Duration>,
    /// Exact number of solutions, independent of the time.
    pub samples: Option<usize>,
}

impl IccgOptions {
    /// Default time for the whole run.
    pub const BUDGET: Duration = Duration::from_secs(60);
}

impl Default for IccgOptions {
    fn default() -> Self {
        Self {
            elements: None,
            method: Method::default(),
            storage: None,
            tolerance: 1e-8,
            iterations: 10_000,
            memory_fraction: Fraction(0.8),
            budget: None,
            samples: None,
        }
    }
}
