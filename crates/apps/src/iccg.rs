//! `apps iccg`: conjugate gradients with an incomplete factorisation on three-dimensional elasticity, a
//! program that memory bounds.

pub mod config;
mod follow;
mod options;
mod plan;
mod result;
pub mod size;
mod solution;
pub(crate) mod view;

pub use follow::{end, follow};
pub use options::{IccgOptions, Method};
pub use plan::IccgPlan;

/// `test` of its figures.
pub const TEST: &str = "iccg";
