//! Solvers and loops that are timed as proxy applications: the trapezoid rule, conjugate gradients with an incomplete
//! factorisation, and the problem of HPCG.
//!
//! A call enclosed_programs a whole timed loop and its clock: nothing is inlined into another crate, and no loop calls one
//! (`docs/benchmarks.md`, "Release file and local build"). The crate plans nothing, judges nothing and does not print.
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
