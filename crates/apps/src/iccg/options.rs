//! Options of a run.

use crate::order::EliminationOrder;
use crate::sparse::Storage;
use nodegauge_measure::Fraction;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A preconditioner, with the order in which it eliminates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Method {
    /// Block-IC(0) of each thread's domain alone.
    #[default]
    Domain,
    /// Block-IC(0) in the fewest colours.
    Multicolour,
    /// Block-IC(0) in cyclic colours of reverse Cuthill-McKee's levels.
    CyclicLevels,
    /// Block-IC(0) in reverse Cuthill-McKee's order.
    Levels,
    /// Block-IC(0) in natural order.
    Natural,
    /// The inverse of the diagonal blocks.
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
    /// The order of rows.
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

/// Options of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IccgOptions {
    /// Elements along x, y, z; `None` for the size rule.
    pub elements: Option<[usize; 3]>,
    /// The preconditioner.
    pub method: Method,
    /// The storage of the matrix; `None` takes the faster one.
    pub storage: Option<Storage>,
    /// `|r| / |b|` at which the solution is found.
    pub tolerance: f64,
    /// Iterations at most.
    pub iterations: usize,
    /// Largest share of the memory that can be had, 0 to 1.
    pub memory_fraction: Fraction,
    /// Time for everything; one solution is always found.
    pub budget: Duration,
    /// Exactly this many solutions, whatever the time.
    pub samples: Option<usize>,
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
            budget: Duration::from_secs(60),
            samples: None,
        }
    }
}
