//! Standard STREAM: the user's own unmodified stream.c (or stream.f), compiled and run.
//!
//! [`output`] parses its output, [`figures`] judges the output and converts it to measurements, labelled as standard
//! results, [`build`] compiles it for the sizes and threads of the native run, and `comparison` runs both
//! alternately, so that they are measured in the same state of the machine.

pub mod build;
mod comparison;
pub mod figures;
pub mod output;
mod plan;

pub use plan::StandardPlan;
