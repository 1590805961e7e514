//! Conjugate gradients with an incomplete factorisation for three-dimensional elasticity: complete solves by
//! threads or ranks.

mod method;
mod solution;

pub use method::IccgMethod;
pub use solution::{
    Solution, SolutionJob, SolutionLoops, data_moving_parts, rank_grid, solve, solve_as_follower,
};
