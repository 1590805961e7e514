//! GPUs and other accelerators: STREAM on their memory, the links to them, their peaks.
//!
//! [`driver`] is the seam: what a back end (OpenCL, CUDA, HIP) implements, each on a library that is loaded
//! at run time. Nothing here prints, saves or knows another gauge.

pub mod babelstream;
mod bench;
pub mod config;
pub mod cuda;
pub mod driver;
pub mod drivers;
mod gauge;
pub mod hip;
pub mod info;
pub mod kernels;
pub mod keys;
pub mod links;
mod names;
pub mod nvbandwidth;
pub mod opencl;
pub mod peaks;
pub mod reference;
mod state;
pub mod stream;
mod tuner;
mod turns;
mod view;

pub use gauge::{Devices, all_parts, roof_parts};

/// The gauge, as records have it.
pub const GAUGE: &str = "device";
