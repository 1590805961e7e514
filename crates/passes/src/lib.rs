//! Timed passes of STREAM: the threads of a process run and time one loop per kernel over arrays in memory.
//!
//! Each call contains a whole pass and its clock readings; no timed loop spans several crates, so that speed does
//! not depend on inlining between crates (`docs/benchmarks.md`, "Release file and local build"). The crate neither
//! plans nor judges measurements, and does not print.

mod config;
pub mod kernels;
pub mod point;
pub mod traffic;

pub use config::TargetConfig;
