//! Analysis of records: facts of machines, comparison of runs, expectations on figures, ratios with confidence
//! intervals, the keys that identify a figure, and CSV.
//!
//! All functions are pure functions of records and of the registry of configuration keys. This crate does not measure,
//! print or read files; `nodegauge-measure` defines the record, its figures and their statistics.
#![forbid(unsafe_code)]

pub mod compare;
pub mod conclusion;
pub mod csv;
pub mod expect;
pub mod facts;
pub mod identity;
pub mod ratio;
pub mod series;
pub mod slow;
