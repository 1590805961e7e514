//! Loops that can be measured: the native loops of `nodegauge_kernels`, and loops built by a compiler of this system.

pub mod compiled;
mod loops;

pub use loops::Loop;
pub use nodegauge_kernels::*;
