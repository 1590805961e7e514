//! The 27-point problem of HPCG with a multigrid preconditioner, one domain per worker.
//!
//! Every coefficient and its column index are stored, and loops read them from memory. To reduce memory traffic, the
//! sweep after a forward sweep reads only half of a matrix, and residuals are computed only at points of the coarser
//! grid; see `loops` and `domain`.

mod domain;
mod exchange;
mod loops;
mod matrix;
pub mod problem;
mod set;

pub use exchange::DomainExchange;
pub use set::{DomainSetup, SetResult, TestResults};

use domain::Domain;
use problem::DomainLayout;

/// Returns the size of a domain in bytes, without the shared buffers.
pub fn domain_bytes(layout: &DomainLayout) -> u64 {
    Domain::bytes(layout)
}

/// Returns the number of bytes that an iteration moves in a domain, computed from the storage format.
pub fn moved_bytes(layout: &DomainLayout) -> u64 {
    Domain::moved_bytes(layout)
}
