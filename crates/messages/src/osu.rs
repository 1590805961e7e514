//! The OSU micro-benchmarks: their output, and their programs by turns with the probe.

pub mod beside;
pub mod output;
mod rounds;

pub use output::Output;
