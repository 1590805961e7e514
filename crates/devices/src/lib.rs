//! GPUs and other accelerators: STREAM in device memory, links between host and devices, peaks, and latency under load.
//!
//! [`driver`] defines the traits that a back end (OpenCL, CUDA, HIP) implements; each back end loads its library at run
//! time. This crate does not print or save results, and does not depend on another gauge.

pub mod babelstream;
mod bench;
pub mod config;
pub mod cuda;
pub mod curves;
pub mod driver;
pub mod drivers;
mod evidence;
mod gauge;
pub mod hip;
mod host_memory;
pub mod info;
pub mod kernels;
pub mod keys;
pub mod links;
mod names;
pub mod nvbandwidth;
pub mod opencl;
pub mod peaks;
mod prediction;
mod readers;
pub mod reference;
mod state;
pub mod stream;
mod tuner;
mod view;

pub use gauge::{ALL_TESTS_BUDGET, DeviceGauge, plan_all_tests, plan_roofline_tests};

/// Name of the gauge in records.
pub const GAUGE: &str = "device";
