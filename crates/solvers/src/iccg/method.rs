//! Preconditioners of the solver, with their orders of elimination.

use crate::order::EliminationOrder;
use serde::{Deserialize, Serialize};

/// Preconditioner and order of elimination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum IccgMethod {
    /// Block-IC(0) within the domain of every thread, without couplings between domains.
    #[default]
    Domain,
    /// Block-IC(0) with as few colours as possible.
    Multicolour,
    /// Block-IC(0) with the levels of reverse Cuthill-McKee, which are distributed cyclically over colours.
    CyclicLevels,
    /// Block-IC(0) in reverse Cuthill-McKee order.
    Levels,
    /// Block-IC(0) in natural order.
    Natural,
    /// Inverse of the diagonal blocks.
    Diagonal,
}

nodegauge_measure::names!(
    IccgMethod,
    "preconditioner",
    Domain = "domain",
    Multicolour = "multicolour" | "multicolor",
    CyclicLevels = "cm-rcm",
    Levels = "rcm",
    Natural = "natural",
    Diagonal = "diagonal"
);

impl IccgMethod {
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
