//! Dense LU factorisation, matrix products and loops in registers, which are timed for HPL's rating and its limits.
//!
//! A call enclosed_programs a whole timed loop and its clock: nothing is inlined into another crate, and no loop calls one
//! (`docs/benchmarks.md`, "Release file and local build"). The crate plans nothing, judges nothing and does not print.

pub mod dgemm;
pub mod distribution;
mod engine;
pub mod factorisation;
mod leaf;
pub mod matrix;
pub mod peak;
pub mod random;
pub mod residual;

pub use engine::Multiplier;
