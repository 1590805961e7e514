//! Length of the arrays: STREAM's rule, and the check whether a cache holds part of them.

pub(crate) mod check;

pub use nodegauge_kernels::size::*;
