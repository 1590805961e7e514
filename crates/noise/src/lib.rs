//! Noise of a node: the time that it takes away from a program that never asks for anything. A loop of fixed work runs on
//! all cores at once and records its detours; the kernel's counters say what ran meanwhile, and the recorded detours give
//! the consequence for a barrier of many hosts.
#![forbid(unsafe_code)]

mod barrier;
pub mod config;
mod gauge;
mod lengths;
mod plan;
mod sources;
mod view;

pub use gauge::Noise;
pub use plan::{NoiseOptions, NoisePlan};

/// Name of the gauge in records.
pub const GAUGE: &str = "noise";
/// Name of the test in records.
pub const TEST: &str = "noise";
