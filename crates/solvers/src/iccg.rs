//! Conjugate gradients with an incomplete factorisation for three-dimensional elasticity: complete solutions by threads or
//! by ranks.

mod method;
mod solution;

pub use method::Method;
pub use solution::{Solution, SolutionJob, SolutionLoops, follow, parts, rank_grid, solve};
