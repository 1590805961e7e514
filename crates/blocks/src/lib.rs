//! Timed operations on blocks of files: engines, workers, latencies, scratch folders for the files, and counters
//! that distinguish transfers from cache and device.
//!
//! A call of [`cell::CellRunner::run`] contains all operations on a file with their loops and clock readings; no
//! timed loop spans several crates, so that speed does not depend on inlining between crates (`docs/benchmarks.md`,
//! "Release file and local build"). The crate neither plans nor judges measurements, and does not print.

pub mod cache;
pub mod cell;
pub mod clock;
pub mod counters;
pub mod data;
pub mod engine;
pub mod error;
pub mod latency;
pub mod operation;
pub mod pass;
pub mod pattern;
pub mod scratch;
pub mod task;
pub mod volume;
pub mod workers;
