//! The real STREAM: the user's own unmodified stream.c (or stream.f), compiled and run as it is.
//!
//! [`output`] reads what it prints, [`figures`] judges that and makes measurements of it, labelled
//! as standard results, [`build`] compiles it for the sizes and threads of the native run, and
//! `comparison` runs both by turns, so that they meet the same machine.

pub mod build;
mod comparison;
pub mod figures;
pub mod output;
mod plan;

pub use plan::StandardPlan;
