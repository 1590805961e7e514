//! Proxy applications: the performance of compute-bound and memory-bound programs on a node, and the effect of
//! placement.
//!
//! The crate takes a machine, a placement and options, and returns measurements. It does not print, does not save, and
//! does not depend on another gauge.
// Rows, columns and lanes are indices into several arrays simultaneously.
#![allow(clippy::needless_range_loop)]

mod array;
mod bandwidth;
mod cg;
mod code;
pub mod config;
mod context;
mod efficiency;
pub mod elasticity;
mod followers;
mod gauge;
mod halo;
pub mod hpcg;
pub mod iccg;
pub mod keys;
pub mod order;
mod paired;
mod points;
mod precondition;
mod setup_clock;
pub mod sparse;
mod sums;
pub mod sweep;
mod system;
pub mod trapezoid;
mod vectors;
mod workers;

pub use followers::end;
pub use gauge::Apps;
use nodegauge_team::{WorkerPool, Workers};
pub use workers::{MpiRanks, WorkersOptions};

/// Name of the gauge in records.
pub const GAUGE: &str = "apps";
/// Minimum size of a matrix as a multiple of the last-level caches, as in STREAM's rule for an array. Below it, caches
/// hold part of the matrix.
const TIMES_LLC: f64 = 4.0;

#[cfg(test)]
mod tests;
