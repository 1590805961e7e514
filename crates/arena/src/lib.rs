//! Arrays in memory for measurements. The crate maps arrays on pages of a chosen kind with staggered start addresses,
//! and reads the actual NUMA nodes and page sizes from the kernel. The threads that use the arrays touch them first.
//!
//! The crates of the gauges contain the loops and the measurement protocols. This crate measures no figures, only
//! the rates that predict the time of a setup, and does not depend on the gauges.

pub mod arrays;
mod error;
pub mod evidence;
pub mod keys;
pub mod location;
mod mapping;
pub mod names;
mod rates;
pub mod supply;
pub mod words;

pub use arrays::{ArrayLayout, ArrayShare, Arrays, ArraysConfig};
pub use error::ArenaError;
pub use keys::{NumaConfig, PagesConfig};
pub use mapping::{ArrayError, PagedMapping, RequestedPages};
pub use names::GAUGE;
pub use rates::MemoryRates;
