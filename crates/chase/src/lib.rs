//! Timed loops for the memory curves: pointer chases, and streams of loads and stores, on working sets in caches
//! and memory.
//!
//! Each call contains a whole timed loop and its clock readings; no timed loop spans several crates, so that speed
//! does not depend on inlining between crates (`docs/benchmarks.md`, "Release file and local build"). The crate
//! neither plans nor judges measurements, and does not print.

mod chase;
mod load;
mod pool;
mod region;
mod reporter;
mod residency;
mod touch;
pub mod traffic;

pub use chase::{
    CHAINS_PER_LINE, ChainPosition, Chase, ChaseOrder, Cycle, Locality, TIMES_LLC, is_cached,
};
pub use load::{LOAD_BLOCK_BYTES, LoadGenerator, measure_wait_loop_time};
pub use pool::WitnessedPool;
pub use region::{MemoryRegion, RegionBuffers};
pub use reporter::{KnownLoad, ReporterKind, Reporters};
pub use residency::ResidencyProbe;
pub use touch::TouchRates;
