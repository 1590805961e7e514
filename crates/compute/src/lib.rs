//! HPL benchmark, a dense LU factorisation: rating of a node, its floating-point peaks, and runs of xhpl or hpcc for
//! comparison.
//!
//! The crate takes a machine, a placement and options, and returns measurements. It does not print, does not save, and
//! does not depend on another gauge.
#![forbid(unsafe_code)]

mod ceilings;
pub mod choose;
pub mod config;
pub mod dat;
mod gauge;
mod hpcc;
mod hpl;
mod hpl_mxp;
mod observed;
pub mod options;
pub mod output;
mod plan;
mod plan_document;
mod reader;
pub mod reference;
mod request;
mod result;
pub mod size;
pub mod view;

pub use gauge::ComputeGauge;
pub use plan::HplPlan;
pub use plan_document::HplPlanDocument;
pub use request::HplRequest;

pub use nodegauge_measure::figure_names::hpl::{DGEMM, GAUGE, RATING, TEST};

/// Name of the register-only `f64` peak of multiply-adds.
pub const FMA_PEAK: &str = "fma_peak";
/// Name of the register-only `f32` peak of multiply-adds.
pub const FMA_PEAK_F32: &str = "fma_peak_f32";
