//! Passes of STREAM: a loop for each kernel over arrays in memory, which the threads of a process run and time.
//!
//! A call enclosed_programs a whole pass and its clock: nothing is inlined into another crate, and no loop calls one
//! (`docs/benchmarks.md`, "Release file and local build"). The crate plans nothing, judges nothing and does not print.

mod config;
pub mod kernels;
pub mod point;
pub mod traffic;

pub use config::TargetConfig;
