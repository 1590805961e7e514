//! Length of the arrays: STREAM's rule, and a check for a cache that holds part of them.

pub(crate) mod check;

pub use nodegauge_kernels::size::*;
