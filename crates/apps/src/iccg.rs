//! `apps iccg`: conjugate gradients with an incomplete factorisation for three-dimensional elasticity, a memory-bound
//! program.

pub mod config;
mod follow;
mod options;
mod plan;
mod prediction;
mod result;
pub mod size;
pub(crate) mod view;

pub use follow::follow;
pub use nodegauge_solvers::iccg::IccgMethod;
pub use nodegauge_solvers::sparse::MatrixFormat;
pub use options::IccgOptions;
pub use plan::IccgPlan;

/// Name of the test in records.
pub const TEST: &str = "iccg";
