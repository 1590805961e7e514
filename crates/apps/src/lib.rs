//! Proxy applications: what programs bound by computing and by memory get of a node, and what placement
//! costs them.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or knows
//! another gauge.
// Rows, columns and lanes are numbers here, of several arrays at once.
#![allow(clippy::needless_range_loop)]

mod array;
mod bandwidth;
mod cg;
mod code;
pub mod config;
mod context;
pub mod elasticity;
mod gauge;
mod halo;
pub mod hpcg;
pub mod iccg;
pub mod keys;
pub mod order;
mod paired;
mod points;
mod precondition;
pub mod sparse;
mod sums;
pub mod sweep;
mod system;
pub mod trapezoid;
mod vectors;
mod workers;

pub use gauge::Apps;
use nodegauge_team::{WorkerPool, Workers};
pub use workers::{MpiRanks, WorkersOptions};

/// The gauge, as records have it.
pub const GAUGE: &str = "apps";
/// A matrix against the last-level caches below which these help, as STREAM's rule has it for an array.
const TIMES_LLC: f64 = 4.0;

#[cfg(test)]
mod tests;
