//! Loops that a point can run: the native loops of `nodegauge_kernels`, and those built by a compiler of this system.

pub mod compiled;
mod loops;

pub use loops::Loop;
pub use nodegauge_kernels::*;
