//! Conjugate gradients with an incomplete factorisation for three-dimensional elasticity: complete solves by
//! threads or ranks.

mod method;
mod solution;

pub use method::Method;
pub use solution::{Solution, SolutionJob, SolutionLoops, follow, moving_parts, rank_grid, solve};
