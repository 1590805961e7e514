//! Proxy applications: the performance of compute-bound and memory-bound programs on a node, and the effect of
//! placement.
//!
//! The crate takes a machine, a placement and options, and returns measurements. It does not print, does not save, and
//! does not depend on another gauge.
#![forbid(unsafe_code)]

pub mod config;
mod efficiency;
mod followers;
mod gauge;
pub mod hpcg;
pub mod iccg;
pub mod keys;
mod paired;
mod points;
pub mod sweep;
pub mod trapezoid;
mod workers;

pub use followers::end_ranks;
pub use gauge::AppGauge;
use nodegauge_arena::{MemoryRates, RequestedPages};
use nodegauge_measure::{Bytes, Failure, Notice};
use nodegauge_placement::MemoryPolicy;
use nodegauge_team::{WorkerPool, Workers};
use sweep::SweepWorkers;
pub use workers::{MpiRanks, WorkersOptions};

/// Name of the gauge in records.
pub const GAUGE: &str = "apps";
/// Minimum ratio of the size of a matrix to the last-level caches, as in STREAM's rule for an array. With a smaller
/// ratio, caches hold part of the matrix.
const TIMES_LLC: f64 = 4.0;

/// Measures the rates of memory with these workers, as threads of this process.
///
/// # Errors
/// Fails if the threads or the memory are not available.
fn memory_rates(workers: &Workers, max: Bytes) -> Result<MemoryRates, Failure> {
    let places = workers.all_threads().thread_cpus();
    let policy = MemoryPolicy::Default;
    Ok(MemoryRates::probe(&places, RequestedPages::Transparent, &policy, max)?)
}

/// Formats a number with two digits, for the reason of an invalid figure.
fn in_digits(x: Option<f64>) -> String {
    x.map_or_else(|| "NaN".to_owned(), |x| format!("{x:.1e}"))
}

/// Returns the notice on workers that were left out for lack of time; `None` if no workers were left out.
fn left_out_in_time<'a>(left_out: impl IntoIterator<Item = &'a SweepWorkers>) -> Option<Notice> {
    let names: Vec<String> = left_out.into_iter().map(|one| one.workers.in_words()).collect();
    Notice::no_time_for(GAUGE, &names, "")
}
