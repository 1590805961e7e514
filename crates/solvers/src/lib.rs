//! Timed proxy applications: the trapezoid rule, conjugate gradients with an incomplete factorisation, and the
//! problem of HPCG.
//!
//! Each call contains a whole timed loop and its clock readings; no timed loop spans several crates, so that speed
//! does not depend on inlining between crates (`docs/benchmarks.md`, "Release file and local build"). The crate
//! neither plans nor judges measurements, and does not print.
// Rows, columns and lanes are indices into several arrays simultaneously.
#![allow(clippy::needless_range_loop)]

mod array;
pub mod bandwidth;
pub mod cg;
pub mod code;
mod context;
pub mod elasticity;
mod halo;
pub mod hpcg;
pub mod iccg;
pub mod order;
mod precondition;
mod setup_clock;
pub mod sparse;
mod sums;
mod system;
pub mod trapezoid;
mod vectors;

#[cfg(test)]
mod tests;
