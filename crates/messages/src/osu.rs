//! The OSU micro-benchmarks: parser of their output, and interleaved runs of their programs and the probe.

pub mod output;
pub mod print;
pub(crate) mod reference;
mod rounds;

pub use output::OsuOutput;
pub use reference::{OsuPrograms, ROUNDS, SIZE_LIMIT};
