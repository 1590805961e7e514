//! GPUs and other accelerators: STREAM on their memory, the links to them, their peaks.
//!
//! [`driver`] is the seam: what a back end (OpenCL, CUDA, HIP) implements, each on a library that is loaded
//! at run time. Nothing here prints, saves or knows another gauge.

mod bench;
pub mod config;
pub mod driver;
pub mod drivers;
mod gauge;
pub mod info;
pub mod kernels;
pub mod links;
pub mod opencl;
pub mod peaks;
mod state;
pub mod stream;
mod tuner;
mod view;

pub use gauge::{Devices, all_parts};

/// The gauge, as records have it.
pub const GAUGE: &str = "device";
