//! Noise of a node: the time that other activity takes from a program that makes no system calls. A loop of fixed work
//! runs on all cores simultaneously and records its detours. The kernel's counters show what ran during the
//! measurement, and the recorded detours determine the effect on a barrier of many hosts.
#![forbid(unsafe_code)]

mod barrier;
pub mod config;
mod gauge;
mod lengths;
mod plan;
mod sources;
mod view;

pub use gauge::NoiseGauge;
pub use plan::{NoiseOptions, NoisePlan};

/// Name of the gauge in records.
pub const GAUGE: &str = "noise";
/// Name of the test in records.
pub const TEST: &str = "noise";
