//! STREAM: the sustained bandwidth of main memory, in all modes of `nodegauge stream` and `explain`.
//!
//! The input consists of machine, placement and options; the output consists of measurements. This crate does not print
//! or save anything and does not depend on another gauge. ARCHITECTURE.md describes the modules, from the bottom up.

pub mod ablation;
mod arrangement;
pub mod axis;
pub mod compiled;
pub mod config;
mod gauge;
mod length_plan;
pub mod mixes;
mod prediction;
pub mod ranks;
mod request;
mod result;
#[cfg(test)]
mod simulated;
pub mod size;
pub mod standard;
pub mod stream;
pub mod sweep;
pub mod target;
pub mod tune;
mod tuner;
pub mod view;

pub use arrangement::ArrayOptions;
pub use gauge::StreamGauge;
pub use length_plan::{LengthPlan, LengthPlanDocument, LengthRequest};
pub use nodegauge_arena::GAUGE;
pub use nodegauge_passes::{kernels, point};
pub use request::{StreamMode, StreamRequest};

/// Advice for a shorter run, used in hints about a budget that is too short.
pub(crate) const SMALLER_ARRAYS_ADVICE: &str = "smaller arrays (--size)";
