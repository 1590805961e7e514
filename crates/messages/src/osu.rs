//! The OSU micro-benchmarks: their output, and their programs by turns with the probe.

pub mod output;
pub mod print;
pub(crate) mod reference;
mod rounds;

pub use output::OsuOutput;
pub use reference::{OsuPrograms, ROUNDS, SIZE_LIMIT};
