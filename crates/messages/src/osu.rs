//! OSU micro-benchmarks: a parser of their output, and rounds in which their programs and the probe run interleaved.

mod columns;
mod other;
pub mod output;
pub mod print;
mod reader;
pub(crate) mod reference;
mod rounds;
mod title;

pub use output::OsuOutput;
pub(crate) use reader::OsuReader;
pub use reference::{DEFAULT_ROUNDS, OsuPrograms, SIZE_TIME_LIMIT};
