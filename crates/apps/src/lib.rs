//! Proxy applications: what programs bound by computing and by memory get of a node, and what placement
//! costs them.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or knows
//! another gauge.

pub mod config;
mod gauge;
mod paired;
pub mod trapezoid;
mod workers;

pub use gauge::Apps;
pub use workers::{WorkerPool, Workers};

/// The gauge, as records have it.
const GAUGE: &str = "apps";
