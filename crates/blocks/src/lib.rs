//! Timed operations on files: on their blocks, with engines, workers and latencies, and on their entries in directories
//! ([`entries`]); the scratch folders that contain the files, and the counters that distinguish cache and device.
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
pub mod entries;
pub mod error;
pub mod latency;
pub mod operation;
pub mod pass;
pub mod pattern;
pub mod scratch;
pub mod task;
pub mod volume;
pub mod workers;
