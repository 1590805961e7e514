//! Length of the arrays: STREAM's rule, and the check whether caches hold part of the arrays.

pub(crate) mod check;

pub use nodegauge_kernels::size::*;
