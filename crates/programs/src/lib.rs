//! The user's own program under different placements and settings. It runs under every combination of the values of up
//! to three axes. Each round runs every combination once, and the speeds are compared with the speed of the first
//! combination.
//!
//! The program is neither modified nor linked. Placement is applied from outside, as taskset, numactl and MPI launchers
//! do: the program and its threads inherit CPUs, memory policy and pages.
#![forbid(unsafe_code)]

mod arrangement;
pub mod axis;
pub mod config;
mod emit;
mod figure;
mod gauge;
mod placed;
mod plan;
mod result;
mod view;

pub use arrangement::ProgramOptions;
pub use axis::ProgramCellOptions;
pub use emit::{EmittedCommand, fastest_command};
pub use figure::{FigureSource, FigureUnit};
pub use gauge::ProgramGauge;
pub use placed::{START_PLACED_COMMAND, execute_placed};
pub use plan::{ProgramSweep, SweepLimits};

/// Name of the gauge in records.
pub const GAUGE: &str = "program";
/// Name of the figure for the speed relative to the baseline, the first combination that succeeds.
const RELATIVE: &str = "relative";
/// Name of the test in records.
pub const TEST: &str = "sweep";
