//! How long the arrays are: STREAM's rule, and whether a cache helps them.

pub(crate) mod check;

pub use nodegauge_kernels::size::*;
