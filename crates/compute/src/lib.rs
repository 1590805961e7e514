//! Dense LU in the sense of HPL: the rating of a node, its peaks, and xhpl or hpcc beside it.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or knows
//! another gauge.

mod ceilings;
pub mod choose;
pub mod config;
pub mod dat;
pub mod dgemm;
mod engine;
mod gauge;
pub mod homes;
mod hpl;
mod leaf;
pub mod lu;
pub mod matrix;
mod observed;
pub mod options;
pub mod output;
pub mod peak;
mod plan;
pub mod random;
pub mod reference;
pub mod residual;
mod result;
pub mod size;
pub mod view;

pub use engine::Multiplier;
pub use gauge::ComputeGauge;
pub use plan::HplPlan;

pub use nodegauge_measure::figure_names::hpl::{DGEMM, GAUGE, RATING, TEST};

/// Peak of multiply-adds in registers, `f64`.
pub const FMA_PEAK: &str = "fma_peak";
/// Peak of multiply-adds in registers, `f32`.
pub const FMA_PEAK_F32: &str = "fma_peak_f32";
