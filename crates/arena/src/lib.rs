//! Arrays in memory for measurements: mapped on chosen pages, laid out apart, touched first by the threads that
//! use them, with the places of their pages read back.
//!
//! Crates of gauges bring the loops and the protocol. Nothing here takes time or knows a gauge.

pub mod arrays;
mod error;
pub mod evidence;
pub mod keys;
pub mod location;
mod mapping;
pub mod names;
pub mod supply;
pub mod words;

pub use arrays::{Arrays, ArraysConfig, Layout, Part};
pub use error::ArenaError;
pub use keys::{NumaConfig, PagesConfig};
pub use mapping::{ArrayError, PagedMapping, Pages};
pub use names::GAUGE;
