//! `apps iccg`: conjugate gradients with an incomplete factorisation for three-dimensional elasticity, a memory-bound
//! program.

pub mod config;
mod follow;
mod options;
mod plan;
mod prediction;
mod result;
pub mod size;
mod solution;
pub(crate) mod view;

pub use follow::follow;
pub use options::{IccgOptions, Method};
pub use plan::IccgPlan;

/// Name of the test in records.
pub const TEST: &str = "iccg";
