//! Arrays in memory for measurements: mapped on chosen pages, staggered, touched first by the threads that
//! use them, with the NUMA nodes and sizes of their pages read back.
//!
//! The gauges' crates have the loops and the protocol. This crate measures nothing and depends on no gauge.

pub mod arrays;
mod error;
pub mod evidence;
pub mod keys;
pub mod location;
mod mapping;
pub mod names;
pub mod supply;
pub mod words;

pub use arrays::{ArrayLayout, ArrayShare, Arrays, ArraysConfig};
pub use error::ArenaError;
pub use keys::{NumaConfig, PagesConfig};
pub use mapping::{ArrayError, PagedMapping, RequestedPages};
pub use names::GAUGE;
