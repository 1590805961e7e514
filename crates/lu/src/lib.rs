//! Timed loops for HPL's rating and its limits: dense LU factorisation, matrix products, and loops in registers.
//!
//! Each call contains a whole timed loop and its clock readings; no timed loop spans several crates, so that speed
//! does not depend on inlining between crates (`docs/benchmarks.md`, "Release file and local build"). The crate
//! neither plans nor judges measurements, and does not print.

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
