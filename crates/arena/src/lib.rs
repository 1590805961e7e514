//! Arrays in memory for measurements: mapped on chosen pages, laid out apart, touched first by the threads that
//! use them, with the places of their pages read back.
//!
//! Crates of gauges bring the loops and the protocol. Nothing here takes time or knows a gauge.

pub mod arrays;
mod config;
mod error;
pub mod evidence;
pub mod location;
mod mapping;
pub mod supply;
pub mod words;

pub use arrays::{Arrays, Layout};
pub use config::{NumaConfig, PagesConfig};
pub use error::ArenaError;
pub use mapping::{ArrayError, PagedMapping, Pages};

/// Name of the gauges of memory, as records have it in `gauge`: bandwidths of STREAM, and curves.
pub const GAUGE: &str = "memory";
/// Tests of curves: the figures of gauge [`GAUGE`] that are not of STREAM.
pub const CURVE_TESTS: [&str; 5] = ["ladder", "latency", "matrix", "loaded", "mix"];
