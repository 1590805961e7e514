//! Analysis of records: comparison of runs, expectations on figures, ratios with their confidence, the keys
//! that identify a figure, and CSV.
//!
//! Pure functions of records and of the registry of configuration keys. Nothing here measures, prints or reads
//! a file; `nodegauge-measure` defines the record, its figures and their statistics.
#![forbid(unsafe_code)]

pub mod bests;
pub mod compare;
pub mod csv;
pub mod expect;
pub mod identity;
pub mod ratio;
